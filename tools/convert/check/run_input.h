// SPDX-License-Identifier: Apache-2.0
// The user's arrays for the inputs of a model, with the valid tokens of each sequence, for arenite
// run and convert --expect.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "arenite/model.h"
#include "convert/check/check_session.h"
#include "convert/check/model_input.h"
#include "convert/files/npy.h"

namespace arenite::convert {

// The values of the options that name arrays, each in the order of the inputs or as NAME=VALUE.
struct GivenArrays {
  std::string option;          // "--input": in messages
  std::string lengths_option;  // "--lengths"
  std::vector<std::string> files;
  std::vector<std::string> lengths{};  // "10,3": valid tokens of each sequence
  std::vector<std::string> masks{};    // files
  std::vector<std::string> types{};    // files
  // Reads the features of an input from a file; NpyArray::read by default.
  std::function<NpyArray(const std::filesystem::path& file, uint32_t input)> read{};
};

// The arrays of all sequences.
struct RunInput {
  uint32_t number = 0;
  NpyArray array;  // read from its file when needed, unless it holds ids
  TokenAxes axes{};
  std::vector<TokenId> ids{};       // [axes]; kNoToken for padding outside the vocabulary
  std::vector<uint8_t> types{};     // [sequences, tokens], or empty
  std::vector<uint32_t> lengths{};  // [sequences]: valid tokens
  // [sequences, tokens] if masked tokens precede valid ones; else empty.
  std::vector<uint8_t> visible{};
  std::vector<uint8_t> pairs{};  // [sequences, tokens, tokens] if the model takes pairs

  bool counts(uint32_t sequence, uint32_t token) const {
    return visible.empty() ? token < lengths[sequence]
                           : visible[size_t{sequence} * axes.tokens + token] != 0;
  }
  // Returns the indices of the model's output rows for a sequence, out of `rows`: all but those of
  // masked tokens. Rows of constants come before those of tokens.
  std::vector<uint64_t> rows_given(uint64_t rows, uint32_t sequence) const;
  // Appends tokens [begin, begin + count) of a sequence to a call's input; for images, all tokens.
  void append(const Model& model, uint32_t sequence, uint32_t begin, uint32_t count,
              ModelInput& fed) const;
  // Returns the valid tokens of a sequence and the masked tokens between them.
  ModelInput sequence(const Model& model, uint32_t index) const;
};

// Reads the arrays of each input. `given.files` may hold all arrays of an exported program,
// including masks and types. `name` is the name of the model's file. Throws InputError for arrays
// whose type or shape the model does not take, for more tokens than its context, for ids outside
// its vocabulary, and for lengths, masks and types that do not fit.
std::vector<RunInput> read_run_inputs(const GivenArrays& given, const Model& model,
                                      const std::string& name);

}  // namespace arenite::convert
