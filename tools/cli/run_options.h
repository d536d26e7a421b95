// SPDX-License-Identifier: Apache-2.0
// What arenite run was asked for, and its ways to do it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cli/model_file.h"
#include "cli/profiler.h"
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
  std::string kernels;
  uint32_t threads = 1;
  ProfileOptions profile;
};

struct InputShape {
  uint32_t sequences = 1;
  uint32_t tokens = 0;  // of the longest sequence
};

// The sizes in the shape of `input`, whose dimensions are [tokens] or [sequences, tokens] and, for
// features, one more. Throws InputError if a number is zero or beyond the model's context.
InputShape input_shape(const convert::NpyArray& input, bool one_sequence, const Model& model);

// Throws InputError if --lengths does not fit the array.
void check_lengths(const RunOptions& options, const InputShape& shape);

// Tokens of sequence `index`.
uint32_t length_of(const RunOptions& options, const InputShape& shape, uint32_t index);

// Throw InputError for an array of another type or rank than the model reads.
void check_token_array(const convert::NpyArray& input, const Model& model);
void check_feature_array(const convert::NpyArray& input, const Model& model);

// The ids of an array [sequences, tokens]. Where `visible` [sequences, tokens] is 0 they may be any
// number, and those outside the vocabulary become kNoToken; elsewhere these are an InputError.
std::vector<TokenId> token_ids(const convert::NpyArray& input, const InputShape& shape,
                               const Model& model, std::span<const uint8_t> visible);

// The line that says what was written, and a warning if not all of it is finite.
void print_run(const RunOptions& options, const ModelFile& file,
               const std::vector<uint64_t>& output_shape, const ArenaPlan& plan, bool finite);

// Reads input, runs, writes output. Throw InputError.
void run_features(const RunOptions& options, const ModelFile& file);
void run_tokens(const RunOptions& options, const ModelFile& file);
void run_encoder(const RunOptions& options, const ModelFile& file);

}  // namespace arenite::tool
