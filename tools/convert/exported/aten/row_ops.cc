// SPDX-License-Identifier: Apache-2.0
// Ops along dimensions: sums, extremes, softmax and norms.

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "convert/exported/aten/op_rules.h"

namespace arenite::convert {
// Sums, means, variances and extremes along dimensions, and running sums.

namespace {

// reduce(row) of each row along the dimensions of "dim", of the type `type`.
template <typename Reduce>
Array reduced(const Call& call, ElementType type, const Reduce& reduce) {
  const Array& self = call.array("self");
  DimensionRows rows = rows_along(self, named_dimensions(call, "dim", self.rank()));
  std::vector<double> results(rows.rows);
  for (size_t r = 0; r < rows.rows; ++r) results[r] = reduce(rows.row(r));
  Shape shape = call.flag("keepdim", false) ? rows.shape_kept : rows.shape;
  return Array::real(std::move(shape), std::move(results), ElementType::kF64).to(type);
}

double total(std::span<const double> row) { return std::accumulate(row.begin(), row.end(), 0.0); }

double average(std::span<const double> row) { return total(row) / static_cast<double>(row.size()); }

double product(std::span<const double> row) {
  return std::accumulate(row.begin(), row.end(), 1.0, std::multiplies<>());
}

double largest(std::span<const double> row) {
  double found = -std::numeric_limits<double>::infinity();
  for (const double value : row) found = std::isnan(value) || value > found ? value : found;
  return found;
}

double smallest(std::span<const double> row) {
  double found = std::numeric_limits<double>::infinity();
  for (const double value : row) found = std::isnan(value) || value < found ? value : found;
  return found;
}

double has_any(std::span<const double> row) {
  return std::ranges::any_of(row, [](double value) { return value != 0.0; }) ? 1.0 : 0.0;
}

double has_all(std::span<const double> row) {
  return std::ranges::all_of(row, [](double value) { return value != 0.0; }) ? 1.0 : 0.0;
}

double variance(std::span<const double> row, double correction) {
  const double mean = average(row);
  double squares = 0.0;
  for (const double value : row) squares += (value - mean) * (value - mean);
  return squares / std::max(0.0, static_cast<double>(row.size()) - correction);
}

// Sums of whole numbers and bools are of int64.
ElementType sum_type(const Call& call) {
  const ElementType type = call.array("self").type();
  const bool is_whole = is_integer(type) || type == ElementType::kBool;
  return call.type("dtype").value_or(is_whole ? ElementType::kI64 : type);
}

void refuse_complex(const Call& call) {
  if (is_complex(call.array("self").type())) call.refuse("complex numbers are not understood here");
}

template <double (*kReduce)(std::span<const double>)>
Results summing(const Call& call, OpBudget&) {
  refuse_complex(call);
  return {reduced(call, sum_type(call), kReduce)};
}

template <double (*kReduce)(std::span<const double>)>
Results testing(const Call& call, OpBudget&) {
  refuse_complex(call);
  return {reduced(call, ElementType::kBool, kReduce)};
}

template <double (*kReduce)(std::span<const double>)>
Results same_type(const Call& call, OpBudget&) {
  refuse_complex(call);
  return {reduced(call, call.array("self").type(), kReduce)};
}

Results mean(const Call& call, OpBudget&) {
  refuse_complex(call);
  return {reduced(call, call.type("dtype").value_or(call.array("self").type()), average)};
}

double correction_of(const Call& call) {
  if (call.has("unbiased")) return call.flag("unbiased", true) ? 1.0 : 0.0;
  return call.real("correction", 1.0);
}

Array spread(const Call& call, bool is_deviation) {
  refuse_complex(call);
  const double correction = correction_of(call);
  return reduced(call, call.array("self").type(), [&](std::span<const double> row) {
    return is_deviation ? std::sqrt(variance(row, correction)) : variance(row, correction);
  });
}

Results var(const Call& call, OpBudget&) { return {spread(call, false)}; }
Results std_of(const Call& call, OpBudget&) { return {spread(call, true)}; }
Results var_mean(const Call& call, OpBudget& budget) {
  return {spread(call, false), mean(call, budget)[0]};
}
Results std_mean(const Call& call, OpBudget& budget) {
  return {spread(call, true), mean(call, budget)[0]};
}

Results logsumexp(const Call& call, OpBudget&) {
  refuse_complex(call);
  return {reduced(call, call.array("self").type(), [](std::span<const double> row) {
    const double most = largest(row);
    if (std::isinf(most)) return most;
    double sum = 0.0;
    for (const double value : row) sum += std::exp(value - most);
    return most + std::log(sum);
  })};
}

Results norm(const Call& call, OpBudget&) {
  refuse_complex(call);
  const double order = call.real(call.op == "norm" ? "p" : "ord", 2.0);
  return {reduced(call, real_type(call.array("self").type()), [&](std::span<const double> row) {
    double sum = 0.0, most = 0.0;
    for (const double value : row) {
      most = std::max(most, std::abs(value));
      sum += order == 2.0 ? value * value : std::pow(std::abs(value), order);
    }
    if (std::isinf(order)) return most;
    return order == 2.0 ? std::sqrt(sum) : std::pow(sum, 1.0 / order);
  })};
}

// The first of the largest, or smallest.
size_t place_of_extreme(std::span<const double> row, bool is_largest) {
  size_t place = 0;
  for (size_t i = 1; i < row.size(); ++i) {
    if (is_largest ? row[i] > row[place] : row[i] < row[place]) place = i;
  }
  return place;
}

Array places(const Call& call, bool is_largest) {
  return reduced(call, ElementType::kI64, [&](std::span<const double> row) {
    if (row.empty()) call.refuse("it looks for the largest of nothing");
    return static_cast<double>(place_of_extreme(row, is_largest));
  });
}

Results arg_extreme(const Call& call, OpBudget&) {
  refuse_complex(call);
  return {places(call, call.op == "argmax")};
}

// max and min of all, along a dimension with the places, or of two tensors.
Results extreme(const Call& call, OpBudget& budget) {
  refuse_complex(call);
  const bool is_largest = call.op == "max";
  if (call.has("other")) {
    Call pairs = call;
    pairs.op = is_largest ? "maximum" : "minimum";
    return apply_op(pairs, budget);
  }
  const ElementType type = call.array("self").type();
  const Array values = reduced(call, type, is_largest ? largest : smallest);
  if (!call.has("dim")) return {values};
  return {values, places(call, is_largest)};
}

// The running sum, or product, along one dimension.
template <typename Function>
Results running(const Call& call, const Function& function) {
  refuse_complex(call);
  const Array& self = call.array("self");
  const Around parts = around(self.shape(), call.dimension("dim", 0, self.rank()));
  std::vector<double> values = self.to_reals();
  for (size_t o = 0; o < parts.outer; ++o) {
    for (size_t i = parts.inner; i < parts.extent * parts.inner; ++i) {
      double& value = values[o * parts.extent * parts.inner + i];
      value = function(values[o * parts.extent * parts.inner + i - parts.inner], value);
    }
  }
  return {Array::real(self.shape(), std::move(values), ElementType::kF64).to(sum_type(call))};
}

Results cumsum(const Call& call, OpBudget&) { return running(call, std::plus<>()); }
Results cumprod(const Call& call, OpBudget&) { return running(call, std::multiplies<>()); }

}  // namespace

Around around(const Shape& shape, size_t dim) {
  Around parts;
  for (size_t d = 0; d < shape.size(); ++d) {
    (d < dim    ? parts.outer
     : d == dim ? parts.extent
                : parts.inner) *= static_cast<size_t>(shape[d]);
  }
  return parts;
}

std::vector<bool> named_dimensions(const Call& call, const char* name, size_t rank) {
  std::vector<bool> is_named(std::max<size_t>(rank, 1), true);
  if (!call.has(name)) return is_named;
  const std::vector<int64_t> dims = call.integers(name);
  if (dims.empty()) return is_named;
  std::fill(is_named.begin(), is_named.end(), false);
  for (const int64_t dim : dims) is_named[call.dimension(dim, rank)] = true;
  return is_named;
}

DimensionRows rows_along(const Array& array, const std::vector<bool>& is_named) {
  DimensionRows rows;
  rows.rows = rows.count = 1;
  const Movement all = whole(array.shape());
  Movement order;
  for (const bool is_along : {false, true}) {
    for (size_t d = 0; d < array.rank(); ++d) {
      if (is_named[d] != is_along) continue;
      order.walk.push_back(array.shape()[d]);
      order.strides.push_back(all.strides[d]);
      (is_along ? rows.count : rows.rows) *= static_cast<size_t>(array.shape()[d]);
    }
  }
  rows.shape_kept = array.shape();
  for (size_t d = 0; d < array.rank(); ++d) {
    if (is_named[d]) {
      rows.shape_kept[d] = 1;
    } else {
      rows.shape.push_back(array.shape()[d]);
    }
  }
  order.shape = order.walk;
  rows.values = order.apply<double>(array.to_reals());
  return rows;
}

OpRules reduction_rules() {
  return {{"sum", summing<total>},
          {"prod", summing<product>},
          {"mean", mean},
          {"var", var},
          {"std", std_of},
          {"var_mean", var_mean},
          {"std_mean", std_mean},
          {"amax", same_type<largest>},
          {"amin", same_type<smallest>},
          {"any", testing<has_any>},
          {"all", testing<has_all>},
          {"max", extreme},
          {"min", extreme},
          {"argmax", arg_extreme},
          {"argmin", arg_extreme},
          {"logsumexp", logsumexp},
          {"norm", norm},
          {"linalg_vector_norm", norm},
          {"cumsum", cumsum},
          {"cumprod", cumprod}};
}

// Softmax and the norms of rows, of groups and of channels.

namespace {

enum class Softmax { kPlain, kSafe, kLog };

void softmax_of(double* values, size_t count, size_t step, Softmax kind) {
  double most = -std::numeric_limits<double>::infinity(), sum = 0.0;
  for (size_t i = 0; i < count; ++i) most = std::max(most, values[i * step]);
  if (kind == Softmax::kSafe && std::isinf(most) && most < 0) {  // nothing is seen
    for (size_t i = 0; i < count; ++i) values[i * step] = 0.0;
    return;
  }
  for (size_t i = 0; i < count; ++i) sum += std::exp(values[i * step] - most);
  for (size_t i = 0; i < count; ++i) {
    double& value = values[i * step];
    value = kind == Softmax::kLog ? value - most - std::log(sum) : std::exp(value - most) / sum;
  }
}

template <Softmax kKind>
Results softmax(const Call& call, OpBudget&) {
  const Array& self = call.array("self");
  if (is_complex(self.type())) call.refuse("complex numbers are not understood here");
  const Around parts = around(self.shape(), call.dimension("dim", -1, self.rank()));
  std::vector<double> values = self.to_reals();
  for (size_t o = 0; o < parts.outer && !values.empty(); ++o) {
    for (size_t i = 0; i < parts.inner; ++i) {
      softmax_of(values.data() + o * parts.extent * parts.inner + i, parts.extent, parts.inner,
                 kKind);
    }
  }
  const ElementType type = call.type("dtype").value_or(real_type(self.type()));
  return {Array::real(self.shape(), std::move(values), type)};
}

// The elements of a gain or bias, which must be as many as `count`; empty: there is none.
Array::Reals norm_weight(const Call& call, const char* name, size_t count) {
  const Array* array = call.optional_array(name);
  if (array == nullptr) return {};
  if (array->elements() != count) {
    call.refuse("its {} is {}: expected {} numbers", name, shape_text(array->shape()), count);
  }
  return array->to_reals();
}

Array column(const Array& input, size_t normalized, std::vector<double> values) {
  Shape shape = input.shape();
  std::fill(shape.end() - static_cast<ptrdiff_t>(normalized), shape.end(), 1);
  return Array::real(std::move(shape), std::move(values), input.type());
}

// Rows of the last dimensions, divided by their root mean square, or with `takes_mean` by their
// deviation from their mean: the result, the means, and what rows were multiplied by.
Results norm_of_rows(const Call& call, bool takes_mean) {
  const Array& input = call.array("input");
  const Shape normalized = call.integers("normalized_shape");
  if (normalized.size() > input.rank() ||
      !std::equal(normalized.rbegin(), normalized.rend(), input.shape().rbegin())) {
    call.refuse("it normalizes {} of a tensor {}", shape_text(normalized),
                shape_text(input.shape()));
  }
  const size_t count = elements_of(normalized);
  const Array::Reals gain = norm_weight(call, "weight", count);
  const Array::Reals bias = norm_weight(call, "bias", count);
  const double rms_epsilon = input.type() == ElementType::kF64
                                 ? std::numeric_limits<double>::epsilon()
                                 : std::numeric_limits<float>::epsilon();
  const double epsilon = call.real("eps", takes_mean ? 1e-5 : rms_epsilon);
  std::vector<double> values = input.to_reals(), means, factors;
  for (size_t first = 0; first < values.size(); first += count) {
    const std::span<double> row(values.data() + first, count);
    means.push_back(takes_mean ? average(row) : 0.0);
    double squares = 0.0;
    for (const double x : row) squares += (x - means.back()) * (x - means.back());
    factors.push_back(1.0 / std::sqrt(squares / static_cast<double>(count) + epsilon));
    for (size_t i = 0; i < count; ++i) {
      row[i] = (row[i] - means.back()) * factors.back() * (gain.empty() ? 1.0 : gain[i]) +
               (bias.empty() ? 0.0 : bias[i]);
    }
  }
  return {Array::real(input.shape(), std::move(values), input.type()),
          column(input, normalized.size(), std::move(means)),
          column(input, normalized.size(), std::move(factors))};
}

Results layer_norm(const Call& call, OpBudget&) { return {norm_of_rows(call, true)[0]}; }
Results native_layer_norm(const Call& call, OpBudget&) { return norm_of_rows(call, true); }
Results rms_norm(const Call& call, OpBudget&) { return {norm_of_rows(call, false)[0]}; }
Results fused_rms_norm(const Call& call, OpBudget&) {
  const Results results = norm_of_rows(call, false);
  return {results[0], results[2]};
}

}  // namespace

OpRules softmax_rules() {
  return {
      {"softmax", softmax<Softmax::kPlain>},          {"_softmax", softmax<Softmax::kPlain>},
      {"special_softmax", softmax<Softmax::kPlain>},  {"_safe_softmax", softmax<Softmax::kSafe>},
      {"log_softmax", softmax<Softmax::kLog>},        {"_log_softmax", softmax<Softmax::kLog>},
      {"special_log_softmax", softmax<Softmax::kLog>}};
}

OpRules norm_rules() {
  return {{"layer_norm", layer_norm},
          {"native_layer_norm", native_layer_norm},
          {"rms_norm", rms_norm},
          {"_fused_rms_norm", fused_rms_norm}};
}

}  // namespace arenite::convert
