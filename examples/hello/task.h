// SPDX-License-Identifier: Apache-2.0
// The task of models/recall: the model is told values of keys and, when asked for a key, answers
// with its latest value. Keys and values are numbers from 0 to 7.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

constexpr uint32_t kPositions = 32;  // tokens in a sequence, at most
constexpr uint32_t kAsk = 8;         // in place of a value: which one has this key?

struct Token {
  uint32_t key, value;
};

// The first example of models/recall/config.json.
constexpr Token kTokens[] = {
    {6, 0},    {2, 0},    {0, 6}, {2, 6},    {3, 3},    {3, kAsk}, {3, 2}, {0, 3},
    {2, 4},    {2, kAsk}, {6, 4}, {0, kAsk}, {6, kAsk}, {3, kAsk}, {7, 3}, {0, 7},
    {2, kAsk}, {3, kAsk}, {1, 0}, {5, 4},    {3, kAsk}, {4, 4},    {2, 1}, {2, kAsk},
    {5, 4},    {3, 7},    {5, 4}, {2, kAsk}, {7, 0},    {3, 5},    {1, 7}, {7, kAsk},
};

// Columns 0-7: the key; 8-15: the value; 16: asked; 17: the position.
inline std::array<float, 18> features_of(const Token& token, uint32_t position) {
  std::array<float, 18> features = {};
  features[token.key] = 1.0f;
  features[8 + token.value] = 1.0f;
  features[17] = static_cast<float>(position) / kPositions;
  return features;
}

// The output to a question is near to 1 in the column of the answer, and near to 0 elsewhere.
inline uint32_t answer_of(std::span<const float> output) {
  const auto values = output.subspan(8, 8);
  return static_cast<uint32_t>(std::max_element(values.begin(), values.end()) - values.begin());
}
