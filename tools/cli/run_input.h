// SPDX-License-Identifier: Apache-2.0
// The arrays that arenite run feeds to an input of a model, with the valid tokens of each sequence.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "arenite/model.h"
#include "convert/check/check_session.h"
#include "convert/check/model_input.h"
#include "convert/files/npy.h"

namespace arenite::tool {

// The files and options of one input.
struct InputFiles {
  uint32_t number = 0;  // index of the input
  std::filesystem::path file;
  std::vector<uint32_t> lengths;  // valid tokens per sequence; empty: all
  std::filesystem::path mask;     // empty: none
  std::filesystem::path types;    // empty: none
  std::string pairs;              // empty: none
  std::string role{};             // of the mask, if it is an array of the author's program
};

// The arrays of all sequences.
struct RunInput {
  uint32_t number = 0;
  convert::NpyArray array;  // read from its file when needed, unless it holds ids
  convert::TokenAxes axes{};
  std::vector<TokenId> ids{};       // [axes]; kNoToken for padding outside the vocabulary
  std::vector<uint8_t> types{};     // [sequences, tokens], or empty
  std::vector<uint32_t> lengths{};  // [sequences]: valid tokens
  // [sequences, tokens] if masked tokens stand before valid ones; else empty.
  std::vector<uint8_t> visible{};
  std::vector<uint8_t> pairs{};  // [sequences, tokens, tokens] if the model takes pairs

  bool counts(uint32_t sequence, uint32_t token) const {
    return visible.empty() ? token < lengths[sequence]
                           : visible[size_t{sequence} * axes.tokens + token] != 0;
  }
  // Appends tokens [begin, begin + count) of a sequence to a call's input; of images all tokens.
  void append(const Model& model, uint32_t sequence, uint32_t begin, uint32_t count,
              convert::ModelInput& fed) const;
  // Returns the valid tokens of a sequence and the masked tokens between them.
  convert::ModelInput sequence(const Model& model, uint32_t index) const;
};

// `name` is the name of the model file. Throws InputError for arrays whose type or shape the model
// does not read, for more tokens than its context, for ids outside its vocabulary, and for lengths,
// masks and types that do not fit.
RunInput read_run_input(const InputFiles& files, const Model& model, const std::string& name);

}  // namespace arenite::tool
