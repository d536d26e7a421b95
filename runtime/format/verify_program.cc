// SPDX-License-Identifier: Apache-2.0
// Verifies the flow of the program: activation slots, their lifetimes and places, and that every
// column of a slot is written exactly once before it is read or updated. What an op computes with
// its columns is verify_ops.cc's.
#include "arenite/checked_math.h"
#include "format/verify_parts.h"

namespace arenite::format {
namespace {

bool alive_together(const SlotView& a, const SlotView& b) {
  return a.first_op <= b.last_op && b.first_op <= a.last_op;
}

// REQUIRES: both views lie within their slots.
bool overlap(const ColumnView& a, const ColumnView& b) {
  return a.slot == b.slot && a.column < b.column + b.width && b.column < a.column + a.width;
}

bool verify_view(const ModelReader& model, const Use& use, uint32_t op_index,
                 const Refusal& refuse) {
  const ColumnView& view = use.view;
  if (view.slot >= model.slots()) {
    return refuse("an op names a slot that is not there", use.field, op_index, view.slot,
                  model.slots() - 1);
  }
  const SlotView slot = model.slot(view.slot);
  if (view.column >= slot.width || view.width > slot.width - view.column) {
    return refuse("an op reaches beyond the width of a slot", use.field, op_index,
                  uint64_t{view.column} + view.width, slot.width);
  }
  if (op_index < slot.first_op || op_index > slot.last_op) {
    return refuse("an op uses a slot outside its lifetime", use.field, op_index, op_index,
                  op_index < slot.first_op ? slot.first_op : slot.last_op);
  }
  return true;
}

// Ops read inputs after they began to write, so what they write is nothing that they read; and
// all columns of an op have the same rows, except those that a select op gives out.
bool verify_uses(const ModelReader& model, uint32_t index, const Refusal& refuse) {
  const OpView op = model.op(index);
  if (op.kind == OpKind::kNone) {
    return refuse("an op is of a kind that this version does not know", "ops.body", index);
  }
  const Uses uses = op.uses();
  for (const Use& use : uses) {
    if (!verify_view(model, use, index, refuse)) return false;
  }
  for (const Use& use : uses) {
    const bool selected = op.kind == OpKind::kSelect && use.access == Access::kWrite;
    const bool per_output = model.slot(use.view.slot).per_output;
    const bool expected = selected || model.slot(uses.list[0].view.slot).per_output;
    if (per_output != expected) {
      return refuse("an op mixes rows of tokens and rows of outputs", use.field, index);
    }
    if (use.access == Access::kRead) continue;
    for (const Use& other : uses) {
      if (&other != &use && overlap(other.view, use.view)) {
        return refuse("an op overwrites its own input", use.field, index);
      }
    }
  }
  return true;
}

// Ops fill a slot from its first column to its last, and none uses it before it is full.
bool verify_slot_writes(const ModelReader& model, uint32_t index, const Refusal& refuse) {
  const SlotView slot = model.slot(index);
  const bool is_input = model.vocab_size() == 0 && index == model.input_slot();
  uint64_t filled = is_input ? slot.width : 0;
  for (uint32_t i = slot.first_op; i <= slot.last_op; ++i) {
    const OpView op = model.op(i);
    const Uses uses = op.uses();
    for (const Use& use : uses) {
      if (use.view.slot != index) continue;
      if (use.access != Access::kWrite) {
        if (filled == slot.width) continue;
        return refuse("an op uses a slot before it is full", use.field, i, filled, slot.width);
      }
      if (use.view.column != filled) {
        return refuse("ops must fill a slot column by column, each once", use.field, i,
                      use.view.column, filled);
      }
      filled += use.view.width;
    }
  }
  if (filled != slot.width) {
    return refuse("a slot is never filled", "slots", index, filled, slot.width);
  }
  return true;
}

bool verify_ends(const ModelReader& model, const Refusal& refuse) {
  const uint32_t last_op = model.ops() - 1;
  const uint32_t output = model.output_slot();
  if (output >= model.slots()) {
    return refuse("the output slot is not there", "output_slot", 0, output, model.slots() - 1);
  }
  if (model.slot(output).last_op != last_op) {
    return refuse("the output must be alive to the last op", "slots.last_op", output,
                  model.slot(output).last_op, last_op);
  }
  if (model.vocab_size() != 0) return true;
  const uint32_t input = model.input_slot();
  if (input >= model.slots()) {
    return refuse("the input slot is not there", "input_slot", 0, input, model.slots() - 1);
  }
  const SlotView slot = model.slot(input);
  if (slot.first_op != 0 || slot.per_output) {
    return refuse("the input must be alive from the first op, with a row for each token",
                  "slots.first_op", input, slot.first_op, 0);
  }
  return true;
}

// Whether an op after `op` still writes to the slot. Each slot was found to be filled once.
bool filled_later(const ModelReader& model, uint32_t slot, uint32_t op) {
  for (uint32_t i = op + 1; i <= model.slot(slot).last_op; ++i) {
    const OpView later = model.op(i);
    for (const Use& use : later.uses()) {
      if (use.access == Access::kWrite && use.view.slot == slot) return true;
    }
  }
  return false;
}

bool verify_hidden_states(const ModelReader& model, const Refusal& refuse) {
  for (uint32_t i = 0; i < model.hidden_states(); ++i) {
    const HiddenStateView state = model.hidden_state(i);
    if (state.op >= model.ops() || (i > 0 && state.op < model.hidden_state(i - 1).op)) {
      return refuse("hidden states follow the ops", "hidden_states.op", i, state.op,
                    model.ops() - 1);
    }
    if (state.view.width == 0) {
      return refuse("a hidden state is empty", "hidden_states.view", i, 0, 1);
    }
    const Use use = {state.view, Access::kRead, "hidden_states.view"};
    if (!verify_view(model, use, state.op, refuse)) return false;
    if (model.slot(state.view.slot).per_output) {
      return refuse("a hidden state has a row for each token", use.field, i);
    }
    if (filled_later(model, state.view.slot, state.op)) {
      return refuse("a hidden state is shown before it is full", use.field, i);
    }
  }
  return true;
}

}  // namespace

bool verify_slots(const ModelReader& model, const Refusal& refuse) {
  const uint32_t last_op = model.ops() - 1;
  for (uint32_t i = 0; i < model.slots(); ++i) {
    const SlotView slot = model.slot(i);
    if (slot.width == 0 || slot.column > UINT32_MAX - slot.width) {
      return refuse("a slot has no width or lies too far out", "slots.width", i, slot.width, 1);
    }
    if (slot.first_op > slot.last_op || slot.last_op > last_op) {
      return refuse("a slot's lifetime is not within the program", "slots.last_op", i, slot.last_op,
                    last_op);
    }
    for (uint32_t j = 0; j < i; ++j) {
      const SlotView other = model.slot(j);
      if (slot.per_output == other.per_output && alive_together(slot, other) &&
          slot.column < other.column + other.width && other.column < slot.column + slot.width) {
        return refuse("slots that are alive together overlap", "slots.column", i, slot.column,
                      other.column);
      }
    }
  }
  return verify_ends(model, refuse);
}

bool verify_flow(const ModelReader& model, const Refusal& refuse) {
  for (uint32_t i = 0; i < model.ops(); ++i) {
    if (!verify_uses(model, i, refuse)) return false;
  }
  for (uint32_t i = 0; i < model.slots(); ++i) {
    if (!verify_slot_writes(model, i, refuse)) return false;
  }
  return verify_hidden_states(model, refuse);
}

}  // namespace arenite::format
