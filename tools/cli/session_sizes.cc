// SPDX-License-Identifier: Apache-2.0
// Asks the runtime's own planner, for every target in turn.
#include "cli/session_sizes.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/views.h"
#include "session/session_state.h"

namespace arenite::tool {

SessionOptions default_session_options(const format::ModelReader& reader) {
  SessionOptions options;
  options.positions_max = reader.positions_max() != 0 ? reader.positions_max() : kDefaultPositions;
  options.tokens_max = options.positions_max;
  if (reader.vocab_size() != 0) {
    options.tokens_max =
        std::min(options.tokens_max, std::max(kDefaultTokens, reader.tokens_min()));
  }
  return options;
}

SessionSizes default_sizes(const format::ModelReader& reader) {
  const SessionOptions options = default_session_options(reader);
  return {options.positions_max, options.tokens_max, 1, 1, 1, reader.kv_cache()};
}

SizeOptions resolve_sizes(const VerifiedFile& file, const SizeOptions& sizes) {
  const ArenaLayout layout = plan_targets(file, sizes).front();
  const KvType kv_cache = layout.kv_type == TensorType::kInt8 ? KvType::kInt8 : KvType::kF32;
  return {layout.positions_max, layout.tokens_max, layout.sequences_max, sizes.threads, kv_cache};
}

std::vector<ArenaLayout> plan_targets(const VerifiedFile& file, const SizeOptions& sizes) {
  const format::ModelReader reader = file.reader();
  SessionOptions options = default_session_options(reader);
  if (sizes.positions != 0) options.positions_max = sizes.positions;
  if (reader.vocab_size() == 0) options.tokens_max = 0;
  if (options.tokens_max > options.positions_max) options.tokens_max = options.positions_max;
  if (sizes.tokens != 0) options.tokens_max = sizes.tokens;
  options.sequences_max = sizes.sequences;
  options.kv_cache = sizes.kv_cache;
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

std::vector<std::string> formula_lines(const ArenaFormula& formula) {
  std::vector<std::string> lines;
  for (uint32_t i = 0; i < formula.group_count; ++i) {
    const CacheGroup& group = formula.groups[i];
    const std::string held = group.lookback == kUnlimited
                                 ? std::string("all positions")
                                 : fmt::format("the last {}", uint64_t{group.lookback} + 1);
    for (const TensorType type : {TensorType::kF32, TensorType::kInt8}) {
      const CacheBytes& bytes = group.bytes(type);
      lines.push_back(fmt::format("cache of {} in {}: {} a panel of {}, {} a page of {}", held,
                                  name(type), bytes.per_panel, formula.nr, bytes.per_page,
                                  kPagePositions));
    }
  }
  std::string activations =
      fmt::format("activations {} a token", formula.activation_bytes_per_token);
  if (formula.activation_bytes_per_output != 0) {
    activations += fmt::format(", {} a row given out", formula.activation_bytes_per_output);
  }
  lines.push_back(activations);
  std::string scratch = formula.score_rows == 0
                            ? std::string("scratch none for scores")
                            : fmt::format("scratch {} rows of scores", formula.score_rows);
  if (formula.scratch_bytes_per_token != 0) {
    scratch += fmt::format(", {} a token", formula.scratch_bytes_per_token);
  }
  if (formula.scratch_bytes_per_thread != 0) {
    scratch += fmt::format(", or {} a thread", formula.scratch_bytes_per_thread);
  }
  lines.push_back(scratch);
  return lines;
}

template <>
inline constexpr auto kFacts<CacheBytes> =
    std::tuple(Fact("per_panel", "Of a panel of nr positions", &CacheBytes::per_panel),
               Fact("per_page", "Of a page of 512 positions", &CacheBytes::per_page));
static_assert(kPagePositions == 512);

template <>
inline constexpr auto kFacts<CacheGroup> =
    std::tuple(Fact("lookback", "Positions before its own that a token sees; null: all",
                    [](const CacheGroup& f) {
                      return f.lookback == kUnlimited ? std::nullopt : std::optional(f.lookback);
                    }),
               Fact("f32", &CacheGroup::f32), Fact("int8", &CacheGroup::int8));

template <>
inline constexpr auto kFacts<ArenaFormula> = std::tuple(
    Fact("activation_bytes_per_token", &ArenaFormula::activation_bytes_per_token),
    Fact("activation_bytes_per_output", &ArenaFormula::activation_bytes_per_output),
    Fact("scratch_bytes_per_token", &ArenaFormula::scratch_bytes_per_token),
    Fact("scratch_bytes_per_thread", &ArenaFormula::scratch_bytes_per_thread),
    Fact("nr", "Positions of a panel of keys", &ArenaFormula::nr),
    Fact("score_rows", "Rows of scores in the scratch of a thread", &ArenaFormula::score_rows),
    Fact("cache_groups", "Caches that hold as many positions", [](const ArenaFormula& f) {
      return std::span<const CacheGroup>(f.groups, f.group_count);
    }));

FactType FactValue<ArenaFormula>::type() { return struct_type<ArenaFormula>(); }
void FactValue<ArenaFormula>::write(JsonWriter& json, const ArenaFormula& formula) {
  write_struct(json, formula);
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
