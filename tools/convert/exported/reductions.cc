// SPDX-License-Identifier: Apache-2.0
// Sums, means, variances and extremes along dimensions, and running sums.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "convert/exported/dimension_rows.h"
#include "convert/exported/movement_rules.h"
#include "convert/exported/op_rules.h"

namespace arenite::convert {
namespace {

// reduce(row) of each row along the dimensions of "dim", of the type `type`.
template <typename Reduce>
Array reduced(const CallArguments& call, ElementType type, const Reduce& reduce) {
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
ElementType sum_type(const CallArguments& call) {
  const ElementType type = call.array("self").type();
  const bool is_whole = is_integer(type) || type == ElementType::kBool;
  return call.type("dtype").value_or(is_whole ? ElementType::kI64 : type);
}

void refuse_complex(const CallArguments& call) {
  if (is_complex(call.array("self").type())) call.refuse("complex numbers are not understood here");
}

template <double (*kReduce)(std::span<const double>)>
Results summing(const CallArguments& call, OpBudget&) {
  refuse_complex(call);
  return {reduced(call, sum_type(call), kReduce)};
}

template <double (*kReduce)(std::span<const double>)>
Results testing(const CallArguments& call, OpBudget&) {
  refuse_complex(call);
  return {reduced(call, ElementType::kBool, kReduce)};
}

template <double (*kReduce)(std::span<const double>)>
Results same_type(const CallArguments& call, OpBudget&) {
  refuse_complex(call);
  return {reduced(call, call.array("self").type(), kReduce)};
}

Results mean(const CallArguments& call, OpBudget&) {
  refuse_complex(call);
  return {reduced(call, call.type("dtype").value_or(call.array("self").type()), average)};
}

// To one number: the mean of the last dimension.
Results adaptive_avg_pool1d(const CallArguments& call, OpBudget& budget) {
  if (call.integers("output_size") != Shape{1}) call.refuse("it pools to more than one number");
  const OpCall whole = {"mean",
                        "dim",
                        {},
                        {{"self", call.array("self")}, {"dim", int64_t{-1}}, {"keepdim", true}},
                        {}};
  return mean(CallArguments(whole), budget);
}

double correction_of(const CallArguments& call) {
  if (call.has("unbiased")) return call.flag("unbiased", true) ? 1.0 : 0.0;
  return call.real("correction", 1.0);
}

Array spread(const CallArguments& call, bool is_deviation) {
  refuse_complex(call);
  const double correction = correction_of(call);
  return reduced(call, call.array("self").type(), [&](std::span<const double> row) {
    return is_deviation ? std::sqrt(variance(row, correction)) : variance(row, correction);
  });
}

Results var(const CallArguments& call, OpBudget&) { return {spread(call, false)}; }
Results std_of(const CallArguments& call, OpBudget&) { return {spread(call, true)}; }
Results var_mean(const CallArguments& call, OpBudget& budget) {
  return {spread(call, false), mean(call, budget)[0]};
}
Results std_mean(const CallArguments& call, OpBudget& budget) {
  return {spread(call, true), mean(call, budget)[0]};
}

Results logsumexp(const CallArguments& call, OpBudget&) {
  refuse_complex(call);
  return {reduced(call, call.array("self").type(), [](std::span<const double> row) {
    const double most = largest(row);
    if (std::isinf(most)) return most;
    double sum = 0.0;
    for (const double value : row) sum += std::exp(value - most);
    return most + std::log(sum);
  })};
}

Results norm(const CallArguments& call, OpBudget&) {
  refuse_complex(call);
  const double order = call.real(call.call().op == "norm" ? "p" : "ord", 2.0);
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

Array places(const CallArguments& call, bool is_largest) {
  return reduced(call, ElementType::kI64, [&](std::span<const double> row) {
    if (row.empty()) call.refuse("it looks for the largest of nothing");
    return static_cast<double>(place_of_extreme(row, is_largest));
  });
}

Results arg_extreme(const CallArguments& call, OpBudget&) {
  refuse_complex(call);
  return {places(call, call.call().op == "argmax")};
}

// max and min of all, along a dimension with the places, or of two tensors.
Results extreme(const CallArguments& call, OpBudget& budget) {
  refuse_complex(call);
  const bool is_largest = call.call().op == "max";
  if (call.has("other")) {
    OpCall pairs = call.call();
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
Results running(const CallArguments& call, const Function& function) {
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

Results cumsum(const CallArguments& call, OpBudget&) { return running(call, std::plus<>()); }
Results cumprod(const CallArguments& call, OpBudget&) { return running(call, std::multiplies<>()); }

// Differences of neighbours, n times.
Results diff(const CallArguments& call, OpBudget& budget) {
  Array array = call.array("self");
  const size_t dim = call.dimension("dim", -1, array.rank());
  const auto number = static_cast<int64_t>(dim);
  Argument::List joined;
  if (call.has("prepend")) joined.push_back(call.array("prepend"));
  joined.push_back(array);
  if (call.has("append")) joined.push_back(call.array("append"));
  const auto run = [&](const char* op, std::vector<NamedArgument> arguments) {
    const OpCall part{
        .op = op, .arguments = std::move(arguments), .stack_trace = call.call().stack_trace};
    return apply_for_array(part, budget);
  };
  if (joined.size() > 1) array = run("cat", {{"tensors", joined}, {"dim", number}});
  const int64_t times = std::min<int64_t>(call.integer("n", 1), array.shape()[dim]);
  for (int64_t i = 0; i < times; ++i) {
    const Array later = run("slice", {{"self", array}, {"dim", number}, {"start", int64_t{1}}});
    const Array sooner = run("slice", {{"self", array}, {"dim", number}, {"end", int64_t{-1}}});
    const char* op = array.type() == ElementType::kBool ? "logical_xor" : "sub";
    array = run(op, {{"self", later}, {"other", sooner}});
  }
  return {array};
}

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

std::vector<bool> named_dimensions(const CallArguments& call, const char* name, size_t rank) {
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
          {"adaptive_avg_pool1d", adaptive_avg_pool1d},
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
          {"cumprod", cumprod},
          {"diff", diff}};
}

}  // namespace arenite::convert
