// SPDX-License-Identifier: Apache-2.0
// Evaluates the arena formula of a model for the sizes that the application wants.
#include "session/session_state.h"

#include "arenite/arena_formula.h"
#include "core/message.h"
#include "core/needs.h"

namespace arenite {
namespace {

constexpr uint32_t kThreadsMax = 1024;
// One past the last position must still be a position, for the arithmetic of masks.
constexpr uint32_t kPositionsLimit = UINT32_MAX - kPagePositions;

constexpr Status kInvalid = Status::kInvalidArgument;

Status resolve_kv_cache(const Model& model, KvType type, ArenaLayout& layout, Diagnostic* why) {
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
                  "this build lacks caches in int8, which none of its models asks for", kField, 0,
                  number);
  }
  return Status::kOk;
}

Status resolve_options(const Model& model, const SessionOptions& options, ArenaLayout& layout,
                       Diagnostic* why) {
  const uint32_t model_positions = model.positions_max();
  if constexpr (linked(Need::kPrefix)) {
    layout.prefix_rows = ModelAccess::reader(model).prefix_rows();
  }
  layout.positions_max = options.positions_max != 0 ? options.positions_max : model_positions;
  if (layout.positions_max == 0) {
    return refuse(why, kInvalid, "the model has no context length: say how many positions",
                  "options.positions_max", 0, 0, 1);
  }
  // A file may say more positions than can be counted in whole panels.
  uint32_t limit = kPositionsLimit - layout.prefix_rows;
  if (model_positions != 0 && model_positions < limit) limit = model_positions;
  if (layout.positions_max > limit) {
    return refuse(why, kInvalid, "more positions than the model's context", "options.positions_max",
                  0, layout.positions_max, limit);
  }
  layout.sequences_max = options.sequences_max;
  if (layout.sequences_max == 0) {
    return refuse(why, kInvalid, "there must be at least one sequence", "options.sequences_max", 0,
                  0, 1);
  }
  const uint64_t all_tokens = uint64_t{layout.positions_max} * layout.sequences_max;
  const bool countable = all_tokens <= UINT32_MAX;
  layout.tokens_max =
      options.tokens_max != 0 ? options.tokens_max : static_cast<uint32_t>(all_tokens);
  if (countable && layout.tokens_max > static_cast<uint32_t>(all_tokens)) {
    return refuse(why, kInvalid, "more tokens in a call than there are positions",
                  "options.tokens_max", 0, layout.tokens_max, all_tokens);
  }
  if (!countable && options.tokens_max == 0) {
    return refuse(why, kInvalid, "too many tokens for one call: say how many it takes",
                  "options.tokens_max", 0, all_tokens, UINT32_MAX);
  }
  if constexpr (linked(Need::kPrefix)) {
    if (layout.rows_max() == UINT32_MAX && layout.prefix_rows != 0) {
      return refuse(why, kInvalid, "too many tokens for one call: say how many it takes",
                    "options.tokens_max", 0, layout.tokens_max, UINT32_MAX);
    }
  }
  const bool each_token = options.outputs == Outputs::kAll && !model.pooled();
  layout.outputs_max =
      outputs_max(each_token, layout.tokens_max, layout.sequences_max, layout.prefix_rows);
  const ParallelFor& parallel = options.parallel;
  if (parallel.threads == 0 || parallel.threads > kThreadsMax) {
    return refuse(why, kInvalid, "the number of threads makes no sense", "options.parallel.threads",
                  0, parallel.threads, kThreadsMax);
  }
  if (parallel.threads > 1 && parallel.run == nullptr) {
    return refuse(why, kInvalid, "several threads need a function that runs them",
                  "options.parallel.run", 0, 0, 1);
  }
  return resolve_kv_cache(model, options.kv_cache, layout, why);
}

}  // namespace

SessionSizes sizes_of(const ArenaLayout& layout, uint32_t threads) {
  return {layout.positions_max + layout.prefix_rows,
          layout.rows_max(),
          layout.sequences_max,
          layout.outputs_max,
          threads,
          layout.kv_type};
}

Status place_parts(const ArenaFormula& formula, uint32_t threads, ArenaLayout& layout,
                   Diagnostic* why) {
  const ArenaSizes sizes = evaluate_rows(formula, sizes_of(layout, threads));
  if (sizes.total_bytes.value() > SIZE_MAX / 2) {
    return refuse(why, kInvalid, "the arena would be larger than the address space", "options", 0,
                  sizes.total_bytes.value(), SIZE_MAX / 2);
  }
  const auto bytes = [](const Checked& size) { return static_cast<size_t>(size.value()); };
  layout.plan = {bytes(sizes.session_bytes), bytes(sizes.kv_cache_bytes),
                 bytes(sizes.activation_bytes), bytes(sizes.scratch_bytes),
                 bytes(sizes.total_bytes)};
  layout.kv_cache_offset = layout.plan.session_bytes;
  layout.activation_offset = layout.kv_cache_offset + layout.plan.kv_cache_bytes;
  layout.output_offset =
      layout.activation_offset + size_t{formula.activation_bytes_per_token} * layout.rows_max();
  layout.scratch_offset = layout.activation_offset + layout.plan.activation_bytes;
  layout.threads_offset = layout.scratch_offset + bytes(sizes.scratch_bytes_of_rows);
  layout.scratch_bytes_per_thread = bytes(sizes.scratch_bytes_per_thread);
  return Status::kOk;
}

Status make_layout(const Model& model, const SessionOptions& options, ArenaLayout& layout,
                   Diagnostic* why) {
  if (model.file().empty()) {
    return refuse(why, kInvalid, "the model was not loaded");
  }
  const Status status = resolve_options(model, options, layout, why);
  if (status != Status::kOk) return status;
  const format::ModelReader reader = ModelAccess::reader(model);
  return place_parts(reader.formula(ModelAccess::packed_index(model)), options.parallel.threads,
                     layout, why);
}

Result<ArenaPlan> plan_arena(const Model& model, const SessionOptions& options, Diagnostic* why) {
  clear(why);
  ArenaLayout layout;
  const Status status = make_layout(model, options, layout, why);
  if (status != Status::kOk) return status;
  return layout.plan;
}

}  // namespace arenite
