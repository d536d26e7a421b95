// SPDX-License-Identifier: Apache-2.0
// One linear op makes queries, keys and values; one attention op per mask; one linear op projects.
#include "convert/program/program_builder.h"

#include <fmt/format.h>

#include "convert/program/op_records.h"
#include "convert/program/planner.h"

namespace arenite::convert {
namespace {

using format::ColumnView;
using format::LinearOp;

// The scale of the scores, in the query: (scale q) k^T = scale (q k^T).
Projection scaled_query(const AttentionModule& module) {
  Projection query = module.query;
  for (float& weight : query.weights) weight = static_cast<float>(weight * module.score_scale);
  for (float& bias : query.bias) bias = static_cast<float>(bias * module.score_scale);
  return query;
}

ProgramTensor stack(const std::string& name, const std::vector<const Projection*>& parts) {
  ProgramTensor tensor;
  tensor.name = name;
  tensor.inputs = parts[0]->inputs;
  bool has_bias = false;
  for (const Projection* part : parts) has_bias = has_bias || !part->bias.empty();
  for (const Projection* part : parts) {
    tensor.outputs += part->outputs;
    tensor.weights.insert(tensor.weights.end(), part->weights.begin(), part->weights.end());
    if (!has_bias) continue;
    tensor.bias.insert(tensor.bias.end(), part->bias.begin(), part->bias.end());
    tensor.bias.resize(tensor.outputs, 0.0f);
  }
  return tensor;
}

uint32_t add_slot(Program& program, uint32_t width) {
  program.slots.push_back({width});
  return static_cast<uint32_t>(program.slots.size() - 1);
}

// Slot with columns [query | key | value].
uint32_t add_projections(Program& program, const AttentionModule& module) {
  const Projection query = scaled_query(module);
  const Projection& key = module.key;
  const Projection& value = module.value;
  const uint32_t qkv = add_slot(program, query.outputs + key.outputs + value.outputs);
  if (!module.separate_inputs) {
    program.tensors.push_back(stack("qkv", {&query, &key, &value}));
    program.ops.push_back({"qkv", linear_op({program.input_slot, 0, module.features},
                                            {qkv, 0, program.slots[qkv].width}, 0)});
    return qkv;
  }
  uint32_t input_column = 0;
  uint32_t output_column = 0;
  const struct {
    const char* name;
    const Projection& projection;
  } parts[] = {{"query", query}, {"key", key}, {"value", value}};
  for (const auto& part : parts) {
    const Projection& projection = part.projection;
    program.ops.push_back(
        {part.name, linear_op({program.input_slot, input_column, projection.inputs},
                              {qkv, output_column, projection.outputs},
                              static_cast<uint32_t>(program.tensors.size()))});
    program.tensors.push_back(stack(part.name, {&projection}));
    input_column += projection.inputs;
    output_column += projection.outputs;
  }
  return qkv;
}

// One op for each run of heads [begin, end) with the same mask.
void add_attention(Program& program, const AttentionModule& module, uint32_t qkv, uint32_t context,
                   uint32_t begin, uint32_t end) {
  const uint32_t heads = end - begin;
  const uint32_t keys = module.heads * module.head_dim;
  AttentionParts op;
  if (module.head_dim != 0) {
    op.query = {qkv, begin * module.head_dim, heads * module.head_dim};
    op.key = {qkv, keys + begin * module.head_dim, heads * module.head_dim};
    op.value = {qkv, 2 * keys + begin * module.value_dim, heads * module.value_dim};
  } else {
    op.value = {program.input_slot, 0, module.features};
  }
  op.output = {context, begin * module.value_dim, heads * module.value_dim};
  op.heads = heads;
  op.cache = static_cast<uint32_t>(program.caches.size());
  op.mask = module.head_masks[begin];
  program.caches.push_back({{heads, module.head_dim, module.value_dim}});
  const bool all = heads == module.heads;
  program.ops.push_back({all ? "attention" : fmt::format("attention.{}", begin), attention_op(op)});
}

}  // namespace

Program build_program(const AttentionModule& module, const std::string& name) {
  Program program;
  program.name = name;
  program.architecture = module.architecture;
  program.positions_max = module.positions_max;
  program.masks = module.masks;
  program.input_slot = add_slot(program, module.features);
  const uint32_t qkv = module.head_dim != 0 ? add_projections(program, module) : program.input_slot;
  const uint32_t context = add_slot(program, module.heads * module.value_dim);
  for (uint32_t begin = 0; begin < module.heads;) {
    uint32_t end = begin + 1;
    while (end < module.heads && module.head_masks[end] == module.head_masks[begin]) ++end;
    add_attention(program, module, qkv, context, begin, end);
    begin = end;
  }
  program.output_slot = context;
  if (module.output) {
    program.output_slot = add_slot(program, module.output->outputs);
    program.ops.push_back({"output", linear_op({context, 0, program.slots[context].width},
                                               {program.output_slot, 0, module.output->outputs},
                                               static_cast<uint32_t>(program.tensors.size()))});
    program.tensors.push_back(stack("output", {&*module.output}));
  }
  place_slots(program);
  return program;
}

}  // namespace arenite::convert
