// SPDX-License-Identifier: Apache-2.0
// An attention mask written out, as the converter reads it and checks against.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace arenite::convert {

// [positions, positions]: may query row see key column?
struct DenseMask {
  uint32_t positions = 0;
  std::vector<bool> visible;

  DenseMask() = default;
  explicit DenseMask(uint32_t positions_in)
      : positions(positions_in), visible(size_t{positions_in} * positions_in) {}

  bool at(uint32_t query, uint32_t key) const { return visible[size_t{query} * positions + key]; }
  void set(uint32_t query, uint32_t key, bool value) {
    visible[size_t{query} * positions + key] = value;
  }

  friend bool operator==(const DenseMask&, const DenseMask&) = default;
};

}  // namespace arenite::convert
