// SPDX-License-Identifier: Apache-2.0
// Reads the user's arrays as inputs of a model, and checks their types, shapes and values.
//
//   x.npy int64 [2, 7], a model of tokens      ->  2 sequences of 7 tokens
//   x.npy float32 [7, 64], a model of features ->  1 sequence of 7 tokens
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "arenite/model.h"
#include "arenite/token.h"
#include "convert/check/check_session.h"
#include "convert/files/npy.h"

namespace arenite::convert {

// Leading axes of an array: [tokens], [sequences, tokens] or, in some authors' layout, [tokens,
// sequences].
struct TokenAxes {
  uint32_t sequences = 1;
  uint32_t tokens = 0;
  bool has_sequences = false;  // the array has an axis of sequences
  bool tokens_first = false;
  bool columns_first = false;  // features are [.., features, tokens]

  // Returns the leading axes for `rows` rows per sequence, in the array's layout.
  std::vector<uint64_t> shape(uint64_t rows) const;
  // Returns the index in the array of row `row` of a sequence, if each sequence has `rows` rows.
  size_t place(uint64_t rows, uint32_t sequence, uint64_t row) const {
    return tokens_first ? row * sequences + sequence : sequence * rows + row;
  }
};

// Determines the axes of an array for input `input` of the model: integers [axes] for a model of
// tokens, floats [axes, features], or images [channels, height, width] or [images, ..], whose
// tokens are pixels. Throws InputError that begins with `option` for other types and shapes.
TokenAxes token_axes(const NpyArray& array, const Model& model, const std::string& option,
                     uint32_t input = 0);

// Throws InputError if there are more tokens than the model's context has positions.
void require_context(const NpyArray& array, const TokenAxes& axes, const Model& model,
                     const std::string& option, uint32_t input = 0);

// Throws InputError unless the arrays of two inputs have the same number of sequences.
void require_same_sequences(const NpyArray& one, uint32_t sequences_of_one, const NpyArray& other,
                            uint32_t sequences_of_other, const std::string& option);

// Reads an array as a model's input. Also throws InputError for ids beyond the vocabulary, and for
// elements that are not finite.
ModelInput read_model_input(const NpyArray& array, const Model& model, const std::string& option,
                            uint32_t input = 0);

// Reads one array per input of the model, in order, with the same number of sequences. Also throws
// InputError for sequences that are too long or too short.
ModelInput read_model_inputs(std::span<const NpyArray> arrays, const Model& model,
                             const std::string& option);

// Returns the author's output shape for `elements` elements per sequence. If the file declares no
// shape, returns an empty one: the shape is then [axes, columns].
std::vector<uint64_t> authors_shape(const Model& model, const TokenAxes& axes, uint64_t elements);

// Transposes rows of a user's array [axes, width], with `rows` rows per sequence, to [sequences,
// rows, width].
template <typename T>
std::vector<T> sequences_first(const std::vector<T>& values, const TokenAxes& axes, size_t rows) {
  if (!axes.tokens_first || values.empty()) return values;
  const size_t width = values.size() / (axes.sequences * rows);
  std::vector<T> result;
  for (uint32_t s = 0; s < axes.sequences; ++s) {
    for (size_t row = 0; row < rows; ++row) {
      const auto from = values.begin() + static_cast<ptrdiff_t>(axes.place(rows, s, row) * width);
      result.insert(result.end(), from, from + static_cast<ptrdiff_t>(width));
    }
  }
  return result;
}

// Assigns the values of an option to the model's inputs: in order, or as NAME=VALUE; empty for an
// input that gets none. `wanted` is the bit set of inputs that may have a value. Throws InputError
// that begins with `option` if there are more values.
std::vector<std::string> values_of_inputs(std::span<const std::string> given, const Model& model,
                                          const std::string& option, uint32_t wanted = UINT32_MAX);
// Removes the files of author's inputs that no op reads, if `given` holds `wanted` files and these,
// in order.
void drop_unread(std::vector<std::string>& given, const Model& model, size_t wanted);
// Assigns files to inputs by values_of_inputs; each input in `wanted` must get one.
std::vector<std::filesystem::path> files_of_inputs(std::span<const std::string> given,
                                                   const Model& model, const std::string& option,
                                                   uint32_t wanted = UINT32_MAX);
// Assigns lengths to inputs by values_of_inputs: "10,3" for two sequences.
std::vector<std::vector<uint32_t>> lengths_of_inputs(std::span<const std::string> given,
                                                     const Model& model, const std::string& option);

// Returns how many images an array of this shape holds: [channels, height, width] or [batch, ...].
// An extent of 1 may be omitted, as in a series [channels, length]. Returns 0 if the shape does not
// fit.
uint64_t images_of(std::span<const uint64_t> shape, const ImageLayout& image);
std::string image_text(const ImageLayout& image);  // "3, 224, 224"

// Both throw InputError: refuse_shape always, finite_values for NaN and infinity.
[[noreturn]] void refuse_shape(const NpyArray& array, const std::string& option,
                               const std::string& expected);
std::vector<float> finite_values(const NpyArray& array, const std::string& option);

bool is_float(const NpyArray& array);

}  // namespace arenite::convert
