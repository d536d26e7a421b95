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

using format::ModelReader;
using format::NumberType;
using format::OpView;

uint32_t rows_axis(const ModelReader& model, uint32_t index) {
  return model.whole_axis(model.axis_of_op(index));
}

uint32_t axis_of_stored_keys(const ModelReader& model, uint32_t index) {
  const OpView& op = model.op(index);
  if (op.kind != format::OpKind::kAttention) return format::kAbsent;
  const uint32_t keys = model.axis_of_cache(number_of(op, NumberType::kCache));
  return keys != rows_axis(model, index) ? keys : format::kAbsent;
}

InputTokens tokens_after(const Feed& feed) {
  InputTokens all;
  for (uint32_t i = 0; i < kInputsMax; ++i) all.of[i] = feed.held[i] + feed.tokens[i];
  return all;
}

AxisFeed on_axis(const ModelReader& model, uint32_t axis, const Feed& feed) {
  const uint32_t inputs = model.inputs_of_axis(axis);
  uint32_t tokens = 0;
  for (uint32_t i = 0; i < kInputsMax; ++i) {
    if ((inputs >> i & 1) != 0) tokens = std::max(tokens, feed.tokens[i]);
  }
  if (tokens == 0) return {};
  const Axis& own = model.axes()[axis];
  const bool all_go_out = feed.outputs == tokens && tokens != 1;
  if (own.kind == AxisKind::kOne) return {0, 1};
  if (own.kind == AxisKind::kAsked) {
    return all_go_out ? on_axis(model, own.source, feed) : AxisFeed{0, feed.outputs};
  }
  const uint32_t held = model.rows_of_axes(feed.held, 1, false)[axis];
  return {held, model.rows_of_axes(tokens_after(feed), 1, false)[axis] - held};
}

namespace {

// Returns the (query, key) pairs that the added rows see: those of all rows minus those of the held
// rows, which never see new keys. `tokens` are those after the call.
uint64_t visible_pairs(const ModelReader& model, uint32_t index, const AxisFeed& own,
                       const InputTokens& tokens) {
  const OpView& op = model.op(index);
  if (op.kind != format::OpKind::kAttention || own.rows == 0) return 0;
  const uint32_t keys = axis_of_stored_keys(model, index);
  if (keys != format::kAbsent) {
    return (Checked(own.rows) * model.rows_of_axes(tokens, 1, true)[keys]).value();
  }
  const MaskView mask = model.mask(number_of(op, NumberType::kMask));
  const uint64_t all = convert::MaskPairs(mask, own.held + own.rows).visible();
  return all - (own.held == 0 ? 0 : convert::MaskPairs(mask, own.held).visible());
}

// Returns the elements of one head's key and value.
uint64_t cache_entry(const CacheShape& cache) { return uint64_t{cache.head_dim} + cache.value_dim; }

// Returns the bytes of one head's key and value.
uint64_t cache_entry_bytes(const CacheShape& cache, TensorType kv_type) {
  if (kv_type != TensorType::kInt8) return cache_entry(cache) * sizeof(float);
  return cache_entry(cache) + (cache.head_dim != 0 ? 2 : 1) * sizeof(float);  // with their scales
}

// Returns the tensor bytes that an op reads for `rows` output rows: one row of a table for each,
// and at most as many experts as all rows name.
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
  if (op.kind == format::OpKind::kExperts) {
    const uint64_t count = op.numbers[format::ExpertsOp::kCount];
    const format::TensorShape& shape = model.tensor(op.numbers[format::ExpertsOp::kTensor]);
    const Packing packing = model.packed(packed_index).packing(shape.type);
    // The first panel of an expert may begin with columns of another expert.
    const bool is_even = shape.outputs / count % packing.nr == 0;
    const uint64_t more = is_even ? 0 : panel_bytes(packing, shape.inputs).value();
    const uint64_t chosen = std::min(rows * op.views[format::kIds].width, count);
    bytes = std::min(bytes, ((bytes + count - 1) / count + more) * chosen);
  }
  return bytes;
}

// Returns the keys read by all query blocks of one head.
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

// Bounds the keys that a query multiplies: the visible ones, rounded out to pages, and those of
// other queries in its block.
uint64_t keys_max(const MaskView& mask) {
  if (mask.kind != MaskKind::kBand || mask.lookback == kUnlimited || mask.lookahead == kUnlimited) {
    return UINT64_MAX;
  }
  return uint64_t{mask.lookback} + 1 + mask.lookahead + 2 * kPagePositions + kRowsMax;
}

}  // namespace

OpCost op_cost(const ModelReader& model, uint32_t index) {
  const OpView& op = model.op(index);
  OpCost cost;
  const uint32_t matrix = number_of(op, NumberType::kMatrix);
  if (matrix != format::kAbsent) {
    const bool has_experts = op.kind == format::OpKind::kExperts;  // a row uses some
    cost.per_token = uint64_t{model.tensor(matrix).inputs} *
                     (has_experts ? op.views[format::kOutput].width : model.tensor(matrix).outputs);
  }
  if (op.kind == format::OpKind::kDepthwise) {
    const format::TensorShape& kernel = model.tensor(op.numbers[format::DepthwiseOp::kKernel]);
    cost.per_token = uint64_t{kernel.inputs} * kernel.outputs;
  }
  if (op.kind == format::OpKind::kAttention) {
    const CacheShape& shape = model.cache(op.numbers[format::AttentionOp::kCache]).shape;
    cost.per_pair = model.heads_of(op) * cache_entry(shape);
  }
  return cost;
}

uint64_t pass_multiply_adds(const ModelReader& model, uint32_t index, const InputTokens& tokens) {
  const OpCost cost = op_cost(model, index);
  const uint32_t rows = model.rows_of_axes(tokens, 1, false)[rows_axis(model, index)];
  const uint64_t pairs = visible_pairs(model, index, {0, rows}, tokens);
  return (Checked(cost.per_token) * rows + Checked(cost.per_pair) * pairs).value();
}

double op_flops(const ModelReader& model, uint32_t index, const Feed& feed) {
  const AxisFeed own = on_axis(model, rows_axis(model, index), feed);
  const OpCost cost = op_cost(model, index);
  const uint64_t pairs = visible_pairs(model, index, own, tokens_after(feed));
  return 2.0 * (own.rows * static_cast<double>(cost.per_token) +
                static_cast<double>(pairs) * static_cast<double>(cost.per_pair));
}

double model_flops(const ModelReader& model, const Feed& feed) {
  double flops = 0.0;
  for (uint32_t i = 0; i < model.ops(); ++i) flops += op_flops(model, i, feed);
  return flops;
}

double model_flops(const ModelReader& model, const Feed& feed, TensorType type) {
  double flops = 0.0;
  for (uint32_t i = 0; i < model.ops(); ++i) {
    const uint32_t matrix = number_of(model.op(i), NumberType::kMatrix);
    const bool is_own =
        (matrix == format::kAbsent ? TensorType::kF32 : model.tensor(matrix).type) == type;
    if (is_own) flops += op_flops(model, i, feed);
  }
  return flops;
}

double decode_bytes(const ModelReader& model, uint32_t packed_index, const InputTokens& held,
                    TensorType kv_type) {
  const uint32_t last = model.functions() - 1;
  Feed feed = {held, 1, 1};
  for (uint32_t i = 0; i < model.inputs(); ++i) {
    if (model.takes(last, i)) continue;
    feed.held.of[i] = std::max(held[i], 1u);
    feed.tokens.of[i] = 0;
  }
  double bytes = 0.0;
  for (uint32_t i = model.first_op(last); i < model.end_of_ops(last); ++i) {
    const OpView& op = model.op(i);
    bytes += static_cast<double>(tensor_bytes(model, packed_index, op, 1));
    if (op.kind != format::OpKind::kAttention) continue;
    const CacheShape& shape = model.cache(op.numbers[format::AttentionOp::kCache]).shape;
    const AxisFeed own = on_axis(model, rows_axis(model, i), feed);
    bytes += static_cast<double>(visible_pairs(model, i, own, tokens_after(feed))) *
             shape.kv_heads * static_cast<double>(cache_entry_bytes(shape, kv_type));
  }
  return bytes;
}

OpTraffic op_traffic(const ModelReader& model, uint32_t packed_index, uint32_t index,
                     const InputTokens& tokens, TensorType kv_type) {
  const OpView& op = model.op(index);
  const AxisRows counts = model.rows_of_axes(tokens, 1, false);
  const auto bytes_of = [&](const format::ColumnView& view) {
    if (view.width == 0) return uint64_t{0};
    return uint64_t{counts[model.whole_axis(model.slot(view.slot).axis)]} * view.width *
           sizeof(float);
  };
  const uint64_t made = bytes_of(op.views[format::kOutput]);
  const bool copies_rows = op.kind == format::OpKind::kSelect &&
                           !makes_a_row_of_several(op.choice<SelectKind>(format::SelectOp::kKind));
  if (copies_rows) return {made, made};
  const uint32_t rows = counts[rows_axis(model, index)];
  OpTraffic traffic = {tensor_bytes(model, packed_index, op, rows), made};
  for (uint32_t i = 0; i < format::kOutput; ++i) traffic.read += bytes_of(op.views[i]);
  const uint32_t cache = number_of(op, NumberType::kCache);
  if (cache == format::kAbsent) return traffic;
  const CacheShape& shape = model.cache(cache).shape;
  const uint64_t entry = cache_entry_bytes(shape, kv_type);
  const bool appends = op.views[format::kKey].width != 0 || op.views[format::kValue].width != 0;
  if (appends) traffic.written += uint64_t{rows} * shape.kv_heads * entry;
  if (op.kind != format::OpKind::kAttention) return traffic;
  const uint32_t block = model.packed(packed_index).packing(TensorType::kF32).mr;
  const uint32_t stored = axis_of_stored_keys(model, index);
  const uint64_t keys =
      stored != format::kAbsent
          ? uint64_t{RowBlocks(rows, block).count} * model.rows_of_axes(tokens, 1, true)[stored]
          : keys_read(model.mask(number_of(op, NumberType::kMask)), rows, block);
  traffic.read += keys * model.heads_of(op) * entry;
  return traffic;
}

CallWork call_work_max(const ModelReader& model, uint32_t packed_index, uint32_t function,
                       const CallSize& size, TensorType kv_type) {
  const uint32_t block_rows = model.packed(packed_index).packing(TensorType::kF32).mr;
  const uint64_t blocks = (size.rows + block_rows - 1) / block_rows;
  const auto rows_of = [&](const format::ColumnView& view) {
    return is_output_axis(model.kind_of_slot(view.slot)) ? size.outputs : size.rows;
  };
  Checked multiply_adds = 0, bytes = 0;
  for (uint32_t i = model.first_op(function); i < model.end_of_ops(function); ++i) {
    const OpView& op = model.op(i);
    const uint64_t rows = rows_of(op.views[format::kOutput]);
    const uint64_t once = tensor_bytes(model, packed_index, op, 0);
    multiply_adds = multiply_adds + Checked(op_cost(model, i).per_token) * rows;
    bytes = bytes + once + Checked(tensor_bytes(model, packed_index, op, 1) - once) * rows;
    for (uint32_t operand = 0; operand < format::kOutput; ++operand) {
      const format::ColumnView& view = op.views[operand];
      if (view.width == 0) continue;
      bytes = bytes + Checked(uint64_t{view.width} * sizeof(float)) * rows_of(view);
    }
    if (op.kind != format::OpKind::kAttention) continue;
    const CacheShape& shape = model.cache(number_of(op, NumberType::kCache)).shape;
    const bool is_stored = axis_of_stored_keys(model, i) != format::kAbsent;
    const uint64_t keys = is_stored
                              ? size.stored
                              : std::min(size.held + size.rows,
                                         keys_max(model.mask(number_of(op, NumberType::kMask))));
    const Checked keys_of_heads = Checked(keys) * model.heads_of(op);
    const Checked pairs = keys_of_heads * size.rows;
    multiply_adds = multiply_adds + pairs * cache_entry(shape);
    bytes = bytes + keys_of_heads * blocks * cache_entry_bytes(shape, kv_type);
    if (size.finite) continue;
    // Scores are computed again, and those that overflow a third time, from scaled factors.
    multiply_adds = multiply_adds + pairs * (cache_entry(shape) + shape.head_dim);
    bytes = bytes + pairs * 2 * cache_entry_bytes(shape, kv_type);
  }
  return {multiply_adds.value(), bytes.value()};
}

}  // namespace arenite::tool
