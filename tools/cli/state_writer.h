// SPDX-License-Identifier: Apache-2.0
// Hidden states into a .npy file, as the calls of a session show them.
#pragma once

#include <exception>
#include <functional>
#include <optional>

#include "cli/run_options.h"

namespace arenite::tool {

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

}  // namespace arenite::tool
