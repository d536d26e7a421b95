// SPDX-License-Identifier: Apache-2.0
// Models whose input is images, as vision transformers: what an image is, and how it is fed.
#pragma once

#include <cstddef>
#include <cstdint>

#include "arenite/model.h"

namespace arenite {

// Each image is a sequence, whose tokens are its pixels, line by line, and the channels of a pixel
// are its features: so Batch::features is dense [images, height, width, channels], as cameras give
// them, and Batch::tokens is tokens(). A series [length, channels] has the height 1.
struct ImageShape {
  uint32_t channels = 0;  // 0: the input is no image
  uint32_t height = 0;
  uint32_t width = 0;

  constexpr uint32_t tokens() const { return height * width; }
};

// Of an input of a loaded model. InputInfo::features is then `channels`, and positions_max
// tokens().
ImageShape image_shape(const Model& model, uint32_t input = 0);

}  // namespace arenite
