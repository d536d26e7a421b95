// SPDX-License-Identifier: Apache-2.0
// What arenite run was asked for: its arrays, and how they go through the model.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cli/model_file.h"
#include "cli/profiler.h"
#include "convert/check/model_input.h"
#include "convert/files/npy.h"

namespace arenite::tool {

struct RunOptions {
  std::filesystem::path model;
  std::filesystem::path input;
  std::filesystem::path output;
  std::filesystem::path hidden_states;  // empty: not wanted
  std::vector<uint32_t> lengths;        // empty: all tokens of each sequence
  std::filesystem::path mask;           // empty: none
  std::filesystem::path types;          // empty: none
  std::optional<uint32_t> chunk;
  bool last = false;
  bool all_rows = false;
  std::string kernels;
  uint32_t threads = 1;
  KvType kv_cache = KvType::kOfModel;
  ProfileOptions profile;
  bool json = false;
};

// All sequences, as the arrays have them.
struct RunInput {
  convert::NpyArray array;  // whose numbers are read when they are needed, unless they are ids
  convert::TokenAxes axes;
  std::vector<TokenId> ids;       // [axes]; kNoToken for padding outside the vocabulary
  std::vector<uint8_t> types;     // [sequences, tokens], or none
  std::vector<uint32_t> lengths;  // of each sequence: the tokens that count
  // [sequences, tokens] where tokens that do not count stand before others that do; else none.
  std::vector<uint8_t> visible;
};

// Throws InputError for arrays of another type or shape than the model reads, for more tokens than
// its context has, for ids outside its vocabulary, and for lengths, masks and types that do not
// fit.
RunInput read_run_input(const RunOptions& options, const Model& model);

// Runs all of it, and writes the output and the hidden states. Throws InputError.
void run_input(const RunOptions& options, const ModelFile& file, const RunInput& input);

}  // namespace arenite::tool
