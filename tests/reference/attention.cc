// SPDX-License-Identifier: Apache-2.0
// Oracle of the attention op.
#include <algorithm>
#include <cmath>

#include "reference/reference.h"

namespace arenite::test {

std::vector<double> reference_attention(const AttentionShape& shape, const DenseMask& mask,
                                        std::span<const float> query, std::span<const float> key,
                                        std::span<const float> value,
                                        std::span<const float> slopes) {
  const auto [heads, kv_heads, head_dim, value_dim] = shape;
  const uint32_t tokens = static_cast<uint32_t>(value.size() / (kv_heads * value_dim));
  std::vector<double> output(size_t{tokens} * heads * value_dim, 0.0);
  std::vector<double> score(tokens);
  for (uint32_t h = 0; h < heads; ++h) {
    const uint32_t g = h / (heads / kv_heads);
    for (uint32_t i = 0; i < tokens; ++i) {
      double largest = -INFINITY;  // subtracted from all, which changes nothing but the range
      for (uint32_t j = 0; j < tokens; ++j) {
        score[j] = mask.sees(i, j) ? double{mask.bias_of(i, j)} : -INFINITY;
        for (uint32_t d = 0; d < head_dim && mask.sees(i, j); ++d) {
          score[j] += double{query[(size_t{i} * heads + h) * head_dim + d]} *
                      double{key[(size_t{j} * kv_heads + g) * head_dim + d]};
        }
        if (!slopes.empty()) score[j] += double{slopes[h]} * (static_cast<double>(j) - i);
        largest = std::max(largest, score[j]);
      }
      double sum = 0;
      for (uint32_t j = 0; j < tokens; ++j) sum += std::exp(score[j] - largest);
      double* const row = output.data() + (size_t{i} * heads + h) * value_dim;
      for (uint32_t j = 0; j < tokens; ++j) {
        const double weight = std::exp(score[j] - largest) / sum;
        if (weight == 0) continue;
        const float* const values = value.data() + (size_t{j} * kv_heads + g) * value_dim;
        for (uint32_t c = 0; c < value_dim; ++c) row[c] += weight * double{values[c]};
      }
    }
  }
  return output;
}

}  // namespace arenite::test
