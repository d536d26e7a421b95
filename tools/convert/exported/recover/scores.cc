// SPDX-License-Identifier: Apache-2.0
// What ops do to products of queries and keys, and the attention that these become: heads are told
// by the columns that they read, and masks by what they add to scores.
#include "convert/exported/recover/scores.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <span>

#include "convert/spec/model_tensors.h"

namespace arenite::convert {
namespace {

constexpr double kHidden = -std::numeric_limits<double>::infinity();

constexpr const char* kZeroedScores =
    "it multiplies scores by 0, which hides nothing: a key's weight is then that of the score 0. "
    "Expected -infinity in their place, or a large negative number added to them";

Shape joined(Shape lead, int64_t rows, int64_t columns) {
  lead.push_back(rows);
  lead.push_back(columns);
  return lead;
}

// The value with other leading dimensions.
ElementSumRef with_leading(const ElementSumRef& value, const Shape& lead) {
  const size_t rank = value->shape.size();
  return stretched(value, joined(lead, value->shape[rank - 2], value->shape[rank - 1]));
}

// function(a, b) of two arrays that are stretched to one shape.
template <typename Function>
Array combined(const Array& a, const Array& b, const Function& function) {
  Shape shape = broadcast(a.shape(), b.shape());
  std::vector<double> values = stretched_reals(a, shape);
  const std::vector<double> others = stretched_reals(b, shape);
  for (size_t i = 0; i < values.size(); ++i) values[i] = function(values[i], others[i]);
  return Array::real(std::move(shape), std::move(values));
}

std::shared_ptr<Scores> copy(const Scores& scores) {
  refuse_op_if(scores.has_softmax, kAfterSoftmax);
  return std::make_shared<Scores>(scores);
}

}  // namespace

ScoresRef product_scores(const ElementSumRef& query, const ElementSumRef& turned_key) {
  const size_t rank = turned_key->shape.size();
  refuse_op_if(
      query->shape.size() < 2 || rank < 2 || query->shape.back() != turned_key->shape[rank - 2],
      "it multiplies values that are no queries and keys");
  const ElementSumRef key = turned(turned_key);
  const Shape lead = broadcast(leading(query->shape), leading(key->shape));
  return std::make_shared<const Scores>(Scores{
      .shape = joined(lead, query->shape[query->shape.size() - 2], turned_key->shape[rank - 1]),
      .query = with_leading(query, lead),
      .key = with_leading(key, lead)});
}

ScoresRef with_scale(const Scores& scores, double factor) {
  const auto result = copy(scores);
  (result->tanh_factor ? *result->tanh_factor : result->scale) *= factor;
  if (result->added) {
    Array::Reals values = result->added->to_reals();
    for (double& value : values) value = std::isinf(value) ? value : value * factor;
    result->added = Array::real(result->added->shape(), std::move(values));
  }
  return result;
}

ScoresRef with_factors(const Scores& scores, const Array& factors, int64_t positions_max) {
  const Array::Reals values = factors.to_reals();
  refuse_op_if(values.empty(), "it multiplies scores by nothing");
  if (std::ranges::all_of(values, [&](double value) { return value == values[0]; })) {
    return with_scale(scores, values[0]);
  }
  refuse_op_if(broadcast(scores.shape, factors.shape()) != scores.shape,
               "it multiplies scores by factors of another size");
  const auto result = copy(scores);
  if (std::ranges::all_of(values, [](double value) { return value == 0.0 || value == 1.0; })) {
    refuse_op_if(result->zeroed || result->added, "it masks scores twice");
    result->zeroed = factors;
    result->positions_max = tighter(result->positions_max, positions_max);
    return result;
  }
  const size_t rank = factors.rank();
  refuse_op_if(rank < 2 || factors.shape()[rank - 1] != 1 || factors.shape()[rank - 2] != 1,
               "it multiplies the scores of queries or keys by numbers of their own");
  refuse_op_if(scores.tanh_factor || !scores.query,
               "it multiplies the capped scores of each head by another number");
  const auto times = [&](const Array& array) {
    return combined(array, factors, [](double a, double b) { return std::isinf(a) ? a : a * b; });
  };
  result->head_factors = scores.head_factors ? times(*scores.head_factors) : factors;
  if (scores.added) result->added = times(*scores.added);
  return result;
}

ScoresRef with_tanh(const Scores& scores, bool is_sigmoid) {
  const auto result = copy(scores);
  refuse_op_if(scores.tanh_factor.has_value(), "it caps scores of attention twice");
  refuse_op_if(scores.added && is_sigmoid,
               "it takes the sigmoid of scores in place of their softmax over keys: not supported");
  refuse_op_if(scores.added.has_value(),
               "it caps scores after a mask or a bias was added to them: the runtime caps scores "
               "first, so mask them after torch.tanh");
  result->tanh_factor = 1.0;
  if (!is_sigmoid) return result;
  // sigmoid(x) = (1 + tanh(x / 2)) / 2.
  result->scale *= 0.5;
  result->tanh_factor = 0.5;
  return with_added(*result, Array::real({}, {0.5}), 0);
}

ScoresRef with_added(const Scores& scores, const Array& added, int64_t positions_max) {
  const auto result = copy(scores);
  refuse_op_if(broadcast(scores.shape, added.shape()) != scores.shape,
               "it adds a mask of another size to the scores");
  result->positions_max = tighter(result->positions_max, positions_max);
  if (result->zeroed) {
    // What was 0 and has become far less than all others is hidden.
    result->added = combined(*result->zeroed, added, [](double seen, double more) {
      refuse_op_if(seen == 0.0 && !(more <= kHiddenScoreMax), kZeroedScores);
      return seen == 0.0 ? kHidden : more;
    });
    result->zeroed.reset();
  } else if (result->added) {
    result->added = combined(*result->added, added, std::plus<>());
  } else {
    result->added = Array::real(added.shape(), added.to_reals());
  }
  return result;
}

ScoresRef with_filled(const Scores& scores, const Array& mask, double value,
                      int64_t positions_max) {
  refuse_op_if(
      !(value <= kHiddenScoreMax),
      "it puts {} in place of masked scores: expected -infinity, or a number far below all "
      "scores",
      value);
  Array::Reals added;
  for (const uint8_t hides : mask.to_bools()) added.push_back(hides != 0 ? kHidden : 0.0);
  return with_added(scores, Array::real(mask.shape(), std::move(added)), positions_max);
}

ScoresRef with_softmax(const Scores& scores, bool is_logarithm) {
  const auto result = copy(scores);
  refuse_op_if(result->zeroed.has_value(), kZeroedScores);
  result->is_logarithm = is_logarithm;
  result->has_softmax = true;
  return result;
}

namespace {

// Whether a movement makes queries of keys, and keys of queries.
bool turns_last_two(const Movement& movement, const Shape& shape) {
  const size_t rank = shape.size();
  if (movement.sources || movement.walk.size() != rank || movement.offset != 0) return false;
  Shape strides = strides_of(shape);
  Shape walk = shape;
  std::swap(strides[rank - 1], strides[rank - 2]);
  std::swap(walk[rank - 1], walk[rank - 2]);
  if (movement.walk != walk || movement.shape != walk) return false;
  for (size_t d = 0; d < rank; ++d) {
    if (walk[d] != 1 && movement.strides[d] != strides[d]) return false;
  }
  return true;
}

}  // namespace

ScoresRef moved_scores(const Scores& scores, const Movement& movement) {
  const auto result = std::make_shared<Scores>(scores);
  const size_t rank = scores.shape.size();
  const int64_t queries = scores.shape[rank - 2];
  const int64_t keys = scores.shape[rank - 1];
  if (turns_last_two(movement, scores.shape) && !scores.has_softmax && !scores.added &&
      !scores.zeroed && scores.query && !scores.is_exponential) {
    std::swap(result->query, result->key);
    std::swap(result->shape[rank - 1], result->shape[rank - 2]);
    return result;
  }
  const bool keeps = movement.shape.size() >= 2 && movement.shape.back() == keys &&
                     movement.shape[movement.shape.size() - 2] == queries &&
                     movement.keeps_order(elements_of(scores.shape));
  refuse_op_if(!keeps && scores.has_softmax, kAfterSoftmax);
  refuse_op_if(
      !keeps,
      "it pads, cuts or moves scores of attention: not supported are a key that is added for "
      "a softmax off by one, relative positions by shifts, and scores that change places "
      "between heads");
  const Shape lead = leading(movement.shape);
  result->shape = movement.shape;
  if (result->query) result->query = with_leading(result->query, lead);
  if (result->key) result->key = with_leading(result->key, lead);
  if (result->head_factors) {
    Array::Reals factors =
        stretched_reals(*result->head_factors, joined(leading(scores.shape), 1, 1));
    result->head_factors = Array::real(joined(lead, 1, 1), std::move(factors));
  }
  if (!result->added) return result;
  if (static_cast<int64_t>(result->added->elements()) != queries * keys) {
    result->added = Array::real(movement.shape, stretched_reals(*result->added, scores.shape));
  } else {
    result->added = result->added->with_shape({queries, keys});
  }
  return result;
}

// What is added to scores, in the smallest form that says it. Softmax is blind to what all scores
// of a query have in common: slopes are told by differences.

namespace {

constexpr double kBiasError = 1e-6;
constexpr size_t kTermsMax = size_t{1} << 27;  // that a model adds to scores

// What is added to the scores of a head's visible keys.
struct HeadTerms {
  std::optional<double> slope;  // where it grows evenly with the distance
  std::vector<double> values;   // else, [tokens, tokens]; -infinity hides a key
};

void check_terms(size_t numbers) {
  refuse_op_if(numbers > kTermsMax,
               "it adds {} numbers to scores: expected at most {}; export it with fewer tokens",
               numbers, kTermsMax);
}

// Splits what is added to a head's scores, [tokens, tokens], into the keys that it leaves visible
// and the rest. Throws NotRecognised if a token sees no key.
HeadTerms read_terms(std::vector<double> added, DenseMask& visible) {
  const uint32_t tokens = visible.positions;
  std::optional<double> slope;
  bool has_slope = true;
  for (uint32_t q = 0; q < tokens; ++q) {
    double* row = added.data() + size_t{q} * tokens;
    const double largest = *std::max_element(row, row + tokens);
    refuse_op_if(!(largest > kHiddenScoreMax), "its mask hides all keys of token {}", q);
    std::optional<uint32_t> first;
    for (uint32_t k = 0; k < tokens; ++k) {
      const bool sees = row[k] > largest + kHiddenScoreMax;
      visible.set(q, k, sees);
      if (!sees) {
        row[k] = kHidden;
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
  if (!has_slope) return {std::nullopt, std::move(added)};
  return {std::fabs(slope.value_or(0.0)) <= kBiasError ? 0.0 : *slope, {}};
}

// A number for each distance, 0 where no query sees a key that far; none if the distance does not
// say the number.
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
      if (std::isinf(value)) continue;
      if (!is_known[d]) values[d] = value;
      is_known[d] = true;
      if (std::fabs(value - values[d]) > kBiasError * std::max(1.0, std::fabs(value))) return {};
    }
  }
  return values;
}

// Hidden keys are the mask's.
std::vector<double> pairs_of(const HeadTerms& terms, size_t tokens) {
  std::vector<double> values = terms.values;
  for (double& value : values) value = std::isinf(value) ? 0.0 : value;
  for (size_t i = 0; terms.slope && i < tokens * tokens; ++i) {
    values.push_back(*terms.slope * (double(i % tokens) - double(i / tokens)));
  }
  return values;
}

// Layers often have the same table, as in T5: nodes of the graph with the same one share it.
void set_terms(const Graph& graph, TermTable table, AttentionNode& attention) {
  std::set<const TermTable*> tables;
  size_t numbers = table.values.size();
  for (const ValueId value : graph.order()) {
    const auto* other = graph.as<AttentionNode>(value);
    if (other == nullptr || !other->terms || !tables.insert(other->terms.get()).second) continue;
    numbers += other->terms->values.size();
    if (*other->terms != table) continue;
    attention.terms = other->terms;
    return;
  }
  check_terms(numbers);
  attention.terms = std::make_shared<const TermTable>(std::move(table));
}

// Gives an attention node the terms of its heads: slopes, a table, or nothing.
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
  TermTable table = {ScoreTerms::kDistances, attention.heads, tokens, {}};
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

// The columns of each head of queries, keys or values.
using Heads = std::vector<std::vector<Column>>;

// The columns of every `step`th head side by side.
std::vector<Column> flat(std::span<const std::vector<Column>> heads, size_t step) {
  std::vector<Column> columns;
  for (size_t h = 0; h < heads.size(); h += step) {
    columns.insert(columns.end(), heads[h].begin(), heads[h].end());
  }
  return columns;
}

// How many query heads in a row read the same keys and values.
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
        tokens_(builder.sizes.tokens),
        scale_(scores.scale) {}

  ElementSumRef build(const ElementSumRef& given_values) {
    refuse_op_if(
        !scores_.has_softmax || scores_.is_logarithm,
        "it multiplies scores with values without a softmax over the keys: linear attention, "
        "and weights by relu or sigmoid, are not supported");
    const size_t rank = scores_.shape.size();
    if (scores_.shape[rank - 1] != tokens_ || scores_.shape[rank - 2] != tokens_) {
      throw NotRecognised(why_not_all_tokens(scores_.shape[rank - 2], scores_.shape[rank - 1]));
    }
    lead_ = leading(scores_.shape);
    refuse_op_if(broadcast(lead_, leading(given_values->shape)) != lead_,
                 "its values have more heads than scores");
    // factor * tanh(scale x) = cap * tanh((scale * factor) x / cap), where the cap is |factor|.
    const double cap = std::fabs(scores_.tanh_factor.value_or(0.0));
    scale_ *= scores_.tanh_factor.value_or(1.0);
    refuse_op_if(
        !std::isfinite(static_cast<float>(scale_)) || !std::isfinite(static_cast<float>(cap)),
        "it multiplies scores by a number that is infinite, or none");
    const Heads values = heads_of(with_leading(given_values, lead_));
    const bool has_query = scores_.query != nullptr;
    const Heads queries = has_query ? heads_of(without_factor(scores_.query)) : values;
    const Heads keys = has_query ? heads_of(without_factor(scores_.key)) : values;
    read_masks();
    const std::vector<double> head_factors = read_head_factors();
    std::vector<ValueId> contexts;
    // Heads in a row that have one mask are one node.
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
      add_terms(std::span(terms_).subspan(begin, count), tokens_, graph_, attention);
      attention.cache = graph_.caches();
      const bool is_plain = head_factors.empty();
      std::vector<ValueId> inputs;
      if (has_query) {
        std::vector<double> factors;
        for (size_t h = begin; h < end && !is_plain; ++h) {
          factors.insert(factors.end(), attention.head_dim, head_factors[h]);
        }
        inputs.push_back(
            gathered(flat(std::span(queries).subspan(begin, count), 1), is_plain, factors));
        inputs.push_back(gathered(flat(run_keys, group), is_plain, {}));
      }
      inputs.push_back(gathered(flat(run_values, group), is_plain, {}));
      contexts.push_back(graph_.add_attention(builder_.name, attention, inputs));
    }
    const ValueId node =
        contexts.size() == 1 ? contexts[0] : graph_.add_concat(builder_.name + ".concat", contexts);
    return result(node, static_cast<uint32_t>(given_values->shape.back()));
  }

 private:
  // One factor of all elements is taken into the scale.
  ElementSumRef without_factor(const ElementSumRef& value) {
    if (value->terms.size() != 1 || value->has_own_factors()) return value;
    ElementSum bare = *value;
    scale_ *= std::exchange(bare.terms[0].factors.uniform, 1.0);
    return make_sum(std::move(bare));
  }

  // The value's dimensions are [leading..., tokens, dim]: each leading index is a head of a
  // sequence. Also fills in which ones.
  Heads heads_of(const ElementSumRef& given) {
    const ElementSumRef value = builder_.materialised(given);
    const auto dim = static_cast<size_t>(value->shape.back());
    const size_t block = tokens_ * dim;
    Heads heads;
    std::vector<std::pair<uint32_t, uint32_t>> order;
    std::map<uint32_t, uint32_t> heads_of_sequence;
    for (size_t start = 0, count = value->elements(); start < count; start += block) {
      refuse_op_if(value->at(start) == kNoElement, "its heads have zeros in them");
      const auto first = source_row(builder_, *value, start, dim);
      for (size_t t = 0; t < tokens_; ++t) {
        const auto row = source_row(builder_, *value, start + t * dim, dim);
        refuse_op_if(!row || row->row != first->row + t || row->row % tokens_ != t ||
                         row->columns != first->columns,
                     "its heads mix elements of several tokens");
      }
      const uint32_t sequence = first->row / tokens_;
      order.emplace_back(sequence, heads_of_sequence[sequence]++);
      const std::vector<Column>& columns = first->columns;
      const uint32_t head = order.back().second;
      if (head == heads.size()) heads.push_back(columns);
      refuse_op_if(heads[head] != columns, "sequences have heads of their own");
    }
    if (order_.empty()) order_ = order;
    refuse_op_if(order != order_, "queries, keys and values are of different sequences");
    return heads;
  }

  void read_head_mask(std::vector<double> added) {
    DenseMask dense(tokens_);
    terms_.push_back(read_terms(std::move(added), dense));
    check_terms(terms_.size() * terms_.back().values.size());
    const Mask mask =
        BufferMask{std::make_shared<const DenseMask>(std::move(dense)), builder_.name};
    const auto known = std::ranges::find(graph_.masks, mask);
    masks_.push_back(static_cast<uint32_t>(known - graph_.masks.begin()));
    if (known == graph_.masks.end()) graph_.masks.push_back(mask);
  }

  void read_masks() {
    size_t heads = 0;
    for (const auto& [sequence, head] : order_) heads = std::max<size_t>(heads, head + 1);
    const size_t square = size_t{tokens_} * tokens_;
    const Shape own = scores_.added ? scores_.added->shape() : Shape();
    Shape last = own;
    while (last.size() > 2) last.erase(last.begin());
    if (!scores_.added) {
      read_head_mask(std::vector<double>(square, 0.0));
    } else if (elements_of(last) == elements_of(own)) {  // the same for all heads
      read_head_mask(stretched_reals(*scores_.added, {tokens_, tokens_}));
    } else {
      const std::vector<double> all = stretched_reals(*scores_.added, scores_.shape);
      std::vector<std::optional<std::vector<double>>> of_heads(heads);
      for (size_t i = 0; i < order_.size(); ++i) {
        const auto begin = all.begin() + static_cast<ptrdiff_t>(i * square);
        std::vector<double> found(begin, begin + static_cast<ptrdiff_t>(square));
        auto& known = of_heads[order_[i].second];
        refuse_op_if(known && *known != found, "its mask differs from sequence to sequence");
        known = std::move(found);
      }
      for (auto& of_head : of_heads) read_head_mask(std::move(*of_head));
    }
    masks_.resize(heads, masks_[0]);
    terms_.resize(heads, terms_[0]);
    builder_.limit_positions(scores_.positions_max);
  }

  // Of each head's scores, or none.
  std::vector<double> read_head_factors() const {
    if (!scores_.head_factors) return {};
    const std::vector<double> factors = stretched_reals(*scores_.head_factors, joined(lead_, 1, 1));
    std::map<uint32_t, double> of_heads;
    for (size_t i = 0; i < order_.size(); ++i) {
      const double known = of_heads.emplace(order_[i].second, factors[i]).first->second;
      refuse_op_if(known != factors[i], "sequences have factors of their own");
    }
    std::vector<double> result;
    for (const auto& [head, factor] : of_heads) result.push_back(factor);
    return result;
  }

  // The columns side by side, each times a factor, if there are any. Beside heads with factors a
  // part of a layer's results becomes a layer of its own, so that nothing is computed twice; a pass
  // joins such layers.
  ValueId gathered(const std::vector<Column>& columns, bool is_plain,
                   const std::vector<double>& factors) const {
    ValueId layer = builder_.gather(columns);
    if (is_plain) return layer;
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
    const ElementSumRef value = whole_source(builder_.source_of_node(layer, rows), {rows, width});
    return rows_of(builder_, scaled(value, Array::real({width}, factors))).node;
  }

  ElementSumRef result(ValueId node, uint32_t value_dim) const {
    const uint64_t width = masks_.size() * value_dim;
    const uint32_t source = builder_.source_of_node(node, builder_.sizes.rows());
    std::vector<int64_t> numbers;
    for (const auto& [sequence, head] : order_) {
      for (uint32_t t = 0; t < tokens_; ++t) {
        const uint64_t row = uint64_t{sequence} * tokens_ + t;
        for (uint32_t d = 0; d < value_dim; ++d) {
          numbers.push_back(number_of(source, row * width + head * uint64_t{value_dim} + d));
        }
      }
    }
    return plain(joined(lead_, tokens_, value_dim), std::move(numbers));
  }

  // Attention that is not one of all tokens to all tokens.
  std::string why_not_all_tokens(int64_t queries, int64_t keys) const {
    bool is_of_batch = queries == keys && queries == builder_.sizes.sequences;
    if (is_of_batch && queries > 1 && scores_.query) {
      const int64_t first = scores_.query->at(0);
      const int64_t next = scores_.query->at(static_cast<size_t>(scores_.query->shape.back()));
      is_of_batch = first != kNoElement && next != kNoElement &&
                    builder_.row_of(next) == builder_.row_of(first) + tokens_;
    }
    const char* const why =
        is_of_batch ? "it attends from sequence to sequence of the batch. Make the layer with "
                      "batch_first=True, or export the model for an example [tokens, 1, ..]"
        : queries == keys
            ? "attention within windows or blocks that were cut out is not supported. Attend from "
              "all tokens to all, with a mask that hides those of other windows"
        : queries == tokens_
            ? "keys that are added (add_bias_kv, add_zero_attn, caches) or fewer than tokens are "
              "not supported"
            : "queries that are learned, or of some tokens, are not supported. Attend from all "
              "tokens, and take or pool the rows afterwards, as in attention(x, x, x)[:, -1]";
    return fmt::format("its queries and keys are {} and {}, where the model has {} tokens: {}",
                       queries, keys, tokens_, why);
  }

  GraphBuilder& builder_;
  Graph& graph_;
  const Scores& scores_;
  const uint32_t tokens_;
  double scale_;
  Shape lead_;
  std::vector<std::pair<uint32_t, uint32_t>> order_;  // sequence and head of each leading index
  std::vector<uint32_t> masks_;                       // of the graph, for each head
  std::vector<HeadTerms> terms_;                      // of each head
};

}  // namespace

ElementSumRef attend(GraphBuilder& builder, const Scores& scores, const ElementSumRef& values) {
  return AttentionBuilder(builder, scores).build(values);
}

}  // namespace arenite::convert
