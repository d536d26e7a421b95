// SPDX-License-Identifier: Apache-2.0
// Verifies the data flow of the program: functions, axes, the lifetimes and offsets of slots, and
// that each column of a slot is written exactly once before it is read or updated. verify_ops.cc
// verifies what an op does with its columns.
#include <cstring>

#include "arenite/checked_math.h"
#include "format/verify.h"

namespace arenite::format {
namespace {

bool alive_together(const SlotView& a, const SlotView& b) {
  return a.first_op <= b.last_op && b.first_op <= a.last_op;
}

// REQUIRES: both views lie within their slots.
bool overlap(const ColumnView& a, const ColumnView& b) {
  return a.slot == b.slot && a.column < b.column + b.width && b.column < a.column + a.width;
}

bool verify_view(const ModelReader& model, const ColumnView& view, Message field, uint32_t op_index,
                 const Refusal& refuse) {
  if (view.slot >= model.slots()) {
    return refuse("an op's slot does not exist", field, op_index, view.slot, model.slots() - 1);
  }
  const SlotView& slot = model.slot(view.slot);
  if (view.column >= slot.width || view.width > slot.width - view.column) {
    return refuse("an op reaches beyond the width of a slot", field, op_index,
                  (Checked(view.column) + view.width).value(), slot.width);
  }
  if (op_index < slot.first_op || op_index > slot.last_op) {
    return refuse("an op uses a slot outside its lifetime", field, op_index, op_index,
                  op_index < slot.first_op ? slot.first_op : slot.last_op);
  }
  return true;
}

bool verify_operand(const ModelReader& model, uint32_t index, uint32_t operand,
                    const Refusal& refuse) {
  const OperandRow& row = row_of(model.op(index).kind).operands[operand];
  const ColumnView& view = model.op(index).views[operand];
  if (view.width == 0) {
    if (row.access == Access::kNone || row.optional) return true;
    return refuse("the columns have the wrong width for the op", row.field, index, 0, 1);
  }
  if (row.access == Access::kNone) {
    return refuse("an op has an operand that its kind lacks", "ops.views", index, operand);
  }
  return verify_view(model, view, row.field, index, refuse);
}

// Checks that the output of an op overlaps none of its inputs, and that the operands are on the
// axes that the op's AxisRule allows. REQUIRES: verify_operand accepted all operands.
bool verify_uses(const ModelReader& model, uint32_t index, const Refusal& refuse) {
  const OpView& op = model.op(index);
  const OpRow& row = row_of(op.kind);
  const ColumnView& output = op.views[kOutput];
  const uint32_t axis = model.axis_of_op(index);
  if (row.axes == AxisRule::kPositions && model.kind_of_axis(axis) == AxisKind::kAsked) {
    return refuse("an op needs rows that have positions", row.operands[kOutput].field, index);
  }
  for (uint32_t i = 0; i < kOutput; ++i) {
    if (access_of(op, i) == Access::kNone) continue;
    const Message field = row.operands[i].field;
    const bool is_broadcast = kPoolsLinked && row.axes == AxisRule::kBroadcast && i == kOther &&
                              model.kind_of_slot(op.views[i].slot) == AxisKind::kOne;
    const bool is_same = model.whole_axis(model.axis_of(op.views[i])) == model.whole_axis(axis);
    if (!is_same && !is_broadcast && row.axes != AxisRule::kOwn) {
      return refuse("an op mixes rows of several axes", field, index);
    }
    if (overlap(op.views[i], output)) {
      return refuse("an op overwrites its own input", row.operands[kOutput].field, index);
    }
  }
  return true;
}

// Checks that no op of a block run reads a cache that another op of the run fills: each block would
// find only a part of its keys.
bool verify_caches_of_run(const ModelReader& model, const OpRange& run, const Refusal& refuse) {
  static_assert(uint32_t{StoreOp::kCache} == AttentionOp::kCache);
  for (uint32_t i = run.first; i <= run.last; ++i) {
    if (model.op(i).kind != OpKind::kStore) continue;
    const uint32_t cache = model.op(i).numbers[StoreOp::kCache];
    for (uint32_t k = run.first; k <= run.last; ++k) {
      const OpView& other = model.op(k);
      if (other.kind != OpKind::kAttention || other.numbers[AttentionOp::kCache] != cache) continue;
      return refuse("an op reads a cache that its own block range fills", "ops.cache", k, cache);
    }
  }
  return true;
}

// Checks a run of ops that all run over one block of rows, then over the next. Each op must work
// row by row on the axis of the blocks or on its source; slots with all rows must live throughout
// the run; and no hidden state may be output between its ops.
bool verify_run_of_blocks(const ModelReader& model, uint32_t first, const OpRange& run,
                          const Refusal& refuse) {
  const uint32_t axis = model.blocks_of(model.op(first));
  for (uint32_t i = run.first; i <= run.last; ++i) {
    const OpView& op = model.op(i);
    bool is_sound = runs_in_blocks(op);
    for (const ColumnView& view : op.views) {
      const uint32_t own = view.width == 0 ? axis : model.axis_of(view);
      is_sound = is_sound && (own == axis || own == model.source_of_axis(axis));
    }
    if (!is_sound) {
      return refuse("an op cannot run over blocks of rows", "ops.kind", i,
                    static_cast<uint32_t>(op.kind));
    }
  }
  for (uint32_t i = 0; i < model.slots(); ++i) {
    const SlotView& slot = model.slot(i);
    const bool begins = run.first < slot.first_op && slot.first_op <= run.last;
    const bool ends = run.first <= slot.last_op && slot.last_op < run.last;
    if (slot.axis == axis ? run.first == first : !begins && !ends) continue;
    return refuse("a slot's lifetime splits a block range", "slots.last_op", i, slot.last_op,
                  run.last);
  }
  for (uint32_t i = 0; i < model.hidden_states(); ++i) {
    const uint32_t op = model.hidden_state(i).op;
    if (run.first <= op && op < run.last) {
      return refuse("a hidden state is read before all blocks are done", "hidden_states.op", i, op,
                    run.last);
    }
  }
  return verify_caches_of_run(model, run, refuse);
}

bool verify_blocks(const ModelReader& model, const Refusal& refuse) {
  for (uint32_t i = 0; i < model.ops(); ++i) {
    if (model.blocks_of(model.op(i)) == 0) continue;
    const OpRange run = model.run_of_blocks(i);
    if (!verify_run_of_blocks(model, i, run, refuse)) return false;
    i = run.last;
  }
  return true;
}

bool verify_op_flow(const ModelReader& model, uint32_t index, const Refusal& refuse) {
  const uint32_t kind = static_cast<uint32_t>(model.op(index).kind);
  if (kind >= kOpKinds) {
    return refuse("an op is of an unknown kind", "ops.kind", index, kind, kOpKinds - 1);
  }
  for (uint32_t i = 0; i < kOperands; ++i) {
    if (!verify_operand(model, index, i, refuse)) return false;
  }
  return verify_uses(model, index, refuse);
}

// Whether an input writes its features to this slot.
bool is_input(const ModelReader& model, uint32_t slot) {
  for (uint32_t i = 0; i < model.inputs(); ++i) {
    if (model.vocab_size(i) == 0 && slot == model.input_slot(i)) return true;
  }
  return false;
}

// Checks that ops fill a slot from its first column to its last, and use it only when it is full.
bool verify_slot_writes(const ModelReader& model, uint32_t index, const Refusal& refuse) {
  const SlotView& slot = model.slot(index);
  uint32_t filled = is_input(model, index) ? slot.width : 0;
  for (uint32_t i = slot.first_op; i <= slot.last_op; ++i) {
    const OpView& op = model.op(i);
    for (uint32_t k = 0; k < kOperands; ++k) {
      const ColumnView& view = op.views[k];
      const Access access = access_of(op, k);
      if (access == Access::kNone || view.slot != index) continue;
      const Message field = row_of(op.kind).operands[k].field;
      if (access != Access::kWrite) {
        if (filled == slot.width) continue;
        return refuse("an op uses a slot before it is full", field, i, filled, slot.width);
      }
      if (view.column != filled) {
        return refuse("ops must fill a slot column by column, each once", field, i, view.column,
                      filled);
      }
      filled += view.width;
    }
  }
  if (filled != slot.width) {
    return refuse("a slot is never filled", "slots", index, filled, slot.width);
  }
  return true;
}

bool verify_output(const ModelReader& model, uint32_t of, const Refusal& refuse) {
  const uint32_t last_op = model.end_of_ops(of) - 1;
  const uint32_t output = model.output_slot(of);
  if (output >= model.slots()) {
    return refuse("the output slot does not exist", "functions.output_slot", of, output,
                  model.slots() - 1);
  }
  if (model.slot(output).last_op != last_op) {
    return refuse("the output must stay alive until the last op", "slots.last_op", output,
                  model.slot(output).last_op, last_op);
  }
  if (!model.is_of_blocks(model.slot(output).axis)) return true;
  return refuse("the output slot holds only a block of rows", "functions.output_slot", of, output);
}

// Checks the sequence lengths of an input and, if it is features, its slot.
bool verify_input(const ModelReader& model, uint32_t index, const Refusal& refuse) {
  if (model.positions_max(index) != 0 && model.tokens_min(index) > model.positions_max(index)) {
    return refuse("the shortest sequence is longer than the longest", "inputs.tokens_min", index,
                  model.tokens_min(index), model.positions_max(index));
  }
  if (model.vocab_size(index) != 0) return true;
  const uint32_t input = model.input_slot(index);
  if (input >= model.slots()) {
    return refuse("the input slot does not exist", "inputs.slot", index, input, model.slots() - 1);
  }
  const SlotView& slot = model.slot(input);
  const uint32_t first_op = model.first_op(model.function_of_input(index));
  if (slot.first_op != first_op || slot.axis != model.axis_of_input(index)) {
    return refuse("the input must be on its axis, alive from the first op", "slots.first_op", input,
                  slot.first_op, first_op);
  }
  return true;
}

bool verify_ends(const ModelReader& model, const Refusal& refuse) {
  const TensorType kv_cache = model.kv_cache();
  if (!holds_cache(kv_cache)) {
    return refuse("caches cannot be of this type", "kv_cache", 0, static_cast<uint32_t>(kv_cache),
                  static_cast<uint32_t>(TensorType::kInt8));
  }
  for (uint32_t i = 0; i < model.functions(); ++i) {
    if (!verify_output(model, i, refuse)) return false;
  }
  for (uint32_t i = 0; i < model.inputs(); ++i) {
    if (!verify_input(model, i, refuse)) return false;
  }
  return true;
}

// Whether an op after `op` still writes to the slot. REQUIRES: verify_slot_writes accepted it.
bool filled_later(const ModelReader& model, uint32_t slot, uint32_t op) {
  for (uint32_t i = op + 1; i <= model.slot(slot).last_op; ++i) {
    const OpView& later = model.op(i);
    if (later.views[kOutput].slot == slot && access_of(later, kOutput) == Access::kWrite) {
      return true;
    }
  }
  return false;
}

bool verify_hidden_states(const ModelReader& model, const Refusal& refuse) {
  for (uint32_t i = 0; i < model.hidden_states(); ++i) {
    const HiddenStateView& state = model.hidden_state(i);
    if (state.op >= model.ops() || (i > 0 && state.op < model.hidden_state(i - 1).op)) {
      return refuse("hidden states are not in op order", "hidden_states.op", i, state.op,
                    model.ops() - 1);
    }
    if (state.view.width == 0) {
      return refuse("a hidden state is empty", "hidden_states.view", i, 0, 1);
    }
    constexpr Message kField = "hidden_states.view";
    if (!verify_view(model, state.view, kField, state.op, refuse)) return false;
    const uint32_t axis = model.axis_of(state.view);
    if (is_output_axis(model.kind_of_axis(axis)) || model.is_of_blocks(axis)) {
      return refuse("a hidden state lacks a row for each token", kField, i);
    }
    if (filled_later(model, state.view.slot, state.op)) {
      return refuse("a hidden state is read before it is full", kField, i);
    }
  }
  return true;
}

// Checks an axis of images: whole lines, sequences that are whole images, and strides above 0.
bool verify_image_axis(const ModelReader& model, uint32_t index, const Refusal& refuse) {
  const std::span<const arenite::Axis> axes = model.axes();
  const arenite::Axis& axis = axes[index];
  if (axis.rows - 1 >= kPixelsMax || axis.other == 0 || axis.rows % axis.other != 0) {
    return refuse("an image is not made of whole lines, or too large", "axes.rows", index,
                  axis.rows, kPixelsMax);
  }
  if (axis.kind == AxisKind::kInput) {
    const uint32_t of = kFunctionsLinked ? axis.source : 0;
    const bool is_whole = model.vocab_size(of) == 0 && model.positions_max(of) == axis.rows &&
                          model.tokens_min(of) == axis.rows;
    if (is_whole) return true;
    return refuse("an image is not a whole sequence of features", "axes.rows", index, axis.rows,
                  model.positions_max(of));
  }
  if (!axes[axis.source].is_image()) {
    return refuse("windows over pixels are not over an image", "axes.source", index, axis.source);
  }
  if (axis.stride >> 16 != 0 && (axis.stride & 0xFFFFu) != 0) return true;
  return refuse("the stride of windows is 0 or too large", "axes.stride", index, axis.stride,
                UINT32_MAX);
}

// Checks the window fields of an axis, and that even the shortest sequence has a window on it.
bool verify_axis_of_windows(const ModelReader& model, uint32_t index, const Refusal& refuse) {
  const arenite::Axis& axis = model.axes()[index];
  const bool is_image = kWindowsLinked && axis.is_image();
  if (!kWindowsLinked || axis.kind != AxisKind::kWindows) {
    const bool has_stride = kWindowsLinked && axis.kind == AxisKind::kPixels;
    if (is_image && !verify_image_axis(model, index, refuse)) return false;
    if ((has_stride || axis.stride == 0) && axis.window == 0) return true;
    return refuse("an axis has window fields that its kind lacks", "axes.stride", index,
                  axis.stride);
  }
  if (model.axes()[axis.source].is_image()) {
    return refuse("windows over rows are over the pixels of an image", "axes.source", index,
                  axis.source);
  }
  if (axis.stride == 0 || axis.stride > uint32_t{kWindowRowsMax}) {
    return refuse("the stride of windows is 0 or too large", "axes.stride", index, axis.stride,
                  uint32_t{kWindowRowsMax});
  }
  if (axis.window < -2 * kWindowRowsMax || axis.window > kWindowRowsMax) {
    return refuse("windows or their padding are too large", "axes.window", index,
                  static_cast<uint32_t>(axis.window), uint32_t{kWindowRowsMax});
  }
  if (model.rows_of_axes(model.shortest(), 1, true)[index] != 0) return true;
  return refuse("a window is larger than the shortest sequence", "axes.window", index,
                static_cast<uint32_t>(axis.window));
}

// Checks that a slot lives within a single function, and that this function takes all inputs of the
// slot's axis.
bool verify_function_of_slot(const ModelReader& model, uint32_t index, const Refusal& refuse) {
  const SlotView& slot = model.slot(index);
  const uint32_t of = model.function_of_op(slot.first_op);
  const FunctionView& function = model.function(of);
  if (slot.last_op >= function.end()) {
    return refuse("a slot's lifetime spans several functions", "slots.last_op", index, slot.last_op,
                  function.end() - 1);
  }
  const uint32_t inputs = model.inputs_of_axis(slot.axis);
  if ((inputs & ~function.inputs) == 0) return true;
  return refuse("a slot is on the axis of an input that its function does not take", "slots.axis",
                index, inputs, function.inputs);
}

// Checks that each input has its own axis: of kind kInput, with the input's index as source. Axis 0
// is that of input 0.
bool verify_axes_of_inputs(const ModelReader& model, const Refusal& refuse) {
  const std::span<const arenite::Axis> axes = model.axes();
  for (uint32_t i = 0; i < model.inputs(); ++i) {
    const uint32_t index = model.input(i).axis;
    const bool is_own = i == 0 ? index == 0
                               : index < axes.size() && axes[index].kind == AxisKind::kInput &&
                                     axes[index].source == i;
    if (!is_own) return refuse("an input is not on its own axis", "inputs.axis", i, index);
  }
  return true;
}

}  // namespace

// Checks that the functions follow each other and contain all ops, and that each input is taken by
// exactly one function.
bool verify_functions(const ModelReader& model, const Refusal& refuse) {
  const uint32_t all_inputs = (uint32_t{1} << model.inputs()) - 1;
  uint32_t end = 0;
  uint32_t taken = 0;
  for (uint32_t i = 0; i < model.functions(); ++i) {
    const FunctionView& function = model.function(i);
    if (function.first_op != end || function.ops - 1 >= model.ops() - end) {
      return refuse("functions omit ops, or overlap", "functions.ops", i, function.first_op, end);
    }
    end += function.ops;
    const uint32_t inputs = function.inputs;
    if (inputs == 0 || (inputs & ~all_inputs) != 0 || (inputs & taken) != 0) {
      return refuse("a function has no input, or an unknown or taken one", "functions.inputs", i,
                    inputs, all_inputs & ~taken);
    }
    taken |= inputs;
  }
  if (end == model.ops() && taken == all_inputs) return true;
  return refuse("functions omit ops or inputs", "functions", model.functions() - 1, end,
                model.ops());
}

// A build without kAxesLinked accepts only the axis of the input and one of kind kAsked.
bool verify_axes(const ModelReader& model, const Refusal& refuse) {
  const std::span<const arenite::Axis> axes = model.axes();
  if (kFunctionsLinked && !verify_axes_of_inputs(model, refuse)) return false;
  if constexpr (!kAxesLinked) {
    constexpr arenite::Axis kKnown[] = {{}, {.kind = AxisKind::kAsked}};
    return (axes.size() <= kLinkedAxesMax &&
            std::memcmp(axes.data(), kKnown, axes.size_bytes()) == 0) ||
           refuse("an axis is of an unknown kind", "axes.kind");
  }
  for (uint32_t i = 0; i < axes.size(); ++i) {
    const arenite::Axis& axis = axes[i];
    const uint32_t kind = static_cast<uint32_t>(axis.kind);
    const bool is_input = axis.kind == AxisKind::kInput;
    if (kind >= kAxisKinds || (kFunctionsLinked ? i == 0 && !is_input : is_input != (i == 0))) {
      return refuse("the first axis is not an input's, or a kind of axis is unknown", "axes.kind",
                    i, kind, kAxisKinds - 1);
    }
    const auto is_sound = [&](uint32_t source) {
      if (is_input) {
        return kFunctionsLinked ? source < model.inputs() && model.input(source).axis == i
                                : source == 0;
      }
      return source < i && axes[source].kind != AxisKind::kAsked && !model.is_of_blocks(source);
    };
    const bool has_other = axis.kind == AxisKind::kJoined;
    const bool is_image = kWindowsLinked && axis.is_image();
    const bool is_other_sound = has_other ? is_sound(axis.other) : is_image || axis.other == 0;
    if (!is_sound(axis.source) || !is_other_sound) {
      return refuse("an axis has a source that does not precede it", "axes.source", i, axis.source,
                    i);
    }
    const bool has_rows =
        axis.kind == AxisKind::kConstants || axis.kind == AxisKind::kTurns || model.is_of_blocks(i);
    if (has_rows ? axis.rows - 1 >= kAxisRowsMax : !is_image && axis.rows != 0) {
      return refuse("an axis has no rows, or too many", "axes.rows", i, axis.rows, kAxisRowsMax);
    }
    if (!verify_axis_of_windows(model, i, refuse)) return false;
    const uint32_t positions = model.rows_of_axes(model.positions(), 1, true)[i];
    const bool is_counted =
        has_other || axis.kind >= AxisKind::kWindows;  // rows of windows, pixels, blocks or turns
    if (is_counted && positions > kPositionsLimit) {
      return refuse("an axis has more rows than can be counted", "axes.rows", i, positions,
                    kPositionsLimit);
    }
  }
  return true;
}

bool verify_slots(const ModelReader& model, const Refusal& refuse) {
  const uint32_t last_op = model.ops() - 1;
  for (uint32_t i = 0; i < model.slots(); ++i) {
    const SlotView& slot = model.slot(i);
    if (slot.width == 0 || slot.offset > UINT32_MAX - slot.width) {
      return refuse("a slot has no width, or its offset is too large", "slots.width", i, slot.width,
                    1);
    }
    const auto axes = static_cast<uint32_t>(model.axes().size());
    if (slot.axis >= axes) {
      return refuse("a slot's axis does not exist", "slots.axis", i, slot.axis, axes - 1);
    }
    if (slot.first_op > slot.last_op || slot.last_op > last_op) {
      return refuse("a slot's lifetime is not within the program", "slots.last_op", i, slot.last_op,
                    last_op);
    }
    if (kFunctionsLinked && !verify_function_of_slot(model, i, refuse)) return false;
    for (uint32_t j = 0; j < i; ++j) {
      const SlotView& other = model.slot(j);
      if (alive_together(slot, other) && slot.offset < other.offset + other.width &&
          other.offset < slot.offset + slot.width &&
          model.area_of(slot.axis) == model.area_of(other.axis)) {
        return refuse("slots that are alive together overlap", "slots.offset", i, slot.offset,
                      other.offset);
      }
    }
  }
  return verify_ends(model, refuse);
}

bool verify_flow(const ModelReader& model, const Refusal& refuse) {
  for (uint32_t i = 0; i < model.ops(); ++i) {
    if (!verify_op_flow(model, i, refuse)) return false;
  }
  for (uint32_t i = 0; i < model.slots(); ++i) {
    if (!verify_slot_writes(model, i, refuse)) return false;
  }
  if (linked(Need::kBlocks) && !verify_blocks(model, refuse)) return false;
  return verify_hidden_states(model, refuse);
}

}  // namespace arenite::format
