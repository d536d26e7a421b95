// SPDX-License-Identifier: Apache-2.0
#include "cli/op_traffic.h"

#include <algorithm>

#include "ops/mask.h"
#include "ops/parallel.h"

namespace arenite::tool {
namespace {

using format::ColumnView;
using format::ModelReader;

// What the ops of one call have in common.
struct Call {
  const ModelReader& model;
  uint32_t packed_index;
  uint64_t positions;

  uint64_t rows(const ColumnView& view) const {
    return model.slot(view.slot).per_output ? 1 : positions;
  }
  uint64_t bytes(const ColumnView& view) const {
    return view.width == 0 ? 0 : rows(view) * view.width * sizeof(float);
  }
  uint64_t tensor(uint32_t index) const {
    if (index == format::kNoTensor) return 0;
    const Packing packing = model.packed(packed_index).packing;
    return format::stored_bytes(model.tensor(index), packing).value();
  }
};

// Keys that the blocks of one head's queries read, taken together.
uint64_t keys_read(const Call& call, const MaskView& mask) {
  const uint32_t positions = static_cast<uint32_t>(call.positions);
  const RowBlocks blocks(positions, call.model.packed(call.packed_index).packing.mr);
  uint64_t keys = 0;
  for (uint32_t b = 0; b < blocks.count; ++b) {
    uint32_t begin = UINT32_MAX, end = 0;
    for (uint32_t row = blocks.begin(b); row < blocks.begin(b) + blocks.size(b); ++row) {
      const KeyRange range = visible_keys(mask, row, positions);
      begin = std::min(begin, range.begin);
      end = std::max(end, range.end);
    }
    if (end > begin) keys += end - begin;
  }
  return keys;
}

OpTraffic attention_traffic(const Call& call, const format::AttentionOp& op) {
  const CacheShape cache = call.model.cache(op.cache);
  const uint64_t entry = (uint64_t{cache.head_dim} + cache.value_dim) * sizeof(float);
  const uint64_t rows = call.bytes(op.query) + call.bytes(op.key) + call.bytes(op.value);
  const uint64_t appended = call.positions * cache.kv_heads * entry;
  return {rows + keys_read(call, call.model.mask(op.mask)) * op.heads * entry,
          appended + call.bytes(op.output)};
}

OpTraffic embedding_traffic(const Call& call, const format::EmbeddingOp& op) {
  const uint64_t row = call.bytes(op.output);
  uint64_t read = op.tokens == format::kNoTensor ? 0 : row + call.positions * sizeof(uint32_t);
  if (op.positions != format::kNoTensor) read += row;
  if (op.types != format::kNoTensor) read += row;
  return {read, row};
}

OpTraffic rope_traffic(const Call& call, const format::RopeOp& op) {
  const uint64_t angles = uint64_t{call.model.tensor(op.angles).inputs} * sizeof(float);
  const uint64_t turned = call.positions * op.heads * angles;
  return {turned + call.positions * angles, turned};
}

OpTraffic select_traffic(const Call& call, const format::SelectOp& op) {
  const bool all = makes_a_row_of_several(op.kind);
  return {all ? call.bytes(op.input) : call.bytes(op.output), call.bytes(op.output)};
}

}  // namespace

OpTraffic op_traffic(const ModelReader& model, uint32_t packed_index, uint32_t index,
                     uint32_t positions) {
  const Call call = {model, packed_index, positions};
  const format::OpView op = model.op(index);
  switch (op.kind) {
    case format::OpKind::kLinear:
      return {call.tensor(op.linear.tensor) + call.bytes(op.linear.input),
              call.bytes(op.linear.output)};
    case format::OpKind::kAttention:
      return attention_traffic(call, op.attention);
    case format::OpKind::kEmbedding:
      return embedding_traffic(call, op.embedding);
    case format::OpKind::kNorm:
      return {call.bytes(op.norm.input) + call.tensor(op.norm.gain) + call.tensor(op.norm.bias),
              call.bytes(op.norm.output)};
    case format::OpKind::kRope:
      return rope_traffic(call, op.rope);
    case format::OpKind::kActivation:
      return {call.bytes(op.activation.target) + call.bytes(op.activation.factor),
              call.bytes(op.activation.target)};
    case format::OpKind::kAdd:
      return {call.bytes(op.add.target) + call.bytes(op.add.other), call.bytes(op.add.target)};
    case format::OpKind::kSelect:
      return select_traffic(call, op.select);
    case format::OpKind::kNone:
      break;
  }
  return {};
}

}  // namespace arenite::tool
