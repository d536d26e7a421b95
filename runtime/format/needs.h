// SPDX-License-Identifier: Apache-2.0
// What of the runtime a model needs.
#pragma once

#include "core/features.h"
#include "format/reader.h"
#include "format/tokenizer_reader.h"

namespace arenite::format {

// Calls visit(feature, index) for all that running a file takes, once for each op, mask and
// tokenizer that takes it, until it returns false; `index` is of that op or mask. Kinds that are
// not known are passed over. Returns false if `visit` did.
// REQUIRES: the bytes passed FlatBuffers' structural verification (verify.h).
template <typename Visit>
bool for_each_need(std::span<const std::byte> file, Visit visit) {
  const ModelReader model(file);
  // A kind of a list of features that begins with `first`.
  const auto visit_kind = [&](Feature first, auto kind, auto last_kind, uint32_t index) {
    if (kind > last_kind) return true;
    return visit(static_cast<Feature>(static_cast<uint32_t>(first) + static_cast<uint32_t>(kind)),
                 index);
  };
  const auto visit_op = [&](const OpView& op, uint32_t i) {
    switch (op.kind) {
      case OpKind::kLinear:
        return visit(Feature::kLinear, i);
      case OpKind::kAttention:
        return visit(Feature::kAttention, i);
      case OpKind::kEmbedding:
        return visit(Feature::kEmbedding, i);
      case OpKind::kNorm:
        return visit_kind(Feature::kLayerNorm, op.norm.kind, kLastNormKind, i);
      case OpKind::kRope:
        return visit(Feature::kRope, i);
      case OpKind::kActivation:
        return visit_kind(Feature::kRelu, op.activation.kind, kLastActivation, i);
      case OpKind::kAdd:
        return visit(Feature::kAdd, i);
      case OpKind::kSelect:
        if (op.select.kind > kLastSelectKind) return true;
        if (makes_a_row_of_several(op.select.kind) &&
            !visit(
                op.select.kind == SelectKind::kMax ? Feature::kMaxPooling : Feature::kMeanPooling,
                i)) {
          return false;
        }
        return visit(Feature::kSelect, i);
      case OpKind::kNone:
        break;
    }
    return true;
  };
  for (uint32_t i = 0; i < model.ops(); ++i) {
    if (!visit_op(model.op(i), i)) return false;
  }
  for (uint32_t i = 0; i < model.masks(); ++i) {
    if (!model.mask_known(i)) continue;
    const MaskKind kind = model.mask(i).kind;
    if (kind == MaskKind::kStrip && !visit(Feature::kStripMask, i)) return false;
    if (kind == MaskKind::kTiles && !visit(Feature::kTileMask, i)) return false;
  }
  return !has_tokenizer(file) ||
         visit_kind(Feature::kBytePairs, tokenizer_view(file).kind, TokenizerKind::kWordPiece, 0);
}

}  // namespace arenite::format
