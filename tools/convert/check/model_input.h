// SPDX-License-Identifier: Apache-2.0
// Arrays of a person's own that a model is to be fed.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "arenite/image.h"
#include "arenite/model.h"
#include "arenite/token.h"
#include "convert/files/npy.h"

namespace arenite::convert {

// Sequences of one length, back to back.
struct ModelInput {
  uint32_t sequences = 1;
  uint32_t tokens = 0;
  std::vector<TokenId> ids;     // of a model of tokens
  std::vector<float> features;  // of a model of features
};

// Reads [tokens] or [sequences, tokens] of whole numbers for a model of tokens, and one dimension
// more, of floats, for one of features. Throws InputError, which begins with `option`, for other
// types and shapes, ids beyond the vocabulary, and numbers that are not finite.
ModelInput read_model_input(const NpyArray& array, const Model& model, const std::string& option);

// How many images an array of this shape has: [channels, height, width] or [batch, ...], where an
// extent of 1 may be left out, as for series [channels, length]. 0: it is of another shape.
uint64_t images_of(std::span<const uint64_t> shape, const ImageShape& image);
std::string image_text(const ImageShape& image);  // its extents: "3, 224, 224"

// What the two throw.
[[noreturn]] void refuse_shape(const NpyArray& array, const std::string& option,
                               const std::string& expected);
std::vector<float> finite_values(const NpyArray& array, const std::string& option);

bool is_float(const NpyArray& array);

}  // namespace arenite::convert
