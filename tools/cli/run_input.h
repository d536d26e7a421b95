// SPDX-License-Identifier: Apache-2.0
// The arrays that arenite run feeds to one input of a model, and which of their tokens count.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "arenite/model.h"
#include "convert/check/check_session.h"
#include "convert/check/model_input.h"
#include "convert/files/npy.h"

namespace arenite::tool {

// What was asked for of one input.
struct InputFiles {
  uint32_t number = 0;  // of the input
  std::filesystem::path file;
  std::vector<uint32_t> lengths;  // empty: all tokens of each sequence
  std::filesystem::path mask;     // empty: none
  std::filesystem::path types;    // empty: none
  std::string pairs;              // empty: none
  std::string role{};             // of the mask, where it is an array of the author's program
};

// All sequences, as the arrays have them.
struct RunInput {
  uint32_t number = 0;
  convert::NpyArray array;  // whose numbers are read when they are needed, unless they are ids
  convert::TokenAxes axes{};
  std::vector<TokenId> ids{};       // [axes]; kNoToken for padding outside the vocabulary
  std::vector<uint8_t> types{};     // [sequences, tokens], or none
  std::vector<uint32_t> lengths{};  // of each sequence: the tokens that count
  // [sequences, tokens] where tokens that do not count stand before others that do; else none.
  std::vector<uint8_t> visible{};
  std::vector<uint8_t> pairs{};  // [sequences, tokens, tokens], of models that take them

  bool counts(uint32_t sequence, uint32_t token) const {
    return visible.empty() ? token < lengths[sequence]
                           : visible[size_t{sequence} * axes.tokens + token] != 0;
  }
  // Adds tokens [begin, begin + count) of a sequence to what a call is fed; of images all tokens.
  void append(const Model& model, uint32_t sequence, uint32_t begin, uint32_t count,
              convert::ModelInput& fed) const;
  // What there is of a sequence: the tokens that count, and what stands between them.
  convert::ModelInput sequence(const Model& model, uint32_t index) const;
};

// `name` is that of the model's file. Throws InputError for arrays of another type or shape than
// the model reads, for more tokens than its context has, for ids outside its vocabulary, and for
// lengths, masks and types that do not fit.
RunInput read_run_input(const InputFiles& files, const Model& model, const std::string& name);

}  // namespace arenite::tool
