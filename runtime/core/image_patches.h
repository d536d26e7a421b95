// SPDX-License-Identifier: Apache-2.0
// How an image is cut into patches, which are the tokens of a model.
#pragma once

#include <cstdint>

#include "arenite/checked_math.h"

namespace arenite {

// An image float32 [channels, height, width]. Its patches are as many as fit, row by row, from the
// left; each is a row of patch_width() numbers, [channels, patch_height, patch_width].
struct ImagePatches {
  uint32_t channels = 0;
  uint32_t height = 0;
  uint32_t width = 0;
  uint32_t patch_height = 0;
  uint32_t patch_width = 0;

  // REQUIRES (of all but pixels): no extent is 0.
  constexpr uint32_t columns() const { return width / patch_width; }  // of patches
  constexpr Checked patches() const { return Checked(height / patch_height) * columns(); }
  constexpr Checked row_width() const { return Checked(channels) * patch_height * patch_width; }
  constexpr Checked pixels() const { return Checked(channels) * height * width; }

  friend constexpr bool operator==(const ImagePatches&, const ImagePatches&) = default;
};

}  // namespace arenite
