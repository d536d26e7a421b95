// SPDX-License-Identifier: Apache-2.0
// Verifies each op by itself: that what its numbers name is there, as the table of ops says, and
// then, op by op, that shapes fit each other.
#include "format/verify.h"

#include <cmath>

#include "arenite/checked_math.h"
#include "core/views.h"

namespace arenite::format {
namespace {

// An op as the verifier looks at it, and what ops of several kinds are checked for.
struct OpCheck {
  const ModelReader& model;
  uint32_t index;  // of the op
  bool causal;     // the model
  const Refusal& refuse;
  const OpView& op;
  const OpRow& row;

  Message field(Operand operand) const { return row.operands[operand].field; }
  Message number_field(uint32_t number) const { return row.numbers[number].field; }

  bool width(Operand operand, Checked expected) const {
    const uint32_t found = op.views[operand].width;
    if (found != 0 && found == expected.value()) return true;
    return refuse("the columns have another width than the op needs", field(operand), index, found,
                  expected.value());
  }

  // A number of parts that an operand is made of.
  bool divides(uint32_t number, Operand operand) const {
    const uint32_t parts = op.numbers[number];
    const uint32_t columns = op.views[operand].width;
    if (parts != 0 && columns % parts == 0) return true;
    return refuse("the parts do not divide the columns", number_field(number), index, parts,
                  columns);
  }

  // REQUIRES: not absent, and verify_numbers.
  const TensorShape& tensor(uint32_t number) const { return model.tensor(op.numbers[number]); }

  bool has(uint32_t number) const { return op.numbers[number] != kAbsent; }

  // A tensor of one row, as wide as `width`.
  bool vector(uint32_t number, uint32_t width) const {
    if (has(number) && tensor(number).outputs == 1 && tensor(number).inputs == width) return true;
    return refuse("a vector has another length than the op needs", number_field(number), index,
                  has(number) ? tensor(number).inputs : 0, width);
  }

  // A table [positions, width] that reaches as far as the model's sequences do.
  bool positions(uint32_t number, uint32_t offset, uint32_t width) const {
    const TensorShape& table = tensor(number);
    const uint32_t positions = model.rows_max();
    const Checked needed = Checked(positions) + offset;
    if (positions == 0 || table.outputs < needed.value()) {
      return refuse("a table of positions is shorter than the context", number_field(number), index,
                    table.outputs, needed.value());
    }
    if (table.inputs == width) return true;
    return refuse("a table of positions has another width than the op needs", number_field(number),
                  index, table.inputs, width);
  }
};

// A table of terms reaches as far as the model's sequences do, for each head, or for all of them.
bool verify_table(const OpCheck& check, ScoreTerms kind, uint32_t heads) {
  const Message field = check.number_field(AttentionOp::kTerms);
  if (!check.has(AttentionOp::kTerms)) {
    return check.refuse("an op names what is not there", field, check.index);
  }
  const TensorShape& table = check.tensor(AttentionOp::kTerms);
  const bool by_pair = kind == ScoreTerms::kPairs;
  const uint32_t positions = by_pair ? table.inputs : table.inputs / 2 + 1;
  const uint32_t model_positions = check.model.positions_max();
  if (model_positions == 0 || positions < model_positions) {
    return check.refuse("a table of positions is shorter than the context", field, check.index,
                        positions, model_positions);
  }
  const Checked rows = Checked(heads) * (by_pair ? positions : 1);
  const bool fits = by_pair ? table.outputs == positions || table.outputs == rows.value()
                            : table.inputs % 2 == 1 && table.outputs == heads;
  if (fits) return true;
  return check.refuse("a table of positions has another width than the op needs", field,
                      check.index, table.outputs, rows.value());
}

bool verify_terms(const OpCheck& check, uint32_t heads) {
  if constexpr (linked(Need::kScoreTables)) {
    const ScoreTerms kind = check.op.choice<ScoreTerms>(AttentionOp::kTermsBy);
    const uint32_t number = check.op.numbers[AttentionOp::kTermsBy];
    if (number > static_cast<uint32_t>(kLastScoreTerms)) {
      return check.refuse("an op is of an unknown function",
                          check.number_field(AttentionOp::kTermsBy), check.index, number,
                          static_cast<uint32_t>(kLastScoreTerms));
    }
    if (kind != ScoreTerms::kSlopes) return verify_table(check, kind, heads);
  }
  return !check.has(AttentionOp::kTerms) || check.vector(AttentionOp::kTerms, heads);
}

bool verify_attention(const OpCheck& check) {
  const uint32_t heads = check.op.numbers[AttentionOp::kHeads];
  const uint32_t cache_index = check.op.numbers[AttentionOp::kCache];
  const CacheView& cache = check.model.cache(cache_index);
  const uint32_t kv_heads = cache.shape.kv_heads;
  if (heads == 0 || kv_heads == 0 || heads % kv_heads != 0) {
    return check.refuse("the heads are not a multiple of the key/value heads",
                        check.number_field(AttentionOp::kHeads), check.index, heads, kv_heads);
  }
  if (cache.shape.value_dim == 0) {
    return check.refuse("an attention op has no values", "caches.value_dim", check.index);
  }
  const MaskRecord& mask = check.model.mask_record(check.op.numbers[AttentionOp::kMask]);
  const bool seen = mask.kind == static_cast<uint32_t>(MaskKind::kBand) && mask.lookahead == 0 &&
                    mask.lookback <= cache.lookback;
  if (cache.lookback != kUnlimited && !seen) {
    return check.refuse("a cache forgets positions that its mask shows", "caches.lookback",
                        cache_index, cache.lookback, mask.lookback);
  }
  if constexpr (linked(Need::kScoreCap)) {
    const float cap = check.op.reals[AttentionOp::kScoreCap];
    if (cap != 0.0f && !is_soft_cap(cap)) {
      return check.refuse("a number of an op makes no sense",
                          check.row.reals[AttentionOp::kScoreCap].field, check.index);
    }
  }
  const uint32_t head_dim = cache.shape.head_dim;
  const ColumnView* const views = check.op.views;
  if (head_dim == 0 && (views[kQuery].width != 0 || views[kKey].width != 0)) {
    return check.refuse("an attention op has a query but no dimensions", check.field(kQuery),
                        check.index, views[kQuery].width, 0);
  }
  return (head_dim == 0 || (check.width(kQuery, Checked(heads) * head_dim) &&
                            check.width(kKey, Checked(kv_heads) * head_dim))) &&
         check.width(kValue, Checked(kv_heads) * cache.shape.value_dim) &&
         check.width(kOutput, Checked(heads) * cache.shape.value_dim) && verify_terms(check, heads);
}

constexpr uint64_t kPixelsMax = uint64_t{1} << 30;  // numbers of an image

bool verify_number(const OpCheck& check, uint32_t number) {
  const NumberRow& row = check.row.numbers[number];
  const uint32_t value = check.op.numbers[number];
  if (row.optional && value == kAbsent) return true;
  const ModelReader& model = check.model;
  uint32_t end = UINT32_MAX;
  switch (row.type) {
    case NumberType::kNone:
      end = 1;
      break;
    case NumberType::kCount:
      return true;
    case NumberType::kChoice:
      end = check.row.functions;
      break;
    case NumberType::kMatrix:
    case NumberType::kVector:
    case NumberType::kPositionTable:
    case NumberType::kTable:
      end = model.tensors();
      break;
    case NumberType::kCache:
      end = model.caches();
      break;
    case NumberType::kMask:
      end = model.masks();
      break;
  }
  if (value >= end) {
    return check.refuse(row.type == NumberType::kChoice ? Message("an op is of an unknown function")
                                                        : Message("an op names what is not there"),
                        row.field, check.index, value, end);
  }
  if (!is_tensor(row.type) || row.type == NumberType::kTable) return true;
  const Layout layout = row.type == NumberType::kMatrix ? Layout::kGemm : Layout::kPlain;
  if (model.tensor(value).layout != layout) {
    return check.refuse("an op names a tensor of another layout", row.field, check.index);
  }
  if constexpr (!kFewBitsLinked) return true;
  const TensorType type = model.tensor(value).type;
  if (row.type == NumberType::kMatrix || type == TensorType::kF32) return true;
  return check.refuse("an op names a tensor of another type", row.field, check.index,
                      static_cast<uint32_t>(type), static_cast<uint32_t>(TensorType::kF32));
}

bool verify_numbers(const OpCheck& check) {
  for (uint32_t i = 0; i < kOpNumbers; ++i) {
    if (!verify_number(check, i)) return false;
  }
  for (uint32_t i = 0; i < kOpReals; ++i) {
    const RealRow& row = check.row.reals[i];
    const float value = check.op.reals[i];
    const bool is_right = row.type == RealType::kNone       ? value == 0.0f
                          : row.type == RealType::kPositive ? value > 0.0f
                                                            : true;
    if (!is_right || !std::isfinite(value)) {
      return check.refuse("a number of an op makes no sense", row.field, check.index);
    }
  }
  return true;
}

bool verify_linear(const OpCheck& check) {
  const TensorShape& weights = check.tensor(LinearOp::kTensor);
  return check.width(kInput, weights.inputs) && check.width(kOutput, weights.outputs);
}

// Positions without padding are counted in the ids of the call, which must be those of the whole
// sequence.
bool verify_padding(const OpCheck& check) {
  const uint32_t padding_id = check.op.numbers[EmbeddingOp::kPaddingId];
  if (padding_id == kAbsent) return true;
  const Message field = check.number_field(EmbeddingOp::kPaddingId);
  if (!check.has(EmbeddingOp::kTokens) || !check.has(EmbeddingOp::kPositions) ||
      check.op.numbers[EmbeddingOp::kPositionOffset] == 0 ||
      padding_id >= check.model.vocab_size()) {
    return check.refuse("a padding id needs tokens, positions and its own row", field, check.index,
                        padding_id, check.model.vocab_size());
  }
  if constexpr (linked(Need::kPrefix)) {
    if (check.model.prefix_rows() != 0) {
      return check.refuse("a model with a prefix has no padding id", field, check.index, padding_id,
                          kAbsent);
    }
  }
  return !check.causal ||
         check.refuse("a causal model has no padding id", field, check.index, padding_id, kAbsent);
}

bool verify_embedding(const OpCheck& check) {
  const Message tokens_field = check.number_field(EmbeddingOp::kTokens);
  if (!check.has(EmbeddingOp::kTokens)) {
    if (check.has(EmbeddingOp::kTypes) || !check.has(EmbeddingOp::kPositions)) {
      return check.refuse("an embedding without tokens has positions alone", tokens_field,
                          check.index);
    }
  } else {
    const TensorShape& table = check.tensor(EmbeddingOp::kTokens);
    const uint32_t vocab_size = check.model.vocab_size();
    if (vocab_size == 0 || table.outputs < vocab_size) {
      return check.refuse("an embedding has fewer rows than there are tokens", tokens_field,
                          check.index, table.outputs, vocab_size);
    }
    if (!check.width(kOutput, table.inputs)) return false;
  }
  return verify_padding(check) &&
         (!check.has(EmbeddingOp::kPositions) ||
          check.positions(EmbeddingOp::kPositions, check.op.numbers[EmbeddingOp::kPositionOffset],
                          check.op.views[kOutput].width)) &&
         (!check.has(EmbeddingOp::kTypes) ||
          check.width(kOutput, check.tensor(EmbeddingOp::kTypes).inputs));
}

bool verify_norm(const OpCheck& check) {
  const uint32_t width = check.op.views[kInput].width;
  if (!check.divides(NormOp::kGroups, kInput) || !check.width(kOutput, width)) return false;
  const bool has_bias = check.has(NormOp::kBias);
  if (!has_gain(check.op.choice<NormKind>(NormOp::kKind))) {
    if (!check.has(NormOp::kGain) && !has_bias) return true;
    return check.refuse("a norm by length or a softmax has no gain and no bias",
                        check.number_field(NormOp::kGain), check.index);
  }
  const uint32_t part = width / check.op.numbers[NormOp::kGroups];
  return check.vector(NormOp::kGain, part) && (!has_bias || check.vector(NormOp::kBias, part));
}

bool verify_rope(const OpCheck& check) {
  const uint32_t width = check.op.views[kInput].width;
  if (!check.divides(RopeOp::kHeads, kInput) || !check.width(kOutput, width)) return false;
  const uint32_t rotary_dim = check.tensor(RopeOp::kAngles).inputs;
  const uint32_t head_dim = width / check.op.numbers[RopeOp::kHeads];
  if (rotary_dim % 2 != 0 || rotary_dim > head_dim) {
    return check.refuse("a rotation turns an odd number of dimensions, or too many",
                        check.number_field(RopeOp::kAngles), check.index, rotary_dim, head_dim);
  }
  return check.positions(RopeOp::kAngles, 0, rotary_dim);
}

bool verify_activation(const OpCheck& check) {
  const uint32_t width = check.op.views[kInput].width;
  const auto function = check.op.choice<Activation>(ActivationOp::kKind);
  if (!parameter_makes_sense(function, check.op.reals[ActivationOp::kParameter])) {
    return check.refuse("a number of an op makes no sense",
                        check.row.reals[ActivationOp::kParameter].field, check.index);
  }
  return check.width(kOutput, width) &&
         (check.op.views[kFactor].width == 0 || check.width(kFactor, width));
}

bool verify_add(const OpCheck& check) {
  const uint32_t width = check.op.views[kInput].width;
  return check.width(kOther, width) && check.width(kOutput, width);
}

bool verify_select(const OpCheck& check) {
  const bool pools = check.op.choice<SelectKind>(SelectOp::kKind) != SelectKind::kAsAsked;
  if (pools != check.model.pooled()) {
    return check.refuse("either all selections of a model pool, or none",
                        check.number_field(SelectOp::kKind), check.index, pools, 0);
  }
  if constexpr (linked(Need::kPrefix)) {
    const uint32_t first_row = check.op.numbers[SelectOp::kFirstRow];
    const uint32_t most = pools ? check.model.prefix_rows() : 0;
    if (first_row > most) {
      return check.refuse("a selection passes over rows that are not of the prefix",
                          check.number_field(SelectOp::kFirstRow), check.index, first_row, most);
    }
  }
  return check.width(kOutput, check.op.views[kInput].width);
}

bool verify_prefix(const OpCheck& check) {
  const TensorShape& rows = check.tensor(PrefixOp::kRows);
  const Checked end = Checked(check.op.numbers[PrefixOp::kFirstRow]) + rows.outputs;
  if (end.value() > kPrefixRowsMax) {
    return check.refuse("a prefix has more rows than sequences can begin with",
                        check.number_field(PrefixOp::kRows), check.index, end.value(),
                        kPrefixRowsMax);
  }
  constexpr uint32_t kMost = UINT32_MAX - kPagePositions - kPrefixRowsMax;
  if (check.model.positions_max() > kMost) {
    return check.refuse("no position is left for a prefix", "signature.positions_max", check.index,
                        check.model.positions_max(), kMost);
  }
  return check.width(kInput, rows.inputs) && check.width(kOutput, rows.inputs);
}

// The patches of an image are the tokens of a sequence, so there are as many as positions.
bool verify_patches(const OpCheck& check) {
  using enum PatchesOp::Number;
  const ImagePatches image = check.model.image_patches();
  if (check.index != 0 || check.model.vocab_size() != 0) {
    return check.refuse("an image is cut by the first op, and instead of tokens", "ops.kind",
                        check.index, check.model.vocab_size(), 0);
  }
  if (image.channels == 0 || image.patch_height == 0 || image.patch_width == 0 ||
      image.patch_height > image.height || image.patch_width > image.width ||
      image.pixels().value() > kPixelsMax) {
    return check.refuse("an image has no patches, or is too large", check.number_field(kHeight),
                        check.index, image.pixels().value(), kPixelsMax);
  }
  if (image.patches().value() != check.model.positions_max()) {
    return check.refuse("an image has another number of patches than there are positions",
                        check.number_field(kPatchHeight), check.index, image.patches().value(),
                        check.model.positions_max());
  }
  return check.width(kOutput, image.row_width());
}

// verify_flow refused kinds that are not known, and verify_needs what is not linked.
bool verify_shapes(const OpCheck& check) {
  switch (check.op.kind) {
    case OpKind::kLinear:
      if constexpr (linked(OpKind::kLinear)) return verify_linear(check);
      break;
    case OpKind::kAttention:
      if constexpr (linked(OpKind::kAttention)) return verify_attention(check);
      break;
    case OpKind::kEmbedding:
      if constexpr (linked(OpKind::kEmbedding)) return verify_embedding(check);
      break;
    case OpKind::kNorm:
      if constexpr (linked(OpKind::kNorm)) return verify_norm(check);
      break;
    case OpKind::kRope:
      if constexpr (linked(OpKind::kRope)) return verify_rope(check);
      break;
    case OpKind::kActivation:
      if constexpr (linked(OpKind::kActivation)) return verify_activation(check);
      break;
    case OpKind::kAdd:
      if constexpr (linked(OpKind::kAdd)) return verify_add(check);
      break;
    case OpKind::kSelect:
      if constexpr (linked(OpKind::kSelect)) return verify_select(check);
      break;
    case OpKind::kPrefix:
      if constexpr (linked(OpKind::kPrefix)) return verify_prefix(check);
      break;
    case OpKind::kPatches:
      if constexpr (linked(OpKind::kPatches)) return verify_patches(check);
      break;
  }
  return check.refuse("an op is of an unknown kind", "ops.kind", check.index);
}

// Ops use caches in their order. Where nothing is kept from call to call, an op may also take one
// that an earlier op is done with: it fills what it reads.
bool verify_cache_order(const OpCheck& check, uint32_t& caches_used) {
  for (uint32_t i = 0; i < kOpNumbers; ++i) {
    if (check.row.numbers[i].type != NumberType::kCache) continue;
    const uint32_t cache = check.op.numbers[i];
    if (cache < caches_used && !check.causal) continue;
    if (cache != caches_used) {
      return check.refuse("each attention op has its own cache, in order", check.number_field(i),
                          check.index, cache, caches_used);
    }
    ++caches_used;
  }
  return true;
}

}  // namespace

// REQUIRES: verify_flow, which knows that views lie within their slots.
bool verify_ops(const ModelReader& model, const Refusal& refuse) {
  const bool causal = model.causal();
  uint32_t caches_used = 0;
  for (uint32_t i = 0; i < model.ops(); ++i) {
    const OpView& op = model.op(i);
    const OpCheck check = {model, i, causal, refuse, op, row_of(op.kind)};
    if (!verify_cache_order(check, caches_used) || !verify_numbers(check) ||
        !verify_shapes(check)) {
      return false;
    }
  }
  if (caches_used != model.caches()) {
    return refuse("no attention op uses a cache", "caches", caches_used, model.caches(),
                  caches_used);
  }
  const uint32_t columns = model.slot(model.output_slot()).width;
  if (model.labels() != 0 && model.labels() != columns) {
    return refuse("there is not one label for each output column", "labels", 0, model.labels(),
                  columns);
  }
  return true;
}

}  // namespace arenite::format
