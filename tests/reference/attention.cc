// SPDX-License-Identifier: Apache-2.0
// Oracle of the attention op.
#include <algorithm>
#include <cmath>

#include "reference/reference.h"

namespace arenite::test {
namespace {

double terms_of(const ScoreRules& rules, uint32_t heads, uint32_t positions, uint32_t h, uint32_t i,
                uint32_t j) {
  double terms = 0.0;
  if (!rules.slopes.empty()) terms += double{rules.slopes[h]} * (static_cast<double>(j) - i);
  if (!rules.distances.empty()) {
    const size_t columns = rules.distances.size() / heads;
    terms += double{rules.distances[h * columns + columns / 2 + j - i]};
  }
  if (!rules.pairs.empty()) {
    const bool by_head = rules.pairs.size() != size_t{positions} * positions;
    terms += double{rules.pairs[((by_head ? h : 0) * size_t{positions} + i) * positions + j]};
  }
  return terms;
}

}  // namespace

std::vector<double> reference_attention(const AttentionShape& shape, const DenseMask& mask,
                                        std::span<const float> query, std::span<const float> key,
                                        std::span<const float> value, const ScoreRules& rules) {
  const auto [heads, kv_heads, head_dim, value_dim] = shape;
  const uint32_t tokens = static_cast<uint32_t>(value.size() / (kv_heads * value_dim));
  std::vector<double> output(size_t{tokens} * heads * value_dim, 0.0);
  std::vector<double> score(tokens);
  for (uint32_t h = 0; h < heads; ++h) {
    const uint32_t g = h / (heads / kv_heads);
    for (uint32_t i = 0; i < tokens; ++i) {
      const double sink = rules.sinks.empty() ? -INFINITY : double{rules.sinks[h]};
      double largest = sink;  // subtracted from all, which changes nothing but the range
      std::ranges::fill(score, -INFINITY);
      for (uint32_t j = 0; j < tokens; ++j) {
        if (!mask.sees(i, j)) continue;
        double product = 0.0;
        for (uint32_t d = 0; d < head_dim; ++d) {
          product += double{query[(size_t{i} * heads + h) * head_dim + d]} *
                     double{key[(size_t{j} * kv_heads + g) * head_dim + d]};
        }
        if (rules.cap != 0.0) product = rules.cap * std::tanh(product / rules.cap);
        score[j] =
            double{mask.bias_of(i, j)} + product + terms_of(rules, heads, mask.positions, h, i, j);
        largest = std::max(largest, score[j]);
      }
      double sum = std::exp(sink - largest);
      for (double& each : score) sum += each = std::exp(each - largest);
      double* const row = output.data() + (size_t{i} * heads + h) * value_dim;
      for (uint32_t j = 0; j < tokens; ++j) {
        const double weight = score[j] / sum;
        if (weight == 0) continue;
        const float* const values = value.data() + (size_t{j} * kv_heads + g) * value_dim;
        for (uint32_t c = 0; c < value_dim; ++c) row[c] += weight * double{values[c]};
      }
    }
  }
  return output;
}

}  // namespace arenite::test
