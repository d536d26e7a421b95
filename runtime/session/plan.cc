// SPDX-License-Identifier: Apache-2.0
// Plans arenas: resolves the options of the application and evaluates the model's formula.
#include "session/session_state.h"

#include <algorithm>

#include "arenite/arena_formula.h"
#include "core/message.h"
#include "core/needs.h"

namespace arenite {
namespace {

constexpr uint32_t kThreadsMax = 1024;

constexpr Status kInvalid = Status::kInvalidArgument;

Status resolve_kv_cache(const format::ModelReader& model, KvType type, ArenaLayout& layout,
                        Diagnostic* why) {
  constexpr Message kField = "options.kv_cache";
  const uint32_t number = static_cast<uint32_t>(type);
  if (type > KvType::kInt8) {
    return refuse(why, kInvalid, "a cache cannot be of this type", kField, 0, number,
                  static_cast<uint32_t>(KvType::kInt8));
  }
  layout.kv_type = model.kv_cache();
  if (type != KvType::kOfModel) {
    layout.kv_type = type == KvType::kF32 ? TensorType::kF32 : TensorType::kInt8;
  }
  if (!linked(Need::kInt8Cache) && layout.kv_type == TensorType::kInt8) {
    return refuse(why, Status::kUnsupported,
                  "this build lacks int8 caches, as none of its models asks for them", kField, 0,
                  number);
  }
  return Status::kOk;
}

// Resolves the defaults of an input's sizes and checks them.
Status resolve_sizes(uint32_t model_positions, uint32_t sequences, InputSizes& sizes,
                     Diagnostic* why) {
  if (sizes.positions_max == 0) sizes.positions_max = model_positions;
  if (sizes.positions_max == 0) {
    return refuse(why, kInvalid, "the model has no context length: set positions_max",
                  "options.positions_max", 0, 0, 1);
  }
  // A file may allow more positions than fit in whole panels.
  uint32_t limit = kPositionsLimit;
  if (model_positions != 0 && model_positions < limit) limit = model_positions;
  if (sizes.positions_max > limit) {
    return refuse(why, kInvalid, "more positions than the model's context", "options.positions_max",
                  0, sizes.positions_max, limit);
  }
  if (sequences == 0) {
    return refuse(why, kInvalid, "there must be at least one sequence", "options.sequences_max", 0,
                  0, 1);
  }
  const uint64_t all_tokens = uint64_t{sizes.positions_max} * sequences;
  const bool countable = all_tokens <= UINT32_MAX;
  if (countable && sizes.tokens_max > static_cast<uint32_t>(all_tokens)) {
    return refuse(why, kInvalid, "more tokens in a call than there are positions",
                  "options.tokens_max", 0, sizes.tokens_max, all_tokens);
  }
  if (!countable && sizes.tokens_max == 0) {
    return refuse(why, kInvalid, "too many tokens for one call: set tokens_max",
                  "options.tokens_max", 0, all_tokens, UINT32_MAX);
  }
  if (sizes.tokens_max == 0) sizes.tokens_max = static_cast<uint32_t>(all_tokens);
  return Status::kOk;
}

Status resolve_options(const format::ModelReader& model, const SessionOptions& options,
                       ArenaLayout& layout, Diagnostic* why) {
  layout.positions_max = options.positions_max;
  layout.tokens_max = options.tokens_max;
  const Status status = resolve_sizes(model.positions_max(), options.sequences_max, layout, why);
  if (status != Status::kOk) return status;
  layout.sequences_max = options.sequences_max;
  const ParallelFor& parallel = options.parallel;
  if (parallel.threads == 0 || parallel.threads > kThreadsMax) {
    return refuse(why, kInvalid, "the number of threads is 0 or too large",
                  "options.parallel.threads", 0, parallel.threads, kThreadsMax);
  }
  if (parallel.threads > 1 && parallel.run == nullptr) {
    return refuse(why, kInvalid, "several threads need parallel.run", "options.parallel.run", 0, 0,
                  1);
  }
  if (options.outputs > Outputs::kAll) {
    return refuse(why, kInvalid, "options.outputs has an unknown value", "options.outputs", 0,
                  static_cast<uint32_t>(options.outputs), static_cast<uint32_t>(Outputs::kAll));
  }
  layout.all_rows = options.outputs == Outputs::kAll;
  return resolve_kv_cache(model, options.kv_cache, layout, why);
}

// Resolves the sizes of the inputs after the first. The index of a failure is that of the input.
[[maybe_unused]] inline Status resolve_others(const format::ModelReader& reader,
                                              const SessionOptions& options, SessionLayout& layout,
                                              Diagnostic* why) {
  for (uint32_t i = 1; i < reader.inputs(); ++i) {
    InputSizes& sizes = layout.others[i - 1] = options.others[i - 1];
    const Status status = resolve_sizes(reader.positions_max(i), options.sequences_max, sizes, why);
    if (status == Status::kOk) continue;
    if (why != nullptr) why->index = i;
    return status;
  }
  return Status::kOk;
}

}  // namespace

Status place_parts(const ArenaFormula& formula, uint32_t inputs, const AxisRows& positions,
                   uint32_t threads, ArenaLayout& layout, Diagnostic* why) {
  const ArenaCounts counts = {layout.sequences_max, threads, layout.kv_type, layout.axes, inputs};
  Checked history = 0;
  if constexpr (kWindowsLinked || linked(Need::kSound))
    history = history_bytes(formula, layout.sequences_max);
  const ArenaSizes sizes = evaluate_rows(formula, counts, positions, layout.rows_max, history);
  if (sizes.total_bytes.value() > SIZE_MAX / 2) {
    return refuse(why, kInvalid, "the arena would be larger than the address space", "options", 0,
                  sizes.total_bytes.value(), SIZE_MAX / 2);
  }
  const auto bytes = [](const Checked& size) { return static_cast<size_t>(size.value()); };
  layout.plan = {bytes(sizes.session_bytes), bytes(sizes.kv_cache_bytes),
                 bytes(sizes.activation_bytes), bytes(sizes.scratch_bytes),
                 bytes(sizes.total_bytes)};
  layout.threads_offset = layout.scratch_offset() + bytes(sizes.scratch_bytes_of_rows);
  layout.scratch_bytes_per_thread = bytes(sizes.scratch_bytes_per_thread);
  return Status::kOk;
}

namespace {

// Computes the maximum rows of each axis, per sequence and per call.
Status count_rows(const format::ModelReader& reader, SessionLayout& layout, AxisRows& positions,
                  Diagnostic* why) {
  layout.axes = static_cast<uint8_t>(reader.axes().size());
  for (uint32_t i = 0; any_linked(Need::kJoin, Need::kBlocks) && i < layout.axes; ++i) {
    layout.areas[i] = static_cast<uint8_t>(reader.area_of(i));
    if (reader.is_of_blocks(i)) layout.has_blocks = true;
  }
  if constexpr (!kAxesLinked) {
    const uint32_t sequences = std::min(layout.tokens_max, layout.sequences_max);
    layout.rows_max = {{layout.tokens_max, layout.all_rows ? layout.tokens_max : sequences}};
    positions = {{layout.positions_max}};
    return Status::kOk;
  }
  InputTokens tokens = layout.tokens_max;
  InputTokens longest = layout.positions_max;
  for (uint32_t i = 1; i < reader.inputs(); ++i) {
    tokens.of[i] = layout.others[i - 1].tokens_max;
    longest.of[i] = layout.others[i - 1].positions_max;
  }
  layout.rows_max = reader.rows_of_axes(tokens, layout.sequences_max, layout.all_rows);
  positions = reader.rows_of_axes(longest, 1, layout.all_rows);
  for (uint32_t i = 1; i < layout.axes; ++i) {
    if (positions[i] > kPositionsLimit) {
      return refuse(why, kInvalid, "more positions than the model's context",
                    "options.positions_max", 0, layout.positions_max, kPositionsLimit);
    }
    if (layout.rows_max[i] == UINT32_MAX) {
      return refuse(why, kInvalid, "too many tokens for one call: set tokens_max",
                    "options.tokens_max", 0, layout.tokens_max, UINT32_MAX);
    }
  }
  return Status::kOk;
}

}  // namespace

Status make_layout(const Model& model, const SessionOptions& options, SessionLayout& layout,
                   Diagnostic* why) {
  if (model.file().empty()) {
    return refuse(why, kInvalid, "the model was not loaded");
  }
  const format::ModelReader reader = ModelAccess::reader(model);
  Status status = resolve_options(reader, options, layout, why);
  if (status != Status::kOk) return status;
  if constexpr (kFunctionsLinked) {
    status = resolve_others(reader, options, layout, why);
    if (status != Status::kOk) return status;
  }
  AxisRows positions;
  status = count_rows(reader, layout, positions, why);
  if (status != Status::kOk) return status;
  return place_parts(reader.formula(ModelAccess::packed_index(model)), reader.inputs(), positions,
                     options.parallel.threads, layout, why);
}

Result<ArenaPlan> plan_arena(const Model& model, const SessionOptions& options, Diagnostic* why) {
  clear(why);
  SessionLayout layout;
  const Status status = make_layout(model, options, layout, why);
  if (status != Status::kOk) return status;
  return layout.plan;
}

}  // namespace arenite
