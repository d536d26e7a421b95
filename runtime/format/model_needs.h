// SPDX-License-Identifier: Apache-2.0
// Finds the optional parts of the runtime (core/needs.h) that a model file needs. For example,
//   for_each_need(file, [](Need need, uint32_t index) { return linked(need); })
// returns false at the first part that this build lacks, except for parts that other checks refuse.
#pragma once

#include "core/needs.h"
#include "format/reader.h"
#include "format/tokenizer_reader.h"

namespace arenite::format {

// Returns the need `index` places after `first`.
constexpr Need need_of(Need first, uint32_t index) {
  return static_cast<Need>(static_cast<uint32_t>(first) + index);
}

// Returns the index of the function that an op computes. In an invalid file it may be
// OpRow::functions or more.
inline uint32_t function_of(const OpView& op) {
  return kOpNeeds[static_cast<uint32_t>(op.kind)].functions == 1 ? 0 : op.numbers[0];
}

// Visits the needs of an attention op's score cap, attention bias and sinks. A build without such a
// part has no parameter for it in op_table.h, so that verify_ops refuses the op.
template <typename Visit>
bool for_each_score_need(const OpView& op, uint32_t index, Visit visit) {
  if (op.kind != OpKind::kAttention) return true;
  if constexpr (linked(Need::kScoreCap)) {
    const bool caps = op.reals[AttentionOp::kScoreCap] != 0.0f;
    if (caps && !visit(Need::kScoreCap, index)) return false;
  }
  if constexpr (kTermsByRow.type != NumberType::kNone) {
    const auto by = op.choice<ScoreTerms>(AttentionOp::kTermsBy);
    if (is_table(by) && !visit(Need::kScoreTables, index)) return false;
    if (is_of_queries(by) && !visit(Need::kQueryTerms, index)) return false;
  }
  if constexpr (linked(Need::kSinks)) {
    if (op.numbers[AttentionOp::kSinks] != kAbsent && !visit(Need::kSinks, index)) return false;
  }
  return true;
}

// Calls visit(need, index) for each need of a file until `visit` returns false; then returns false,
// too. Needs of ops, tensors, masks and inputs are visited with their index, as often as they
// occur; those of functions, blocks, caches, sound and tokenizer with index 0. Unknown kinds are
// skipped. REQUIRES: the bytes passed FlatBuffers' structural verification (verify.h).
template <typename Visit>
bool for_each_need(std::span<const std::byte> file, Visit visit) {
  const ModelReader model(file);
  if (!model.has_one_function() && !visit(Need::kFunctions, 0)) return false;
  if constexpr (kAxesLinked) {
    for (const arenite::Axis& axis : model.axes()) {
      if (axis.kind == AxisKind::kBlocks && !visit(Need::kBlocks, 0)) return false;
    }
  }
  for (uint32_t i = 0; i < model.ops(); ++i) {
    const OpView& op = model.op(i);
    if (!known(op.kind)) continue;
    const OpNeeds needs = kOpNeeds[static_cast<uint32_t>(op.kind)];
    if (function_of(op) >= needs.functions) continue;
    if (!visit(need_of(needs.first, function_of(op)), i)) return false;
    if (!for_each_score_need(op, i, visit)) return false;
  }
  for (uint32_t i = 0; i < model.tensors(); ++i) {
    const TensorType type = model.tensor(i).type;
    if (type == TensorType::kF32 || !holds_weights(type)) continue;
    if (!visit(need_of(Need::kW8, static_cast<uint32_t>(type) - 1), i)) return false;
  }
  if (model.kv_cache() == TensorType::kInt8 && !visit(Need::kInt8Cache, 0)) return false;
  for (uint32_t i = 0; i < model.masks(); ++i) {
    const uint32_t kind = model.mask_record(i).kind;
    if (kind == static_cast<uint32_t>(MaskKind::kStrip) && !visit(Need::kStripMask, i))
      return false;
    if (kind == static_cast<uint32_t>(MaskKind::kTiles) && !visit(Need::kTileMask, i)) return false;
    // A build without pairs needs no code here: verify_masks refuses them as an unknown kind.
    if constexpr (!linked(Need::kPairMask)) continue;
    if (kind == static_cast<uint32_t>(MaskKind::kPairs) && !visit(Need::kPairMask, i)) return false;
  }
  for (uint32_t i = 0; i < model.inputs(); ++i) {
    if (model.stored_step(i) > 1 && !visit(Need::kLengthSteps, i)) return false;
  }
  // A build without sound needs no code here: verify_packed refuses the arena formula of the file.
  if (linked(Need::kSound) && model.has_sound() && !visit(Need::kSound, 0)) return false;
  if (!has_tokenizer(file)) return true;
  const uint32_t kind = static_cast<uint32_t>(tokenizer_kind(file));
  // A build without kUnigram needs no code here: verify_tokenizer refuses the later lists as
  // unknown.
  if constexpr (linked(Need::kUnigram)) {
    if (kind != static_cast<uint32_t>(TokenizerKind::kUnigram) &&
        tokenizer_lists(file) > kFirstTokenizerLists && !visit(Need::kUnigram, 0)) {
      return false;
    }
  }
  return kind >= kTokenizerKinds || visit(need_of(Need::kBytePairs, kind), 0);
}

}  // namespace arenite::format
