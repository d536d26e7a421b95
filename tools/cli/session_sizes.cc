// SPDX-License-Identifier: Apache-2.0
// Asks the runtime's own planner, for every target in turn.
#include "cli/session_sizes.h"

#include <algorithm>

#include "cli/arguments.h"
#include "session/model_access.h"

namespace arenite::tool {

void add_size_options(CLI::App& command, SizeOptions& sizes) {
  command.add_option("--positions", sizes.positions, "Longest sequence; the model's by default")
      ->check(whole_number(1, UINT32_MAX));
  command
      .add_option("--tokens", sizes.tokens,
                  "Most tokens in one call; by default positions * sequences, "
                  "of models that read tokens at most 64")
      ->check(whole_number(1, UINT32_MAX));
  command.add_option("--sequences", sizes.sequences, "Sequences held at once")
      ->check(whole_number(1, UINT32_MAX))
      ->capture_default_str();
  command.add_option("--threads", sizes.threads, "Threads that share the work of a call")
      ->check(whole_number(1, UINT32_MAX))
      ->capture_default_str();
}

SessionOptions default_session_options(const format::ModelReader& reader) {
  SessionOptions options;
  options.positions_max = reader.positions_max() != 0 ? reader.positions_max() : kDefaultPositions;
  options.tokens_max = options.positions_max;
  if (reader.vocab_size() != 0) options.tokens_max = std::min(options.tokens_max, kDefaultTokens);
  return options;
}

SizeOptions resolve_sizes(const VerifiedFile& file, const SizeOptions& sizes) {
  const ArenaLayout layout = plan_targets(file, sizes).front();
  return {layout.positions_max, layout.tokens_max, layout.sequences_max, sizes.threads};
}

std::vector<ArenaLayout> plan_targets(const VerifiedFile& file, const SizeOptions& sizes) {
  const format::ModelReader reader = file.reader();
  SessionOptions options = default_session_options(reader);
  if (sizes.positions != 0) options.positions_max = sizes.positions;
  if (reader.vocab_size() == 0) options.tokens_max = 0;
  if (options.tokens_max > options.positions_max) options.tokens_max = options.positions_max;
  if (sizes.tokens != 0) options.tokens_max = sizes.tokens;
  options.sequences_max = sizes.sequences;
  options.parallel.threads = sizes.threads;
  // Planning only asks whether there is a pool, and never calls it.
  options.parallel.run = [](void*, uint32_t, ParallelFor::Task, void*) {};
  std::vector<ArenaLayout> layouts(reader.packed_count());
  for (uint32_t i = 0; i < reader.packed_count(); ++i) {
    const Target target = static_cast<Target>(reader.packed(i).target);
    Diagnostic why;
    const Status status =
        make_layout(ModelAccess::make(file.bytes(), i, target), options, layouts[i], &why);
    if (status != Status::kOk) throw_status(file.name(), status, why);
  }
  return layouts;
}

std::vector<SequenceGroup> group_sequences(std::span<const uint32_t> lengths) {
  std::vector<SequenceGroup> groups;
  for (uint32_t i = 0; i < lengths.size(); ++i) {
    const bool fits =
        !groups.empty() && uint64_t{groups.back().tokens} + lengths[i] <= kGroupTokens;
    if (!fits) groups.push_back({i, 0, 0});
    ++groups.back().count;
    groups.back().tokens += lengths[i];
  }
  return groups;
}

SessionOptions options_for(std::span<const uint32_t> lengths,
                           std::span<const SequenceGroup> groups) {
  SessionOptions options;
  options.positions_max = *std::ranges::max_element(lengths);
  for (const SequenceGroup& group : groups) {
    options.sequences_max = std::max(options.sequences_max, group.count);
    options.tokens_max = std::max(options.tokens_max, group.tokens);
  }
  return options;
}

}  // namespace arenite::tool
