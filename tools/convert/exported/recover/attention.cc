// SPDX-License-Identifier: Apache-2.0
// Lowers scores and values to attention nodes. Heads are identified by the columns that they read;
// masks, slopes and biases by the constants added to the scores.
//
//   softmax(q k^T / 8 + causal mask) v      ->  attention(q, k, v) with scale 1/8 and a causal band
//   softmax(q k^T + 0.5 * (key - query)) v  ->  attention(q, k, v) with slope 0.5
//   k, v equal for each 4 query heads       ->  kv_heads = heads / 4
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <span>

#include "convert/exported/recover/pair_columns.h"
#include "convert/exported/recover/query_terms.h"
#include "convert/exported/recover/row_layout.h"
#include "convert/exported/recover/row_view.h"
#include "convert/exported/recover/scores.h"
#include "convert/spec/model_tensors.h"

namespace arenite::convert {

// The attention bias is stored in its smallest form: slopes, distances, or pairs. Softmax ignores a
// constant shared by all scores of a query, so slopes are computed from differences.

namespace {

constexpr double kBiasError = 1e-6;
constexpr size_t kTermsMax = size_t{1} << 27;  // bias elements of a model

constexpr const char* kOtherRows =
    "a mask or a bias is added to scores of queries and keys on different row axes, as in "
    "cross-attention; only padding masks are supported there";

struct HeadTerms {
  std::optional<double> slope;  // if the bias is linear in the distance
  std::vector<double> values;   // otherwise, [tokens, tokens]; -infinity hides a key
  // Whether the bias hides the key of the query's own token. The mask cannot, as each row of a mask
  // must show a key.
  bool hide_own = false;

  // Whether the mask hides the key, so that the bias needs no value.
  bool is_masked(size_t query, size_t key, double value) const {
    return std::isinf(value) && !(hide_own && query == key);
  }
};

}  // namespace

void check_bias_size(size_t numbers) {
  refuse_op_if(numbers > kTermsMax,
               "the attention bias has {} elements; at most {} are supported, so export it with "
               "fewer tokens",
               numbers, kTermsMax);
}

namespace {

// Splits the constants added to the scores of a head, [tokens, tokens], into a mask and a bias.
// Throws NotRecognised if a query sees no key and no sink.
HeadTerms read_terms(std::vector<double> added, bool has_sink, DenseMask& visible) {
  const uint32_t tokens = visible.positions;
  bool sees_nothing = false;
  std::optional<double> slope;
  bool has_slope = true;
  for (uint32_t q = 0; q < tokens; ++q) {
    double* row = added.data() + size_t{q} * tokens;
    const double largest = *std::max_element(row, row + tokens);
    const bool sees_any = largest > kHiddenScoreMax;
    refuse_op_if(!sees_any && !has_sink,
                 "the mask hides all keys of token {}; expected at least one visible key per token",
                 q);
    sees_nothing = sees_nothing || !sees_any;
    std::optional<uint32_t> first;
    for (uint32_t k = 0; k < tokens; ++k) {
      const bool sees = sees_any && row[k] > largest + kHiddenScoreMax;
      visible.set(q, k, sees);
      if (!sees) {
        row[k] = -std::numeric_limits<double>::infinity();
      } else if (!first) {
        first = k;
      } else {
        const double step = (row[k] - row[*first]) / (double(k) - double(*first));
        if (!slope) slope = step;
        has_slope =
            has_slope && std::fabs(step - *slope) <= kBiasError * std::max(1.0, std::fabs(*slope));
      }
    }
  }
  for (uint32_t q = 0; q < tokens && sees_nothing; ++q) visible.set(q, q, true);
  if (sees_nothing || !has_slope) return {std::nullopt, std::move(added), sees_nothing};
  return {std::fabs(slope.value_or(0.0)) <= kBiasError ? 0.0 : *slope, {}};
}

// Returns the bias of each distance, 0 if no visible pair has it. Empty if the biases of a distance
// differ.
std::vector<double> distances_of(const HeadTerms& terms, size_t n) {
  std::vector<double> values(2 * n - 1, 0.0);
  if (terms.slope) {
    for (size_t d = 0; d < values.size(); ++d)
      values[d] = *terms.slope * (double(d) - double(n - 1));
    return values;
  }
  std::vector<bool> is_known(values.size(), false);
  for (size_t q = 0; q < n; ++q) {
    for (size_t k = 0; k < n; ++k) {
      const double value = terms.values[q * n + k];
      const size_t d = n - 1 + k - q;
      if (terms.is_masked(q, k, value)) continue;
      if (!is_known[d]) values[d] = value;
      is_known[d] = true;
      // The bias is -infinity for a query without visible keys; a comparison by difference would
      // give NaN.
      if (std::isinf(value) != std::isinf(values[d])) return {};
      if (std::fabs(value - values[d]) > kBiasError * std::max(1.0, std::fabs(value))) return {};
    }
  }
  return values;
}

// Returns the bias of each pair, 0 for pairs that the mask hides.
std::vector<double> pairs_of(const HeadTerms& terms, size_t tokens) {
  std::vector<double> values = terms.values;
  for (size_t i = 0; i < values.size(); ++i) {
    if (terms.is_masked(i / tokens, i % tokens, values[i])) values[i] = 0.0;
  }
  for (size_t i = 0; terms.slope && i < tokens * tokens; ++i) {
    values.push_back(*terms.slope * (double(i % tokens) - double(i / tokens)));
  }
  return values;
}

// Sets the bias table of a node. Shares the table of another node if both are equal, as in the
// layers of T5.
void set_terms(const Graph& graph, AttentionBias table, AttentionNode& attention) {
  std::set<const AttentionBias*> tables;
  size_t numbers = table.values.size();
  for (const ValueId value : graph.order()) {
    const auto* other = graph.as<AttentionNode>(value);
    if (other == nullptr || !other->terms || !tables.insert(other->terms.get()).second) continue;
    numbers += other->terms->values.size();
    if (*other->terms != table) continue;
    attention.terms = other->terms;
    return;
  }
  check_bias_size(numbers);
  attention.terms = std::make_shared<const AttentionBias>(std::move(table));
}

// Sets the bias of an attention node: slopes, a table, or none.
void add_terms(std::span<const HeadTerms> heads, uint32_t tokens, const Graph& graph,
               AttentionNode& attention) {
  if (std::ranges::all_of(heads, [](const auto& terms) { return terms.slope.has_value(); })) {
    const bool has_slopes =
        std::ranges::any_of(heads, [](const HeadTerms& terms) { return *terms.slope != 0.0; });
    for (const HeadTerms& terms : heads) {
      if (has_slopes) attention.slopes.push_back(*terms.slope);
    }
    return;
  }
  AttentionBias table = {ScoreTerms::kDistances, attention.heads, tokens, {}};
  const auto fill = [&](const auto& numbers_of) {
    std::vector<std::vector<double>> of_heads;
    for (const HeadTerms& terms : heads) of_heads.push_back(numbers_of(terms, tokens));
    return of_heads;
  };
  std::vector<std::vector<double>> of_heads = fill(distances_of);
  if (std::ranges::any_of(of_heads, [](const auto& values) { return values.empty(); })) {
    table.by = ScoreTerms::kPairs;
    of_heads = fill(pairs_of);
    const bool are_same =
        std::ranges::all_of(of_heads, [&](const auto& values) { return values == of_heads[0]; });
    if (are_same) of_heads.resize(1);
    table.heads = static_cast<uint32_t>(of_heads.size());
  }
  for (const auto& values : of_heads) {
    table.values.insert(table.values.end(), values.begin(), values.end());
  }
  set_terms(graph, std::move(table), attention);
}

// The columns of queries, keys or values, [heads].
using Heads = std::vector<std::vector<Column>>;

// Concatenates the columns of heads 0, step, 2 * step, ...
std::vector<Column> flat(std::span<const std::vector<Column>> heads, size_t step) {
  std::vector<Column> columns;
  for (size_t h = 0; h < heads.size(); h += step) {
    columns.insert(columns.end(), heads[h].begin(), heads[h].end());
  }
  return columns;
}

// Returns the number of consecutive query heads that share keys and values.
size_t group_of(std::span<const std::vector<Column>> keys,
                std::span<const std::vector<Column>> values) {
  for (size_t group = keys.size(); group > 1; --group) {
    bool fits = keys.size() % group == 0;
    for (size_t h = 0; h < keys.size() && fits; ++h) {
      const size_t first = h - h % group;
      fits = keys[h] == keys[first] && values[h] == values[first];
    }
    if (fits) return group;
  }
  return 1;
}

class AttentionBuilder {
 public:
  AttentionBuilder(GraphBuilder& builder, const Scores& scores)
      : builder_(builder),
        graph_(builder.graph),
        scores_(scores),
        keys_{row_axis_of(scores.key), scores.shape.back() - (scores.sink ? 1 : 0)},
        queries_{row_axis_of(scores.query), scores.shape[scores.shape.size() - 2]},
        scale_(scores.scale) {}

  LinearExprRef build(const LinearExprRef& all_values) {
    const ScopedAxis on(builder_, queries_.row_axis);
    refuse_op_if(!scores_.has_softmax || scores_.is_logarithm,
                 "scores are multiplied by values without a softmax over the keys; apply one, as "
                 "linear attention and relu or sigmoid weights are not supported");
    if (!is_whole(keys_) || !is_whole(queries_)) {
      throw NotRecognised(why_not_all_tokens(queries_.rows, keys_.rows));
    }
    lead_ = leading(scores_.shape);
    const LinearExprRef given_values = without_sink(builder_, scores_, all_values);
    refuse_op_if(broadcast(lead_, leading(given_values->shape)) != lead_,
                 "the values have more heads than the scores; expected at most as many");
    // factor * tanh(scale x) = cap * tanh((scale * factor) x / cap), where the cap is |factor|.
    const double cap = std::fabs(scores_.tanh_factor.value_or(0.0));
    scale_ *= scores_.tanh_factor.value_or(1.0);
    refuse_op_if(
        !std::isfinite(static_cast<float>(scale_)) || !std::isfinite(static_cast<float>(cap)),
        "the scale of the scores is infinite or NaN; expected a finite float32");
    const Heads values = heads_of(with_leading(given_values, lead_), keys_);
    const bool has_query = scores_.query != nullptr;
    const Heads queries = has_query ? heads_of(without_factor(scores_.query), queries_) : values;
    const Heads keys = has_query ? heads_of(without_factor(scores_.key), keys_) : values;
    sinks_ = value_per_head(scores_.sinks);
    if (std::ranges::all_of(sinks_, [](double sink) { return sink <= kHiddenScoreMax; })) {
      sinks_.clear();  // no weight after the softmax
    }
    if (is_cross() && !sees_all_keys()) constants_ = trailing_constant_keys();
    read_masks();
    const std::vector<double> head_factors = value_per_head(scores_.head_factors);
    std::vector<ValueId> contexts;
    // Consecutive heads with equal masks share a node.
    for (size_t begin = 0, end = 0; begin < masks_.size(); begin = end) {
      while (end < masks_.size() && masks_[end] == masks_[begin]) ++end;
      const size_t count = end - begin;
      const auto run_keys = std::span(keys).subspan(begin, count);
      const auto run_values = std::span(values).subspan(begin, count);
      const size_t group = group_of(run_keys, run_values);
      AttentionNode attention;
      attention.heads = static_cast<uint32_t>(count);
      attention.kv_heads = static_cast<uint32_t>(count / group);
      if (has_query) attention.head_dim = static_cast<uint32_t>(scores_.query->shape.back());
      attention.value_dim = static_cast<uint32_t>(given_values->shape.back());
      attention.scale = scale_;
      attention.mask = masks_[begin];
      attention.score_cap = cap;
      if (!sinks_.empty()) {
        attention.sinks.assign(sinks_.begin() + static_cast<ptrdiff_t>(begin),
                               sinks_.begin() + static_cast<ptrdiff_t>(end));
      }
      if (constants_ != 0 || !is_cross()) {
        add_terms(std::span(terms_).subspan(begin, count), masked_rows(), graph_, attention);
        const bool has_terms = attention.terms || !attention.slopes.empty();
        refuse_op_if(constants_ != 0 && has_terms, kOtherRows);
      }
      if (pairs_) set_terms(graph_, *pairs_, attention);
      attention.cache = graph_.caches();
      is_plain_ = head_factors.empty();
      std::vector<ValueId> inputs;
      if (has_query) {
        std::vector<double> factors;
        for (size_t h = begin; h < end && !is_plain_; ++h) {
          factors.insert(factors.end(), attention.head_dim, head_factors[h]);
        }
        inputs.push_back(
            gathered(flat(std::span(queries).subspan(begin, count), 1), queries_, factors));
        inputs.push_back(gathered(flat(run_keys, group), keys_, {}));
      }
      inputs.push_back(gathered(flat(run_values, group), keys_, {}));
      if (scores_.query_terms) add_query_terms(queries, keys, attention, inputs);
      contexts.push_back(constants_ != 0 ? add_with_constants_first(attention, std::move(inputs))
                                         : graph_.add_attention(builder_.name, attention, inputs));
    }
    const ValueId node =
        contexts.size() == 1 ? contexts[0] : graph_.add_concat(builder_.name + ".concat", contexts);
    return result(node, static_cast<uint32_t>(given_values->shape.back()));
  }

 private:
  // The row axis of queries or keys, and their rows per sequence.
  struct Side {
    uint32_t row_axis = 0;
    int64_t rows = 0;
  };

  // Adds the tables of a relative position bias to the node, and the columns they are multiplied by
  // as inputs.
  void add_query_terms(const Heads& queries, const Heads& keys, AttentionNode& attention,
                       std::vector<ValueId>& inputs) {
    refuse_op_if(is_cross(), kOtherRows);
    refuse_op_if(attention.terms || !attention.slopes.empty() || attention.heads != masks_.size(),
                 "relative position biases are combined with other constants, or with masks that "
                 "differ between heads; expected only one mask for all heads");
    QueryTermsFound own = read_query_terms(builder_, scores_, order_, queries);
    attention.query_terms = std::make_shared<const RelativeBias>(std::move(own.table));
    inputs.push_back(gathered(flat(own.columns, 1), queries_, {}));
    QueryTermsFound of_keys = read_query_terms(builder_, scores_, order_, keys, true);
    if (of_keys.table.dim == 0) return;
    refuse_op_if(!sees_all_keys(),
                 "keys add a relative position bias to scores that are masked; expected attention "
                 "in both directions, as such keys cannot be cached");
    attention.key_terms = std::make_shared<const RelativeBias>(std::move(of_keys.table));
    inputs.push_back(gathered(flat(of_keys.columns, 1), keys_, {}));
  }

  uint32_t row_axis_of(const LinearExprRef& value) const {
    const auto found = value ? builder_.row_axis_of(*value) : std::nullopt;
    const bool is_of_sequences = !found && value && builder_.is_node(value->front());
    if (!is_of_sequences) return found.value_or(builder_.row_axis());
    return builder_.row_axis_on(graph_.axis(builder_.producer(value->front()).node), 1);
  }
  bool is_cross() const { return queries_.row_axis != keys_.row_axis; }
  bool is_whole(const Side& side) const {
    return side.rows == int64_t{builder_.sizes_of(side.row_axis).tokens};
  }

  // Moves a uniform factor of the value to the scale.
  LinearExprRef without_factor(const LinearExprRef& value) {
    if (value->terms.size() != 1 || value->has_own_factors()) return value;
    LinearExpr bare = *value;
    scale_ *= std::exchange(bare.terms[0].factors.uniform, 1.0);
    return make_sum(std::move(bare));
  }

  // Returns the columns of each head of a value [leading..., tokens, dim]. Checks that leading
  // indices map to the (sequence, head) in order_, which the first call sets.
  Heads heads_of(const LinearExprRef& given, const Side& side) {
    const ScopedAxis on(builder_, side.row_axis);
    HeadRows found = head_rows(builder_, *builder_.materialised(given));
    refuse_op_if<Cause::kInput>(found.why == kPooledAmongTokens, kPooledAmongTokens);
    refuse_op_if(!found.why.empty(), "{}", found.why);
    for (const std::vector<Column>& columns : found.columns) {
      refuse_op_if(
          builder_.row_axis_of_column(columns[0]) != side.row_axis,
          "a head has rows of another row axis, such as another input; expected rows of one input");
    }
    if (order_.empty()) order_ = found.heads.order;
    refuse_op_if(found.heads.order != order_,
                 "queries, keys and values have different orders of sequences and heads; expected "
                 "the same leading dimensions");
    return std::move(found.columns);
  }

  // Counts the constant keys that follow the tokens, as add_bias_kv appends.
  uint32_t trailing_constant_keys() const {
    const auto& parts = builder_.parts_of(keys_.row_axis);
    const bool has_constants = parts && parts->first == queries_.row_axis && scores_.query &&
                               builder_.is_of_constants(parts->second);
    return has_constants ? builder_.sizes_of(parts->second).tokens : 0;
  }
  uint32_t masked_rows() const { return static_cast<uint32_t>(keys_.rows); }

  // Moves constant keys before the tokens, where causal masks show them. They get zero queries,
  // whose results are sliced off.
  ValueId add_with_constants_first(const AttentionNode& attention, std::vector<ValueId> inputs) {
    WeightRef zeros;
    zeros.name = builder_.name + ".no_queries";
    zeros.rows = constants_;
    zeros.columns = graph_.width(inputs[0]);
    const size_t numbers = size_t{zeros.rows} * zeros.columns;
    set_exact(zeros, [numbers] { return std::vector<double>(numbers, 0.0); });
    inputs[0] = graph_.add_join(builder_.name + ".queries", graph_.add_constants(zeros.name, zeros),
                                inputs[0]);
    for (size_t i = 1; i < inputs.size(); ++i) {
      refuse_op_if(graph_.as<JoinNode>(inputs[i]) == nullptr, kOtherRows);
      const std::vector<ValueId> parts = graph_.node(inputs[i]).inputs;
      inputs[i] = graph_.add_join(graph_.node(inputs[i]).name, parts[1], parts[0]);
    }
    const ValueId all = graph_.add_attention(builder_.name, attention, std::move(inputs));
    return graph_.add_part(builder_.name + ".tokens", false, all);
  }

  // Returns the added constants [rows, rows] with constant rows first. The constant rows see each
  // other causally.
  std::vector<double> move_constants_first(std::span<const double> added) const {
    const size_t rows = masked_rows(), tokens = rows - constants_;
    std::vector<double> all(rows * rows, 0.0);
    for (size_t q = 0; q < rows; ++q) {
      for (size_t k = 0; k < rows; ++k) {
        const size_t from = k < constants_ ? tokens + k : k - constants_;
        double& own = all[q * rows + k];
        if (q >= constants_) own = added[(q - constants_) * rows + from];
        if (q < constants_ && k > q) own = -std::numeric_limits<double>::infinity();
      }
    }
    return all;
  }

  void read_head_mask(std::vector<double> added) {
    if (constants_ != 0) added = move_constants_first(added);
    DenseMask dense(static_cast<uint32_t>(keys_.rows));
    terms_.push_back(read_terms(std::move(added), !sinks_.empty(), dense));
    check_bias_size(terms_.size() * terms_.back().values.size());
    const Mask mask =
        BufferMask{std::make_shared<const DenseMask>(std::move(dense)), builder_.name};
    const auto known = std::ranges::find(graph_.masks, mask);
    masks_.push_back(static_cast<uint32_t>(known - graph_.masks.begin()));
    if (known == graph_.masks.end()) graph_.masks.push_back(mask);
  }

  // Reads the constants added to scores of cross-attention as a table of pairs, where -infinity
  // hides a key. REQUIRES: fixed numbers of queries and keys.
  void read_pairs(size_t heads) {
    refuse_op_if(!builder_.fixes_rows || scores_.sink || scores_.zeroed, kOtherRows);
    const auto keys = static_cast<size_t>(keys_.rows), queries = static_cast<size_t>(queries_.rows);
    std::vector<double> all = stretched_reals(*scores_.added, scores_.shape);
    check_bias_size(heads * queries * keys);
    AttentionBias table = {ScoreTerms::kPairs,
                           static_cast<uint32_t>(heads),
                           static_cast<uint32_t>(keys),
                           {},
                           static_cast<uint32_t>(queries)};
    table.values.resize(heads * queries * keys);
    for (size_t i = 0; i < all.size(); i += keys) {
      const auto row = std::span(all).subspan(i, keys);
      const double largest = *std::ranges::max_element(row);
      refuse_op_if(
          !(largest > kHiddenScoreMax),
          "the mask hides all keys of a query; expected at least one visible key per query");
      for (double& number : row) {
        if (!(number > largest + kHiddenScoreMax))
          number = -std::numeric_limits<double>::infinity();
      }
      const auto& [sequence, head] = order_[i / keys / queries];
      const auto own =
          std::span(table.values).subspan((head * queries + i / keys % queries) * keys);
      if (sequence == order_[0].first) std::ranges::copy(row, own.begin());
      refuse_op_if(!std::equal(row.begin(), row.end(), own.begin()),
                   "the mask differs between sequences; expected the same for all");
    }
    pairs_ = std::move(table);
  }

  void read_masks() {
    size_t heads = 0;
    for (const auto& [sequence, head] : order_) heads = std::max<size_t>(heads, head + 1);
    if (is_cross() && constants_ == 0) {
      masks_.resize(heads, band_of_all());
      if (!sees_all_keys()) read_pairs(heads);
      return;
    }
    const auto tokens = static_cast<size_t>(keys_.rows);
    const size_t square = static_cast<size_t>(queries_.rows) * tokens;
    const Shape own = scores_.added ? scores_.added->shape() : Shape();
    Shape last = own;
    while (last.size() > 2) last.erase(last.begin());
    if (!scores_.added) {
      read_head_mask(std::vector<double>(square, 0.0));
    } else if (elements_of(last) == elements_of(own)) {  // the same for all heads
      read_head_mask(stretched_reals(*scores_.added, {queries_.rows, keys_.rows}));
    } else {
      const std::vector<double> all = stretched_reals(*scores_.added, scores_.shape);
      std::vector<std::optional<std::vector<double>>> of_heads(heads);
      for (size_t i = 0; i < order_.size(); ++i) {
        const auto begin = all.begin() + static_cast<ptrdiff_t>(i * square);
        std::vector<double> found(begin, begin + static_cast<ptrdiff_t>(square));
        auto& known = of_heads[order_[i].second];
        refuse_op_if(known && *known != found,
                     "the mask differs between sequences; expected the same for all");
        known = std::move(found);
      }
      for (auto& of_head : of_heads) read_head_mask(std::move(*of_head));
    }
    masks_.resize(heads, masks_[0]);
    terms_.resize(heads, terms_[0]);
    builder_.limit_positions(scores_.positions_max);
  }

  // Whether all queries see all keys, with the same constant added for all keys of a query.
  bool sees_all_keys() const {
    if (!scores_.added) return true;
    Shape shape = scores_.shape;  // without a sink
    shape.back() = keys_.rows;
    const std::vector<double> all = stretched_reals(*scores_.added, shape);
    const auto keys = static_cast<size_t>(keys_.rows);
    for (size_t i = 0; i < all.size(); ++i) {
      if (!std::isfinite(all[i]) || all[i] != all[i - i % keys]) return false;
    }
    return true;
  }

  uint32_t band_of_all() {
    const Mask band = band_mask(kUnlimited, kUnlimited, 0);
    const auto known = std::ranges::find(graph_.masks, band);
    const auto index = static_cast<uint32_t>(known - graph_.masks.begin());
    return known == graph_.masks.end() ? graph_.add_band(kUnlimited, kUnlimited) : index;
  }

  // Returns an element of `numbers` for each head; empty if there are none.
  std::vector<double> value_per_head(const std::optional<Array>& numbers) const {
    if (!numbers) return {};
    const std::vector<double> factors = stretched_reals(*numbers, matrices_shape(lead_, 1, 1));
    std::map<uint32_t, double> of_heads;
    for (size_t i = 0; i < order_.size(); ++i) {
      const double known = of_heads.emplace(order_[i].second, factors[i]).first->second;
      refuse_op_if(
          known != factors[i],
          "the factors or sinks of a head differ between sequences; expected the same for all");
    }
    std::vector<double> result;
    for (const auto& [head, factor] : of_heads) result.push_back(factor);
    return result;
  }

  // Gathers columns, and multiplies each by its factor unless `factors` is empty. If heads have
  // factors, replaces slices of a linear layer by layers of their own, so that nothing is computed
  // twice; a pass merges such layers.
  ValueId gathered(const std::vector<Column>& columns, const Side& side,
                   const std::vector<double>& factors) const {
    const ScopedAxis on(builder_, side.row_axis);
    ValueId layer = builder_.gather(columns);
    if (is_plain_) return layer;
    const auto* slice = graph_.as<SliceNode>(layer);
    const ValueId whole = slice != nullptr ? graph_.node(layer).inputs[0] : layer;
    if (const auto* linear = graph_.as<LinearNode>(whole); linear != nullptr && slice != nullptr) {
      RowOrder order(columns.size());
      std::iota(order.begin(), order.end(), slice->begin);
      const LinearSpec part = select_rows(linear->parts[0].linear, order);
      layer = graph_.add_linear(graph_.node(whole).name, part, graph_.node(whole).inputs[0]);
    }
    if (factors.empty()) return layer;
    const uint32_t rows = builder_.sizes.rows();
    const auto width = static_cast<int64_t>(factors.size());
    const LinearExprRef value =
        whole_producer(builder_.producer_of_node(layer, rows), {rows, width});
    return rows_of(builder_, scaled(value, Array::real({width}, factors))).node;
  }

  LinearExprRef result(ValueId node, uint32_t value_dim) const {
    const uint64_t width = masks_.size() * value_dim;
    const uint32_t producer = builder_.producer_of_node(node, builder_.sizes.rows());
    std::vector<int64_t> element_ids;
    for (const auto& [sequence, head] : order_) {
      for (uint32_t t = 0; t < queries_.rows; ++t) {
        const uint64_t row = uint64_t{sequence} * builder_.sizes.tokens + t;
        for (uint32_t d = 0; d < value_dim; ++d) {
          element_ids.push_back(element_id(producer, row * width + head * uint64_t{value_dim} + d));
        }
      }
    }
    return plain(matrices_shape(lead_, queries_.rows, value_dim), std::move(element_ids));
  }

  std::string why_not_all_tokens(int64_t queries, int64_t keys) const {
    bool is_of_batch = queries == keys && queries == builder_.sizes.sequences;
    if (is_of_batch && queries > 1 && scores_.query) {
      const int64_t first = scores_.query->at(0);
      const int64_t next = scores_.query->at(static_cast<size_t>(scores_.query->shape.back()));
      is_of_batch = first != kNoElement && next != kNoElement &&
                    builder_.row_of(next) == builder_.row_of(first) + builder_.sizes.tokens;
    }
    const char* const why =
        is_of_batch ? "attention is between sequences of the batch; use batch_first=True, or "
                      "export the model for an example [tokens, 1, ..]"
        : queries == keys && keys > builder_.sizes.tokens
            ? "other rows are between those of tokens; concatenate them before or after all tokens"
        : queries == keys ? "attention is within sliced windows; attend from all tokens to all, "
                            "with a mask that hides other windows"
        : queries == builder_.sizes.tokens
            ? "keys are of some tokens only; attend to all tokens, with a mask that hides the "
              "others"
            : "queries are of some tokens only; attend from all tokens, then slice or pool the "
              "rows, as in attention(x, x, x)[:, -1]";
    return fmt::format("found {} queries and {} keys for {} tokens: {}", queries, keys,
                       builder_.sizes.tokens, why);
  }

  GraphBuilder& builder_;
  Graph& graph_;
  const Scores& scores_;
  const Side keys_, queries_;
  bool is_plain_ = true;  // no head has a factor
  double scale_;
  uint32_t constants_ = 0;  // constant keys
  Shape lead_;
  std::vector<std::pair<uint32_t, uint32_t>> order_;  // (sequence, head) of each leading index
  std::vector<uint32_t> masks_;                       // [heads], indices in Graph::masks
  std::vector<HeadTerms> terms_;                      // [heads]
  std::optional<AttentionBias> pairs_;                // of cross-attention
  std::vector<double> sinks_;                         // [heads], or empty
};

}  // namespace

LinearExprRef attend(GraphBuilder& builder, const Scores& given,
                     const LinearExprRef& given_values) {
  Scores scores = with_zero_key(builder, given, given_values);
  const LinearExprRef values = scores.sink ? given_values : with_zero_value(builder, given_values);
  if (builder.fixes_rows) {
    if (scores.query) scores.query = subsampled_rows(builder, scores.query);
    if (scores.query_terms && builder.reads_images()) {
      return attend(builder, *query_terms_as_columns(builder, scores), values);
    }
    if (const auto made = attend_in_windows(builder, scores, values)) return *made;
  }
  std::optional<WholeAttention> whole;
  if (scores.has_softmax) whole = lower_windows(builder, scores, values);
  LinearExprRef result =
      whole ? moved(whole->back, AttentionBuilder(builder, whole->scores).build(whole->values))
            : AttentionBuilder(builder, scores).build(values);
  if (scores.weight) result = scaled(result, *scores.weight);
  for (const ScoresRef& other : scores.also) {
    result = sum(result, attend(builder, *other, values), 1.0);
  }
  return result;
}

}  // namespace arenite::convert
