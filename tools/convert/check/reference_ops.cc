// SPDX-License-Identifier: Apache-2.0
// Plain loops.
#include "convert/check/reference_ops.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace arenite::convert::reference {
namespace {

// One query row and head, added to `output` [head_dim].
void attend(const Qkv& qkv, const HeadCounts& counts, KeyRange seen, size_t row, size_t head,
            double* output) {
  const size_t head_dim = counts.head_dim;
  const size_t kv_width = counts.kv_heads * head_dim;
  const size_t kv_column = head / (counts.heads / counts.kv_heads) * head_dim;
  const double* query = qkv.query.data() + (row * counts.heads + head) * head_dim;
  const double scale = counts.score_scale.value_or(1.0 / std::sqrt(static_cast<double>(head_dim)));
  std::vector<double> weights;
  for (size_t k = seen.begin; k < seen.end; ++k) {
    double score = 0.0;
    for (size_t d = 0; d < head_dim; ++d) {
      score += query[d] * qkv.key[k * kv_width + kv_column + d];
    }
    weights.push_back(score * scale);
  }
  const double max = *std::max_element(weights.begin(), weights.end());
  double sum = 0.0;
  for (double& weight : weights) sum += weight = std::exp(weight - max);
  for (size_t k = seen.begin; k < seen.end; ++k) {
    for (size_t d = 0; d < head_dim; ++d) {
      output[d] += weights[k - seen.begin] / sum * qkv.value[k * kv_width + kv_column + d];
    }
  }
}

}  // namespace

Rows linear(const LinearSpec& spec, const Rows& x) {
  const std::vector<float> weight = spec.weight.load();
  const size_t outputs = spec.weight.rows;
  const size_t inputs = spec.weight.columns;
  const size_t tokens = x.size() / inputs;
  Rows y(tokens * outputs);
  for (size_t o = 0; o < outputs; ++o) {
    const float* row = weight.data() + o * inputs;
    for (size_t t = 0; t < tokens; ++t) {
      double sum = spec.bias.empty() ? 0.0 : spec.bias[o];
      for (size_t i = 0; i < inputs; ++i) sum += x[t * inputs + i] * row[i];
      y[t * outputs + o] = sum;
    }
  }
  return y;
}

Rows norm(const NormSpec& spec, Rows x) {
  const size_t width = spec.gain.size();
  for (size_t start = 0; start < x.size(); start += width) {
    double* row = x.data() + start;
    double mean = 0.0;
    if (spec.kind == NormKind::kLayer) {
      for (size_t i = 0; i < width; ++i) mean += row[i] / static_cast<double>(width);
    }
    double variance = 0.0;
    for (size_t i = 0; i < width; ++i) {
      variance += (row[i] - mean) * (row[i] - mean) / static_cast<double>(width);
    }
    const double scale = 1.0 / std::sqrt(variance + spec.epsilon);
    for (size_t i = 0; i < width; ++i) {
      const double gain = spec.gain_plus_one ? 1.0 + spec.gain[i] : spec.gain[i];
      row[i] = (row[i] - mean) * scale * gain + (spec.bias.empty() ? 0.0 : spec.bias[i]);
    }
  }
  return x;
}

double activate(Activation activation, double x, double parameter) {
  switch (activation) {
    case Activation::kGeluErf:
      return 0.5 * x * (1.0 + std::erf(x / std::numbers::sqrt2));
    case Activation::kGeluTanh:
      return 0.5 * x *
             (1.0 + std::tanh(std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
    case Activation::kSilu:
      return x / (1.0 + std::exp(-x));
    case Activation::kRelu:
      return std::max(x, 0.0);
    case Activation::kTanh:
      return std::tanh(x);
    case Activation::kSigmoid:
      return 1.0 / (1.0 + std::exp(-x));
    case Activation::kSoftCap:
      return parameter * std::tanh(x / parameter);
    case Activation::kScale:
      return parameter * x;
  }
  return x;
}

void add(Rows& x, const Rows& y) {
  for (size_t i = 0; i < x.size(); ++i) x[i] += y[i];
}

Rows attention(const Qkv& qkv, const HeadCounts& counts,
               const std::function<KeyRange(size_t row)>& seen_by) {
  const size_t width = counts.heads * counts.head_dim;
  Rows context(qkv.query.size(), 0.0);
  for (size_t row = 0; row < qkv.query.size() / width; ++row) {
    for (size_t head = 0; head < counts.heads; ++head) {
      attend(qkv, counts, seen_by(row), row, head,
             context.data() + row * width + head * counts.head_dim);
    }
  }
  return context;
}

}  // namespace arenite::convert::reference
