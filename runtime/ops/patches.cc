// SPDX-License-Identifier: Apache-2.0
#include "ops/patches.h"

#include <cstring>

namespace arenite {

void cut_patches(const ImagePatches& patches, const float* images, const StepRows& rows,
                 const Matrix& output) {
  const size_t pixels = size_t{patches.channels} * patches.height * patches.width;
  const size_t count = size_t{patches.height / patches.patch_height} * patches.columns();
  for (uint32_t row = 0; row < output.rows; ++row) {
    const RowPlace place = place_of_row(rows, row);
    float* to = output.row(row);
    if (place.is_prefix()) {
      std::memset(to, 0, output.columns * sizeof(float));
      continue;
    }
    const size_t patch = place.token % count;
    const size_t top = patch / patches.columns() * patches.patch_height;
    const size_t left = patch % patches.columns() * patches.patch_width;
    const float* const image = images + place.token / count * pixels;
    for (size_t c = 0; c < patches.channels; ++c) {
      for (size_t y = 0; y < patches.patch_height; ++y) {
        const size_t line = c * patches.height + top + y;
        std::memcpy(to, image + line * patches.width + left, patches.patch_width * sizeof(float));
        to += patches.patch_width;
      }
    }
  }
}

}  // namespace arenite
