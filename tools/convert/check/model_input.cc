// SPDX-License-Identifier: Apache-2.0
// Types come first, then shapes, then values: a message is about the first that is wrong.
#include "convert/check/model_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "arenite/image.h"
#include "convert/files/error.h"

namespace arenite::convert {
namespace {

constexpr uint64_t kTokensMax = 1u << 24;  // of all sequences

void read_ids(const NpyArray& array, uint32_t vocab_size, const std::string& option,
              ModelInput& input) {
  for (const int64_t id : array.to_i64()) {
    if (id < 0 || id >= vocab_size) {
      throw InputError("{}: {} has the id {}: expected ids from 0 to {}, the vocabulary's", option,
                       quote(array.name()), id, vocab_size - 1);
    }
    input.ids.push_back(static_cast<TokenId>(id));
  }
}

ModelInput read_images(const NpyArray& array, const ImageShape& image, const std::string& option) {
  const uint64_t images = images_of(array.shape(), image);
  if (images == 0 || images > kTokensMax / image.patches) {
    refuse_shape(array, option, fmt::format("[{0}] or [batch, {0}]", image_text(image)));
  }
  ModelInput input;
  input.sequences = static_cast<uint32_t>(images);
  input.tokens = image.patches;
  input.features = finite_values(array, option);
  return input;
}

}  // namespace

bool is_float(const NpyArray& array) {
  return array.dtype() == DType::kF32 || array.dtype() == DType::kF64;
}

void refuse_shape(const NpyArray& array, const std::string& option, const std::string& expected) {
  throw InputError("{}: {} has shape [{}]: expected {}", option, quote(array.name()),
                   fmt::join(array.shape(), ", "), expected);
}

std::vector<float> finite_values(const NpyArray& array, const std::string& option) {
  std::vector<float> values = array.to_f32();
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::isfinite(values[i])) continue;
    throw InputError("{}: {} has the value {} at index {}: expected finite numbers", option,
                     quote(array.name()), values[i], i);
  }
  return values;
}

uint64_t images_of(std::span<const uint64_t> shape, const ImageShape& image) {
  // Whether the extents are those of the image, or parts of them.
  const auto are_of_image = [&](std::span<const uint64_t> extents) {
    size_t next = 0;
    for (const uint64_t whole : {image.channels, image.height, image.width}) {
      uint64_t found = 1;
      while (next < extents.size() && found < whole) {
        if (extents[next] == 0 || whole % extents[next] != 0) return false;
        found *= extents[next++];
      }
      if (found != whole) return false;
    }
    return std::ranges::all_of(extents.subspan(next), [](uint64_t extent) { return extent == 1; });
  };
  if (are_of_image(shape)) return 1;
  return !shape.empty() && are_of_image(shape.subspan(1)) ? shape[0] : 0;
}

std::string image_text(const ImageShape& image) {
  if (image.height == 1) return fmt::format("{}, {}", image.channels, image.width);
  return fmt::format("{}, {}, {}", image.channels, image.height, image.width);
}

ModelInput read_model_input(const NpyArray& array, const Model& model, const std::string& option) {
  const uint32_t features = model.input_features();
  const ImageShape image = image_shape(model);
  const bool has_tokens = model.vocab_size() != 0;
  if (has_tokens == is_float(array)) {
    throw InputError("{}: {} is of type {}: expected {}", option, quote(array.name()),
                     name(array.dtype()),
                     has_tokens ? "the model's token ids, int32 or int64"
                                : "the model's features, float32 or float64");
  }
  if (image.channels != 0) return read_images(array, image, option);
  std::vector<uint64_t> rows = array.shape();
  const std::string expected = has_tokens
                                   ? "[tokens] or [batch, tokens]"
                                   : fmt::format("[tokens, {0}] or [batch, tokens, {0}]", features);
  if (!has_tokens) {
    if (rows.empty() || rows.back() != features) refuse_shape(array, option, expected);
    rows.pop_back();
  }
  const bool fits = (rows.size() == 1 || rows.size() == 2) && array.elements() != 0 &&
                    array.elements() <= kTokensMax * std::max<uint64_t>(1, features);
  if (!fits) refuse_shape(array, option, expected + " with at least one token");
  ModelInput input;
  input.sequences = rows.size() == 2 ? static_cast<uint32_t>(rows[0]) : 1;
  input.tokens = static_cast<uint32_t>(rows.back());
  if (has_tokens) {
    read_ids(array, model.vocab_size(), option, input);
  } else {
    input.features = finite_values(array, option);
  }
  return input;
}

}  // namespace arenite::convert
