// SPDX-License-Identifier: Apache-2.0
// The sizes that arena numbers are for, as the command line gives them, and the arena of each
// target of a model file at these sizes, whether or not this CPU runs it.
#pragma once

#include <vector>

#include "cli/model_file.h"
#include "session/plan.h"

namespace CLI {
class App;
}  // namespace CLI

namespace arenite::tool {

struct SizeOptions {
  uint32_t positions = 0;  // 0: as default_session_options says
  uint32_t tokens = 0;     // 0: the same; for features, positions * sequences
  uint32_t sequences = 1;
  uint32_t threads = 1;
};

// Declares --positions, --tokens, --sequences and --threads. `sizes` must outlive the command.
void add_size_options(CLI::App& command, SizeOptions& sizes);

// With the defaults filled in. Throws InputError if the model cannot serve the sizes.
SizeOptions resolve_sizes(const VerifiedFile& file, const SizeOptions& sizes);

// The sizes where a person says nothing: the model's context, or kDefaultPositions where it has
// none; for a model of tokens at most kDefaultTokens in a call; one sequence, one thread.
inline constexpr uint32_t kDefaultPositions = 128;
inline constexpr uint32_t kDefaultTokens = 64;
SessionOptions default_session_options(const format::ModelReader& reader);

// One for each target of the file, in its order: what plan_arena says. Throws like resolve_sizes.
std::vector<ArenaLayout> plan_targets(const VerifiedFile& file, const SizeOptions& sizes);

}  // namespace arenite::tool
