// SPDX-License-Identifier: Apache-2.0
// Verifies the flow of the program: activation slots, their lifetimes and places, and that every
// column of a slot is written exactly once before it is read or updated. What an op computes with
// its columns is verify_ops.cc's.
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
    return refuse("an op names a slot that is not there", field, op_index, view.slot,
                  model.slots() - 1);
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
    return row.access == Access::kNone || row.optional ||
           refuse("the columns have another width than the op needs", row.field, index, 0, 1);
  }
  if (row.access == Access::kNone) {
    return refuse("an op has columns that it does not know", "ops.views", index, operand);
  }
  return verify_view(model, view, row.field, index, refuse);
}

// What an op writes is nothing that it reads, and its columns have the rows that its row in the
// table says. REQUIRES: verify_operand for all.
bool verify_uses(const ModelReader& model, uint32_t index, const Refusal& refuse) {
  const OpView& op = model.op(index);
  const OpRow& row = row_of(op.kind);
  const ColumnView& output = op.views[kOutput];
  const bool outputs_have = model.slot(output.slot).per_output != 0;
  for (uint32_t i = 0; i < kOperands; ++i) {
    if (access_of(op, i) == Access::kNone) continue;
    const Message field = row.operands[i].field;
    const bool selected = row.rows == RowAxis::kSelected && i == kOutput;
    const bool expected = row.rows == RowAxis::kSame ? outputs_have : selected;
    if ((model.slot(op.views[i].slot).per_output != 0) != expected) {
      return refuse(row.rows == RowAxis::kSame || selected
                        ? Message("an op mixes rows of tokens and rows of outputs")
                        : Message("an op needs a row for each token"),
                    field, index);
    }
    if (i != kOutput && overlap(op.views[i], output)) {
      return refuse("an op overwrites its own input", row.operands[kOutput].field, index);
    }
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

// Ops fill a slot from its first column to its last, and none uses it before it is full.
bool verify_slot_writes(const ModelReader& model, uint32_t index, const Refusal& refuse) {
  const SlotView& slot = model.slot(index);
  const bool is_input =
      model.vocab_size() == 0 && !model.reads_images() && index == model.input_slot();
  uint32_t filled = is_input ? slot.width : 0;
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

bool verify_ends(const ModelReader& model, const Refusal& refuse) {
  if (!holds_cache(model.kv_cache())) {
    return refuse("caches cannot be of this type", "signature.kv_cache", 0,
                  static_cast<uint32_t>(model.kv_cache()),
                  static_cast<uint32_t>(TensorType::kInt8));
  }
  if (model.positions_max() != 0 && model.tokens_min() > model.positions_max()) {
    return refuse("the shortest sequence is longer than the longest", "signature.tokens_min", 0,
                  model.tokens_min(), model.positions_max());
  }
  const uint32_t last_op = model.ops() - 1;
  const uint32_t output = model.output_slot();
  if (output >= model.slots()) {
    return refuse("the output slot is not there", "output_slot", 0, output, model.slots() - 1);
  }
  if (model.slot(output).last_op != last_op) {
    return refuse("the output must be alive to the last op", "slots.last_op", output,
                  model.slot(output).last_op, last_op);
  }
  if (model.vocab_size() != 0 || model.reads_images()) return true;
  const uint32_t input = model.input_slot();
  if (input >= model.slots()) {
    return refuse("the input slot is not there", "input_slot", 0, input, model.slots() - 1);
  }
  const SlotView& slot = model.slot(input);
  if (slot.first_op != 0 || slot.per_output != 0) {
    return refuse("the input must be alive from the first op, with a row for each token",
                  "slots.first_op", input, slot.first_op, 0);
  }
  return true;
}

// Whether an op after `op` still writes to the slot. Each slot was found to be filled once.
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
      return refuse("hidden states follow the ops", "hidden_states.op", i, state.op,
                    model.ops() - 1);
    }
    if (state.view.width == 0) {
      return refuse("a hidden state is empty", "hidden_states.view", i, 0, 1);
    }
    constexpr Message kField = "hidden_states.view";
    if (!verify_view(model, state.view, kField, state.op, refuse)) return false;
    if (model.slot(state.view.slot).per_output != 0) {
      return refuse("a hidden state has a row for each token", kField, i);
    }
    if (filled_later(model, state.view.slot, state.op)) {
      return refuse("a hidden state is shown before it is full", kField, i);
    }
  }
  return true;
}

}  // namespace

bool verify_slots(const ModelReader& model, const Refusal& refuse) {
  const uint32_t last_op = model.ops() - 1;
  for (uint32_t i = 0; i < model.slots(); ++i) {
    const SlotView& slot = model.slot(i);
    if (slot.width == 0 || slot.offset > UINT32_MAX - slot.width) {
      return refuse("a slot has no width or lies too far out", "slots.width", i, slot.width, 1);
    }
    if (slot.per_output > 1) {
      return refuse("a slot has unknown rows", "slots.per_output", i, slot.per_output, 1);
    }
    if (slot.first_op > slot.last_op || slot.last_op > last_op) {
      return refuse("a slot's lifetime is not within the program", "slots.last_op", i, slot.last_op,
                    last_op);
    }
    for (uint32_t j = 0; j < i; ++j) {
      const SlotView& other = model.slot(j);
      if (slot.per_output == other.per_output && alive_together(slot, other) &&
          slot.offset < other.offset + other.width && other.offset < slot.offset + slot.width) {
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
  return verify_hidden_states(model, refuse);
}

}  // namespace arenite::format
