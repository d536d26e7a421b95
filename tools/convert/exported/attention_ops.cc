// SPDX-License-Identifier: Apache-2.0
// Attention as one op, and sums of products by the letters of einsum.
#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>
#include <map>

#include "convert/exported/broadcasting.h"
#include "convert/exported/op_rules.h"
#include "convert/exported/products.h"

namespace arenite::convert {
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

}  // namespace arenite::convert
