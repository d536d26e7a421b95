// SPDX-License-Identifier: Apache-2.0
// The oracles of the ops: plain loops in double precision that follow the formula.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reference/dense_mask.h"

namespace arenite::test {

// output[t][n] = bias[n] + sum over k of input[t][k] * weights[n][k]
//
// input [tokens, inputs], weights [outputs, inputs], bias [outputs] -> [tokens, outputs]
std::vector<double> reference_linear(std::span<const float> input, std::span<const float> weights,
                                     std::span<const float> bias, uint32_t inputs);

struct AxisOfReference {
  int64_t length, kernel, stride, dilation, before, after;
};
struct WindowsOfReference {
  AxisOfReference lines, columns;
};

// Gathers the windows of an image [lines, columns, channels], with zeros outside it, as [windows,
// lines.kernel, columns.kernel, channels].
std::vector<double> reference_windows(const WindowsOfReference& windows,
                                      std::span<const float> input, uint32_t channels);

// output[w][n] = bias[n] + sum over y, x, c of window[w][y][x][c] * weights[n][y][x][c]
std::vector<double> reference_convolution(const WindowsOfReference& windows,
                                          std::span<const float> input, uint32_t channels,
                                          std::span<const float> weights,
                                          std::span<const float> bias);

// output[w][c] = bias[c] + sum over y, x of window[w][y][x][c] * weights[y][x][c]
std::vector<double> reference_depthwise(const WindowsOfReference& windows,
                                        std::span<const float> input,
                                        std::span<const float> weights,
                                        std::span<const float> bias);

struct AttentionShape {
  uint32_t heads = 1;
  uint32_t kv_heads = 1;  // divides heads; each serves heads / kv_heads neighbouring heads
  uint32_t head_dim = 0;  // 0: the scores are the mask's alone
  uint32_t value_dim = 1;
};

// Changes of the scores before the mask: a cap, 0 for none, and biases, each optional.
struct ScoreRules {
  double cap = 0.0;
  std::span<const float> slopes{};     // [heads], times the distance
  std::span<const float> distances{};  // [heads, 2 * positions - 1], distance 0 in the middle
  std::span<const float> pairs{};      // [heads, positions, positions], or without the heads
  std::span<const float> sinks{};      // [heads]: scores of no key
};

// For each head h, with g = h / (heads / kv_heads):
//   score[i][j]  = sum over d of query[i][h][d] * key[j][g][d] + bias[i][j]   where i sees j
//                  (a sum of products s with a cap is cap * tanh(s / cap))
//                  (+ slopes[h] * (j - i) + distances[h][j - i] + pairs[h][i][j])
//   weight[i][j] = exp(score[i][j]) / (sum over visible j of exp(score[i][j]) (+ exp(sinks[h])))
//   output[i][h] = sum over visible j of weight[i][j] * value[j][g]
//
// query [tokens, heads, head_dim], scaled; key [tokens, kv_heads, head_dim];
// value [tokens, kv_heads, value_dim] -> [tokens, heads, value_dim].
// REQUIRES: mask.positions >= tokens, and without sinks each query sees a key.
std::vector<double> reference_attention(const AttentionShape& shape, const DenseMask& mask,
                                        std::span<const float> query, std::span<const float> key,
                                        std::span<const float> value, const ScoreRules& rules = {});

}  // namespace arenite::test
