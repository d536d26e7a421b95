// SPDX-License-Identifier: Apache-2.0
// Sizes of sessions: as the command line gives them, with the arena of each target of a model file,
// whether or not this CPU runs it, and its formula; and those that take many sequences in a few
// calls.
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
  uint32_t positions = 0;  // 0: as default_session_options says
  uint32_t tokens = 0;     // 0: the same; for features, positions * sequences
  uint32_t sequences = 1;
  uint32_t threads = 1;
  KvType kv_cache = KvType::kOfModel;
  InputSizes others[kInputsMax - 1] = {};  // of resolve_sizes: of the inputs after the first

  // REQUIRES: of resolve_sizes.
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

// With the defaults filled in. Throws InputError if the model cannot serve the sizes.
SizeOptions resolve_sizes(const VerifiedFile& file, const SizeOptions& sizes);

// The sizes where a person says nothing: the model's context, or kDefaultPositions where it has
// none; for a model of tokens at most kDefaultTokens in a call; one sequence, one thread.
inline constexpr uint32_t kDefaultPositions = 128;
inline constexpr uint32_t kDefaultTokens = 64;
SessionOptions default_session_options(const format::ModelReader& reader);
// The same for the arena formula, with caches as the file says.
SessionSizes default_sizes(const format::ModelReader& reader);

// One for each target of the file, in its order: what plan_arena says. Throws like resolve_sizes.
std::vector<ArenaLayout> plan_targets(const VerifiedFile& file, const SizeOptions& sizes);

// The smallest budget of Session::advance that every call within these sizes can be cut to, and the
// op that takes it: the largest of the blocks that ops are cut into.
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
// Of a verified file, for one of its targets.
SmallestSlice smallest_slice(std::span<const std::byte> file, uint32_t packed_index,
                             SessionOptions options);
// The options of a session of these sizes.
SessionOptions options_of(const format::ModelReader& reader, const SizeOptions& sizes);

// " of source", of the inputs whose tokens the rows of an axis come with; empty where there is one.
std::string of_inputs(const format::ModelReader& reader, uint32_t axis);
// "40 positions"; of several inputs "40 positions of source and 12 of target".
std::string sizes_text(const format::ModelReader& reader, const InputTokens& sizes,
                       const std::string& noun);

// The coefficients of an arena formula, as the commands print them; SPEC.md says what they
// multiply. As text a line for each part of the arena that differs from model to model, in its
// order.
std::vector<std::string> formula_lines(const format::ModelReader& reader,
                                       const ArenaFormula& formula);
struct FormulaOfModel : ArenaFormula {
  uint32_t axis_count = 0;  // that the model has
};
FormulaOfModel formula_of(const format::ModelReader& reader, uint32_t packed_index);
extern template struct FactValue<FormulaOfModel>;
inline constexpr const char* kFormulaWords =
    "What the arena is computed from, see arenite/arena_formula.h";

// Sequences [first, first + count), which have `tokens` in all and share a call: so an arena need
// not hold all sequences at once.
struct SequenceGroup {
  uint32_t first = 0;
  uint32_t count = 0;
  uint32_t tokens = 0;
};

// Enough rows to keep every kernel busy; more would only take memory.
inline constexpr uint32_t kGroupTokens = 1024;

// In their order, at most kGroupTokens together; longer sequences are alone.
std::vector<SequenceGroup> group_sequences(std::span<const uint32_t> lengths);

// Sizes of a session that takes any of the groups in one call.
SessionOptions options_for(std::span<const uint32_t> lengths,
                           std::span<const SequenceGroup> groups);

}  // namespace arenite::tool
