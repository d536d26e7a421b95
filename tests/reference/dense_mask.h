// SPDX-License-Identifier: Apache-2.0
// A dense mask: one entry for each query and key.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace arenite::test {

struct DenseMask {
  uint32_t positions = 0;
  std::vector<uint8_t> visible;  // [positions, positions]; query by key; 0 or 1
  std::vector<float> bias;       // as visible, added to the scores; or empty

  explicit DenseMask(uint32_t positions_in)
      : positions(positions_in), visible(size_t{positions_in} * positions_in) {}

  size_t index(uint32_t query, uint32_t key) const { return size_t{query} * positions + key; }
  bool sees(uint32_t query, uint32_t key) const { return visible[index(query, key)] != 0; }
  float bias_of(uint32_t query, uint32_t key) const {
    return bias.empty() ? 0.0f : bias[index(query, key)];
  }
};

}  // namespace arenite::test
