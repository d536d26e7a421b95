// SPDX-License-Identifier: Apache-2.0
// Products of matrices and vectors.

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>
#include <map>

#include "convert/exported/aten/op_rules.h"
#include "convert/exported/read/array.h"
#include "convert/graph/row_products.h"

namespace arenite::convert {
namespace {

// The matrix `index` of `b` [..., inputs, outputs].
void add_matrix(const Array& b, size_t index, const double* rows, size_t count, double* results) {
  const auto inputs = static_cast<size_t>(b.shape()[b.rank() - 2]);
  const auto outputs = static_cast<size_t>(b.shape().back());
  const size_t first = index * inputs * outputs;
  if (const Array::Floats* floats = b.floats()) {
    add_row_products(rows, count, by_inputs(floats->data() + first, outputs, inputs), results);
  } else {
    add_row_products(rows, count, by_inputs(b.reals().data() + first, outputs, inputs), results);
  }
}

Array with_outer_shape(const Array& array, const Shape& outer) {
  Shape shape = outer;
  shape.insert(shape.end(), array.shape().end() - 2, array.shape().end());
  return shape == array.shape() ? array : stretched(array, shape);
}

ElementType product_type(const CallArguments& call, const Array& a, const Array& b) {
  if (is_complex(a.type()) || is_complex(b.type())) {
    call.refuse("complex matrices are not understood");
  }
  return promote(a.type(), b.type());
}

Array as_product(const CallArguments& call, const Array& a, const Array& b, OpBudget& budget) {
  const ElementType type = product_type(call, a, b);
  const Array product =
      matrix_product(call, a.to(ElementType::kF64), b.to(ElementType::kF64), budget);
  return product.to(type);
}

void require_rank(const CallArguments& call, const Array& array, size_t rank) {
  if (array.rank() != rank) {
    call.refuse("a tensor {}: expected {} dimensions", shape_text(array.shape()), rank);
  }
}

Array sum_of(const CallArguments& call, const Array& a, const Array& b, double a_factor,
             double b_factor) {
  if (is_complex(a.type()) || is_complex(b.type())) call.refuse("complex numbers");
  const ElementType type = promote(a.type(), b.type());
  const Shape shape = broadcast(a.shape(), b.shape());
  Array::Reals values = stretched(a, shape).to_reals();
  const Array::Reals others = stretched(b, shape).to_reals();
  // A factor of 0 drops its term, whatever is in it.
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = (a_factor == 0.0 ? 0.0 : a_factor * values[i]) + b_factor * others[i];
  }
  return Array::real(shape, std::move(values), ElementType::kF64).to(type);
}

Results matmul(const CallArguments& call, OpBudget& budget) {
  const char* second = call.has("other")  ? "other"
                       : call.has("mat2") ? "mat2"
                       : call.has("vec2") ? "vec2"
                       : call.has("vec")  ? "vec"
                                          : "tensor";
  const Array& a = call.array("self");
  const Array& b = call.array(second);
  const std::string& op = call.call().op;
  const size_t rank = op == "mm" ? 2 : op == "bmm" ? 3 : 0;
  if (rank != 0) {
    require_rank(call, a, rank);
    require_rank(call, b, rank);
  }
  return {as_product(call, a, b, budget)};
}

Results linear(const CallArguments& call, OpBudget& budget) {
  const Array& input = call.array("input");
  const Array& weight = call.array("weight");
  if (weight.rank() > 2 || weight.rank() == 0 || input.rank() == 0) call.refuse("no matrix");
  const ElementType type = product_type(call, input, weight);
  const Array matrix = weight.to(ElementType::kF64);
  const Array rows = matrix.rank() == 1 ? matrix.with_shape({1, matrix.shape()[0]}) : matrix;
  if (input.shape().back() != rows.shape()[1]) {
    call.refuse("an input {} for a weight {}", shape_text(input.shape()),
                shape_text(weight.shape()));
  }
  const auto inputs = static_cast<size_t>(rows.shape()[1]);
  const auto outputs = static_cast<size_t>(rows.shape()[0]);
  const size_t count = elements_of(Shape(input.shape().begin(), input.shape().end() - 1));
  Shape shape = input.shape();
  shape.back() = rows.shape()[0];
  if (weight.rank() == 1) shape.pop_back();
  budget.take_multiplications(uint64_t{count} * inputs * outputs);
  Array::Reals results(elements_of(shape));
  const Array reals = input.to(ElementType::kF64);
  if (const Array::Floats* floats = rows.floats()) {
    add_row_products(reals.reals().data(), count, by_outputs(floats->data(), outputs, inputs),
                     results.data());
  } else {
    add_row_products(reals.reals().data(), count, by_outputs(rows.reals().data(), outputs, inputs),
                     results.data());
  }
  const Array product = Array::real(shape, std::move(results), ElementType::kF64).to(type);
  const Array* bias = call.optional_array("bias");
  return {bias == nullptr ? product : sum_of(call, *bias, product, 1.0, 1.0)};
}

// beta * self + alpha * (the product of the two others)
Results add_matrix_product(const CallArguments& call, OpBudget& budget) {
  const std::string& op = call.call().op;
  const char* first = op == "addmm"   ? "mat1"
                      : op == "addmv" ? "mat"
                      : op == "addr"  ? "vec1"
                                      : "batch1";
  const char* second = op == "addmm"   ? "mat2"
                       : op == "addmv" ? "vec"
                       : op == "addr"  ? "vec2"
                                       : "batch2";
  Array a = call.array(first), b = call.array(second);
  require_rank(call, a, op == "addr" ? 1 : op == "baddbmm" ? 3 : 2);
  require_rank(call, b, op == "addr" || op == "addmv" ? 1 : op == "baddbmm" ? 3 : 2);
  if (op == "addr") {
    a = a.with_shape({a.shape()[0], 1});
    b = b.with_shape({1, b.shape()[0]});
  }
  const Array product = as_product(call, a, b, budget);
  return {
      sum_of(call, call.array("self"), product, call.real("beta", 1.0), call.real("alpha", 1.0))};
}

Results outer(const CallArguments& call, OpBudget& budget) {
  const Array& a = call.array("self");
  const Array& b = call.array(call.has("vec2") ? "vec2" : "other");
  require_rank(call, a, 1);
  require_rank(call, b, 1);
  return {
      as_product(call, a.with_shape({a.shape()[0], 1}), b.with_shape({1, b.shape()[0]}), budget)};
}

}  // namespace

Array matrix_product(const CallArguments& call, const Array& left, const Array& right,
                     OpBudget& budget) {
  if (left.rank() == 0 || right.rank() == 0) call.refuse("it multiplies scalars");
  Array a = left, b = right;
  if (a.rank() == 1) a = a.with_shape({1, a.shape()[0]});
  if (b.rank() == 1) b = b.with_shape({b.shape()[0], 1});
  if (a.shape().back() != b.shape()[b.rank() - 2]) {
    call.refuse("matrices {} and {} cannot be multiplied", shape_text(left.shape()),
                shape_text(right.shape()));
  }
  const Shape outer = broadcast(Shape(a.shape().begin(), a.shape().end() - 2),
                                Shape(b.shape().begin(), b.shape().end() - 2));
  const auto rows = static_cast<size_t>(a.shape()[a.rank() - 2]);
  const auto inputs = static_cast<size_t>(a.shape().back());
  const auto outputs = static_cast<size_t>(b.shape().back());
  Shape shape = outer;
  shape.insert(shape.end(), {a.shape()[a.rank() - 2], b.shape().back()});
  const size_t elements = elements_of(shape);
  budget.take_multiplications(uint64_t{elements} * inputs);
  a = with_outer_shape(a, outer);
  b = with_outer_shape(b, outer);
  Array::Reals values(elements);
  const size_t matrices = elements == 0 ? 0 : elements / (rows * outputs);
  for (size_t m = 0; m < matrices; ++m) {
    add_matrix(b, m, a.reals().data() + m * rows * inputs, rows,
               values.data() + m * rows * outputs);
  }
  if (right.rank() == 1) shape.pop_back();
  if (left.rank() == 1) shape.erase(shape.end() - (right.rank() == 1 ? 1 : 2));
  return Array::real(std::move(shape), std::move(values), ElementType::kF64);
}

OpRules product_rules() {
  return {{"matmul", matmul},
          {"mm", matmul},
          {"bmm", matmul},
          {"mv", matmul},
          {"dot", matmul},
          {"vdot", matmul},
          {"linear", linear},
          {"addmm", add_matrix_product},
          {"addmv", add_matrix_product},
          {"baddbmm", add_matrix_product},
          {"addr", add_matrix_product},
          {"outer", outer},
          {"ger", outer}};
}

// Attention as one op, and sums of products by the letters of einsum.

namespace {

Array computed(const CallArguments& call, OpBudget& budget, const char* op,
               std::vector<NamedArgument> arguments, const char* overload = "") {
  const OpCall part{.op = op,
                    .overload = overload,
                    .arguments = std::move(arguments),
                    .stack_trace = call.call().stack_trace};
  return apply_for_array(part, budget);
}

// The keys or values of fewer heads, each of them as often as queries share it.
Array repeated_heads(const CallArguments& call, const Array& array, int64_t heads,
                     OpBudget& budget) {
  const int64_t own = array.shape()[array.rank() - 3];
  if (own < 1 || heads % own != 0) call.refuse("{} heads do not share {}", heads, own);
  return computed(call, budget, "repeat_interleave",
                  {{"self", array}, {"repeats", heads / own}, {"dim", int64_t{-3}}}, "self_int");
}

void add_mask(const CallArguments& call, Array::Reals& scores, const Shape& shape) {
  const Array* mask = call.optional_array("attn_mask");
  if (mask == nullptr) return;
  const Array all = stretched(*mask, shape);
  const double hidden = -std::numeric_limits<double>::infinity();
  if (all.type() == ElementType::kBool) {
    for (size_t i = 0; i < scores.size(); ++i) {
      if (all.bools()[i] == 0) scores[i] = hidden;
    }
    return;
  }
  const Array::Reals added = all.to_reals();
  for (size_t i = 0; i < scores.size(); ++i) scores[i] += added[i];
}

Results attention(const CallArguments& call, OpBudget& budget) {
  const Array& query = call.array("query");
  Array key = call.array("key"), value = call.array("value");
  if (query.rank() < 2 || key.rank() < 2 || value.rank() < 2) call.refuse("it takes matrices");
  if (call.real("dropout_p", 0.0) != 0.0) {
    call.refuse("dropout is active: call model.eval() before torch.export.export");
  }
  if (call.flag("enable_gqa", false)) {
    if (query.rank() < 3 || key.rank() < 3 || value.rank() < 3) call.refuse("it has no heads");
    const int64_t heads = query.shape()[query.rank() - 3];
    key = repeated_heads(call, key, heads, budget);
    value = repeated_heads(call, value, heads, budget);
  }
  const double scale =
      call.real("scale", 1.0 / std::sqrt(static_cast<double>(query.shape().back())));
  const Array turned = computed(call, budget, "transpose",
                                {{"self", key}, {"dim0", int64_t{-2}}, {"dim1", int64_t{-1}}});
  const Array products =
      matrix_product(call, query.to(ElementType::kF64), turned.to(ElementType::kF64), budget);
  Array::Reals scores = products.reals();
  for (double& score : scores) score *= scale;
  if (call.flag("is_causal", false)) {
    if (call.has("attn_mask")) call.refuse("it has a mask and is_causal");
    const auto queries = static_cast<size_t>(products.shape()[products.rank() - 2]);
    const auto keys = static_cast<size_t>(products.shape().back());
    for (size_t i = 0; i < scores.size(); ++i) {
      if (i % keys > i / keys % queries) scores[i] = -std::numeric_limits<double>::infinity();
    }
  }
  add_mask(call, scores, products.shape());
  const Array weights =
      computed(call, budget, "_safe_softmax",
               {{"self", Array::real(products.shape(), std::move(scores), ElementType::kF64)},
                {"dim", int64_t{-1}}});
  return {matrix_product(call, weights, value.to(ElementType::kF64), budget).to(query.type())};
}

// The letters of an equation, with capital ones from the end standing for those of "...".
struct Equation {
  std::vector<std::string> inputs;
  std::string output;
};

constexpr size_t kLettersMax = 26;
constexpr char kFirstOfDots = '\x01';  // dimensions of "...", counted from the last

std::string with_dots(const CallArguments& call, const std::string& letters, size_t rank) {
  const size_t dots = letters.find("...");
  if (dots == std::string::npos) return letters;
  const size_t named = letters.size() - 3;
  if (rank < named || rank - named > kLettersMax) call.refuse("its equation does not fit");
  std::string expanded = letters.substr(0, dots);
  for (size_t i = rank - named; i > 0; --i) {
    expanded.push_back(static_cast<char>(kFirstOfDots + static_cast<char>(i - 1)));
  }
  return expanded + letters.substr(dots + 3);
}

Equation parse_equation(const CallArguments& call, const std::vector<Array>& arrays) {
  std::string text = call.text("equation", "");
  std::erase(text, ' ');
  const size_t arrow = text.find("->");
  Equation equation;
  std::string rest = text.substr(0, arrow);
  size_t dots_max = 0;
  for (size_t i = 0; i < arrays.size(); ++i) {
    const size_t comma = rest.find(',');
    const std::string letters = rest.substr(0, comma);
    rest = comma == std::string::npos ? "" : rest.substr(comma + 1);
    equation.inputs.push_back(with_dots(call, letters, arrays[i].rank()));
    if (letters.find("...") != std::string::npos) {
      dots_max = std::max(dots_max, arrays[i].rank() + 3 - letters.size());
    }
    if (equation.inputs.back().size() != arrays[i].rank()) {
      call.refuse("its equation does not fit tensors {}", shape_text(arrays[i].shape()));
    }
  }
  if (!rest.empty()) call.refuse("its equation has another number of tensors");
  if (arrow != std::string::npos) {
    const std::string output = text.substr(arrow + 2);
    const size_t named = output.find("...") == std::string::npos ? 0 : output.size() - 3;
    equation.output = with_dots(call, output, named + dots_max);
    return equation;
  }
  std::map<char, int> times;
  for (const std::string& input : equation.inputs) {
    for (const char letter : input) ++times[letter];
  }
  for (size_t i = dots_max; i > 0; --i) {
    equation.output.push_back(static_cast<char>(kFirstOfDots + static_cast<char>(i - 1)));
  }
  for (const auto& [letter, count] : times) {
    if (std::isalpha(static_cast<unsigned char>(letter)) && count == 1) {
      equation.output.push_back(letter);
    }
  }
  return equation;
}

// The sum over all letters that the output has not, of the product of all tensors.
Results einsum(const CallArguments& call, OpBudget& budget) {
  std::vector<Array> arrays = call.arrays("tensors");
  if (arrays.empty()) call.refuse("it has no tensors");
  const Equation equation = parse_equation(call, arrays);
  std::map<char, int64_t> extents;
  for (size_t i = 0; i < arrays.size(); ++i) {
    if (is_complex(arrays[i].type())) call.refuse("complex numbers are not understood here");
    for (size_t d = 0; d < arrays[i].rank(); ++d) {
      int64_t& extent = extents.emplace(equation.inputs[i][d], 1).first->second;
      const int64_t own = arrays[i].shape()[d];
      if (extent != 1 && own != 1 && extent != own) call.refuse("its tensors do not go together");
      if (own != 1) extent = own;
    }
  }
  Shape shape, walk;
  std::string letters = equation.output;
  for (const char letter : letters) {
    if (!extents.contains(letter)) call.refuse("its equation names what no tensor has");
    shape.push_back(extents[letter]);
  }
  for (const auto& [letter, extent] : extents) {
    if (letters.find(letter) == std::string::npos) letters.push_back(letter);
  }
  uint64_t products = 1;
  for (const char letter : letters) {
    walk.push_back(extents[letter]);
    if (__builtin_mul_overflow(products, static_cast<uint64_t>(extents[letter]), &products)) {
      call.refuse("it is too large");
    }
  }
  budget.take_multiplications(products);
  // Each of them steps through all tensors.
  WorkBudget::take(products * arrays.size());
  ElementType type = arrays[0].type();
  std::vector<Shape> strides(arrays.size(), Shape(letters.size(), 0));
  std::vector<Array::Reals> values;
  for (size_t i = 0; i < arrays.size(); ++i) {
    type = promote(type, arrays[i].type());
    const Shape own = stretched_strides(arrays[i].shape(), arrays[i].shape());
    for (size_t d = 0; d < own.size(); ++d) {
      strides[i][letters.find(equation.inputs[i][d])] += own[d];
    }
    values.push_back(arrays[i].to_reals());
  }
  Array::Reals results(elements_of(shape), 0.0);
  const uint64_t each = results.empty() ? 0 : products / results.size();
  Shape index(walk.size(), 0);
  std::vector<int64_t> at(arrays.size(), 0);
  for (double& result : results) {
    for (uint64_t k = 0; k < each; ++k) {
      double product = 1.0;
      for (size_t i = 0; i < arrays.size(); ++i) product *= values[i][static_cast<size_t>(at[i])];
      result += product;
      for (size_t d = walk.size(); d > 0; --d) {
        const bool wraps = ++index[d - 1] == walk[d - 1];
        const int64_t steps = wraps ? 1 - walk[d - 1] : 1;
        for (size_t i = 0; i < arrays.size(); ++i) at[i] += steps * strides[i][d - 1];
        if (!wraps) break;
        index[d - 1] = 0;
      }
    }
  }
  return {Array::real(std::move(shape), std::move(results), ElementType::kF64).to(type)};
}

}  // namespace

OpRules attention_rules() {
  return {{"scaled_dot_product_attention", attention}, {"einsum", einsum}};
}

// Convolutions, of which models of attention have those that cut an image into patches.

namespace {

constexpr uint64_t kStepsPerDimension = 3;

Shape spread(const CallArguments& call, const char* name, int64_t default_value, size_t count) {
  Shape numbers = call.has(name) ? Shape(call.integers(name)) : Shape{default_value};
  if (numbers.size() == 1) numbers.resize(count, numbers[0]);
  if (numbers.size() != count) call.refuse("its {} has {} numbers", name, numbers.size());
  for (const int64_t number : numbers) {
    if (number < 0 || number > int64_t{1} << 24) call.refuse("its {} is {}", name, number);
  }
  return numbers;
}

// One place of a result: the sum over the kernel that lies there.
class Kernel {
 public:
  Kernel(const Array& input, const Array& weight, const Convolution& convolution)
      : input_(input), weight_(weight), convolution_(convolution), index_(weight.rank() - 2, 0) {}

  double sum(const double* image, const double* kernel, const Shape& place) {
    std::fill(index_.begin(), index_.end(), 0);
    double total = 0.0;
    const size_t count = index_.size();
    const auto weights = static_cast<size_t>(kernel_elements());
    for (size_t k = 0; k < weights; ++k) {
      int64_t at = 0;
      bool is_inside = true;
      for (size_t d = 0; d < count; ++d) {
        const int64_t position = place[d] * convolution_.stride[d] -
                                 convolution_.padding_before[d] +
                                 index_[d] * convolution_.dilation[d];
        is_inside = is_inside && position >= 0 && position < input_.shape()[d + 2];
        at = at * input_.shape()[d + 2] + position;
      }
      if (is_inside) total += image[at] * kernel[k];
      for (size_t d = count; d > 0; --d) {
        if (++index_[d - 1] < weight_.shape()[d + 1]) break;
        index_[d - 1] = 0;
      }
    }
    return total;
  }

  int64_t kernel_elements() const {
    int64_t elements = 1;
    for (size_t d = 2; d < weight_.rank(); ++d) elements *= weight_.shape()[d];
    return elements;
  }

 private:
  const Array& input_;
  const Array& weight_;
  const Convolution& convolution_;
  Shape index_;
};

Array convolved(const CallArguments& call, const Array& input, const Array& weight,
                OpBudget& budget) {
  const Convolution convolution = convolution_of(call, weight);
  const Shape shape = convolved_shape(call, input, weight, convolution);
  Kernel kernel(input, weight, convolution);
  const auto kernel_elements = static_cast<size_t>(kernel.kernel_elements());
  const auto channels = static_cast<size_t>(weight.shape()[1]);  // of one group
  const size_t elements = elements_of(shape);
  const uint64_t multiplications = uint64_t{elements} * channels * kernel_elements;
  budget.take_multiplications(multiplications);
  // Each of them finds its place in all dimensions.
  WorkBudget::take(multiplications * (weight.rank() - 1) * kStepsPerDimension);
  const Array::Reals pixels = input.to_reals(), weights = weight.to_reals();
  const Array* bias = call.optional_array("bias");
  const Array::Reals biases = bias == nullptr ? Array::Reals() : bias->to_reals();
  const auto outputs = static_cast<size_t>(shape[1]);
  if (bias != nullptr && biases.size() != outputs) call.refuse("its bias has another size");
  const size_t image = input.elements() / static_cast<size_t>(std::max<int64_t>(
                                              1, input.shape()[0] * input.shape()[1]));
  const size_t places = elements / std::max<size_t>(1, static_cast<size_t>(shape[0]) * outputs);
  Array::Reals results;
  results.reserve(elements);
  for (size_t at = 0; elements > 0 && at < static_cast<size_t>(shape[0]) * outputs; ++at) {
    const size_t output = at % outputs;
    const size_t group = output / (outputs / static_cast<size_t>(convolution.groups));
    const size_t first = at / outputs * static_cast<size_t>(input.shape()[1]) + group * channels;
    Shape place(shape.size() - 2, 0);
    for (size_t p = 0; p < places; ++p) {
      double total = biases.empty() ? 0.0 : biases[output];
      for (size_t c = 0; c < channels; ++c) {
        total += kernel.sum(pixels.data() + (first + c) * image,
                            weights.data() + (output * channels + c) * kernel_elements, place);
      }
      results.push_back(total);
      for (size_t d = place.size(); d > 0; --d) {
        if (++place[d - 1] < shape[d + 1]) break;
        place[d - 1] = 0;
      }
    }
  }
  return Array::real(shape, std::move(results), input.type());
}

Results convolution(const CallArguments& call, OpBudget& budget) {
  Array input = call.array("input");
  const Array& weight = call.array("weight");
  if (is_complex(input.type()) || is_complex(weight.type()) || weight.rank() < 3) {
    call.refuse("a kernel {} is not understood", shape_text(weight.shape()));
  }
  const bool has_batch = input.rank() == weight.rank();
  if (!has_batch && input.rank() + 1 != weight.rank()) {
    call.refuse("an input {} for a kernel {}", shape_text(input.shape()),
                shape_text(weight.shape()));
  }
  Shape shape = input.shape();
  if (!has_batch) shape.insert(shape.begin(), 1);
  const Array result = convolved(call, input.with_shape(shape), weight, budget);
  if (has_batch) return {result};
  return {result.with_shape(Shape(result.shape().begin() + 1, result.shape().end()))};
}

}  // namespace

Convolution convolution_of(const CallArguments& call, const Array& weight) {
  const size_t count = weight.rank() - 2;
  Convolution convolution{.stride = spread(call, "stride", 1, count),
                          .padding_before = Shape(count, 0),
                          .padding_after = Shape(count, 0),
                          .dilation = spread(call, "dilation", 1, count),
                          .groups = call.integer("groups", 1)};
  if (std::ranges::count(convolution.stride, 0) > 0 ||
      std::ranges::count(convolution.dilation, 0) > 0 || call.flag("transposed", false)) {
    call.refuse("transposed convolutions and steps of 0 are not understood");
  }
  const Argument* padding = call.call().find("padding");
  if (padding == nullptr || !padding->as<std::string>()) {
    convolution.padding_before = convolution.padding_after = spread(call, "padding", 0, count);
  } else if (*padding->as<std::string>() == "same") {
    for (size_t d = 0; d < count; ++d) {
      const int64_t all = convolution.dilation[d] * (weight.shape()[d + 2] - 1);
      convolution.padding_before[d] = all / 2;
      convolution.padding_after[d] = all - all / 2;
    }
  } else if (*padding->as<std::string>() != "valid") {
    call.refuse("padding {} is not understood", quote(*padding->as<std::string>()));
  }
  return convolution;
}

Shape convolved_shape(const CallArguments& call, const Array& input, const Array& weight,
                      const Convolution& convolution) {
  const int64_t groups = convolution.groups;
  if (groups < 1 || input.shape()[1] != weight.shape()[1] * groups ||
      weight.shape()[0] % groups != 0) {
    call.refuse("an input {} for a kernel {} in {} groups", shape_text(input.shape()),
                shape_text(weight.shape()), groups);
  }
  Shape shape = {input.shape()[0], weight.shape()[0]};
  for (size_t d = 0; d + 2 < weight.rank(); ++d) {
    const int64_t reach = convolution.dilation[d] * (weight.shape()[d + 2] - 1) + 1;
    const int64_t padded =
        input.shape()[d + 2] + convolution.padding_before[d] + convolution.padding_after[d];
    if (weight.shape()[d + 2] < 1 || padded < reach) {
      call.refuse("a kernel {} does not fit into {}", shape_text(weight.shape()),
                  shape_text(input.shape()));
    }
    shape.push_back((padded - reach) / convolution.stride[d] + 1);
  }
  return shape;
}

OpRules convolution_rules() {
  return {{"conv1d", convolution},
          {"conv2d", convolution},
          {"conv3d", convolution},
          {"convolution", convolution}};
}

}  // namespace arenite::convert
