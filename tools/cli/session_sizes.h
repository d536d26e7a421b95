// SPDX-License-Identifier: Apache-2.0
// Session sizes: fills in defaults, plans the arena of each target of a model file, whether or not
// this CPU runs it, gives its formula, and groups sequences into few calls.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cli/facts.h"
#include "cli/model_file.h"
#include "session/session_state.h"

namespace arenite::tool {

struct SizeOptions {
  uint32_t positions = 0;  // 0: the default of default_session_options
  uint32_t tokens = 0;     // 0: its default; for features positions * sequences
  uint32_t sequences = 1;
  uint32_t threads = 1;
  KvType kv_cache = KvType::kOfModel;
  InputSizes others[kInputsMax - 1] = {};  // set by resolve_sizes: for the inputs after the first

  // REQUIRES: the sizes are a result of resolve_sizes.
  InputTokens positions_of_inputs() const {
    return SessionSizes{.positions_max = positions, .others = {others[0], others[1], others[2]}}
        .positions();
  }
  InputTokens tokens_of_inputs() const {
    return SessionSizes{.tokens_max = tokens, .others = {others[0], others[1], others[2]}}.tokens();
  }
  TensorType kv_type() const {
    return kv_cache == KvType::kInt8 ? TensorType::kInt8 : TensorType::kF32;
  }
};

// Fills in the defaults. Throws InputError if the model cannot serve the sizes.
SizeOptions resolve_sizes(const VerifiedFile& file, const SizeOptions& sizes);

// The default sizes: the model's context, or kDefaultPositions if it has none; for token inputs at
// most kDefaultTokens per call; one sequence, one thread.
inline constexpr uint32_t kDefaultPositions = 128;
inline constexpr uint32_t kDefaultTokens = 64;
SessionOptions default_session_options(const format::ModelReader& reader);
// Returns the default sizes for the arena formula, with caches of the file's type.
SessionSizes default_sizes(const format::ModelReader& reader);

// Plans the arena for each target of the file, in the file's order. Throws like resolve_sizes.
std::vector<ArenaLayout> plan_targets(const VerifiedFile& file, const SizeOptions& sizes);

// The smallest budget of Session::advance into which every call within these sizes can be cut. The
// largest block of any op determines it; `op` is that op.
struct SmallestSlice {
  uint64_t multiply_adds = 0;
  uint32_t op = 0;
};
template <>
inline constexpr auto kFacts<SmallestSlice> =
    std::tuple(Fact("multiply_adds", &SmallestSlice::multiply_adds),
               Fact("op", "That takes it", &SmallestSlice::op));
inline constexpr const char* kSmallestSlice =
    "The smallest budget of Session::advance that all calls of these sizes can be cut to";
// REQUIRES: `file` is verified. `packed_index` selects one of its targets.
SmallestSlice smallest_slice(std::span<const std::byte> file, uint32_t packed_index,
                             SessionOptions options);
// Returns session options with these sizes.
SessionOptions options_of(const format::ModelReader& reader, const SizeOptions& sizes);

// " of source", the inputs whose tokens give an axis its rows; "" for models with one input.
std::string of_inputs(const format::ModelReader& reader, uint32_t axis);
// "40 positions"; for several inputs "40 positions of source and 12 of target".
std::string sizes_text(const format::ModelReader& reader, const InputTokens& sizes,
                       const std::string& noun);

// Sequences [first, first + count) with `tokens` tokens in all, which share a call. Grouping bounds
// the arena, which need not hold all sequences at once.
struct SequenceGroup {
  uint32_t first = 0;
  uint32_t count = 0;
  uint32_t tokens = 0;
};

// Most tokens of a group: enough to keep every kernel busy; more would only take memory.
inline constexpr uint32_t kGroupTokens = 1024;

// Groups sequences in order, at most kGroupTokens tokens together; longer ones are alone.
std::vector<SequenceGroup> group_sequences(std::span<const uint32_t> lengths);

// Returns the smallest session sizes with which each group takes one call.
SessionOptions options_for(std::span<const uint32_t> lengths,
                           std::span<const SequenceGroup> groups);

}  // namespace arenite::tool
