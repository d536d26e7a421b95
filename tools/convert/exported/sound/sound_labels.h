// SPDX-License-Identifier: Apache-2.0
// Labels of what is made of frames: 1 + (frame << 20) + the place of a kernel, bin, band or
// coefficient. As doubles they are exact.
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
