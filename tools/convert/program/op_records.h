// SPDX-License-Identifier: Apache-2.0
// Makes the records of ops (format/op_table.h) from arguments with names.
#pragma once

#include "format/op_table.h"

namespace arenite::convert {

struct AttentionParts {
  format::ColumnView query, key, value, output;  // without query and key the mask alone decides
  uint32_t heads = 0;
  uint32_t cache = 0;
  uint32_t mask = 0;
  uint32_t slopes = format::kAbsent;  // a tensor
};

struct EmbeddingParts {
  uint32_t tokens = format::kAbsent;  // tensors
  uint32_t positions = format::kAbsent;
  uint32_t types = format::kAbsent;
  uint32_t position_offset = 0;
  uint32_t padding_id = format::kAbsent;
  float scale = 1.0f;
};

struct NormParts {
  NormKind kind = NormKind::kLayer;
  uint32_t groups = 1;
  uint32_t gain = format::kAbsent;  // tensors
  uint32_t bias = format::kAbsent;
  float epsilon = 0.0f;
};

format::OpView linear_op(const format::ColumnView& input, const format::ColumnView& output,
                         uint32_t tensor);
format::OpView attention_op(const AttentionParts& parts);
format::OpView embedding_op(const format::ColumnView& output, const EmbeddingParts& parts);
format::OpView norm_op(const format::ColumnView& input, const format::ColumnView& output,
                       const NormParts& parts);
format::OpView rope_op(const format::ColumnView& input, const format::ColumnView& output,
                       uint32_t heads, uint32_t angles);
format::OpView activation_op(Activation kind, float parameter, const format::ColumnView& input,
                             const format::ColumnView& factor, const format::ColumnView& output);
format::OpView sum_op(const format::ColumnView& input, const format::ColumnView& other,
                      const format::ColumnView& output);
format::OpView select_op(const format::ColumnView& input, const format::ColumnView& output,
                         SelectKind kind);

}  // namespace arenite::convert
