// SPDX-License-Identifier: Apache-2.0
// Heads are told by the columns that they read, and masks by what they add to scores.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <span>
#include <utility>

#include "convert/exported/recover/constant.h"
#include "convert/exported/recover/scores.h"
#include "convert/spec/model_tensors.h"

namespace arenite::convert {
namespace {

// The columns of each head of queries, keys or values.
struct Heads {
  std::vector<std::vector<Column>> columns;
};

class AttentionBuilder {
 public:
  AttentionBuilder(GraphBuilder& builder, const Scores& scores)
      : builder_(builder), scores_(scores) {}

  ElementSumRef build(const ElementSumRef& given_values);

 private:
  // One factor of all elements is taken into the scale.
  ElementSumRef without_factor(const ElementSumRef& value);
  // Also fills in which sequence and head each leading index is.
  Heads heads_of(const ElementSumRef& value);
  void read_mask();
  void read_head_mask(std::vector<double> added);
  void read_cap();
  void read_head_factors();
  ValueId gathered(const std::vector<Column>& columns, const std::vector<double>& factors) const;
  ElementSumRef result(ValueId node, uint32_t value_dim);
  std::string why_not_all_tokens(int64_t queries, int64_t keys) const;
  std::vector<std::pair<uint32_t, uint32_t>> runs_of_heads() const;

  GraphBuilder& builder_;
  const Scores& scores_;
  double scale_ = 1.0;
  double cap_ = 0.0;
  uint32_t tokens_ = 0;
  Shape lead_;
  std::vector<std::pair<uint32_t, uint32_t>> order_;  // sequence and head of each leading index
  std::vector<uint32_t> masks_;                       // of the graph, for each head
  std::vector<HeadTerms> terms_;                      // of each head
  std::vector<double> head_factors_;                  // of each head's scores, or none
};

ElementSumRef AttentionBuilder::without_factor(const ElementSumRef& value) {
  if (value->terms.size() != 1 || value->terms[0].factors.each) return value;
  ElementSum bare = *value;
  scale_ *= std::exchange(bare.terms[0].factors.uniform, 1.0);
  return make_sum(std::move(bare));
}

// The value's dimensions are [leading..., tokens, dim]: each leading index is a head of a sequence.
Heads AttentionBuilder::heads_of(const ElementSumRef& given) {
  const ElementSumRef value = builder_.materialised(given);
  const Places& places = value->terms[0].places;
  const auto dim = static_cast<size_t>(value->shape.back());
  const size_t block = tokens_ * dim;
  Heads heads;
  std::vector<std::pair<uint32_t, uint32_t>> order;
  std::map<uint32_t, uint32_t> heads_of_sequence;
  for (size_t start = 0, count = value->elements(); start < count; start += block) {
    if (places.at(start) == kNoElement) throw NotRecognised("its heads have zeros in them");
    const uint32_t first_row = builder_.row_of(places.at(start));
    const uint32_t sequence = first_row / tokens_;
    order.emplace_back(sequence, heads_of_sequence[sequence]++);
    std::vector<Column> columns;
    for (size_t i = 0; i < block; ++i) {
      const int64_t number = places.at(start + i);
      if (i < dim && number != kNoElement) columns.push_back(builder_.column_of(number));
      const bool fits = number != kNoElement && builder_.row_of(number) == first_row + i / dim &&
                        first_row % tokens_ == 0 && builder_.column_of(number) == columns[i % dim];
      if (!fits) throw NotRecognised("its heads mix elements of several tokens");
    }
    const uint32_t head = order.back().second;
    if (head == heads.columns.size()) heads.columns.push_back(columns);
    if (heads.columns[head] != columns) throw NotRecognised("sequences have heads of their own");
  }
  if (order_.empty()) order_ = order;
  if (order != order_) throw NotRecognised("queries, keys and values are of different sequences");
  return heads;
}

std::vector<Column> flat(const std::vector<std::vector<Column>>& heads, size_t begin, size_t end,
                         size_t step) {
  std::vector<Column> columns;
  for (size_t h = begin; h < end; h += step) {
    columns.insert(columns.end(), heads[h].begin(), heads[h].end());
  }
  return columns;
}

// How many query heads in a row read the same keys and values.
size_t group_of(const Heads& keys, const Heads& values) {
  const size_t heads = keys.columns.size();
  for (size_t group = heads; group > 1; --group) {
    if (heads % group != 0) continue;
    bool fits = true;
    for (size_t h = 0; h < heads && fits; ++h) {
      const size_t first = h - h % group;
      fits = keys.columns[h] == keys.columns[first] && values.columns[h] == values.columns[first];
    }
    if (fits) return group;
  }
  return 1;
}

void AttentionBuilder::read_head_mask(std::vector<double> added) {
  DenseMask dense(tokens_);
  terms_.push_back(read_terms(std::move(added), dense));
  check_terms(terms_.size() * terms_.back().values.size());
  std::vector<Mask>& masks = builder_.graph().masks;
  const Mask mask =
      BufferMask{std::make_shared<const DenseMask>(std::move(dense)), builder_.name()};
  const auto known = std::ranges::find(masks, mask);
  masks_.push_back(static_cast<uint32_t>(known - masks.begin()));
  if (known == masks.end()) masks.push_back(mask);
}

// factor * tanh(scale x) = cap * tanh((scale * factor) x / cap), where the cap is |factor|.
void AttentionBuilder::read_cap() {
  if (!scores_.tanh_factor) return;
  cap_ = std::fabs(*scores_.tanh_factor);
  scale_ *= *scores_.tanh_factor;
}

void AttentionBuilder::read_mask() {
  const auto is_of_all_heads = [](const Array& added) {
    Shape last = added.shape();
    while (last.size() > 2) last.erase(last.begin());
    return elements_of(last) == added.elements();
  };
  size_t heads = 0;
  for (const auto& [sequence, head] : order_) heads = std::max<size_t>(heads, head + 1);
  const size_t square = size_t{tokens_} * tokens_;
  if (!scores_.added) {
    read_head_mask(std::vector<double>(square, 0.0));
  } else if (is_of_all_heads(*scores_.added)) {
    read_head_mask(stretched_reals(*scores_.added, {tokens_, tokens_}));
  } else {
    const std::vector<double> all = stretched_reals(*scores_.added, scores_.shape);
    for (size_t head = 0; head < heads; ++head) {
      std::optional<std::vector<double>> of_head;
      for (size_t i = 0; i < order_.size(); ++i) {
        if (order_[i].second != head) continue;
        const auto begin = all.begin() + static_cast<ptrdiff_t>(i * square);
        std::vector<double> found(begin, begin + static_cast<ptrdiff_t>(square));
        if (of_head && *of_head != found) {
          throw NotRecognised("its mask differs from sequence to sequence");
        }
        of_head = std::move(found);
      }
      read_head_mask(std::move(*of_head));
    }
  }
  masks_.resize(heads, masks_[0]);
  terms_.resize(heads, terms_[0]);
  builder_.limit_positions(scores_.positions_max);
}

void AttentionBuilder::read_head_factors() {
  if (!scores_.head_factors) return;
  Shape shape = lead_;
  shape.insert(shape.end(), {1, 1});
  const std::vector<double> factors = stretched_reals(*scores_.head_factors, shape);
  std::map<uint32_t, double> of_heads;
  for (size_t i = 0; i < order_.size(); ++i) {
    if (of_heads.emplace(order_[i].second, factors[i]).first->second != factors[i]) {
      throw NotRecognised("sequences have factors of their own");
    }
  }
  for (const auto& [head, factor] : of_heads) head_factors_.push_back(factor);
}

// The columns side by side, each times a factor, if there are any. A part of a layer's results
// then becomes a layer of its own, so that nothing is computed twice; a pass joins such layers.
ValueId AttentionBuilder::gathered(const std::vector<Column>& columns,
                                   const std::vector<double>& factors) const {
  const ValueId node = builder_.gather(columns);
  if (head_factors_.empty()) return node;
  Graph& graph = builder_.graph();
  ValueId layer = node;
  if (const auto* slice = graph.as<SliceNode>(node)) {
    const ValueId whole = graph.node(node).inputs[0];
    if (const auto* linear = graph.as<LinearNode>(whole)) {
      RowOrder order(columns.size());
      std::iota(order.begin(), order.end(), slice->begin);
      const LinearSpec part = select_rows(linear->parts[0].linear, order);
      layer = graph.add_linear(graph.node(whole).name, part, graph.node(whole).inputs[0]);
    }
  }
  if (factors.empty()) return layer;
  const uint32_t rows = builder_.sizes().rows();
  const auto width = static_cast<int64_t>(factors.size());
  const ElementSumRef value = whole_source(builder_.source_of_node(layer, rows), {rows, width});
  return builder_.rows_of(scaled(value, Array::real({width}, factors))).node;
}

std::vector<std::pair<uint32_t, uint32_t>> AttentionBuilder::runs_of_heads() const {
  std::vector<std::pair<uint32_t, uint32_t>> runs;
  for (uint32_t begin = 0; begin < masks_.size();) {
    uint32_t end = begin + 1;
    while (end < masks_.size() && masks_[end] == masks_[begin]) ++end;
    runs.emplace_back(begin, end);
    begin = end;
  }
  return runs;
}

ElementSumRef AttentionBuilder::result(ValueId node, uint32_t value_dim) {
  const auto heads = static_cast<uint32_t>(masks_.size());
  const uint32_t source = builder_.source_of_node(node, builder_.sizes().rows());
  std::vector<int64_t> numbers;
  for (const auto& [sequence, head] : order_) {
    for (uint32_t t = 0; t < tokens_; ++t) {
      const int64_t row = int64_t{sequence} * tokens_ + t;
      for (uint32_t d = 0; d < value_dim; ++d) {
        numbers.push_back(int64_t{source} * kSourceElements + row * int64_t{heads} * value_dim +
                          int64_t{head} * value_dim + d);
      }
    }
  }
  Shape shape = lead_;
  shape.push_back(tokens_);
  shape.push_back(value_dim);
  return plain(std::move(shape), std::move(numbers));
}

// Attention that is not one of all tokens to all tokens.
std::string AttentionBuilder::why_not_all_tokens(int64_t queries, int64_t keys) const {
  const std::string found = fmt::format(
      "its queries and keys are {} and {}, where the model has {} tokens", queries, keys, tokens_);
  bool is_of_batch = queries == keys && queries == builder_.sizes().sequences;
  if (is_of_batch && queries > 1 && scores_.query) {
    const Places& places = scores_.query->terms[0].places;
    const int64_t first = places.at(0);
    const int64_t next = places.at(static_cast<size_t>(scores_.query->shape.back()));
    is_of_batch = first != kNoElement && next != kNoElement &&
                  builder_.row_of(next) == builder_.row_of(first) + tokens_;
  }
  if (is_of_batch) {
    return fmt::format(
        "{}: it attends from sequence to sequence of the batch. Make the layer with "
        "batch_first=True, or export the model for an example [tokens, 1, ..]",
        found);
  }
  if (queries == keys) {
    return fmt::format(
        "{}: attention within windows or blocks that were cut out is not supported. Attend from "
        "all tokens to all, with a mask that hides those of other windows",
        found);
  }
  if (queries == tokens_) {
    return fmt::format(
        "{}: keys that are added (add_bias_kv, add_zero_attn, caches) or fewer than tokens are not "
        "supported",
        found);
  }
  return fmt::format(
      "{}: queries that are learned, or of some tokens, are not supported. Attend from all tokens, "
      "and take or pool the rows afterwards, as in attention(x, x, x)[:, -1]",
      found);
}

ElementSumRef AttentionBuilder::build(const ElementSumRef& given_values) {
  tokens_ = builder_.sizes().tokens;
  const size_t rank = scores_.shape.size();
  if (!scores_.has_softmax || scores_.is_logarithm)
    throw NotRecognised(
        "it multiplies scores with values without a softmax over the keys: linear attention, and "
        "weights by relu or sigmoid, are not supported");
  if (scores_.shape[rank - 1] != tokens_ || scores_.shape[rank - 2] != tokens_) {
    throw NotRecognised(why_not_all_tokens(scores_.shape[rank - 2], scores_.shape[rank - 1]));
  }
  const size_t value_rank = given_values->shape.size();
  lead_ = broadcast(leading(scores_.shape), leading(given_values->shape));
  if (lead_ != leading(scores_.shape))
    throw NotRecognised("its values have more heads than scores");
  Shape value_shape = lead_;
  value_shape.push_back(given_values->shape[value_rank - 2]);
  value_shape.push_back(given_values->shape[value_rank - 1]);
  scale_ = scores_.scale;
  read_cap();
  if (!std::isfinite(static_cast<float>(scale_)) || !std::isfinite(static_cast<float>(cap_))) {
    throw NotRecognised("it multiplies scores by a number that is infinite, or none");
  }
  const Heads values = heads_of(stretched(given_values, value_shape));
  const bool has_query = scores_.query != nullptr;
  const Heads queries = has_query ? heads_of(without_factor(scores_.query)) : values;
  const Heads keys = has_query ? heads_of(without_factor(scores_.key)) : values;
  read_mask();
  read_head_factors();
  Graph& graph = builder_.graph();
  const auto value_dim = static_cast<uint32_t>(given_values->shape.back());
  std::vector<ValueId> contexts;
  for (const auto& [begin, end] : runs_of_heads()) {
    Heads run_keys{{keys.columns.begin() + begin, keys.columns.begin() + end}};
    Heads run_values{{values.columns.begin() + begin, values.columns.begin() + end}};
    const size_t group = group_of(run_keys, run_values);
    const size_t count = end - begin;
    AttentionNode attention;
    attention.heads = static_cast<uint32_t>(count);
    attention.kv_heads = static_cast<uint32_t>(count / group);
    if (has_query) attention.head_dim = static_cast<uint32_t>(scores_.query->shape.back());
    attention.value_dim = value_dim;
    attention.scale = scale_;
    attention.mask = masks_[begin];
    attention.score_cap = cap_;
    add_terms(std::span(terms_).subspan(begin, count), tokens_, graph, attention);
    attention.cache = graph.caches();
    std::vector<ValueId> inputs;
    if (has_query) {
      std::vector<double> factors;
      for (size_t h = begin; h < end && !head_factors_.empty(); ++h) {
        factors.insert(factors.end(), attention.head_dim, head_factors_[h]);
      }
      inputs.push_back(gathered(flat(queries.columns, begin, end, 1), factors));
      inputs.push_back(gathered(flat(run_keys.columns, 0, count, group), {}));
    }
    inputs.push_back(gathered(flat(run_values.columns, 0, count, group), {}));
    contexts.push_back(graph.add_attention(builder_.name(), attention, inputs));
  }
  const ValueId node =
      contexts.size() == 1 ? contexts[0] : graph.add_concat(builder_.name() + ".concat", contexts);
  return result(node, value_dim);
}

}  // namespace

ElementSumRef attend(GraphBuilder& builder, const Scores& scores, const ElementSumRef& values) {
  return AttentionBuilder(builder, scores).build(values);
}

// Softmax is blind to what all scores of a query have in common: slopes are told by differences.

namespace {

constexpr double kBiasError = 1e-6;
constexpr size_t kTermsMax = size_t{1} << 27;  // that a model adds to scores

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
  if (!terms.slope) return values;
  for (size_t q = 0; q < tokens; ++q) {
    for (size_t k = 0; k < tokens; ++k) {
      values.push_back(*terms.slope * (double(k) - double(q)));
    }
  }
  return values;
}

// Layers often have the same table, as in T5.
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

}  // namespace

void check_terms(size_t numbers) {
  if (numbers <= kTermsMax) return;
  throw NotRecognised(
      fmt::format("it adds {} numbers to scores: expected at most {}; export it with fewer tokens",
                  numbers, kTermsMax));
}

HeadTerms read_terms(std::vector<double> added, DenseMask& visible) {
  const uint32_t tokens = visible.positions;
  std::optional<double> slope;
  bool has_slope = true;
  for (uint32_t q = 0; q < tokens; ++q) {
    double* row = added.data() + size_t{q} * tokens;
    const double largest = *std::max_element(row, row + tokens);
    if (!(largest > kHiddenScoreMax)) {
      throw NotRecognised(fmt::format("its mask hides all keys of token {}", q));
    }
    std::optional<uint32_t> first;
    for (uint32_t k = 0; k < tokens; ++k) {
      const bool sees = row[k] > largest + kHiddenScoreMax;
      visible.set(q, k, sees);
      if (!sees) {
        row[k] = -std::numeric_limits<double>::infinity();
        continue;
      }
      if (!first) {
        first = k;
        continue;
      }
      // Softmax is blind to what all scores of a query have in common.
      const double step = (row[k] - row[*first]) / (double(k) - double(*first));
      if (!slope) slope = step;
      has_slope =
          has_slope && std::fabs(step - *slope) <= kBiasError * std::max(1.0, std::fabs(*slope));
    }
  }
  if (!has_slope) return {std::nullopt, std::move(added)};
  return {std::fabs(slope.value_or(0.0)) <= kBiasError ? 0.0 : *slope, {}};
}

void add_terms(std::span<const HeadTerms> heads, uint32_t tokens, const Graph& graph,
               AttentionNode& attention) {
  const auto has_slope = [](const HeadTerms& terms) { return terms.slope.has_value(); };
  if (std::ranges::all_of(heads, has_slope)) {
    const bool has_slopes =
        std::ranges::any_of(heads, [](const HeadTerms& terms) { return *terms.slope != 0.0; });
    for (const HeadTerms& terms : heads) {
      if (has_slopes) attention.slopes.push_back(*terms.slope);
    }
    return;
  }
  TermTable table = {ScoreTerms::kDistances, attention.heads, tokens, {}};
  for (const HeadTerms& terms : heads) {
    const std::vector<double> values = distances_of(terms, tokens);
    table.values.insert(table.values.end(), values.begin(), values.end());
    if (values.empty()) table.by = ScoreTerms::kPairs;
  }
  if (table.by == ScoreTerms::kPairs) {
    std::vector<std::vector<double>> of_heads;
    for (const HeadTerms& terms : heads) of_heads.push_back(pairs_of(terms, tokens));
    const bool are_same =
        std::ranges::all_of(of_heads, [&](const auto& values) { return values == of_heads[0]; });
    if (are_same) of_heads.resize(1);
    table.heads = static_cast<uint32_t>(of_heads.size());
    table.values.clear();
    for (const auto& values : of_heads) {
      table.values.insert(table.values.end(), values.begin(), values.end());
    }
  }
  set_terms(graph, std::move(table), attention);
}

}  // namespace arenite::convert
