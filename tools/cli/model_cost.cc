// SPDX-License-Identifier: Apache-2.0
// Counts multiply-adds and bytes.
#include "cli/model_cost.h"

#include <algorithm>

#include "arenite/checked_math.h"
#include "convert/masks/masks.h"
#include "kernels/kernel_set.h"
#include "ops/attention_block.h"
#include "ops/rows.h"

namespace arenite::tool {
namespace {

using format::ModelReader;
using format::NumberType;
using format::OpView;

// Pairs that the fed tokens see. In a causal mask, what is held hides nothing of itself later.
double visible_pairs(const MaskView& mask, const Feed& feed) {
  if (feed.tokens == 0) return 0.0;
  const uint64_t all = convert::MaskPairs(mask, feed.held + feed.tokens).visible();
  const uint64_t before = feed.held == 0 ? 0 : convert::MaskPairs(mask, feed.held).visible();
  return static_cast<double>(all - before);
}

// Numbers of a key and its value, of one head.
uint64_t cache_entry(const CacheShape& cache) { return uint64_t{cache.head_dim} + cache.value_dim; }

// Bytes of a key and its value, of one head.
uint64_t cache_entry_bytes(const CacheShape& cache, TensorType kv_type) {
  if (kv_type != TensorType::kInt8) return cache_entry(cache) * sizeof(float);
  return cache_entry(cache) + (cache.head_dim != 0 ? 2 : 1) * sizeof(float);  // and their scales
}

bool has_row_per_output(const ModelReader& model, const OpView& op) {
  return model.slot(op.views[format::kOutput].slot).per_output != 0;
}

// Bytes of the tensors that an op reads when it makes `rows` rows: a row of a table for each.
uint64_t tensor_bytes(const ModelReader& model, uint32_t packed_index, const OpView& op,
                      uint64_t rows) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < format::kOpNumbers; ++i) {
    const NumberType type = format::row_of(op.kind).numbers[i].type;
    if (!format::is_tensor(type) || op.numbers[i] == format::kAbsent) continue;
    const format::TensorShape& shape = model.tensor(op.numbers[i]);
    const bool by_rows = type == NumberType::kPositionTable || type == NumberType::kTable;
    const Packing packing = model.packed(packed_index).packing(shape.type);
    bytes += by_rows ? std::min<uint64_t>(rows, shape.outputs) *
                           plain_row_bytes(shape.type, shape.inputs).value()
                     : format::stored_bytes(shape, packing).value();
  }
  return bytes;
}

// Keys that the blocks of one head's queries read, taken together.
uint64_t keys_read(const MaskView& mask, uint32_t positions, uint32_t rows_per_block) {
  const RowBlocks blocks(positions, rows_per_block);
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

// The rows of a feed: those of the prefix come before a sequence's first token.
Feed with_prefix(const ModelReader& model, Feed feed) {
  const uint32_t prefix = model.prefix_rows();
  if (feed.held != 0) return {feed.held + prefix, feed.tokens, feed.outputs};
  if (feed.tokens == 0) return feed;
  const bool all_go_out = feed.outputs == feed.tokens && feed.tokens != 1;
  return {0, feed.tokens + prefix, feed.outputs + (all_go_out ? prefix : 0)};
}

// Keys that a query's products take at most: those that it sees, to the ends of their pages, and
// those of the other queries of its block.
uint64_t keys_max(const MaskView& mask) {
  if (mask.kind != MaskKind::kBand || mask.lookback == kUnlimited || mask.lookahead == kUnlimited) {
    return UINT64_MAX;
  }
  return uint64_t{mask.lookback} + 1 + mask.lookahead + 2 * kPagePositions + kRowsMax;
}

AttentionBound attention_bound(const ModelReader& model, const OpView& op, TensorType kv_type) {
  const CacheShape& shape = model.cache(number_of(op, NumberType::kCache)).shape;
  const uint64_t heads = op.views[format::kOutput].width / shape.value_dim;
  AttentionBound bound;
  bound.keys_max = keys_max(model.mask(number_of(op, NumberType::kMask)));
  bound.multiply_adds = heads * cache_entry(shape);
  bound.bytes = heads * cache_entry_bytes(shape, kv_type);
  // The scores once more, and those that overflow a third time, from scaled factors.
  bound.multiply_adds_not_finite = heads * (cache_entry(shape) + shape.head_dim);
  bound.bytes_not_finite = heads * 2 * cache_entry_bytes(shape, kv_type);
  return bound;
}

// Adds up bounds that hold for equally many keys.
void add_attention(const AttentionBound& bound, std::vector<AttentionBound>& all) {
  const auto same = std::ranges::find(all, bound.keys_max, &AttentionBound::keys_max);
  if (same == all.end()) {
    all.push_back(bound);
    return;
  }
  same->multiply_adds += bound.multiply_adds;
  same->bytes += bound.bytes;
  same->multiply_adds_not_finite += bound.multiply_adds_not_finite;
  same->bytes_not_finite += bound.bytes_not_finite;
}

}  // namespace

OpCost op_cost(const ModelReader& model, uint32_t index) {
  const OpView& op = model.op(index);
  OpCost cost;
  const uint32_t matrix = number_of(op, NumberType::kMatrix);
  if (matrix != format::kAbsent) {
    cost.per_token = uint64_t{model.tensor(matrix).inputs} * model.tensor(matrix).outputs;
  }
  const uint32_t cache = number_of(op, NumberType::kCache);
  if (cache != format::kAbsent) {
    const CacheShape& shape = model.cache(cache).shape;
    cost.per_pair = op.views[format::kOutput].width / shape.value_dim * cache_entry(shape);
  }
  return cost;
}

double op_flops(const ModelReader& model, uint32_t index, const Feed& tokens) {
  const Feed feed = with_prefix(model, tokens);
  const OpView& op = model.op(index);
  const OpCost cost = op_cost(model, index);
  const uint32_t mask = number_of(op, NumberType::kMask);
  const double pairs = mask == format::kAbsent ? 0.0 : visible_pairs(model.mask(mask), feed);
  const double rows = has_row_per_output(model, op) ? feed.outputs : feed.tokens;
  return 2.0 *
         (rows * static_cast<double>(cost.per_token) + pairs * static_cast<double>(cost.per_pair));
}

double model_flops(const ModelReader& model, const Feed& feed) {
  double flops = 0.0;
  for (uint32_t i = 0; i < model.ops(); ++i) flops += op_flops(model, i, feed);
  return flops;
}

double decode_bytes(const ModelReader& model, uint32_t packed_index, uint32_t held,
                    TensorType kv_type) {
  double bytes = 0.0;
  for (uint32_t i = 0; i < model.ops(); ++i) {
    const OpView& op = model.op(i);
    bytes += static_cast<double>(tensor_bytes(model, packed_index, op, 1));
    const uint32_t cache = number_of(op, NumberType::kCache);
    const uint32_t mask = number_of(op, NumberType::kMask);
    if (cache == format::kAbsent || mask == format::kAbsent) continue;
    const CacheShape& shape = model.cache(cache).shape;
    bytes += visible_pairs(model.mask(mask), with_prefix(model, {held, 1, 1})) * shape.kv_heads *
             static_cast<double>(cache_entry_bytes(shape, kv_type));
  }
  return bytes;
}

OpTraffic op_traffic(const ModelReader& model, uint32_t packed_index, uint32_t index,
                     uint32_t positions, TensorType kv_type) {
  const OpView& op = model.op(index);
  const auto bytes_of = [&](const format::ColumnView& view) {
    if (view.width == 0) return uint64_t{0};
    const uint64_t rows = model.slot(view.slot).per_output != 0 ? 1 : positions;
    return rows * view.width * sizeof(float);
  };
  const uint64_t made = bytes_of(op.views[format::kOutput]);
  const bool copies_rows = op.kind == format::OpKind::kSelect &&
                           !makes_a_row_of_several(op.choice<SelectKind>(format::SelectOp::kKind));
  if (copies_rows) return {made, made};
  const uint64_t rows = has_row_per_output(model, op) ? 1 : positions;
  OpTraffic traffic = {tensor_bytes(model, packed_index, op, rows), made};
  for (uint32_t i = 0; i < format::kOutput; ++i) traffic.read += bytes_of(op.views[i]);
  const uint32_t cache = number_of(op, NumberType::kCache);
  const uint32_t mask = number_of(op, NumberType::kMask);
  if (cache == format::kAbsent || mask == format::kAbsent) return traffic;
  const CacheShape& shape = model.cache(cache).shape;
  const uint64_t entry = cache_entry_bytes(shape, kv_type);
  const uint64_t heads = op.views[format::kOutput].width / shape.value_dim;
  const uint32_t block = model.packed(packed_index).packing(TensorType::kF32).mr;
  traffic.read += keys_read(model.mask(mask), positions, block) * heads * entry;
  traffic.written += uint64_t{positions} * shape.kv_heads * entry;
  return traffic;
}

CallBounds call_bounds(const ModelReader& model, uint32_t packed_index, TensorType kv_type) {
  CallBounds bounds;
  bounds.block_rows = model.packed(packed_index).packing(TensorType::kF32).mr;
  for (uint32_t i = 0; i < model.ops(); ++i) {
    const OpView& op = model.op(i);
    const bool by_output = has_row_per_output(model, op);
    const uint64_t once = tensor_bytes(model, packed_index, op, 0);
    (by_output ? bounds.multiply_adds_per_output : bounds.multiply_adds_per_row) +=
        op_cost(model, i).per_token;
    bounds.bytes_once += once;
    (by_output ? bounds.bytes_per_output : bounds.bytes_per_row) +=
        tensor_bytes(model, packed_index, op, 1) - once;
    for (uint32_t operand = 0; operand < format::kOutput; ++operand) {
      const format::ColumnView& view = op.views[operand];
      if (view.width == 0) continue;
      (model.slot(view.slot).per_output != 0 ? bounds.bytes_per_output : bounds.bytes_per_row) +=
          view.width * sizeof(float);
    }
    if (number_of(op, NumberType::kCache) == format::kAbsent) continue;
    add_attention(attention_bound(model, op, kv_type), bounds.attention);
  }
  return bounds;
}

uint64_t multiply_adds_max(const CallBounds& bounds, const CallSize& size) {
  Checked sum = Checked(bounds.multiply_adds_per_row) * size.rows +
                Checked(bounds.multiply_adds_per_output) * size.outputs;
  for (const AttentionBound& op : bounds.attention) {
    const Checked pairs = Checked(std::min(size.held + size.rows, op.keys_max)) * size.rows;
    sum = sum + pairs * op.multiply_adds;
    if (!size.finite) sum = sum + pairs * op.multiply_adds_not_finite;
  }
  return sum.value();
}

uint64_t bytes_read_max(const CallBounds& bounds, const CallSize& size) {
  Checked sum = Checked(bounds.bytes_once) + Checked(bounds.bytes_per_row) * size.rows +
                Checked(bounds.bytes_per_output) * size.outputs;
  for (const AttentionBound& op : bounds.attention) {
    const Checked keys = std::min(size.held + size.rows, op.keys_max);
    sum = sum + keys * ((size.rows + bounds.block_rows - 1) / bounds.block_rows) * op.bytes;
    if (!size.finite) sum = sum + keys * size.rows * op.bytes_not_finite;
  }
  return sum.value();
}

}  // namespace arenite::tool
