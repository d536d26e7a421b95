// SPDX-License-Identifier: Apache-2.0
#include "convert/program/check_inputs.h"

#include <algorithm>

namespace arenite::convert {
namespace {

constexpr uint64_t kTokens = 48;  // odd in no tile
constexpr uint64_t kTokensMin = 2;
constexpr uint64_t kProductsMax = 2'000'000'000;  // of a weight and an activation

uint64_t next(uint64_t state) { return state * 6364136223846793005u + 1442695040888963407u; }

}  // namespace

// Sums of uniforms.
std::vector<float> features_to_check(size_t count) {
  std::vector<float> features(count);
  uint64_t state = 0x9E3779B97F4A7C15u;
  for (float& feature : features) {
    double sum = -6.0;
    for (int i = 0; i < 12; ++i) {
      state = next(state);
      sum += static_cast<double>(state >> 40) / static_cast<double>(1u << 24);
    }
    feature = static_cast<float>(sum);
  }
  return features;
}

uint32_t token_count_for(uint32_t wanted, uint32_t positions_max,
                         const std::vector<CompiledMask>& masks) {
  uint32_t tokens = positions_max == 0 ? wanted : std::min(wanted, positions_max);
  for (uint32_t before = 0; before != tokens;) {
    before = tokens;
    for (const CompiledMask& mask : masks) {
      const size_t rows = std::min<size_t>(tokens, mask.row_begin.size());
      for (size_t row = 0; row < rows; ++row) tokens = std::max(tokens, mask.row_begin[row] + 1);
    }
  }
  return tokens;
}

std::vector<uint8_t> types_to_check(uint32_t count, uint32_t token_types) {
  std::vector<uint8_t> types;
  for (uint32_t i = 0; i < count && token_types != 0; ++i) {
    types.push_back(token_types > 1 && i >= count / 2 ? 1 : 0);
  }
  return types;
}

uint32_t token_count_to_check(const Program& program) {
  uint64_t weights = 0;
  for (const ProgramTensor& tensor : program.tensors) {
    if (tensor.layout == format::Layout::kGemm) weights += uint64_t{tensor.outputs} * tensor.inputs;
  }
  const uint64_t affordable = kProductsMax / std::max<uint64_t>(1, weights);
  const uint64_t count = std::clamp(affordable, kTokensMin, kTokens);
  return token_count_for(static_cast<uint32_t>(count), program.positions_max, program.masks);
}

std::vector<TokenId> spread_tokens(uint32_t count, uint32_t vocab_size) {
  std::vector<TokenId> tokens(count);
  uint64_t state = 1;
  for (TokenId& token : tokens) {
    state = next(state);
    token = static_cast<TokenId>((state >> 33) % vocab_size);
  }
  return tokens;
}

}  // namespace arenite::convert
