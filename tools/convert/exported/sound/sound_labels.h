// SPDX-License-Identifier: Apache-2.0
// Labels of elements computed from frames: 1 + (frame << 20) + index of the kernel, bin, band or
// coefficient. Labels are exact as doubles.
//
//   label_of(3, 7)  ->  1 + 3 * 2^20 + 7;  frame_of  ->  3, place_of  ->  7
#pragma once

#include <cstdint>

namespace arenite::convert {

inline constexpr int kPlaceBits = 20;

constexpr double label_of(int64_t frame, int64_t place) {
  return static_cast<double>(1 + ((frame << kPlaceBits) | place));
}
constexpr int64_t frame_of(double label) { return (static_cast<int64_t>(label) - 1) >> kPlaceBits; }
constexpr int64_t place_of(double label) {
  return (static_cast<int64_t>(label) - 1) & ((int64_t{1} << kPlaceBits) - 1);
}

}  // namespace arenite::convert
