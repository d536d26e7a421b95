// SPDX-License-Identifier: Apache-2.0
// Models whose input is images, as vision transformers: what an image is, and how it is fed.
#pragma once

#include <cstddef>
#include <cstdint>

#include "arenite/model.h"

namespace arenite {

// An image is float32 [channels, height, width], as PyTorch has it, and each is a sequence: its
// patches are the tokens, row by row from the left. A series [channels, length] has the height 1.
// Pixels beyond the last whole patch of a row or a column are not read.
//
// Batch::features is dense [sequences, channels, height, width], Batch::tokens is 0 or `patches`,
// and there are no lengths and no mask. As with features, all is read when a call begins. Images
// do not lie in the session's arena.
struct ImageShape {
  uint32_t channels = 0;  // 0: the input is no image
  uint32_t height = 0;
  uint32_t width = 0;
  uint32_t patch_height = 0;
  uint32_t patch_width = 0;
  uint32_t patches = 0;  // Model::positions_max()

  constexpr size_t pixels() const { return size_t{channels} * height * width; }
};

// Of a loaded model. Model::input_features() is then the width of a patch.
ImageShape image_shape(const Model& model);

}  // namespace arenite
