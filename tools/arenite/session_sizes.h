// SPDX-License-Identifier: Apache-2.0
// The sizes that arena numbers are for, as the command line gives them, and the arena of each
// target of a model file at these sizes, whether or not this CPU runs it.
#pragma once

#include <CLI/CLI.hpp>
#include <vector>

#include "arenite/model_file.h"
#include "session/plan.h"

namespace arenite::tool {

struct SizeOptions {
  uint32_t positions = 0;  // 0: the model's context, or convert::kDefaultPositions
  uint32_t tokens = 0;     // 0: positions * sequences, or at most kDefaultTokensPerCall of them
  uint32_t sequences = 1;
  uint32_t threads = 1;
};

// Declares --positions, --tokens, --sequences and --threads. `sizes` must outlive the command.
void add_size_options(CLI::App& command, SizeOptions& sizes);

// With the defaults filled in. Throws InputError if the model cannot serve the sizes.
SizeOptions resolve_sizes(const VerifiedFile& file, const SizeOptions& sizes);

// One for each target of the file, in its order: what plan_arena says. Throws like resolve_sizes.
std::vector<ArenaLayout> plan_targets(const VerifiedFile& file, const SizeOptions& sizes);

}  // namespace arenite::tool
