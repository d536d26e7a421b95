// SPDX-License-Identifier: Apache-2.0
// What arenite run was asked for, and its ways to do it.
#pragma once

#include <exception>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli/model_file.h"
#include "cli/profiler.h"
#include "cli/thread_pool.h"
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
  KvType kv_cache = KvType::kOfModel;
  ProfileOptions profile;
  bool json = false;
};

struct InputShape {
  uint32_t sequences = 1;
  uint32_t tokens = 0;  // of the longest sequence
};

// The sizes in the shape of the input, whose dimensions are [tokens] or [sequences, tokens] and,
// for features, one more. Throws InputError for an array of another type or rank than the model
// reads, for sizes that are zero or beyond the model's context, and if --lengths does not fit.
InputShape check_input(const RunOptions& options, const convert::NpyArray& input,
                       const Model& model);

// Tokens of sequence `index`.
uint32_t length_of(const RunOptions& options, const InputShape& shape, uint32_t index);

// [sequences, tokens]: 1 for the tokens that --lengths leaves in.
std::vector<uint8_t> tokens_within_lengths(const RunOptions& options, const InputShape& shape);

// The ids of an array [sequences, tokens]. Where `visible` [sequences, tokens] is 0 they may be any
// number, and those outside the vocabulary become kNoToken; elsewhere these are an InputError.
std::vector<TokenId> token_ids(const convert::NpyArray& input, const InputShape& shape,
                               const Model& model, std::span<const uint8_t> visible);

// Hidden states into a .npy file, as the calls of a session show them. No exception may pass
// through the runtime: what the hook catches waits for the end of the call.
class StateWriter {
 public:
  // Writes the rows that one call shows to where they belong in an array [.., sequences, tokens,
  // width], of which `first_row` is the first row.
  using WriteRows = std::function<void(convert::NpyWriter& writer, uint64_t first_row,
                                       const float* data, size_t width)>;

  // Does nothing unless options.hidden_states names a file, which becomes [layers + 1, (sequences,)
  // tokens, width] for `tokens_shape` [(sequences,) tokens]. Throws InputError for a model that
  // shows no states.
  StateWriter(const RunOptions& options, const Model& model,
              const std::vector<uint64_t>& tokens_shape, WriteRows write_rows);
  StateWriter(const StateWriter&) = delete;
  StateWriter& operator=(const StateWriter&) = delete;

  HiddenStateHook hook();       // for the session
  void rethrow() const;         // after each call: what went wrong during it
  convert::AtomicFile* file();  // to commit; null if no states are wanted

 private:
  void write(uint32_t index, const float* data, uint32_t features);

  WriteRows write_rows_;
  uint64_t rows_ = 1;  // of one state
  std::optional<convert::NpyWriter> writer_;
  std::exception_ptr error_;
};

// The line that says what was written, and a warning if not all of it is finite.
void print_run(const RunOptions& options, const ModelFile& file,
               const std::vector<uint64_t>& output_shape, const ArenaPlan& plan, bool finite);

// Reads input, runs, writes output. Throw InputError.
void run_features(const RunOptions& options, const ModelFile& file);
void run_tokens(const RunOptions& options, const ModelFile& file);
void run_encoder(const RunOptions& options, const ModelFile& file);

}  // namespace arenite::tool
