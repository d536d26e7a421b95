// SPDX-License-Identifier: Apache-2.0
// Verifies each op: that its parameters are in range and refer to tensors, caches and masks that
// exist, by the table of ops; then, by a function for each kind, that widths and shapes agree.
#include "format/verify.h"

#include <cmath>

#include "arenite/checked_math.h"
#include "core/views.h"

namespace arenite::format {
namespace {

// One op with its context, and the checks that ops of several kinds share.
struct OpCheck {
  const ModelReader& model;
  uint32_t index;  // of the op
  bool causal;     // whether its function is causal
  const Refusal& refuse;
  const OpView& op;
  const OpRow& row;

  // The axis of an operand; for an axis of blocks, the axis that the blocks divide.
  uint32_t axis_of(Operand operand) const {
    return model.whole_axis(model.axis_of(op.views[operand]));
  }
  // Returns the maximum rows of a sequence on an axis, or on the op's axis; UINT32_MAX if
  // unlimited. Out of line, so that the rules share one copy.
  [[gnu::noinline]] uint32_t positions_on(uint32_t axis) const {
    if constexpr (!kFunctionsLinked) {
      const uint32_t tokens = model.positions_max() != 0 ? model.positions_max() : UINT32_MAX;
      return model.rows_on(axis, tokens);
    }
    InputTokens tokens = model.positions();
    for (uint32_t& most : tokens.of) most = most != 0 ? most : UINT32_MAX;
    return model.rows_on(axis, tokens);
  }
  uint32_t positions_max() const { return positions_on(axis_of(kOutput)); }
  // Returns the input whose tokens the op looks up. REQUIRES: the op's axis is of kind kInput.
  uint32_t input() const { return kFunctionsLinked ? model.source_of_axis(axis_of(kOutput)) : 0; }

  Message field(Operand operand) const { return row.operands[operand].field; }
  Message number_field(uint32_t number) const { return row.numbers[number].field; }

  bool width(Operand operand, Checked expected) const {
    const uint32_t found = op.views[operand].width;
    if (found != 0 && found == expected.value()) return true;
    return refuse("the columns have the wrong width for the op", field(operand), index, found,
                  expected.value());
  }

  // Checks a number of parts (heads, groups), which must divide the width of an operand.
  bool divides(uint32_t number, Operand operand) const {
    const uint32_t parts = op.numbers[number];
    const uint32_t columns = op.views[operand].width;
    if (parts != 0 && columns % parts == 0) return true;
    return refuse("the parts do not divide the columns", number_field(number), index, parts,
                  columns);
  }

  // REQUIRES: has(number), and verify_numbers accepted the op.
  const TensorShape& tensor(uint32_t number) const { return model.tensor(op.numbers[number]); }

  bool has(uint32_t number) const { return op.numbers[number] != kAbsent; }

  // Checks a tensor [1, width].
  bool vector(uint32_t number, uint32_t width) const {
    if (has(number) && tensor(number).outputs == 1 && tensor(number).inputs == width) return true;
    return refuse("a vector has the wrong length for the op", number_field(number), index,
                  has(number) ? tensor(number).inputs : 0, width);
  }

  // Checks a table [positions, width], which must have a row for each position on the op's axis,
  // counted from row `offset`.
  bool position_table(uint32_t number, uint32_t offset, uint32_t width) const {
    const TensorShape& table = tensor(number);
    const Checked needed = Checked(positions_max()) + offset;
    if (table.outputs < needed.value()) {
      return refuse("a position table is shorter than the context", number_field(number), index,
                    table.outputs, needed.value());
    }
    if (table.inputs == width) return true;
    return refuse("a position table has the wrong width for the op", number_field(number), index,
                  table.inputs, width);
  }
};

// Checks a table of attention biases for P positions, at least positions_max(): by distance
// [heads, 2 P - 1], by pair [heads * P, P] or [P, P] for all heads. For K keys of another axis it
// is [heads * P, K].
bool verify_table(const OpCheck& check, ScoreTerms kind, uint32_t heads) {
  const Message field = check.number_field(AttentionOp::kTerms);
  if (!check.has(AttentionOp::kTerms)) {
    return check.refuse("an op names something that does not exist", field, check.index);
  }
  const TensorShape& table = check.tensor(AttentionOp::kTerms);
  const bool by_pair = kind == ScoreTerms::kPairs;
  const uint32_t axis = check.model.cache(check.op.numbers[AttentionOp::kCache]).axis;
  if (linked(Need::kStore) && axis != check.axis_of(kOutput)) {
    const uint32_t queries = table.outputs / heads;
    if (table.inputs >= check.positions_on(axis) && queries >= check.positions_max()) return true;
    return check.refuse("a position table is shorter than the context", field, check.index, queries,
                        check.positions_max());
  }
  const uint32_t positions = by_pair ? table.inputs : table.inputs / 2 + 1;
  if (positions < check.positions_max()) {
    return check.refuse("a position table is shorter than the context", field, check.index,
                        positions, check.positions_max());
  }
  const Checked rows = Checked(heads) * (by_pair ? positions : 1);
  const bool fits = by_pair ? table.outputs == positions || table.outputs == rows.value()
                            : table.inputs % 2 == 1 && table.outputs == heads;
  if (fits) return true;
  return check.refuse("a position table has the wrong width for the op", field, check.index,
                      table.outputs, rows.value());
}

// Whether the rows of queries include their own attention biases.
bool brings_terms(const OpCheck& check) {
  return linked(Need::kQueryTerms) &&
         is_of_queries(check.op.choice<ScoreTerms>(AttentionOp::kTermsBy));
}

bool brings_terms_of_keys(const OpCheck& check) {
  return linked(Need::kQueryTerms) &&
         check.op.choice<ScoreTerms>(AttentionOp::kTermsBy) == ScoreTerms::kQueriesAndKeys;
}

bool verify_terms(const OpCheck& check, uint32_t heads) {
  if constexpr (kTermsByRow.type != NumberType::kNone) {
    const auto kind = check.op.choice<ScoreTerms>(AttentionOp::kTermsBy);
    const uint32_t number = check.op.numbers[AttentionOp::kTermsBy];
    if (number > static_cast<uint32_t>(kLastScoreTerms)) {
      return check.refuse("an op has an unknown enumerator",
                          check.number_field(AttentionOp::kTermsBy), check.index, number,
                          static_cast<uint32_t>(kLastScoreTerms));
    }
    if (brings_terms(check) && check.has(AttentionOp::kTerms)) {
      return check.refuse("an op has both an attention bias and a relative one",
                          check.number_field(AttentionOp::kTerms), check.index);
    }
    if (is_table(kind)) return verify_table(check, kind, heads);
  }
  return !check.has(AttentionOp::kTerms) || check.vector(AttentionOp::kTerms, heads);
}

// Checks the width of an operand: `width`, followed by at least one attention bias for each head.
bool verify_width_with_terms(const OpCheck& check, Operand operand, Checked width, uint32_t heads) {
  const uint32_t found = check.op.views[operand].width;
  if (found > width.value() && (found - width.value()) % heads == 0) return true;
  return check.width(operand, width + heads);
}

bool verify_queries(const OpCheck& check, uint32_t heads, uint32_t head_dim) {
  const Checked width = Checked(heads) * head_dim;
  if (brings_terms(check)) return verify_width_with_terms(check, kQuery, width, heads);
  return head_dim == 0 || check.width(kQuery, width);
}

bool verify_sinks(const OpCheck& check, uint32_t heads) {
  if constexpr (!linked(Need::kSinks)) return true;
  return !check.has(AttentionOp::kSinks) || check.vector(AttentionOp::kSinks, heads);
}

// Checks that an op that fills a cache is on the cache's axis.
bool verify_axis_of_cache(const OpCheck& check, const CacheView& cache) {
  const uint32_t axis = check.model.whole_axis(check.model.axis_of_op(check.index));
  if (!kAxesLinked || cache.axis == axis) return true;
  return check.refuse("an attention op and its cache are on different axes", "caches.axis",
                      check.op.numbers[AttentionOp::kCache], cache.axis, axis);
}
bool verify_new_keys(const OpCheck& check, const CacheShape& shape) {
  return (shape.head_dim == 0 || check.width(kKey, Checked(shape.kv_heads) * shape.head_dim)) &&
         check.width(kValue, Checked(shape.kv_heads) * shape.value_dim);
}

// Checks keys that bring their attention biases: these are not cached, so the op must get all keys
// that its queries see.
bool verify_keys_with_terms(const OpCheck& check, const CacheView& cache, uint32_t heads) {
  const MaskRecord& mask = check.model.mask_record(check.op.numbers[AttentionOp::kMask]);
  if (check.op.views[kValue].width == 0 || check.axis_of(kOutput) != cache.axis ||
      !shows_everything(mask)) {
    return check.refuse("keys bring biases to an op that does not get whole sequences",
                        check.number_field(AttentionOp::kTermsBy), check.index);
  }
  const CacheShape& shape = cache.shape;
  return verify_width_with_terms(check, kKey, Checked(shape.kv_heads) * shape.head_dim, heads) &&
         check.width(kValue, Checked(shape.kv_heads) * shape.value_dim);
}

// Checks attention to stored keys. If these are on another axis than the queries, the mask must not
// hide any, and only a bias by pair is allowed, since positions of different axes have no distance.
bool verify_stored_keys(const OpCheck& check, const CacheView& cache) {
  if (check.op.views[kKey].width != 0) {
    return check.refuse("an op has keys without values", check.field(kKey), check.index,
                        check.op.views[kKey].width, 0);
  }
  if (cache.axis == check.axis_of(kOutput)) return true;
  if (!shows_everything(check.model.mask_record(check.op.numbers[AttentionOp::kMask]))) {
    return check.refuse("a mask hides keys of another axis", check.number_field(AttentionOp::kMask),
                        check.index);
  }
  const bool is_by_pair = linked(Need::kScoreTables) &&
                          check.op.choice<ScoreTerms>(AttentionOp::kTermsBy) == ScoreTerms::kPairs;
  if (is_by_pair || (!check.has(AttentionOp::kTerms) && !brings_terms(check))) return true;
  return check.refuse("cross-attention takes biases by pair only",
                      check.number_field(AttentionOp::kTerms), check.index);
}

bool verify_attention(const OpCheck& check) {
  const uint32_t cache_index = check.op.numbers[AttentionOp::kCache];
  const CacheView& cache = check.model.cache(cache_index);
  const uint32_t kv_heads = cache.shape.kv_heads;
  if (cache.shape.value_dim == 0) {
    return check.refuse("an attention op has no values", "caches.value_dim", check.index);
  }
  const uint32_t heads = check.model.heads_of(check.op);
  if (heads == 0 || kv_heads == 0 || heads % kv_heads != 0) {
    return check.refuse("the heads are not a multiple of the key/value heads", check.field(kOutput),
                        check.index, heads, kv_heads);
  }
  const bool is_filled = linked(Need::kStore) && check.op.views[kValue].width == 0;
  const bool fits =
      is_filled ? verify_stored_keys(check, cache) : verify_axis_of_cache(check, cache);
  if (!fits) return false;
  const uint32_t mask_index = check.op.numbers[AttentionOp::kMask];
  const MaskRecord& mask = check.model.mask_record(mask_index);
  if (mask.positions != 0 && mask.positions < check.positions_max()) {
    return check.refuse("a mask is smaller than the model's context", "masks.positions", mask_index,
                        mask.positions, check.positions_max());
  }
  if (linked(Need::kPairMask) && kAxesLinked &&
      mask.kind == static_cast<uint32_t>(MaskKind::kPairs) &&
      check.model.axes()[cache.axis].kind != AxisKind::kInput) {
    return check.refuse("a pair mask has keys that are not an input's rows", "masks.kind",
                        mask_index);
  }
  const bool seen = mask.kind == static_cast<uint32_t>(MaskKind::kBand) && mask.lookahead == 0 &&
                    mask.lookback <= cache.lookback;
  if (cache.lookback != kUnlimited && !seen) {
    return check.refuse("a cache forgets positions that its mask shows", "caches.lookback",
                        cache_index, cache.lookback, mask.lookback);
  }
  if constexpr (linked(Need::kScoreCap)) {
    const float cap = check.op.reals[AttentionOp::kScoreCap];
    if (cap != 0.0f && !is_soft_cap(cap)) {
      return check.refuse("a parameter of an op is out of range",
                          check.row.reals[AttentionOp::kScoreCap].field, check.index);
    }
  }
  const uint32_t head_dim = cache.shape.head_dim;
  const ColumnView* const views = check.op.views;
  if (head_dim == 0 && (views[kQuery].width != 0 || views[kKey].width != 0)) {
    return check.refuse("queries or keys without dimensions", check.field(kQuery), check.index,
                        views[kQuery].width, 0);
  }
  const bool keys_fit = brings_terms_of_keys(check)
                            ? verify_keys_with_terms(check, cache, heads)
                            : is_filled || verify_new_keys(check, cache.shape);
  return verify_queries(check, heads, head_dim) && keys_fit &&
         check.width(kOutput, Checked(heads) * cache.shape.value_dim) &&
         verify_terms(check, heads) && verify_sinks(check, heads);
}

bool verify_store(const OpCheck& check) {
  const CacheView& cache = check.model.cache(check.op.numbers[StoreOp::kCache]);
  if (cache.shape.value_dim == 0 || cache.shape.kv_heads == 0) {
    return check.refuse("an attention op has no values", "caches.value_dim", check.index);
  }
  if (cache.shape.head_dim == 0 && check.op.views[kKey].width != 0) {
    return check.refuse("an op has keys without dimensions", check.field(kKey), check.index,
                        check.op.views[kKey].width, 0);
  }
  return verify_axis_of_cache(check, cache) && verify_new_keys(check, cache.shape);
}

bool verify_number(const OpCheck& check, uint32_t number) {
  const NumberRow& row = check.row.numbers[number];
  const uint32_t value = check.op.numbers[number];
  if (row.optional && value == kAbsent) return true;
  const ModelReader& model = check.model;
  uint32_t end = UINT32_MAX;
  switch (row.type) {
    case NumberType::kNone:
      end = row.optional ? 0 : 1;
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
    return check.refuse(row.type == NumberType::kChoice
                            ? Message("an op has an unknown enumerator")
                            : Message("an op names something that does not exist"),
                        row.field, check.index, value, end);
  }
  if (!is_tensor(row.type) || row.type == NumberType::kTable) return true;
  const Layout layout = row.type == NumberType::kMatrix ? Layout::kGemm : Layout::kPlain;
  if (model.tensor(value).layout != layout) {
    return check.refuse("a tensor has the wrong layout for its op", row.field, check.index);
  }
  if constexpr (!kQuantizedLinked) return true;
  const TensorType type = model.tensor(value).type;
  if (row.type == NumberType::kMatrix || type == TensorType::kF32) return true;
  return check.refuse("a tensor has the wrong type for its op", row.field, check.index,
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
      return check.refuse("a parameter of an op is out of range", row.field, check.index);
    }
  }
  return true;
}

bool verify_linear(const OpCheck& check) {
  const TensorShape& weights = check.tensor(LinearOp::kTensor);
  return check.width(kInput, weights.inputs) && check.width(kOutput, weights.outputs);
}

// Checks the padding id. Positions that skip padding are counted in the ids of one call. These must
// be the whole sequence, so the function must not be causal.
bool verify_padding(const OpCheck& check) {
  const uint32_t padding_id = check.op.numbers[EmbeddingOp::kPaddingId];
  if (padding_id == kAbsent) return true;
  const Message field = check.number_field(EmbeddingOp::kPaddingId);
  if (!check.has(EmbeddingOp::kTokens) || !check.has(EmbeddingOp::kPositions) ||
      check.op.numbers[EmbeddingOp::kPositionOffset] == 0 ||
      padding_id >= check.model.vocab_size(check.input())) {
    return check.refuse("a padding id needs tokens, positions and its own row", field, check.index,
                        padding_id);
  }
  if (!check.causal) return true;
  return check.refuse("a causal model has a padding id", field, check.index, padding_id, kAbsent);
}

bool verify_embedding(const OpCheck& check) {
  const Message tokens_field = check.number_field(EmbeddingOp::kTokens);
  if (!check.has(EmbeddingOp::kTokens)) {
    if (check.has(EmbeddingOp::kTypes) || !check.has(EmbeddingOp::kPositions)) {
      return check.refuse("an embedding without tokens needs positions, and no types", tokens_field,
                          check.index);
    }
  } else {
    const TensorShape& table = check.tensor(EmbeddingOp::kTokens);
    if (kAxesLinked && check.model.kind_of_axis(check.axis_of(kOutput)) != AxisKind::kInput) {
      return check.refuse("an embedding of tokens is not on an input's axis", check.field(kOutput),
                          check.index, check.axis_of(kOutput), 0);
    }
    const uint32_t vocab_size = check.model.vocab_size(check.input());
    if (vocab_size == 0 || table.outputs < vocab_size) {
      return check.refuse("an embedding has fewer rows than the vocabulary", tokens_field,
                          check.index, table.outputs, vocab_size);
    }
    if (!check.width(kOutput, table.inputs)) return false;
  }
  return verify_padding(check) &&
         (!check.has(EmbeddingOp::kPositions) ||
          check.position_table(EmbeddingOp::kPositions,
                               check.op.numbers[EmbeddingOp::kPositionOffset],
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
    return check.refuse("an L2 norm or a softmax has a gain or a bias",
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
    return check.refuse("RoPE rotates an odd number of dimensions, or too many",
                        check.number_field(RopeOp::kAngles), check.index, rotary_dim, head_dim);
  }
  return check.position_table(RopeOp::kAngles, 0, rotary_dim);
}

bool verify_activation(const OpCheck& check) {
  const uint32_t width = check.op.views[kInput].width;
  const auto function = check.op.choice<Activation>(ActivationOp::kKind);
  if (!parameter_makes_sense(function, check.op.reals[ActivationOp::kParameter])) {
    return check.refuse("a parameter of an op is out of range",
                        check.row.reals[ActivationOp::kParameter].field, check.index);
  }
  const uint32_t factors = check.op.views[kFactor].width;
  return check.width(kOutput, width) &&
         (factors == 0 || width % factors == 0 || check.width(kFactor, width));
}

bool verify_add(const OpCheck& check) {
  const uint32_t width = check.op.views[kInput].width;
  return check.width(kOther, width) && check.width(kOutput, width);
}

// Returns the rows that every sequence has on an axis; 0 if that depends on its tokens.
[[gnu::noinline]] uint32_t fixed_rows(const ModelReader& model, uint32_t axis) {
  const uint32_t least = model.rows_of_axes(model.shortest(), 1, true)[axis];
  const bool is_fixed = model.kind_of_axis(axis) != AxisKind::kAsked &&
                        least == model.rows_of_axes(model.positions(), 1, true)[axis];
  return is_fixed ? least : 0;
}

// Returns whether the list of a selection has `to` rows, all below `from`.
bool takes_rows(const OpCheck& check, uint32_t from, uint32_t to) {
  const std::span<const uint32_t> list =
      check.model.taken_rows(check.op.numbers[SelectOp::kFirstTaken]);
  bool fits = to != 0 && to <= list.size();
  for (uint32_t i = 0; fits && i < to; ++i) fits = list[i] < from;
  return fits;
}

// Checks the axes of a selection: from any axis to a kAsked axis with this source; from any but
// kAsked to kOne; from kJoined to either part; between an axis of kind kTurns and its source;
// between axes of which each has as many rows of every sequence as the other operand has columns;
// or between axes with a fixed number of rows, by a list.
bool verify_select(const OpCheck& check) {
  const ModelReader& model = check.model;
  const uint32_t from = check.axis_of(kInput), to = check.axis_of(kOutput);
  const auto kind = check.op.choice<SelectKind>(SelectOp::kKind);
  const std::span<const arenite::Axis> axes = model.axes();
  bool fits = model.kind_of_axis(to) == AxisKind::kAsked && model.source_of_axis(to) == from;
  if (linked(Need::kSelectTurns) && kind == SelectKind::kTurns) {
    const bool parts = axes[to].kind == AxisKind::kTurns && axes[to].source == from;
    const Operand many = parts ? kOutput : kInput, one = parts ? kInput : kOutput;
    const arenite::Axis& turns = axes[check.axis_of(many)];
    fits = parts || (turns.kind == AxisKind::kTurns && turns.source == to);
    if (fits) return check.width(one, Checked(check.op.views[many].width) * turns.rows);
  } else if (linked(Need::kSelectTransposed) && kind == SelectKind::kTransposed) {
    fits = fixed_rows(model, to) == check.op.views[kInput].width;
    if (fits) return check.width(kOutput, fixed_rows(model, from));
  } else if (linked(Need::kSelectTaken) && kind == SelectKind::kTaken) {
    fits = takes_rows(check, fixed_rows(model, from), fixed_rows(model, to));
  } else if (kAxesLinked && kind != SelectKind::kAsAsked) {
    fits = axes[to].kind == AxisKind::kOne && axes[from].kind != AxisKind::kAsked;
    if (linked(Need::kJoin) && axes[from].kind == AxisKind::kJoined) {
      fits = fits || (kind == SelectKind::kFirst && to == axes[from].source) ||
             (kind == SelectKind::kLast && to == axes[from].other);
    }
  }
  if (!fits) {
    return check.refuse("the output axis of a selection does not fit its kind",
                        check.number_field(SelectOp::kKind), check.index, to, from);
  }
  return check.width(kOutput, check.op.views[kInput].width);
}

bool verify_join(const OpCheck& check) {
  const arenite::Axis& axis = check.model.axes()[check.axis_of(kOutput)];
  if (axis.kind != AxisKind::kJoined || axis.source != check.axis_of(kInput) ||
      axis.other != check.axis_of(kOther)) {
    return check.refuse("a concatenation's axis is not made of its inputs' axes",
                        check.field(kOutput), check.index);
  }
  const uint32_t width = check.op.views[kOutput].width;
  return check.width(kInput, width) && check.width(kOther, width);
}

// Checks windows over images: each direction has as many windows as the output's axis has lines or
// columns. `kernel` is in pixels.
bool verify_image_windows(const OpCheck& check, uint32_t kernel, const arenite::Axis& from,
                          const arenite::Axis& to) {
  const uint32_t columns = check.op.numbers[ConvolutionOp::kColumns];
  if (columns == 0 || kernel % columns != 0) {
    return check.refuse("a window is not made of whole lines",
                        check.number_field(ConvolutionOp::kColumns), check.index, columns, kernel);
  }
  const Windows windows = check.model.windows_of(check.op);
  const auto fits = [](const WindowAxis& window, uint32_t rows, uint32_t count) {
    const Checked span = Checked(window.kernel - 1) * window.dilation + 1;
    if (window.dilation == 0 || span.value() > uint64_t{kWindowRowsMax}) return false;
    const int64_t after = window.reaches_beyond(rows, count);
    return after <= int64_t{kWindowRowsMax} && after > -int64_t{window.stride};
  };
  if (fits(windows.lines, from.rows / from.other, to.rows / to.other) &&
      fits(windows.columns, from.other, to.other)) {
    return true;
  }
  return check.refuse("windows over an image do not fit their axis",
                      check.number_field(ConvolutionOp::kDilation), check.index, kernel, to.rows);
}

// Checks the axes of an op with windows, and that its zero padding matches the output's axis:
// before + after = span - window, span = dilation * (kernel - 1) + 1. `kernel` is in rows.
bool verify_windows(const OpCheck& check, uint32_t kernel) {
  const std::span<const arenite::Axis> axes = check.model.axes();
  const uint32_t from = check.axis_of(kInput), to = check.axis_of(kOutput);
  const bool is_same = from == to && axes[to].kind != AxisKind::kAsked;
  const bool is_image = axes[from].is_image();
  const AxisKind kind = is_image ? AxisKind::kPixels : AxisKind::kWindows;
  if (!is_same && (axes[to].kind != kind || axes[to].source != from)) {
    return check.refuse("a convolution's output is not on the axis of its windows",
                        check.field(kOutput), check.index, to, from);
  }
  if (is_image) return verify_image_windows(check, kernel, axes[from], axes[to]);
  const uint32_t columns = check.op.numbers[ConvolutionOp::kColumns];
  if (columns != 0) {
    return check.refuse("a kernel has columns, but no image as input",
                        check.number_field(ConvolutionOp::kColumns), check.index, columns, 0);
  }
  const uint32_t dilation = check.op.numbers[ConvolutionOp::kDilation];
  const Checked span = Checked(kernel - 1) * dilation + 1;
  constexpr uint64_t kMost = kWindowRowsMax;
  if (dilation == 0 || dilation > kMost || span.value() > kMost) {
    return check.refuse("a window has no rows, or too many",
                        check.number_field(ConvolutionOp::kDilation), check.index, span.value(),
                        kMost);
  }
  const uint32_t before = check.op.numbers[ConvolutionOp::kBefore];
  const int64_t window = is_same ? 1 : axes[to].window;
  const int64_t after = static_cast<int64_t>(span.value()) - window - before;
  if (before <= kMost && after >= 0 && after <= int64_t{kWindowRowsMax}) return true;
  return check.refuse("the padding of a sequence does not fit its windows",
                      check.number_field(ConvolutionOp::kBefore), check.index, before,
                      span.value());
}

bool verify_convolution(const OpCheck& check) {
  const TensorShape& weights = check.tensor(ConvolutionOp::kTensor);
  const uint32_t channels = check.op.views[kInput].width;
  if (weights.inputs % channels != 0) {
    return check.refuse("the columns have the wrong width for the op", check.field(kInput),
                        check.index, channels, weights.inputs);
  }
  return check.width(kOutput, weights.outputs) && verify_windows(check, weights.inputs / channels);
}

bool verify_depthwise(const OpCheck& check) {
  const TensorShape& kernel = check.tensor(DepthwiseOp::kKernel);
  return check.width(kInput, kernel.inputs) && check.width(kOutput, kernel.inputs) &&
         check.vector(DepthwiseOp::kBias, kernel.inputs) && verify_windows(check, kernel.outputs);
}

bool verify_max_pool(const OpCheck& check) {
  const uint32_t kernel = check.op.numbers[MaxPoolOp::kKernel];
  if (kernel - 1 >= uint32_t{kWindowRowsMax}) {
    return check.refuse("a window has no rows, or too many", check.number_field(MaxPoolOp::kKernel),
                        check.index, kernel, uint32_t{kWindowRowsMax});
  }
  return check.width(kOutput, check.op.views[kInput].width) && verify_windows(check, kernel);
}

bool verify_top_k(const OpCheck& check) {
  const uint32_t chosen = check.op.views[kOutput].width / 2;
  const uint32_t scores = check.op.views[kInput].width;
  if (scores > kExpertsMax) {
    return check.refuse("an op has more experts than floats can number", check.field(kInput),
                        check.index, scores, kExpertsMax);
  }
  return check.width(kOutput, Checked(chosen < scores ? chosen : scores) * 2);
}

bool verify_experts(const OpCheck& check) {
  const TensorShape& weights = check.tensor(ExpertsOp::kTensor);
  const uint32_t count = check.op.numbers[ExpertsOp::kCount];
  if (count == 0 || count > kExpertsMax || weights.outputs % count != 0) {
    return check.refuse("the experts do not divide the outputs",
                        check.number_field(ExpertsOp::kCount), check.index, count, weights.outputs);
  }
  const Checked chosen = check.op.views[kIds].width;
  if (check.op.views[kIds].width > count) return check.width(kIds, count);
  const bool has_own_inputs = check.op.views[kInput].width != weights.inputs;
  return check.width(kOutput, chosen * (weights.outputs / count)) &&
         check.width(kInput, has_own_inputs ? chosen * weights.inputs : weights.inputs);
}

// Unknown kinds are refused earlier, by verify_flow, and kinds that are not linked by verify_needs.
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
    case OpKind::kJoin:
      if constexpr (linked(OpKind::kJoin)) return verify_join(check);
      break;
    case OpKind::kConvolution:
      if constexpr (linked(OpKind::kConvolution)) return verify_convolution(check);
      break;
    case OpKind::kDepthwise:
      if constexpr (linked(OpKind::kDepthwise)) return verify_depthwise(check);
      break;
    case OpKind::kMaxPool:
      if constexpr (linked(OpKind::kMaxPool)) return verify_max_pool(check);
      break;
    case OpKind::kStore:
      if constexpr (linked(OpKind::kStore)) return verify_store(check);
      break;
    case OpKind::kTopK:
      if constexpr (linked(OpKind::kTopK)) return verify_top_k(check);
      break;
    case OpKind::kExperts:
      if constexpr (linked(OpKind::kExperts)) return verify_experts(check);
      break;
  }
  return check.refuse("an op is of an unknown kind", "ops.kind", check.index);
}

// The next caches in the order in which ops fill them: caches [0, stores) belong to store ops, the
// others to attention ops.
struct CachesTaken {
  uint32_t stores = 0;
  uint32_t stored = 0;    // the next cache for a store op
  uint32_t attended = 0;  // the next cache for an attention op
};

// Checks that ops fill the caches in order, each op its own. In a function that is not causal, an
// op may also reuse the cache of an earlier op of its kind. Attention without values must read the
// cache of an earlier store op.
bool verify_cache_order(const OpCheck& check, CachesTaken& taken) {
  static_assert(uint32_t{StoreOp::kCache} == AttentionOp::kCache);
  constexpr uint32_t kNumber = AttentionOp::kCache;
  if (check.row.numbers[kNumber].type != NumberType::kCache) return true;
  const uint32_t cache = check.op.numbers[kNumber];
  if (linked(OpKind::kStore) && check.op.kind == OpKind::kAttention &&
      check.op.views[kValue].width == 0) {
    if (cache < taken.stored) return true;
    return check.refuse("an op reads keys that no earlier op has stored",
                        check.number_field(kNumber), check.index, cache, taken.stored);
  }
  const bool is_store = linked(OpKind::kStore) && check.op.kind == OpKind::kStore;
  uint32_t& next = is_store ? taken.stored : taken.attended;
  const bool is_known = cache < next && (is_store || cache >= taken.stores);
  if (is_known && !check.causal) return true;
  if (cache != next) {
    return check.refuse("attention ops do not take the caches in order",
                        check.number_field(kNumber), check.index, cache, next);
  }
  ++next;
  return true;
}

}  // namespace

// REQUIRES: verify_flow, which checks that views lie within their slots.
bool verify_ops(const ModelReader& model, const Refusal& refuse) {
  CachesTaken taken;
  for (uint32_t i = 0; linked(OpKind::kStore) && i < model.ops(); ++i) {
    const OpView& op = model.op(i);
    const bool is_next = op.kind == OpKind::kStore && op.numbers[StoreOp::kCache] == taken.stores;
    taken.stores += is_next ? 1 : 0;
  }
  taken.attended = taken.stores;
  for (uint32_t of = 0; of < model.functions(); ++of) {
    const bool causal = model.causal(of);
    for (uint32_t i = model.first_op(of); i < model.end_of_ops(of); ++i) {
      const OpView& op = model.op(i);
      const OpCheck check = {model, i, causal, refuse, op, row_of(op.kind)};
      if (!verify_cache_order(check, taken) || !verify_numbers(check) || !verify_shapes(check)) {
        return false;
      }
    }
  }
  if (taken.attended != model.caches()) {
    return refuse("a cache is used by no attention op", "caches", taken.attended, model.caches(),
                  taken.attended);
  }
  const uint32_t columns = model.slot(model.output_slot(model.functions() - 1)).width;
  if (model.labels() != 0 && model.labels() != columns) {
    return refuse("expected a label for each output column", "labels", 0, model.labels(), columns);
  }
  return true;
}

}  // namespace arenite::format
