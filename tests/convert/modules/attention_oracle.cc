// SPDX-License-Identifier: Apache-2.0
// Each loop stands for one symbol of the formula.
#include "convert/modules/attention_oracle.h"

#include <algorithm>
#include <cmath>

namespace arenite::test {
namespace {

using Matrix = std::vector<std::vector<double>>;  // [rows][columns]

Matrix project(const OracleLinear& linear, const Matrix& input, uint32_t column) {
  Matrix output;
  for (const std::vector<double>& row : input) {
    std::vector<double> projected;
    for (uint32_t o = 0; o < linear.outputs; ++o) {
      double sum = linear.bias.empty() ? 0.0 : linear.bias[o];
      for (uint32_t i = 0; i < linear.inputs; ++i) {
        sum += row[column + i] * linear.weights[size_t{o} * linear.inputs + i];
      }
      projected.push_back(sum);
    }
    output.push_back(projected);
  }
  return output;
}

std::vector<double> softmax_row(const AttentionOracle& module, const Matrix& query,
                                const Matrix& key, uint32_t head, uint32_t row) {
  const uint32_t width = module.query.outputs / module.heads;
  std::vector<double> weights(key.size(), 0.0);
  double sum = 0.0;
  for (uint32_t k = 0; k < key.size(); ++k) {
    if (!module.sees(head, row, k)) continue;
    double score = 0.0;
    for (uint32_t d = head * width; d < (head + 1) * width; ++d) score += query[row][d] * key[k][d];
    weights[k] = std::exp(score / std::sqrt(static_cast<double>(width)));
    sum += weights[k];
  }
  for (double& weight : weights) weight /= sum;
  return weights;
}

}  // namespace

OracleLinear oracle_linear(const CheckpointBuilder& weights, const std::string& name,
                           uint32_t outputs, uint32_t inputs, bool bias, uint32_t begin) {
  const auto part = [](const std::vector<double>& values, size_t from, size_t count) {
    const auto start = values.begin() + static_cast<ptrdiff_t>(from);
    return std::vector<double>(start, start + static_cast<ptrdiff_t>(count));
  };
  OracleLinear linear{outputs, inputs, {}, {}};
  linear.weights =
      part(weights.values(name + ".weight"), size_t{begin} * inputs, size_t{outputs} * inputs);
  if (bias) linear.bias = part(weights.values(name + ".bias"), begin, outputs);
  return linear;
}

uint32_t AttentionOracle::features() const {
  return separate_inputs ? query.inputs + key.inputs + value.inputs : query.inputs;
}

std::vector<double> AttentionOracle::run(std::span<const float> input, uint32_t tokens) const {
  Matrix x;
  for (uint32_t t = 0; t < tokens; ++t) {
    const auto row = input.subspan(size_t{t} * features(), features());
    x.emplace_back(row.begin(), row.end());
  }
  const Matrix q = project(query, x, 0);
  const Matrix k = project(key, x, separate_inputs ? query.inputs : 0);
  const Matrix v = project(value, x, separate_inputs ? query.inputs + key.inputs : 0);
  const uint32_t value_dim = value.outputs / heads;
  Matrix context(tokens, std::vector<double>(value.outputs, 0.0));
  for (uint32_t row = 0; row < tokens; ++row) {
    for (uint32_t column = 0; column < value.outputs; ++column) {
      const std::vector<double> weights = softmax_row(*this, q, k, column / value_dim, row);
      for (uint32_t t = 0; t < tokens; ++t) context[row][column] += weights[t] * v[t][column];
    }
  }
  if (output) context = project(*output, context, 0);
  std::vector<double> flat;
  for (const std::vector<double>& row : context) flat.insert(flat.end(), row.begin(), row.end());
  return flat;
}

}  // namespace arenite::test
