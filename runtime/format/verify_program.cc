// SPDX-License-Identifier: Apache-2.0
// Verifies the program: activation slots, their lifetimes and places, and what each op reads and
// writes. Every column of a slot is written exactly once, before it is read.
#include "core/checked_math.h"
#include "format/verify_parts.h"

namespace arenite::format {
namespace {

bool alive_together(const SlotView& a, const SlotView& b) {
  return a.first_op <= b.last_op && b.first_op <= a.last_op;
}

// Ops may not read and write the same columns: kernels read inputs after they began to write.
bool overlap(const ColumnView& a, const ColumnView& b) {
  return a.width != 0 && b.width != 0 && a.slot == b.slot && a.column < b.column + b.width &&
         b.column < a.column + a.width;
}

// An absent view (width 0) is sound.
bool verify_view(const ModelReader& model, const ColumnView& view, const char* field,
                 uint32_t op_index, const Refusal& refuse) {
  if (view.width == 0) return true;
  if (view.slot >= model.slots()) {
    return refuse("an op names a slot that is not there", field, op_index, view.slot,
                  model.slots() - 1);
  }
  const SlotView slot = model.slot(view.slot);
  if (view.column >= slot.width || view.width > slot.width - view.column) {
    return refuse("an op reaches beyond the width of a slot", field, op_index,
                  uint64_t{view.column} + view.width, slot.width);
  }
  if (op_index < slot.first_op || op_index > slot.last_op) {
    return refuse("an op uses a slot outside its lifetime", field, op_index, op_index,
                  op_index < slot.first_op ? slot.first_op : slot.last_op);
  }
  return true;
}

bool reads(const ColumnView& view, uint32_t slot) { return view.width != 0 && view.slot == slot; }

bool op_reads(const OpView& op, uint32_t slot) {
  if (op.kind == OpKind::kLinear) return reads(op.linear.input, slot);
  return reads(op.attention.query, slot) || reads(op.attention.key, slot) ||
         reads(op.attention.value, slot);
}

// Ops fill a slot from its first column to its last, and none reads it before it is full.
bool verify_slot_writes(const ModelReader& model, uint32_t index, const Refusal& refuse) {
  const SlotView slot = model.slot(index);
  const bool is_input = index == model.input_slot();
  uint64_t filled = is_input ? slot.width : 0;
  for (uint32_t i = slot.first_op; i <= slot.last_op; ++i) {
    const OpView op = model.op(i);
    if (op_reads(op, index) && filled != slot.width) {
      return refuse("an op reads a slot before it is full", "ops", i, filled, slot.width);
    }
    if (!reads(op.output(), index)) continue;
    if (op.output().column != filled) {
      return refuse("ops must fill a slot column by column, each once", "ops", i,
                    op.output().column, filled);
    }
    filled += op.output().width;
  }
  if (filled != slot.width) {
    return refuse("a slot is never filled", "slots", index, filled, slot.width);
  }
  return true;
}

bool verify_linear(const ModelReader& model, const LinearOp& op, uint32_t index,
                   const Refusal& refuse) {
  if (op.input.width == 0 || op.output.width == 0) {
    return refuse("a linear op lacks its input or output", "ops", index);
  }
  if (!verify_view(model, op.input, "linear.input", index, refuse) ||
      !verify_view(model, op.output, "linear.output", index, refuse)) {
    return false;
  }
  if (overlap(op.input, op.output)) {
    return refuse("a linear op overwrites its own input", "linear.output", index);
  }
  if (op.tensor >= model.tensors()) {
    return refuse("a linear op names a tensor that is not there", "linear.tensor", index, op.tensor,
                  model.tensors());
  }
  const TensorShape shape = model.tensor(op.tensor);
  if (shape.inputs != op.input.width) {
    return refuse("the weights do not fit the input", "linear.input", index, op.input.width,
                  shape.inputs);
  }
  if (shape.outputs != op.output.width) {
    return refuse("the weights do not fit the output", "linear.output", index, op.output.width,
                  shape.outputs);
  }
  return true;
}

bool verify_attention_shape(const AttentionOp& op, const CacheShape& cache, uint32_t index,
                            const Refusal& refuse) {
  if (op.heads == 0 || cache.kv_heads == 0 || op.heads % cache.kv_heads != 0) {
    return refuse("the heads are not a multiple of the key/value heads", "attention.heads", index,
                  op.heads, cache.kv_heads);
  }
  if (cache.value_dim == 0) {
    return refuse("an attention op has no values", "caches.value_dim", index);
  }
  const struct {
    const char* field;
    uint32_t found;
    Checked expected;
  } widths[] = {
      {"attention.query", op.query.width, Checked(op.heads) * cache.head_dim},
      {"attention.key", op.key.width, Checked(cache.kv_heads) * cache.head_dim},
      {"attention.value", op.value.width, Checked(cache.kv_heads) * cache.value_dim},
      {"attention.output", op.output.width, Checked(op.heads) * cache.value_dim},
  };
  for (const auto& width : widths) {
    if (width.found != width.expected.saturated()) {
      return refuse("an attention op's columns are not heads x dimension", width.field, index,
                    width.found, width.expected.saturated());
    }
  }
  return true;
}

// `cache_next` counts the attention ops: each has the cache of its own number.
bool verify_attention(const ModelReader& model, const AttentionOp& op, uint32_t index,
                      uint32_t cache_next, const Refusal& refuse) {
  const struct {
    const char* field;
    const ColumnView& view;
  } inputs[] = {
      {"attention.query", op.query}, {"attention.key", op.key}, {"attention.value", op.value}};
  if (!verify_view(model, op.output, "attention.output", index, refuse)) return false;
  for (const auto& input : inputs) {
    if (!verify_view(model, input.view, input.field, index, refuse)) return false;
    if (overlap(input.view, op.output)) {
      return refuse("an attention op overwrites its own input", input.field, index);
    }
  }
  if (op.cache != cache_next || op.cache >= model.caches()) {
    return refuse("each attention op has its own cache, in order", "attention.cache", index,
                  op.cache, cache_next);
  }
  if (op.mask >= model.masks()) {
    return refuse("an attention op names a mask that is not there", "attention.mask", index,
                  op.mask, model.masks());
  }
  return verify_attention_shape(op, model.cache(op.cache), index, refuse);
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
      if (alive_together(slot, other) && slot.column < other.column + other.width &&
          other.column < slot.column + slot.width) {
        return refuse("slots that are alive together overlap", "slots.column", i, slot.column,
                      other.column);
      }
    }
  }
  const uint32_t input = model.input_slot();
  const uint32_t output = model.output_slot();
  if (input >= model.slots() || output >= model.slots() || input == output) {
    return refuse("input and output must be two slots", "output_slot", output, input,
                  model.slots());
  }
  if (model.slot(input).first_op != 0) {
    return refuse("the input must be alive from the first op", "slots.first_op", input,
                  model.slot(input).first_op, 0);
  }
  if (model.slot(output).last_op != last_op) {
    return refuse("the output must be alive to the last op", "slots.last_op", output,
                  model.slot(output).last_op, last_op);
  }
  return true;
}

bool verify_ops(const ModelReader& model, const Refusal& refuse) {
  uint32_t attention_ops = 0;
  for (uint32_t i = 0; i < model.ops(); ++i) {
    const OpView op = model.op(i);
    switch (op.kind) {
      case OpKind::kLinear:
        if (!verify_linear(model, op.linear, i, refuse)) return false;
        break;
      case OpKind::kAttention:
        if (!verify_attention(model, op.attention, i, attention_ops, refuse)) return false;
        ++attention_ops;
        break;
      case OpKind::kNone:
        return refuse("an op is of a kind that this version does not know", "ops.body", i);
    }
  }
  if (attention_ops != model.caches()) {
    return refuse("caches and attention ops differ in number", "caches", 0, model.caches(),
                  attention_ops);
  }
  for (uint32_t i = 0; i < model.slots(); ++i) {
    if (!verify_slot_writes(model, i, refuse)) return false;
  }
  return true;
}

}  // namespace arenite::format
