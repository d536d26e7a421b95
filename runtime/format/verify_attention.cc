// SPDX-License-Identifier: Apache-2.0
// Attention as the verifier sees it: heads, cache, mask and terms fit each other.
#include "arenite/checked_math.h"
#include "format/op_check.h"

namespace arenite::format {
namespace {

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
  const bool fits = by_pair ? table.outputs == positions || table.outputs == rows.saturated()
                            : table.inputs % 2 == 1 && table.outputs == heads;
  if (fits) return true;
  return check.refuse("a table of positions has another width than the op needs", field,
                      check.index, table.outputs, rows.saturated());
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

}  // namespace

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

}  // namespace arenite::format
