// SPDX-License-Identifier: Apache-2.0
// Softmax and the norms of rows, of groups and of channels.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "convert/exported/dimension_rows.h"
#include "convert/exported/op_rules.h"

namespace arenite::convert {
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
Results softmax(const CallArguments& call, OpBudget&) {
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
Array::Reals affine(const CallArguments& call, const char* name, size_t count) {
  const Array* array = call.optional_array(name);
  if (array == nullptr) return {};
  if (array->elements() != count) {
    call.refuse("its {} is {}: expected {} numbers", name, shape_text(array->shape()), count);
  }
  return array->to_reals();
}

// The elements of a row of layer_norm and rms_norm: those of the dimensions that it normalizes.
size_t row_of_norm(const CallArguments& call, const Array& input) {
  const Shape normalized = call.integers("normalized_shape");
  if (normalized.size() > input.rank() ||
      !std::equal(normalized.rbegin(), normalized.rend(), input.shape().rbegin())) {
    call.refuse("it normalizes {} of a tensor {}", shape_text(normalized),
                shape_text(input.shape()));
  }
  return elements_of(normalized);
}

Array column(const Array& input, size_t normalized, std::vector<double> values) {
  Shape shape = input.shape();
  std::fill(shape.end() - static_cast<ptrdiff_t>(normalized), shape.end(), 1);
  return Array::real(std::move(shape), std::move(values), input.type());
}

struct Moments {
  double mean;
  double rstd;  // 1 / the deviation
};

// Takes the mean off a row and divides it by its deviation.
Moments standardize(std::span<double> row, double epsilon) {
  const auto count = static_cast<double>(row.size());
  const double mean = std::accumulate(row.begin(), row.end(), 0.0) / count;
  double squares = 0.0;
  for (const double x : row) squares += (x - mean) * (x - mean);
  const double rstd = 1.0 / std::sqrt(squares / count + epsilon);
  for (double& x : row) x = (x - mean) * rstd;
  return {mean, rstd};
}

// The result, the mean of each row, and 1 / its deviation.
Results native_layer_norm(const CallArguments& call, OpBudget&) {
  const Array& input = call.array("input");
  const size_t count = row_of_norm(call, input);
  const Array::Reals gain = affine(call, "weight", count), bias = affine(call, "bias", count);
  const double epsilon = call.real("eps", 1e-5);
  std::vector<double> values = input.to_reals(), means, rstds;
  for (size_t first = 0; first < values.size(); first += count) {
    double* row = values.data() + first;
    const auto [mean, rstd] = standardize({row, count}, epsilon);
    for (size_t i = 0; i < count; ++i) {
      row[i] = row[i] * (gain.empty() ? 1.0 : gain[i]) + (bias.empty() ? 0.0 : bias[i]);
    }
    means.push_back(mean);
    rstds.push_back(rstd);
  }
  const size_t normalized = call.integers("normalized_shape").size();
  return {Array::real(input.shape(), std::move(values), input.type()),
          column(input, normalized, std::move(means)), column(input, normalized, std::move(rstds))};
}

Results layer_norm(const CallArguments& call, OpBudget& budget) {
  return {native_layer_norm(call, budget)[0]};
}

// The result, and 1 / the root of each row's mean square.
Results fused_rms_norm(const CallArguments& call, OpBudget&) {
  const Array& input = call.array("input");
  const size_t count = row_of_norm(call, input);
  const Array::Reals gain = affine(call, "weight", count);
  const double default_epsilon = input.type() == ElementType::kF64
                                     ? std::numeric_limits<double>::epsilon()
                                     : std::numeric_limits<float>::epsilon();
  const double epsilon = call.real("eps", default_epsilon);
  std::vector<double> values = input.to_reals(), rstds;
  for (size_t first = 0; first < values.size(); first += count) {
    double* row = values.data() + first;
    double squares = 0.0;
    for (size_t i = 0; i < count; ++i) squares += row[i] * row[i];
    const double rstd = 1.0 / std::sqrt(squares / static_cast<double>(count) + epsilon);
    for (size_t i = 0; i < count; ++i) row[i] *= rstd * (gain.empty() ? 1.0 : gain[i]);
    rstds.push_back(rstd);
  }
  const size_t normalized = call.integers("normalized_shape").size();
  return {Array::real(input.shape(), std::move(values), input.type()),
          column(input, normalized, std::move(rstds))};
}

Results rms_norm(const CallArguments& call, OpBudget& budget) {
  return {fused_rms_norm(call, budget)[0]};
}

Results group_norm(const CallArguments& call, OpBudget&) {
  const Array& input = call.array("input");
  const int64_t groups = call.integer("num_groups");
  if (input.rank() < 2 || groups < 1 || input.shape()[1] % groups != 0 || input.shape()[1] == 0) {
    call.refuse("{} groups do not divide {}", groups, shape_text(input.shape()));
  }
  const auto channels = static_cast<size_t>(input.shape()[1]);
  const Around parts = around(input.shape(), 1);
  const Array::Reals gain = affine(call, "weight", channels), bias = affine(call, "bias", channels);
  const double epsilon = call.real("eps", 1e-5);
  const size_t group_channels = channels / static_cast<size_t>(groups);
  const size_t count = group_channels * parts.inner;
  std::vector<double> values = input.to_reals();
  for (size_t first = 0; first + count <= values.size() && count > 0; first += count) {
    double* row = values.data() + first;
    standardize({row, count}, epsilon);
    for (size_t i = 0; i < count; ++i) {
      const size_t channel = (first + i) / parts.inner % channels;
      row[i] = row[i] * (gain.empty() ? 1.0 : gain[channel]) + (bias.empty() ? 0.0 : bias[channel]);
    }
  }
  return {Array::real(input.shape(), std::move(values), input.type())};
}

// With the statistics of training; those of the batch would be training itself.
Results batch_norm(const CallArguments& call, OpBudget&) {
  const Array& input = call.array("input");
  if (call.flag("training", false) || !call.has("running_mean")) {
    call.refuse(
        "it takes the statistics of the batch: call model.eval() before torch.export.export");
  }
  if (input.rank() < 2) call.refuse("its input has no channels");
  const auto channels = static_cast<size_t>(input.shape()[1]);
  const Around parts = around(input.shape(), 1);
  const Array::Reals gain = affine(call, "weight", channels), bias = affine(call, "bias", channels);
  const Array::Reals means = affine(call, "running_mean", channels);
  const Array::Reals variances = affine(call, "running_var", channels);
  if (variances.empty()) call.refuse("its running_var is missing");
  const double epsilon = call.real("eps", 1e-5);
  std::vector<double> values = input.to_reals();
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t channel = i / parts.inner % channels;
    values[i] = (values[i] - means[channel]) / std::sqrt(variances[channel] + epsilon) *
                    (gain.empty() ? 1.0 : gain[channel]) +
                (bias.empty() ? 0.0 : bias[channel]);
  }
  return {Array::real(input.shape(), std::move(values), input.type())};
}

// v g / |v|, where lengths are those of all but one dimension.
Results weight_norm(const CallArguments& call, OpBudget&) {
  const Array& v = call.array("v");
  const Array::Reals g = call.array("g").to_reals();
  const size_t dim = call.dimension("dim", 0, v.rank());
  const auto extent = static_cast<size_t>(v.shape()[dim]);
  if (g.size() != extent) call.refuse("it has {} lengths: expected {}", g.size(), extent);
  const Around parts = around(v.shape(), dim);
  std::vector<double> values = v.to_reals(), squares(extent, 0.0);
  const auto place = [&](size_t i) { return i / parts.inner % extent; };
  for (size_t i = 0; i < values.size(); ++i) squares[place(i)] += values[i] * values[i];
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] *= g[place(i)] / std::sqrt(squares[place(i)]);
  }
  return {Array::real(v.shape(), std::move(values), v.type())};
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
  return {{"layer_norm", layer_norm},   {"native_layer_norm", native_layer_norm},
          {"rms_norm", rms_norm},       {"_fused_rms_norm", fused_rms_norm},
          {"group_norm", group_norm},   {"batch_norm", batch_norm},
          {"_weight_norm", weight_norm}};
}

}  // namespace arenite::convert
