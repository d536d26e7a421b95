// SPDX-License-Identifier: Apache-2.0
// Asks the runtime's own planner for each target.
#include "cli/session_sizes.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "cli/text_table.h"
#include "convert/files/error.h"
#include "convert/files/memory.h"
#include "core/views.h"
#include "kernels/kernel_set.h"
#include "ops/rows.h"
#include "session/session_state.h"

namespace arenite::tool {

SessionOptions default_session_options(const format::ModelReader& reader) {
  SessionOptions options;
  options.positions_max = reader.positions_max() != 0 ? reader.positions_max() : kDefaultPositions;
  options.tokens_max = options.positions_max;
  if (reader.vocab_size() != 0) {
    options.tokens_max =
        std::min(options.tokens_max, format::allowed_length(reader.lengths(), kDefaultTokens));
  }
  for (uint32_t i = 1; i < reader.inputs(); ++i) {
    const uint32_t most = reader.positions_max(i);
    options.others[i - 1].positions_max = most != 0 ? most : kDefaultPositions;
    options.others[i - 1].tokens_max = options.others[i - 1].positions_max;
  }
  return options;
}

SessionSizes default_sizes(const format::ModelReader& reader) {
  const SessionOptions options = default_session_options(reader);
  SessionSizes sizes = {options.positions_max, options.tokens_max, 1, false, 1, reader.kv_cache()};
  std::ranges::copy(options.others, sizes.others);
  return sizes;
}

SizeOptions resolve_sizes(const VerifiedFile& file, const SizeOptions& sizes) {
  const ArenaLayout layout = plan_targets(file, sizes).front();
  const KvType kv_cache = layout.kv_type == TensorType::kInt8 ? KvType::kInt8 : KvType::kF32;
  SizeOptions resolved = {layout.positions_max, layout.tokens_max, layout.sequences_max,
                          sizes.threads, kv_cache};
  std::ranges::copy(default_session_options(file.reader()).others, resolved.others);
  return resolved;
}

SessionOptions options_of(const format::ModelReader& reader, const SizeOptions& sizes) {
  SessionOptions options = default_session_options(reader);
  if (sizes.positions != 0) options.positions_max = sizes.positions;
  if (reader.vocab_size() == 0) options.tokens_max = 0;
  if (options.tokens_max > options.positions_max) options.tokens_max = options.positions_max;
  if (sizes.tokens != 0) options.tokens_max = sizes.tokens;
  options.sequences_max = sizes.sequences;
  options.kv_cache = sizes.kv_cache;
  return options;
}

std::vector<ArenaLayout> plan_targets(const VerifiedFile& file, const SizeOptions& sizes) {
  const format::ModelReader reader = file.reader();
  SessionOptions options = options_of(reader, sizes);
  options.parallel.threads = sizes.threads;
  // Planning only checks whether there is a pool.
  options.parallel.run = [](void*, uint32_t, ParallelFor::Task, void*) {};
  std::vector<ArenaLayout> layouts(reader.packed_count());
  for (uint32_t i = 0; i < reader.packed_count(); ++i) {
    const Target target = static_cast<Target>(reader.packed(i).target);
    SessionLayout layout;
    Diagnostic why;
    const Status status =
        make_layout(ModelAccess::make(file.bytes(), i, target), options, layout, &why);
    if (status != Status::kOk) throw_status(file.name(), status, why);
    layouts[i] = layout;
  }
  return layouts;
}

namespace {

// Replaces a slice: records the work of the largest task and runs none.
struct LargestTask : Slice {
  SmallestSlice largest;
  uint32_t op = 0;

  static void see(void* slice, uint32_t, ParallelFor::Task, void*) {
    LargestTask& own = *static_cast<LargestTask*>(static_cast<Slice*>(slice));
    const uint64_t takes = uint64_t{own.work} + kTaskWork + kOpWork;
    if (takes > own.largest.multiply_adds) own.largest = {takes, own.op};
  }
  ParallelFor pool() { return {0, see, static_cast<Slice*>(this)}; }
};

// A target's kernel set, filled in only as far as it determines how work is divided.
struct Divisions {
  explicit Divisions(Target target)
      : w8{packing_of(target, TensorType::kW8), {}},
        q8{packing_of(target, TensorType::kQ8), nullptr, {}},
        q4{packing_of(target, TensorType::kQ4), nullptr, {}} {
    kernels.target = target;
    kernels.f32.packing = packing_of(target, TensorType::kF32);
    kernels.w8 = &w8;
    kernels.q8 = &q8;
    kernels.q4 = &q4;
  }

  FloatKernels w8;
  QuantizedKernels q8, q4;
  KernelSet kernels = {};
};

// Visits the ops of a function as in a call with `rows` rows of each axis at the context's end.
void see_tasks(SessionState& state, uint32_t function, const AxisRows& rows,
               const AxisRows& positions, LargestTask& tasks) {
  const format::ModelReader& reader = state.reader;
  for (uint32_t axis = 0; axis < state.axes(); ++axis) {
    const uint32_t held = positions[axis] - std::min(rows[axis], positions[axis]);
    state.sequences(axis)[0] = {held, 0, rows[axis], held + rows[axis]};
  }
  state.function = static_cast<uint8_t>(function);
  state.ops_left = reader.end_of_ops(function) - reader.first_op(function);
  while (state.ops_left != 0) {
    tasks.op = reader.end_of_ops(function) - state.ops_left;
    (void)state.run_ops(1, nullptr);
  }
}

}  // namespace

SmallestSlice smallest_slice(std::span<const std::byte> file, uint32_t packed_index,
                             SessionOptions options) {
  options.sequences_max = 1;
  options.tokens_max = std::min(options.tokens_max, options.positions_max);
  const format::ModelReader reader(file);
  const Target target = static_cast<Target>(reader.packed(packed_index).target);
  const Model model = ModelAccess::make(file, packed_index, target);
  LargestTask tasks;
  options.parallel = tasks.pool();
  SessionOptions planned = options;
  planned.parallel = {};
  SessionLayout layout;
  if (make_layout(model, planned, layout, nullptr) != Status::kOk) return {};
  const Divisions divisions(target);
  // Only the session state is touched, so the rest of the arena is not allocated.
  convert::AlignedBytes memory(layout.plan.session_bytes);
  SessionState& state = *std::construct_at(reinterpret_cast<SessionState*>(memory.data()), model,
                                           divisions.kernels, options, layout);
  for (uint32_t i = 1; i < reader.inputs(); ++i) {
    std::construct_at(&state.other_input(i), InputState{layout.others[i - 1], {}});
  }
  for (SequenceRows& rows : state.rows_of_all()) std::construct_at(&rows);
  const AxisRows positions = reader.rows_of_axes(state.positions_max(), 1, true);
  for (uint32_t function = 0; function < reader.functions(); ++function) {
    // Calls of fewer rows may have larger blocks.
    for (uint32_t count = 0; count <= kRowsMax; ++count) {
      AxisRows rows = layout.rows_max;
      for (uint32_t axis = 0; axis < state.axes() && count != 0; ++axis) rows.of[axis] = count;
      see_tasks(state, function, rows, positions, tasks);
    }
  }
  return tasks.largest;
}

std::string of_inputs(const format::ModelReader& reader, uint32_t axis) {
  std::string text;
  for (uint32_t i = 0; i < reader.inputs() && reader.inputs() > 1; ++i) {
    if ((reader.inputs_of_axis(axis) >> i & 1) == 0) continue;
    text += (text.empty() ? " of " : " and ") + convert::printable(reader.input_name(i), 40);
  }
  return text;
}

std::string sizes_text(const format::ModelReader& reader, const InputTokens& sizes,
                       const std::string& noun) {
  std::string text;
  for (uint32_t i = 0; i < reader.inputs(); ++i) {
    const char* const before = i == 0 ? "" : i + 1 == reader.inputs() ? " and " : ", ";
    const std::string unit = reader.reads_images(i) ? "pixel" : noun;
    text += before + (i == 0 ? counted(sizes[i], unit) : grouped(sizes[i])) +
            of_inputs(reader, reader.axis_of_input(i));
  }
  return text;
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
