// SPDX-License-Identifier: Apache-2.0
// Arrays of a person's own that a model is to be fed.
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

// The first axes of an array: [tokens], [sequences, tokens] or, as some authors have them,
// [tokens, sequences].
struct TokenAxes {
  uint32_t sequences = 1;
  uint32_t tokens = 0;
  bool has_sequences = false;  // an axis of its own
  bool tokens_first = false;
  bool columns_first = false;  // of features: [.., features, tokens]

  // The axes of a row for each of `rows`, as the array has them.
  std::vector<uint64_t> shape(uint64_t rows) const;
  // Where row `row` of a sequence stands where each has `rows`.
  size_t place(uint64_t rows, uint32_t sequence, uint64_t row) const {
    return tokens_first ? row * sequences + sequence : sequence * rows + row;
  }
};

// Those of an array that a model is to be fed: whole numbers [axes] for a model of tokens, floats
// [axes, features], or images [channels, height, width] or [images, ..], whose tokens are pixels.
// Throws InputError, which begins with `option`, for other types and shapes.
// `input` is that of the model.
TokenAxes token_axes(const NpyArray& array, const Model& model, const std::string& option,
                     uint32_t input = 0);

// Throws InputError for more tokens than the model's context has.
void require_context(const NpyArray& array, const TokenAxes& axes, const Model& model,
                     const std::string& option, uint32_t input = 0);

// Throws InputError unless the arrays of two inputs have as many sequences.
void require_same_sequences(const NpyArray& one, uint32_t sequences_of_one, const NpyArray& other,
                            uint32_t sequences_of_other, const std::string& option);

// Reads such an array. Throws InputError also for ids beyond the vocabulary, and for numbers that
// are not finite.
ModelInput read_model_input(const NpyArray& array, const Model& model, const std::string& option,
                            uint32_t input = 0);

// An array for each input of a model, in their order, with as many sequences in each. Throws
// InputError also for sequences that are too long or too short.
ModelInput read_model_inputs(std::span<const NpyArray> arrays, const Model& model,
                             const std::string& option);

// The author's array for so many elements of each sequence. Empty: the file says no such, so it is
// [axes, columns].
std::vector<uint64_t> authors_shape(const Model& model, const TokenAxes& axes, uint64_t elements);

// Rows of a person's array [axes, width], in which each sequence has `rows`, as [sequences, rows,
// width].
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

// What an option gives each input of a model, in its order: a value for each, or NAME=VALUE; empty
// where an input gets none. `wanted` is a bit set of those that may have one. Throws InputError,
// which begins with `option`, for more values than these.
std::vector<std::string> values_of_inputs(std::span<const std::string> given, const Model& model,
                                          const std::string& option, uint32_t wanted = UINT32_MAX);
// What the arrays of a program that are no inputs of its model say about these.
struct SideArrays {
  std::vector<std::string> masks;  // of each input: which tokens count, or empty
  std::vector<std::string> roles;  // how: kept, hidden, added or lengths
  std::vector<std::string> types;  // of each input, or empty
};
// Takes these out of what an option gives, where it gives all arrays of the author's program: in
// its order, or by name. Throws InputError, which begins with `option`.
SideArrays take_sides(std::vector<std::string>& given, const Model& model,
                      const std::string& option);
// The tokens of each sequence that count where the author's program says that by their ids; nothing
// for any other input. Throws InputError, which begins with `option`.
std::optional<std::vector<uint32_t>> lengths_by_ids(const NpyArray& array, const TokenAxes& axes,
                                                    const Model& model, uint32_t input,
                                                    const std::string& option);
// 1 for each token that counts, [sequences, tokens], as the array of this role says.
std::vector<uint8_t> read_counted(const std::string& file, const std::string& role,
                                  const TokenAxes& axes, const std::string& option);

// Takes what an option gives inputs that take pairs out of `given`: pairs=FILE, or what is more
// than there are inputs; empty where an input gets none. Throws InputError, which begins with
// `option`, where a model takes pairs and has none.
std::vector<std::string> take_pairs(std::vector<std::string>& given, const Model& model,
                                    const std::string& option);
// Reads those of an input, [sequences, tokens, tokens] of 0 and 1. Throws InputError.
std::vector<uint8_t> read_pairs(const std::string& file, const TokenAxes& axes,
                                const std::string& option);
// The same of files, of which there must be one for each that may have one.
std::vector<std::filesystem::path> files_of_inputs(std::span<const std::string> given,
                                                   const Model& model, const std::string& option,
                                                   uint32_t wanted = UINT32_MAX);
// The same of lengths: "10,3" are those of two sequences.
std::vector<std::vector<uint32_t>> lengths_of_inputs(std::span<const std::string> given,
                                                     const Model& model, const std::string& option);

// How many images an array of this shape has: [channels, height, width] or [batch, ...], where an
// extent of 1 may be left out, as for series [channels, length]. 0: it is of another shape.
uint64_t images_of(std::span<const uint64_t> shape, const ImageLayout& image);
std::string image_text(const ImageLayout& image);  // its extents: "3, 224, 224"

// What the two throw.
[[noreturn]] void refuse_shape(const NpyArray& array, const std::string& option,
                               const std::string& expected);
std::vector<float> finite_values(const NpyArray& array, const std::string& option);

bool is_float(const NpyArray& array);

}  // namespace arenite::convert
