// SPDX-License-Identifier: Apache-2.0
#include "convert/program/op_records.h"

namespace arenite::convert {

using format::ColumnView;
using format::OpKind;
using format::OpView;

OpView linear_op(const ColumnView& input, const ColumnView& output, uint32_t tensor) {
  return {OpKind::kLinear, {input, {}, {}, output}, {tensor}, {}};
}

OpView attention_op(const AttentionParts& parts) {
  return {OpKind::kAttention,
          {parts.query, parts.key, parts.value, parts.output},
          {parts.heads, parts.cache, parts.mask, parts.slopes},
          {}};
}

OpView embedding_op(const ColumnView& output, const EmbeddingParts& parts) {
  return {OpKind::kEmbedding,
          {{}, {}, {}, output},
          {parts.tokens, parts.positions, parts.types, parts.position_offset, parts.padding_id},
          {parts.scale}};
}

OpView norm_op(const ColumnView& input, const ColumnView& output, const NormParts& parts) {
  return {OpKind::kNorm,
          {input, {}, {}, output},
          {static_cast<uint32_t>(parts.kind), parts.groups, parts.gain, parts.bias},
          {parts.epsilon}};
}

OpView rope_op(const ColumnView& input, const ColumnView& output, uint32_t heads, uint32_t angles) {
  return {OpKind::kRope, {input, {}, {}, output}, {heads, angles}, {}};
}

OpView activation_op(Activation kind, float parameter, const ColumnView& input,
                     const ColumnView& factor, const ColumnView& output) {
  return {
      OpKind::kActivation, {input, factor, {}, output}, {static_cast<uint32_t>(kind)}, {parameter}};
}

OpView sum_op(const ColumnView& input, const ColumnView& other, const ColumnView& output) {
  return {OpKind::kAdd, {input, other, {}, output}, {}, {}};
}

OpView select_op(const ColumnView& input, const ColumnView& output, SelectKind kind) {
  return {OpKind::kSelect, {input, {}, {}, output}, {static_cast<uint32_t>(kind)}, {}};
}

}  // namespace arenite::convert
