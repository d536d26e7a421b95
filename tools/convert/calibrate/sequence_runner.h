// SPDX-License-Identifier: Apache-2.0
// Runs a model file over sequences, in pieces where it can be, so that what it gives for each token
// takes little memory.
#pragma once

#include <cstdint>

#include "arenite/session.h"
#include "convert/calibrate/calibration_set.h"
#include "convert/check/call_rows.h"
#include "convert/check/converted_session.h"
#include "convert/files/memory.h"
#include "session/session_state.h"

namespace arenite::convert {

// The longest of all sequences, in tokens.
uint32_t longest_of(const std::vector<CalibrationSequence>& sequences);

class SequenceRunner {
 public:
  // For sequences of up to so many tokens. `file` must outlive it.
  SequenceRunner(const AlignedBytes& file, uint32_t positions, KvType kv_cache = KvType::kOfModel);

  const Model& model() const { return model_; }
  SessionState& state() { return SessionState::of(&*session_); }
  // Hooks, which are called on this thread. Before begin.
  void set_profile(const ProfileHook& hook) { state().profile = hook; }
  void set_hidden_states(const HiddenStateHook& hook) { state().hidden_states = hook; }

  // Starts a sequence anew. REQUIRES: it outlives what follows.
  void begin(const CalibrationSequence& sequence);
  // Runs the next piece. False when there was none left. Throws InputError where the model cannot
  // take the sequence.
  bool advance();
  // What the last piece gave: a row for each of its tokens or, where the model pools, one.
  size_t rows() const { return rows_.size() - prefix_; }
  std::span<const float> row(size_t index) { return rows_[prefix_ + index]; }
  uint32_t first_token() const { return first_; }  // of that piece
  uint32_t tokens() const { return next_ - first_; }

 private:
  Model model_;
  uint32_t piece_ = 0;  // tokens at once
  ConvertedSession session_;
  const CalibrationSequence* sequence_ = nullptr;
  uint32_t first_ = 0;
  uint32_t next_ = 0;
  CallRows rows_;
  size_t prefix_ = 0;  // rows of the model's own before those of its first tokens
};

}  // namespace arenite::convert
