// SPDX-License-Identifier: Apache-2.0
// Describes the images that a vision model takes, and how to feed them:
//
//     const ImageShape shape = image_shape(model);
//     session->run({.features = pixels, .tokens = shape.tokens()});
//
#pragma once

#include <cstddef>
#include <cstdint>

#include "arenite/model.h"

namespace arenite {

// Each image is a sequence. Its pixels are the tokens, line by line, and the channels of a pixel
// are its features: Batch::features is dense [images, height, width, channels], the order of
// cameras, and Batch::tokens is tokens(). A series [length, channels] has height 1.
struct ImageShape {
  uint32_t channels = 0;  // 0: the input is not an image
  uint32_t height = 0;    // in pixels
  uint32_t width = 0;     // in pixels

  // Returns the pixels of an image, which are the tokens of a sequence.
  constexpr uint32_t tokens() const { return height * width; }
};

// Returns the shape of the images of one input. InputInfo::features is then `channels`, and
// positions_max is tokens(). All zero if the input is no image. REQUIRES: input < model.inputs().
ImageShape image_shape(const Model& model, uint32_t input = 0);

}  // namespace arenite
