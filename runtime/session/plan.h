// SPDX-License-Identifier: Apache-2.0
// Where everything in an arena lies, as offsets from its start.
#pragma once

#include "arenite/arena_formula.h"
#include "arenite/session.h"
#include "core/prefix_rows.h"

namespace arenite {

struct ArenaLayout {
  uint32_t positions_max = 0;
  uint32_t tokens_max = 0;
  uint32_t sequences_max = 0;
  uint32_t outputs_max = 0;
  [[no_unique_address]] PrefixRows prefix_rows = {};  // that each sequence has beside its tokens
  // The parts follow each other: session, caches, activations, scratch.
  size_t kv_cache_offset = 0;
  size_t activation_offset = 0;  // of the slots with a row for each token
  size_t output_offset = 0;      // of those with a row for each output
  size_t scratch_offset = 0;     // of the rows that all threads share
  size_t threads_offset = 0;     // of each thread's own scratch
  size_t scratch_bytes_per_thread = 0;
  TensorType kv_type = TensorType::kF32;
  ArenaPlan plan = {};

  // In one call.
  uint32_t rows_max() const { return arenite::rows_max(prefix_rows, tokens_max, sequences_max); }
};

// The sizes that the arena formula is evaluated for (evaluate_rows): prefixes are counted in.
SessionSizes sizes_of(const ArenaLayout& layout, uint32_t threads);

// Places the parts of an arena for the sizes in `layout`.
// Fails with kInvalidArgument if it is larger than the address space.
Status place_parts(const ArenaFormula& formula, uint32_t threads, ArenaLayout& layout,
                   Diagnostic* why);

// Resolves the options' defaults and evaluates the file's formula.
// Fails with kInvalidArgument for options that the model cannot serve, and with kUnsupported for a
// type of cache that this build lacks.
Status make_layout(const Model& model, const SessionOptions& options, ArenaLayout& layout,
                   Diagnostic* why);

}  // namespace arenite
