// SPDX-License-Identifier: Apache-2.0
// Ops on rows: reductions, softmax and norms along dimensions, products, convolutions, pools.

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>

#include "convert/exported/aten/op_rules.h"
#include "convert/graph/row_products.h"

namespace arenite::convert {
namespace {

using Row = std::span<const double>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// ---- reductions and running sums ----

// An array split into rows along its reduced dimensions.
struct DimensionRows {
  size_t count = 1;            // elements per row
  Shape shape;                 // of the results, one per row
  std::vector<double> values;  // [rows, count]
};

// Collects rows along the dimensions "dim", or along all dimensions if that is missing or empty.
DimensionRows rows_along(const Call& call, const Array& array) {
  std::vector<int64_t> dims;
  if (call.has("dim")) dims = call.integers("dim");
  std::vector<bool> is_along(std::max<size_t>(array.rank(), 1), dims.empty());
  for (const int64_t dim : dims) is_along[call.dimension(dim, array.rank())] = true;
  DimensionRows rows;
  const Shape strides = strides_of(array.shape());
  Movement order;
  for (const bool along : {false, true}) {
    for (size_t d = 0; d < array.rank(); ++d) {
      if (is_along[d] != along) continue;
      order.walk.push_back(array.shape()[d]);
      order.strides.push_back(strides[d]);
      if (along) rows.count *= static_cast<size_t>(array.shape()[d]);
    }
  }
  const bool keeps = call.flag("keepdim", false);
  for (size_t d = 0; d < array.rank(); ++d) {
    if (!is_along[d] || keeps) rows.shape.push_back(is_along[d] ? 1 : array.shape()[d]);
  }
  order.shape = order.walk;
  rows.values = order.apply<double>(array.to_reals());
  return rows;
}

// Returns reduce(row) for each row, as `type`.
template <typename Reduce>
Array reduced(const Call& call, ElementType type, const Reduce& reduce) {
  const DimensionRows rows = rows_along(call, real_array(call, "self"));
  std::vector<double> results(elements_of(rows.shape));
  for (size_t r = 0; r < results.size(); ++r) {
    results[r] = reduce(Row(rows.values).subspan(r * rows.count, rows.count));
  }
  return Array::real(rows.shape, std::move(results), ElementType::kF64).to(type);
}

double total(Row row) { return std::accumulate(row.begin(), row.end(), 0.0); }

double mean(Row row) { return total(row) / static_cast<double>(row.size()); }

double largest(Row row) {
  double found = -kInfinity;
  for (const double value : row) found = std::isnan(value) || value > found ? value : found;
  return found;
}

double smallest(Row row) {
  double found = kInfinity;
  for (const double value : row) found = std::isnan(value) || value < found ? value : found;
  return found;
}

// Returns the index of the first extreme element.
template <typename Before>
double place_of(Row row) {
  if (row.empty()) throw ShapeError("found an empty row: expected at least one element");
  size_t place = 0;
  for (size_t i = 1; i < row.size(); ++i) {
    if (Before()(row[i], row[place])) place = i;
  }
  return static_cast<double>(place);
}

double variance(Row row, double correction) {
  const double middle = mean(row);
  double squares = 0.0;
  for (const double value : row) squares += (value - middle) * (value - middle);
  return squares / std::max(0.0, static_cast<double>(row.size()) - correction);
}

double log_sum_exp(Row row) {
  const double most = largest(row);
  if (std::isinf(most)) return most;
  double sum = 0.0;
  for (const double value : row) sum += std::exp(value - most);
  return most + std::log(sum);
}

double length(Row row, double order) {
  double sum = 0.0, most = 0.0;
  for (const double value : row) {
    most = std::max(most, std::abs(value));
    sum += order == 2.0 ? value * value : std::pow(std::abs(value), order);
  }
  if (std::isinf(order)) return most;
  return order == 2.0 ? std::sqrt(sum) : std::pow(sum, 1.0 / order);
}

enum class RowResultKind { kSame, kSum, kReals, kBools, kPlaces };  // kSum: int64 for integers

struct Reduction {
  std::string_view op;
  RowResultKind gives;
  double (*of)(Row row, double p);  // p: the parameter
  Parameter parameter{};
};

constexpr Reduction kReductions[] = {
    {"sum", RowResultKind::kSum, [](Row row, double) { return total(row); }},
    {"prod", RowResultKind::kSum,
     [](Row row, double) {
       return std::accumulate(row.begin(), row.end(), 1.0, std::multiplies<>());
     }},
    {"mean", RowResultKind::kSame, [](Row row, double) { return mean(row); }},
    {"var", RowResultKind::kSame, variance, {"correction", 1.0}},
    {"std",
     RowResultKind::kSame,
     [](Row row, double p) { return std::sqrt(variance(row, p)); },
     {"correction", 1.0}},
    {"amax", RowResultKind::kSame, [](Row row, double) { return largest(row); }},
    {"amin", RowResultKind::kSame, [](Row row, double) { return smallest(row); }},
    {"any", RowResultKind::kBools,
     [](Row row, double) {
       return std::ranges::any_of(row, [](double x) { return x != 0.0; }) ? 1.0 : 0.0;
     }},
    {"all", RowResultKind::kBools,
     [](Row row, double) { return std::ranges::find(row, 0.0) == row.end() ? 1.0 : 0.0; }},
    {"argmax", RowResultKind::kPlaces,
     [](Row row, double) { return place_of<std::greater<>>(row); }},
    {"argmin", RowResultKind::kPlaces, [](Row row, double) { return place_of<std::less<>>(row); }},
    {"logsumexp", RowResultKind::kSame, [](Row row, double) { return log_sum_exp(row); }},
    {"norm", RowResultKind::kReals, length, {"p", 2.0}},
    {"linalg_vector_norm", RowResultKind::kReals, length, {"ord", 2.0}}};

ElementType type_of(const Call& call, RowResultKind gives) {
  if (gives == RowResultKind::kBools) return ElementType::kBool;
  if (gives == RowResultKind::kPlaces) return ElementType::kI64;
  const ElementType type = call.array("self").type();
  if (gives == RowResultKind::kReals) return real_type(type);
  const bool is_whole = kind_of(type) <= kind_of(ElementType::kI64);
  return call.type("dtype").value_or(gives == RowResultKind::kSum && is_whole ? ElementType::kI64
                                                                              : type);
}

Results reduction(const Call& call, const Reduction& row) {
  double p = value_of(call, row.parameter);
  if (call.has("unbiased")) p = call.flag("unbiased", true) ? 1.0 : 0.0;
  return {reduced(call, type_of(call, row.gives), [&](Row each) { return row.of(each, p); })};
}

Array reduced_by(const Call& call, std::string_view op) {
  return *reduction(call, *std::ranges::find(kReductions, op, &Reduction::op))[0].as<Array>();
}

// An op with two results, each of which another op computes.
struct TwoReductions {
  std::string_view op, first, second;
};
constexpr TwoReductions kTwo[] = {{"var_mean", "var", "mean"},
                                  {"std_mean", "std", "mean"},
                                  {"max", "amax", "argmax"},
                                  {"min", "amin", "argmin"}};

Results two_reductions(const Call& call, const TwoReductions& row) {
  // Indices are returned only if a dimension is given.
  if (row.op.size() == 3 && !call.has("dim")) return {reduced_by(call, row.first)};
  return {reduced_by(call, row.first), reduced_by(call, row.second)};
}

// Applies change(row) to each row of "self" along "dim".
template <typename Change>
Array with_changed_rows(const Call& call, int64_t default_dim, const Change& change) {
  const Array& self = real_array(call, "self");
  const size_t dim = call.dimension("dim", default_dim, self.rank());
  const Shape& shape = self.shape();
  const size_t step = shape.empty() ? 1 : static_cast<size_t>(strides_of(shape)[dim]);
  std::vector<double> values = self.to_reals();
  std::vector<double> row(shape.empty() ? 1 : static_cast<size_t>(shape[dim]));
  for (size_t first = 0; first < values.size(); ++first) {
    if (first / step % row.size() != 0) continue;  // no row begins here
    for (size_t i = 0; i < row.size(); ++i) row[i] = values[first + i * step];
    change(row);
    for (size_t i = 0; i < row.size(); ++i) values[first + i * step] = row[i];
  }
  return Array::real(shape, std::move(values), ElementType::kF64);
}

// Computes running sums or products along a dimension.
Results running(const Call& call, OpBudget&) {
  const Array made = with_changed_rows(call, 0, [&](std::vector<double>& row) {
    if (call.op == "cumsum") {
      std::partial_sum(row.begin(), row.end(), row.begin());
    } else {
      std::partial_sum(row.begin(), row.end(), row.begin(), std::multiplies<>());
    }
  });
  return {made.to(type_of(call, RowResultKind::kSum))};
}

// ---- softmax, and the norms of rows ----

enum class Softmax { kPlain, kSafe, kLog };

struct SoftmaxOp {
  std::string_view op;
  Softmax kind;
};
constexpr SoftmaxOp kSoftmaxOps[] = {{"softmax", Softmax::kPlain},
                                     {"_safe_softmax", Softmax::kSafe},
                                     {"log_softmax", Softmax::kLog}};

void softmax_of(std::vector<double>& row, Softmax kind) {
  double most = -kInfinity;
  for (const double value : row) most = std::max(most, value);
  if (kind == Softmax::kSafe && most == -kInfinity) {  // every key is hidden
    std::ranges::fill(row, 0.0);
    return;
  }
  double sum = 0.0;
  for (const double value : row) sum += std::exp(value - most);
  for (double& value : row) {
    value = kind == Softmax::kLog ? value - most - std::log(sum) : std::exp(value - most) / sum;
  }
}

Results softmax(const Call& call, const SoftmaxOp& op) {
  const ElementType type = call.type("dtype").value_or(real_type(real_array(call, "self").type()));
  return {with_changed_rows(call, -1, [&](std::vector<double>& row) {
            softmax_of(row, op.kind);
          }).to(type)};
}

struct Norm {
  std::string_view op;
  bool takes_mean;                  // layer norm; else root mean square
  bool gives_means, gives_factors;  // further results
};
constexpr Norm kNorms[] = {{"layer_norm", true, false, false},
                           {"native_layer_norm", true, true, true},
                           {"rms_norm", false, false, false},
                           {"_fused_rms_norm", false, false, true}};

// Returns a gain or bias of `count` elements, filled with `absent` if the argument is missing.
Array::Reals norm_weight(const Call& call, const char* name, size_t count, double absent) {
  const Array* array = call.optional_array(name);
  if (array == nullptr) return Array::Reals(count, absent);
  if (array->elements() != count) {
    call.refuse("{} has shape {}: expected {} elements", name, shape_text(array->shape()), count);
  }
  return array->to_reals();
}

// Computes (x - mean) / sqrt(variance + epsilon) * gain + bias over rows of the last dimensions.
Results norm(const Call& call, const Norm& op) {
  const Array& input = call.array("input");
  const Shape normalized = call.integers("normalized_shape");
  if (normalized.size() > input.rank() ||
      !std::equal(normalized.rbegin(), normalized.rend(), input.shape().rbegin())) {
    call.refuse("normalized_shape {} does not end the shape of a tensor {}", shape_text(normalized),
                shape_text(input.shape()));
  }
  const size_t count = elements_of(normalized);
  const Array::Reals gain = norm_weight(call, "weight", count, 1.0);
  const Array::Reals bias = norm_weight(call, "bias", count, 0.0);
  const double rms_epsilon = input.type() == ElementType::kF64
                                 ? std::numeric_limits<double>::epsilon()
                                 : std::numeric_limits<float>::epsilon();
  const double epsilon = call.real("eps", op.takes_mean ? 1e-5 : rms_epsilon);
  std::vector<double> values = input.to_reals(), means, factors;
  for (size_t first = 0; first < values.size(); first += count) {
    const std::span<double> row(values.data() + first, count);
    means.push_back(op.takes_mean ? mean(row) : 0.0);
    double squares = 0.0;
    for (const double x : row) squares += (x - means.back()) * (x - means.back());
    factors.push_back(1.0 / std::sqrt(squares / static_cast<double>(count) + epsilon));
    for (size_t i = 0; i < count; ++i) {
      row[i] = (row[i] - means.back()) * factors.back() * gain[i] + bias[i];
    }
  }
  Shape column = input.shape();
  std::fill(column.end() - static_cast<ptrdiff_t>(normalized.size()), column.end(), 1);
  Results results = {Array::real(input.shape(), std::move(values), input.type())};
  if (op.gives_means) results.push_back(Array::real(column, std::move(means), input.type()));
  if (op.gives_factors) results.push_back(Array::real(column, std::move(factors), input.type()));
  return results;
}

// ---- products of matrices and vectors ----

// Adds sum_i x[r, i] W[i, o] to y[r, o], where W is matrix `index` of `b` [.., inputs, outputs], or
// [.., outputs, inputs] if `is_transposed`.
void add_products(const double* x, size_t rows, const Array& b, bool is_transposed, size_t index,
                  double* y) {
  const auto rows_of_b = static_cast<size_t>(b.shape()[b.rank() - 2]);
  const auto columns = static_cast<size_t>(b.shape().back());
  const auto add = [&](const auto* values) {
    values += index * rows_of_b * columns;
    add_row_products(x, rows,
                     is_transposed ? by_outputs(values, rows_of_b, columns)
                                   : by_inputs(values, columns, rows_of_b),
                     y);
  };
  const Array::Floats* floats = b.floats();
  floats != nullptr ? add(floats->data()) : add(b.reals().data());
}

Array with_outer_shape(const Array& array, const Shape& outer) {
  Shape shape = outer;
  shape.insert(shape.end(), array.shape().end() - 2, array.shape().end());
  return stretched(array, shape);
}

[[noreturn]] void refuse_shapes(const Call& call, const Array& a, const Array& b) {
  call.refuse("tensors {} and {} cannot be multiplied: expected equal inner extents",
              shape_text(a.shape()), shape_text(b.shape()));
}

// Multiplies as torch.matmul does: vectors count as matrices, and outer dimensions broadcast. With
// `is_transposed`, multiplies as F.linear does.
Array product(const Call& call, const Array& left, const Array& right, bool is_transposed,
              OpBudget& budget) {
  if (is_complex(left.type()) || is_complex(right.type())) {
    call.refuse("complex matrices are not supported: use real and imaginary parts");
  }
  if (left.rank() == 0 || right.rank() == 0)
    call.refuse("found a scalar: expected a vector or a matrix");
  Array a = left.to(ElementType::kF64), b = right.to(ElementType::kF64);
  if (a.rank() == 1) a = a.with_shape({1, a.shape()[0]});
  if (b.rank() == 1) {
    b = b.with_shape(is_transposed ? Shape{1, b.shape()[0]} : Shape{b.shape()[0], 1});
  }
  const int64_t inputs = b.shape()[b.rank() - (is_transposed ? 1 : 2)];
  const int64_t outputs = b.shape()[b.rank() - (is_transposed ? 2 : 1)];
  if (a.shape().back() != inputs) refuse_shapes(call, left, right);
  Shape shape = broadcast(leading(a.shape()), leading(b.shape()));
  const bool shares_matrix = b.rank() == 2;  // all rows meet one matrix
  a = with_outer_shape(a, shape);
  if (!shares_matrix) b = with_outer_shape(b, shape);
  shape.insert(shape.end(), {a.shape()[a.rank() - 2], outputs});
  const size_t elements = elements_of(shape);
  budget.take_multiplications(uint64_t{elements} * static_cast<uint64_t>(inputs));
  Array::Reals values(elements);
  const size_t all_rows = elements == 0 ? 0 : elements / static_cast<size_t>(outputs);
  const size_t rows = shares_matrix ? all_rows : static_cast<size_t>(shape[shape.size() - 2]);
  for (size_t first = 0; first < all_rows; first += rows) {
    add_products(a.reals().data() + first * static_cast<size_t>(inputs), rows, b, is_transposed,
                 first / rows, values.data() + first * static_cast<size_t>(outputs));
  }
  if (right.rank() == 1) shape.pop_back();
  if (left.rank() == 1) shape.erase(shape.end() - (right.rank() == 1 ? 1 : 2));
  return Array::real(std::move(shape), std::move(values), ElementType::kF64)
      .to(promote(left.type(), right.type()));
}

constexpr std::string_view kFourierOps[] = {"fft_fft",  "fft_fft2",  "fft_fftn",
                                            "fft_ifft", "fft_ifft2", "fft_ifftn"};

Results fourier(const Call& call, OpBudget& budget) {
  const Array& self = call.array("self");
  const Shape& shape = self.shape();
  const FourierTransform transform = fourier_transform(call, shape);
  Array::Complexes values = is_complex(self.type()) ? self.to_complexes() : Array::Complexes();
  if (!is_complex(self.type())) {
    for (const double value : self.to_reals()) values.emplace_back(value);
  }
  for (const size_t dim : transform.dims) {
    const auto points = static_cast<size_t>(shape[dim]);
    const auto step = static_cast<size_t>(strides_of(shape)[dim]);
    budget.take_multiplications(uint64_t{values.size()} * points);
    Array::Complexes turns, made(values.size());
    for (size_t i = 0; i < points; ++i) {
      const double angle =
          2.0 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(points);
      turns.emplace_back(std::cos(angle), transform.sign * std::sin(angle));
    }
    for (size_t i = 0; i < values.size(); ++i) {
      const size_t at = i / step % points;
      for (size_t k = 0; k < points; ++k) {
        made[i] += turns[at * k % points] * values[i - at * step + k * step];
      }
    }
    values = std::move(made);
  }
  for (auto& value : values) value *= transform.factor;
  return {Array::complex(shape, std::move(values))};
}

// A product of "self" and another tensor, both of rank `rank`; 0 means any rank.
struct MatrixProduct {
  std::string_view op;
  const char* other;
  size_t rank = 0;
};
constexpr MatrixProduct kProducts[] = {{"matmul", "other"},  {"mm", "mat2", 2}, {"bmm", "mat2", 3},
                                       {"mv", "vec"},        {"dot", "tensor"}, {"vdot", "other"},
                                       {"outer", "vec2", 1}, {"ger", "vec2", 1}};

Results matmul(const Call& call, const MatrixProduct& row, OpBudget& budget) {
  Array a = call.array("self"), b = call.array(row.other);
  for (const Array* array : {&a, &b}) {
    if (row.rank != 0 && array->rank() != row.rank) {
      call.refuse("found a tensor {}: expected {} dimensions", shape_text(array->shape()),
                  row.rank);
    }
  }
  if (row.rank == 1) {
    a = a.with_shape({a.shape()[0], 1});
    b = b.with_shape({1, b.shape()[0]});
  }
  return {product(call, a, b, false, budget)};
}

Results linear(const Call& call, OpBudget& budget) {
  const Array& weight = call.array("weight");
  if (weight.rank() > 2) call.refuse("the weight is not a matrix: expected [outputs, inputs]");
  const Array made = product(call, call.array("input"), weight, true, budget);
  const Array* bias = call.optional_array("bias");
  if (bias == nullptr) return {made};
  if (is_complex(bias->type())) call.refuse("complex numbers");
  Array::Reals values = made.to_reals();
  const Array::Reals added = stretched(*bias, made.shape()).to_reals();
  for (size_t i = 0; i < values.size(); ++i) values[i] += added[i];
  return {Array::real(made.shape(), std::move(values), ElementType::kF64)
              .to(promote(bias->type(), made.type()))};
}

// ---- convolutions and pools ----

Shape spread(const Call& call, const char* name, int64_t default_value, size_t count) {
  Shape numbers = call.has(name) ? Shape(call.integers(name)) : Shape{default_value};
  if (numbers.size() == 1) numbers.resize(count, numbers[0]);
  if (numbers.size() != count)
    call.refuse("{} has {} values: expected one for each dimension", name, numbers.size());
  for (const int64_t number : numbers) {
    if (number < 0 || number > int64_t{1} << 24)
      call.refuse("{} is {}: expected 0 to 2^24", name, number);
  }
  return numbers;
}

constexpr uint64_t kStepsPerProduct = 6;  // im2col included

// Pads the input with `value`.
Array padded(const Array& input, const Convolution& convolution, OpBudget& budget,
             double value = 0.0) {
  Argument::List pad;  // the last dimension first
  for (size_t d = convolution.stride.size(); d-- > 0;) {
    pad.emplace_back(convolution.padding_before[d]);
    pad.emplace_back(convolution.padding_after[d]);
  }
  return apply_for_array(
      {.op = "constant_pad_nd",
       .arguments = {{"self", input}, {"pad", std::move(pad)}, {"value", value}}},
      budget);
}

// Multiplies windows [sequences, groups, places, channels * kernel] by the kernels of each group.
Array convolved(const Call& call, const Array& input, const Array& weight, OpBudget& budget) {
  const Convolution convolution = convolution_of(call, weight);
  const Shape shape = convolved_shape(call, input, weight, convolution);
  const int64_t groups = convolution.groups, kernels = shape[1] / groups;
  const uint64_t outputs = std::max<uint64_t>(1, static_cast<uint64_t>(shape[1]));
  WorkBudget::take(elements_of(shape) * weight.elements() / outputs * kStepsPerProduct);
  const Array inside = padded(input, convolution, budget);
  const Movement rows = windows(inside.shape(), shape, weight.shape(), convolution);
  budget.take_elements(elements_of(rows.shape));
  const Array pixels = Array::real(rows.shape, rows.apply<double>(inside.to_reals()));
  Array made = product(call, pixels, weight.with_shape({1, groups, kernels, rows.shape[3]}), true,
                       budget);  // [sequences, groups, places, kernels]
  made =
      apply_for_array({.op = "transpose",
                       .arguments = {{"self", made}, {"dim0", int64_t{2}}, {"dim1", int64_t{3}}}},
                      budget);
  Array::Reals values = made.to_reals();
  if (const Array* bias = call.optional_array("bias")) {
    const Array::Reals added = bias->to_reals();
    if (added.size() != static_cast<size_t>(shape[1]))
      call.refuse("the bias has the wrong size: expected an element for each output channel");
    const auto places = static_cast<size_t>(rows.shape[2]);
    for (size_t i = 0; i < values.size(); ++i) values[i] += added[i / places % added.size()];
  }
  return Array::real(shape, std::move(values), input.type());
}

Results convolution(const Call& call, OpBudget& budget) {
  const Array& input = real_array(call, "input");
  const Array& weight = real_array(call, "weight");
  if (weight.rank() < 3) {
    call.refuse("found a kernel {}: expected [outputs, channels, ..]", shape_text(weight.shape()));
  }
  const bool has_batch = input.rank() == weight.rank();
  if (!has_batch && input.rank() + 1 != weight.rank()) {
    call.refuse("an input {} does not fit a kernel {}", shape_text(input.shape()),
                shape_text(weight.shape()));
  }
  Shape shape = input.shape();
  if (!has_batch) shape.insert(shape.begin(), 1);
  const Array result = convolved(call, input.with_shape(shape), weight, budget);
  if (has_batch) return {result};
  return {result.with_shape(Shape(result.shape().begin() + 1, result.shape().end()))};
}

// Returns the maximum of each channel over windows; padding counts as -infinity.
Results max_pool(const Call& call, OpBudget& budget) {
  const Array& input = real_array(call, "self");
  const size_t count = call.op == "max_pool1d" ? 1 : 2;
  if (input.rank() != count + 2)
    call.refuse("found an input {}: expected [sequences, channels, ..]", shape_text(input.shape()));
  const Shape kernel = spread(call, "kernel_size", 1, count);
  Shape stride = kernel;
  if (call.has("stride") && !call.integers("stride").empty()) {
    stride = spread(call, "stride", 1, count);
  }
  Convolution pool{.stride = stride,
                   .padding_before = spread(call, "padding", 0, count),
                   .padding_after = {},
                   .dilation = spread(call, "dilation", 1, count),
                   .groups = input.shape()[1]};
  pool.padding_after = pool.padding_before;
  if (std::ranges::count(pool.stride, 0) > 0 || std::ranges::count(pool.dilation, 0) > 0) {
    call.refuse("found a stride or dilation of 0: expected at least 1");
  }
  Shape weight = {input.shape()[1], 1};
  weight.insert(weight.end(), kernel.begin(), kernel.end());
  const Shape shape =
      convolved_shape(call, input, Array::of_shape(weight, ElementType::kF32), pool);
  const Array inside = padded(input, pool, budget, -std::numeric_limits<double>::infinity());
  const Movement rows = windows(inside.shape(), shape, weight, pool);
  budget.take_elements(elements_of(rows.shape));
  WorkBudget::take(elements_of(rows.shape));
  const Array::Reals seen = rows.apply<double>(inside.to_reals());
  const auto width = static_cast<size_t>(rows.shape.back());
  Array::Reals values(elements_of(shape));
  for (size_t i = 0; i < values.size(); ++i) {
    const auto begin = seen.begin() + static_cast<ptrdiff_t>(i * width);
    values[i] = *std::max_element(begin, begin + static_cast<ptrdiff_t>(width));
  }
  return {Array::real(shape, std::move(values), input.type())};
}

}  // namespace

OpRules row_rules() {
  OpRules rules;
  add_rows(rules, kReductions, reduction);
  add_rows(rules, kTwo, two_reductions);
  add_rows(rules, kSoftmaxOps, softmax);
  add_rows(rules, kNorms, norm);
  rules["cumsum"] = rules["cumprod"] = running;
  for (const MatrixProduct& row : kProducts) {
    rules[row.op] = [&row](const Call& call, OpBudget& budget) {
      return matmul(call, row, budget);
    };
  }
  for (const std::string_view op : kFourierOps) rules[op] = fourier;
  rules["linear"] = linear;
  rules["convolution"] = convolution;
  for (const char* op : {"max_pool1d", "max_pool2d", "max_pool2d_with_indices"}) {
    rules[op] = max_pool;
  }
  return rules;
}

bool is_fourier(std::string_view op) { return std::ranges::count(kFourierOps, op) != 0; }

FourierTransform fourier_transform(const Call& call, const Shape& shape) {
  std::vector<int64_t> dims(shape.size());
  std::iota(dims.begin(), dims.end(), int64_t{0});
  const bool is_inverse = call.op.starts_with("fft_i");
  if (call.has("dim")) {
    dims = call.integers("dim");
  } else if (!call.op.ends_with("fftn")) {
    dims = call.op.ends_with("fft2") ? std::vector<int64_t>{-2, -1} : std::vector<int64_t>{-1};
  }
  if (call.has("n") || call.has("s"))
    call.refuse(
        "a transform whose length is not the dimension's is not supported: slice or pad the "
        "input");
  FourierTransform made;
  made.sign = is_inverse ? 1.0 : -1.0;
  double points = 1.0;
  for (const int64_t dim : dims) {
    made.dims.push_back(call.dimension(dim, shape.size()));
    points *= static_cast<double>(shape[made.dims.back()]);
  }
  if (points < 1.0) call.refuse("found an empty tensor: expected at least one element");
  const std::string norm = call.text("norm", "backward");
  if (norm == "ortho") {
    made.factor = 1.0 / std::sqrt(points);
  } else if (norm == (is_inverse ? "backward" : "forward")) {
    made.factor = 1.0 / points;
  }
  return made;
}

Convolution convolution_of(const Call& call, const Array& weight) {
  const size_t count = weight.rank() - 2;
  Convolution convolution{.stride = spread(call, "stride", 1, count),
                          .padding_before = Shape(count, 0),
                          .padding_after = Shape(count, 0),
                          .dilation = spread(call, "dilation", 1, count),
                          .groups = call.integer("groups", 1)};
  if (std::ranges::count(convolution.stride, 0) > 0 ||
      std::ranges::count(convolution.dilation, 0) > 0 || call.flag("transposed", false)) {
    call.refuse("transposed convolutions, and strides or dilations of 0, are not supported");
  }
  const Argument* padding = call.find("padding");
  if (padding == nullptr || !padding->as<std::string>()) {
    convolution.padding_before = convolution.padding_after = spread(call, "padding", 0, count);
  } else if (*padding->as<std::string>() == "same") {
    for (size_t d = 0; d < count; ++d) {
      const int64_t all = convolution.dilation[d] * (weight.shape()[d + 2] - 1);
      convolution.padding_before[d] = all / 2;
      convolution.padding_after[d] = all - all / 2;
    }
  } else if (*padding->as<std::string>() != "valid") {
    call.refuse("padding {} is not supported: expected 'same', 'valid' or integers",
                quote(*padding->as<std::string>()));
  }
  return convolution;
}

Shape convolved_shape(const Call& call, const Array& input, const Array& weight,
                      const Convolution& convolution) {
  const int64_t groups = convolution.groups;
  if (groups < 1 || input.shape()[1] != weight.shape()[1] * groups ||
      weight.shape()[0] % groups != 0) {
    call.refuse("an input {} does not fit a kernel {} in {} groups", shape_text(input.shape()),
                shape_text(weight.shape()), groups);
  }
  Shape shape = {input.shape()[0], weight.shape()[0]};
  for (size_t d = 0; d + 2 < weight.rank(); ++d) {
    const int64_t reach = convolution.dilation[d] * (weight.shape()[d + 2] - 1) + 1;
    const int64_t padded =
        input.shape()[d + 2] + convolution.padding_before[d] + convolution.padding_after[d];
    if (weight.shape()[d + 2] < 1 || padded < reach) {
      call.refuse("a kernel {} does not fit into an input {}", shape_text(weight.shape()),
                  shape_text(input.shape()));
    }
    shape.push_back((padded - reach) / convolution.stride[d] + 1);
  }
  return shape;
}

Movement windows(const Shape& input, const Shape& result, const Shape& weight,
                 const Convolution& convolution) {
  const Shape strides = strides_of(input);
  const size_t count = convolution.stride.size();
  Movement movement{.shape = {},
                    .walk = {input[0], convolution.groups},
                    .strides = {strides[0], weight[1] * strides[1]}};
  int64_t places = 1, width = weight[1];
  for (size_t d = 0; d < count; ++d) {
    movement.walk.push_back(result[d + 2]);
    movement.strides.push_back(convolution.stride[d] * strides[d + 2]);
    places *= result[d + 2];
  }
  movement.walk.push_back(weight[1]);
  movement.strides.push_back(strides[1]);
  for (size_t d = 0; d < count; ++d) {
    movement.walk.push_back(weight[d + 2]);
    movement.strides.push_back(convolution.dilation[d] * strides[d + 2]);
    width *= weight[d + 2];
  }
  movement.shape = {input[0], convolution.groups, places, width};
  elements_of(movement.shape);  // refuses too many elements
  return movement;
}

Shape each_of(const Call& call, const char* name, size_t count, const Shape& otherwise) {
  Shape numbers = call.has(name) ? Shape(call.integers(name)) : otherwise;
  if (numbers.empty()) numbers = otherwise;
  if (numbers.size() == 1) numbers.resize(count, numbers[0]);
  if (numbers.size() != count)
    call.refuse("{} has {} values: expected one for each dimension", name, numbers.size());
  return numbers;
}

// Rewrites a transposed convolution, which makes `stride` rows of each row, as a convolution with
// stride * outputs channels: output r takes tap t = stride * m + r + padding of the m-th previous
// row.
Argument transposed_convolution(const Call& call, const Parts& parts) {
  const Argument& input = call.argument("input");
  const Shape weight = parts.shape(call.argument("weight")), given = parts.shape(input);
  const auto number = [&](const char* name, int64_t otherwise) {
    return each_of(call, name, 1, {otherwise})[0];
  };
  const bool is_line = weight.size() == 3 && given.size() == 3;
  const int64_t stride = is_line ? number("stride", 1) : 0;
  const int64_t padding = is_line ? number("padding", 0) : 0;
  if (!is_line || stride < 1 || padding < 0 || number("dilation", 1) != 1 ||
      call.integer("groups", 1) != 1 ||
      weight[2] + number("output_padding", 0) != stride + 2 * padding) {
    call.refuse(
        "transposed convolutions are supported for [sequences, channels, tokens], without groups, "
        "where each token becomes as many as the stride");
  }
  const int64_t inputs = weight[0], outputs = weight[1], k = weight[2];
  const int64_t before = (k - 1 - padding) / stride, after = (padding + stride - 1) / stride;
  const int64_t kernel = before + after + 1, first = stride * after - padding;
  const auto zeros_around = [&](const Argument& of, int64_t left, int64_t right) {
    if (left == 0 && right == 0) return of;
    return parts("constant_pad_nd", {{"self", of}, {"pad", Parts::list({left, right})}});
  };
  const Argument taps =
      parts.view(zeros_around(call.argument("weight"), first, kernel * stride - k - first),
                 {inputs, outputs, kernel, stride});
  const Argument forward = parts("flip", {{"self", taps}, {"dims", Parts::list({2})}});
  std::vector<NamedArgument> layer = {
      {"input", zeros_around(input, before, after)},
      {"weight",
       parts.view(parts("permute", {{"self", forward}, {"dims", Parts::list({3, 1, 0, 2})}}),
                  {stride * outputs, inputs, kernel})}};
  if (call.has("bias")) {
    layer.push_back({"bias", parts("repeat", {{"self", call.argument("bias")},
                                              {"repeats", Parts::list({stride})}})});
  }
  const auto transposed = [&](const Argument& value) {
    return parts("transpose", {{"self", value}, {"dim0", int64_t{1}}, {"dim1", int64_t{2}}}, "int");
  };
  return transposed(parts.view(transposed(parts("convolution", std::move(layer))),
                               {given[0], given[2] * stride, outputs}));
}

// Rewrites a 3-d convolution as a 2-d one for each output frame, whose channels are those of all
// input frames in its window.
Argument convolution_over_frames(const Call& call, const Parts& parts) {
  const Argument& input = call.argument("input");
  const Shape given = parts.shape(input), weight = parts.shape(call.argument("weight"));
  const auto numbers = [&](const char* name, int64_t otherwise) {
    return each_of(call, name, 3, {otherwise});
  };
  const Shape stride = numbers("stride", 1), padding = numbers("padding", 0);
  const Shape dilation = numbers("dilation", 1);
  if (weight.size() != 5 || given.size() != 5 || padding[0] != 0 || dilation[0] != 1 ||
      stride[0] < 1 || call.integer("groups", 1) != 1) {
    call.refuse(
        "convolutions over frames are supported for [sequences, channels, frames, height, width], "
        "without groups, and without padding or dilation of frames");
  }
  const int64_t frames = weight[2];
  const Argument kernel =
      parts.view(call.argument("weight"), {weight[0], weight[1] * frames, weight[3], weight[4]});
  const auto last_two = [](const Shape& of) { return Parts::list({of[1], of[2]}); };
  const auto transposed = [&](const Argument& value) {
    return parts("transpose", {{"self", value}, {"dim0", int64_t{1}}, {"dim1", int64_t{2}}}, "int");
  };
  Argument::List rows;
  Shape made;
  for (int64_t first = 0; first + frames <= given[2]; first += stride[0]) {
    const Argument seen = parts(
        "slice", {{"self", input}, {"dim", int64_t{2}}, {"start", first}, {"end", first + frames}});
    const Argument image =
        parts("convolution",
              {{"input", parts.view(seen, {given[0], given[1] * frames, given[3], given[4]})},
               {"weight", kernel},
               {"bias", call.has("bias") ? call.argument("bias") : Argument()},
               {"stride", last_two(stride)},
               {"padding", last_two(padding)},
               {"dilation", last_two(dilation)}});
    made = parts.shape(image);
    rows.push_back(transposed(parts.view(image, {made[0], made[1], made[2] * made[3]})));
  }
  if (rows.empty()) call.refuse("found fewer frames than the kernel covers");
  const auto times = static_cast<int64_t>(rows.size());
  const Argument all = parts("cat", {{"tensors", std::move(rows)}, {"dim", int64_t{1}}});
  return parts.view(transposed(all), {made[0], made[1], times, made[2], made[3]});
}

}  // namespace arenite::convert
