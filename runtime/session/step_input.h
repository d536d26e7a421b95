// SPDX-License-Identifier: Apache-2.0
// What a call brings, and the checks of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "arenite/session.h"
#include "arenite/status.h"

namespace arenite {

struct SessionState;

// Features or tokens, one of the two, in the forms of Batch and TokenBatch.
struct StepInput {
  explicit StepInput(const Batch& batch);
  explicit StepInput(const TokenBatch& batch);

  bool is_tokens = false;
  const float* features = nullptr;
  const TokenId* ids = nullptr;
  std::span<const uint8_t> types;
  size_t size = 0;  // floats or ids
  uint32_t sequences = 0;
  uint32_t tokens = 0;
  std::span<const uint32_t> lengths;
  std::span<const uint8_t> visible;
  bool back_to_back = false;

  // Rows that a sequence gets: its length, or the ones in its mask.
  uint32_t tokens_of(uint32_t sequence) const;
  // Positions that a sequence spans: its rows, and the gaps between them.
  uint32_t positions_of(uint32_t sequence) const;
};

// kOk if the session can take it: as Session::run and Session::step say. Changes nothing.
Status check_input(const SessionState& state, const StepInput& input, bool from_start,
                   Diagnostic* why);

}  // namespace arenite
