// SPDX-License-Identifier: Apache-2.0
// What a Session really is: the first bytes of its arena.
#pragma once

#include "arenite/session.h"
#include "core/arena_formula.h"
#include "core/matrix.h"
#include "format/reader.h"
#include "kernels/kernel_set.h"
#include "ops/rows.h"
#include "session/plan.h"

namespace arenite {

// Followed in the arena by one SequenceRows per sequence.
struct SessionState : Session {
  SessionState(const Model& model_in, const KernelSet& kernels_in, const SessionOptions& options,
               const ArenaLayout& layout_in);

  static SessionState& of(Session* session) { return *static_cast<SessionState*>(session); }
  static const SessionState& of(const Session* session) {
    return *static_cast<const SessionState*>(session);
  }

  std::byte* arena() { return reinterpret_cast<std::byte*>(this); }
  std::span<SequenceRows> sequences() {
    return {reinterpret_cast<SequenceRows*>(arena() + kSessionBytes), layout.sequences_max};
  }
  std::span<const SequenceRows> sequences() const {
    return const_cast<SessionState*>(this)->sequences();
  }

  // What a call brings: features or tokens, one of the two.
  struct Input {
    bool is_tokens = false;
    const float* features = nullptr;
    const TokenId* ids = nullptr;
    size_t size = 0;  // floats or ids
    uint32_t sequences = 0;
    uint32_t tokens = 0;
    std::span<const uint32_t> lengths;

    uint32_t tokens_of(uint32_t sequence) const {
      return lengths.empty() ? tokens : lengths[sequence];
    }
  };

  // Columns of an activation slot, for all its rows in this step. No data where the view is absent.
  Matrix activation(const format::ColumnView& view);

  // A tensor's data, where it lies in the file.
  const float* tensor(uint32_t index) const { return reader.weights(packed_index, index); }

  // Positions that cache `index` holds, and the keys and values of all sequences in it, one
  // sequence after the other.
  uint32_t cache_positions(uint32_t index) const;
  float* cache(uint32_t index);

  Result<Output> feed(const Input& input, bool from_start, Diagnostic& why);
  Status rewind_to(uint32_t sequence, uint32_t positions);

  Model model;
  format::ModelReader reader;
  const KernelSet& kernels;
  ParallelFor parallel;
  ProfileHook profile;
  HiddenStateHook hidden_states;
  Outputs outputs;
  ArenaLayout layout;
  uint32_t packed_index;
  bool causal;

  // Of the current step.
  const TokenId* ids = nullptr;  // of sequence i at i * ids_stride
  size_t ids_stride = 0;
  uint32_t rows = 0;  // tokens
  uint32_t output_rows = 0;

 private:
  Status check_input(const Input& input, Diagnostic& why) const;
  Status check_sequence(const Input& input, uint32_t index, bool from_start, Diagnostic& why) const;
  Status check(const Input& input, bool from_start, Diagnostic& why) const;
  void place_rows(const Input& input, bool from_start);
  void show_hidden_states(uint32_t op_index, uint32_t& next);
};
static_assert(sizeof(SessionState) <= kSessionBytes && sizeof(SequenceRows) <= kSequenceBytes);

// Runs op `index` over the rows of the current step.
void run_op(SessionState& state, uint32_t index);

}  // namespace arenite
