// SPDX-License-Identifier: Apache-2.0
// Reads a relative position bias: each query adds an element to the score of a key at each
// distance, or each key to that of a query. Shifts, gathers and products end in the same element
// ids, so these determine the columns and the table:
//
//   score[query, key] += sum over c of row[c] * table[key - query][c] + constant[key - query]
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "convert/exported/recover/query_terms.h"
#include "convert/exported/recover/scores.h"

namespace arenite::convert {
namespace {

constexpr double kTermError = 1e-6;
constexpr size_t kTermNumbersMax = size_t{1} << 27;  // elements of one table

constexpr const char* kNoDistances =
    "the bias that a query adds to scores is not a relative position bias; expected the same "
    "multiples of the query's columns for all keys at one distance";

// The addends of one score: a column of a row with its factor for each term, and a constant. A
// column of producer 0 means no addend.
struct Addend {
  std::vector<std::pair<Column, double>> parts;
  double constant = 0.0;

  bool is_near(const Addend& other) const {
    const auto near = [](double a, double b) {
      return std::fabs(a - b) <= kTermError * std::max(1.0, std::fabs(a));
    };
    return near(constant, other.constant) &&
           std::ranges::equal(parts, other.parts, [&](const auto& a, const auto& b) {
             return a.first == b.first && near(a.second, b.second);
           });
  }
};

// Whether a term [..., queries, keys] has elements of the key's row: if so, those of the first key
// are in one row.
bool is_of_key_rows(const GraphBuilder& builder, const LinearExpr& all, const Term& term) {
  const int64_t first = term.places.at(0);
  const int64_t next = term.places.at(static_cast<size_t>(all.shape.back()));
  return builder.is_node(first) && builder.is_node(next) &&
         producer_of(first) == producer_of(next) && builder.row_of(first) == builder.row_of(next);
}

class TermReader {
 public:
  // Reads the terms of keys, or those of queries and the constants.
  TermReader(GraphBuilder& builder, const Scores& scores, std::span<const HeadPlace> order,
             bool of_keys)
      : builder_(builder),
        of_keys_(of_keys),
        terms_{scores.query_terms->shape, {}},
        tokens_(static_cast<size_t>(terms_.shape.back())),
        distances_(2 * tokens_ - 1) {
    for (const Term& term : scores.query_terms->terms) {
      if (is_of_key_rows(builder, terms_, term) == of_keys) terms_.terms.push_back(term);
    }
    if (terms_.terms.empty()) return;
    for (const HeadPlace& place : order) heads_ = std::max<size_t>(heads_, place.second + 1);
    refuse_op_if(heads_ * distances_ > kTermNumbersMax, kNoDistances);
    addends_.resize(heads_ * distances_);
    read_addends(scores, order);
  }

  QueryTermsFound read(std::span<const std::vector<Column>> queries) {
    // Columns that differ between distances are results of a linear layer, whose weights go into
    // the table.
    const size_t count = terms_.terms.size();
    if (count == 0) return without_terms(queries);
    std::vector<bool> varies(count, false);
    // First column seen, by head and term.
    std::map<std::pair<size_t, size_t>, Column> first_columns;
    for (size_t i = 0; i < addends_.size(); ++i) {
      const size_t first = i - i % distances_;
      for (size_t t = 0; t < count && addends_[i]; ++t) {
        const Column& column = addends_[i]->parts[t].first;
        Column& known = first_columns.try_emplace({first, t}, column).first->second;
        if (known.first == 0) known = column;
        varies[t] = varies[t] || (column.first != 0 && column != known);
      }
    }
    QueryTermsFound found;
    std::vector<std::vector<double>> rows;  // of the table
    for (size_t i = 0; i < addends_.size(); ++i) {
      if (i % distances_ == 0) {
        found.columns.emplace_back();
        places_.clear();
      }
      rows.emplace_back();
      if (!addends_[i]) continue;
      for (size_t t = 0; t < count; ++t) {
        const auto& [column, factor] = addends_[i]->parts[t];
        if (column.first == 0) continue;
        if (varies[t]) {
          add_layer(column, factor, found.columns.back(), rows.back(), addends_[i]->constant);
        } else {
          add(column, factor, found.columns.back(), rows.back());
        }
      }
    }
    found.table = {static_cast<uint32_t>(heads_),
                   static_cast<uint32_t>(tokens_),
                   static_cast<uint32_t>(found.columns[0].size()),
                   {}};
    RelativeBias& table = found.table;
    for (const auto& columns : found.columns) {
      refuse_op_if(columns.empty() || columns.size() != table.dim, kNoDistances);
    }
    refuse_op_if(rows.size() * (table.dim + size_t{1}) > kTermNumbersMax, kNoDistances);
    for (size_t i = 0; i < rows.size(); ++i) {
      rows[i].resize(table.dim, 0.0);
      table.values.insert(table.values.end(), rows[i].begin(), rows[i].end());
      table.values.push_back(addends_[i] ? addends_[i]->constant : 0.0);
    }
    if (are_queries(found.columns, queries)) use_queries(found, queries);
    const size_t each = table.values.size() / heads_;
    bool are_same = true;
    for (size_t i = each; i < table.values.size() && are_same; ++i) {
      are_same = table.values[i] == table.values[i % each];
    }
    if (!are_same) return found;
    table.heads = 1;
    table.values.resize(each);
    return found;
  }

 private:
  QueryTermsFound without_terms(std::span<const std::vector<Column>> queries) const {
    const uint32_t dim = of_keys_ ? 0 : static_cast<uint32_t>(queries[0].size());
    return {{queries.begin(), queries.end()},
            {1, static_cast<uint32_t>(tokens_), dim,
             std::vector<double>(distances_ * (dim + size_t{1}), 0.0)}};
  }

  // Reads the addend of each visible key. Throws NotRecognised if keys at one distance differ.
  void read_addends(const Scores& scores, std::span<const HeadPlace> order) {
    const size_t square = tokens_ * tokens_;
    std::vector<double> added;
    if (scores.added) added = stretched_reals(*scores.added, terms_.shape);
    for (size_t i = 0, count = terms_.elements(); i < count; ++i) {
      const size_t query = i / tokens_ % tokens_, key = i % tokens_;
      if (!added.empty() && !(added[i] > kHiddenScoreMax)) continue;
      const HeadPlace& place = order[i / square];
      auto& known = addends_[place.second * distances_ + tokens_ - 1 + key - query];
      Addend found = addend(i, place.first, of_keys_ ? key : query);
      refuse_op_if(known && !known->is_near(found), kNoDistances);
      if (!known) known = std::move(found);
    }
  }

  // Returns the addend of score `i`, of row `row` of the sequence.
  Addend addend(size_t i, uint32_t sequence, size_t row) {
    Addend found;
    const uint32_t tokens = builder_.sizes.tokens;
    for (const Term& term : terms_.terms) {
      const int64_t number = term.places.at(i);
      const double factor = term.factors.at(i);
      found.parts.emplace_back(Column{}, 0.0);
      if (number == kNoElement || factor == 0.0) continue;
      const Producer& from = builder_.producer(number);
      if (from.kind == Producer::Kind::kTable) {
        const auto [known, is_new] = constants_.try_emplace(from.table.get());
        if (is_new) known->second = from.table->array().to_reals();
        found.constant += factor * known->second[static_cast<size_t>(index_of(number))];
        continue;
      }
      const size_t place = size_t{tokens} - tokens_ + row;
      refuse_op_if(from.kind != Producer::Kind::kNode || from.rows != builder_.sizes.rows() ||
                       builder_.row_of(number) != size_t{sequence} * tokens + place,
                   kNoDistances);
      found.parts.back() = {builder_.column_of(number), factor};
    }
    return found;
  }

  void add(const Column& column, double factor, std::vector<Column>& columns,
           std::vector<double>& row) {
    const auto [place, is_new] = places_.try_emplace(column, columns.size());
    if (is_new) columns.push_back(column);
    if (row.size() < columns.size()) row.resize(columns.size(), 0.0);
    row[place->second] += factor;
  }

  // Adds a result of a linear layer as a linear combination of the layer's inputs.
  void add_layer(const Column& result, double factor, std::vector<Column>& columns,
                 std::vector<double>& row, double& constant) {
    const Graph& graph = builder_.graph;
    const ValueId node = builder_.producer_at(result.first).node;
    const auto* layer = graph.as<LinearNode>(node);
    refuse_op_if(layer == nullptr || layer->parts.size() != 1, kNoDistances);
    ValueId input = graph.node(node).inputs[0];
    uint32_t begin = 0;
    for (; const auto* slice = graph.as<SliceNode>(input); input = graph.node(input).inputs[0]) {
      begin += slice->begin;
    }
    refuse_op_if(graph.as<WindowsNode>(input) != nullptr, kNoDistances);
    const LinearPart& part = layer->parts[0];
    const std::span<const double> weights = weights_of(result);
    const uint32_t producer = builder_.producer_of_node(input, builder_.sizes.rows());
    const uint32_t width = part.linear.inputs();
    refuse_op_if(addends_.size() * (width + size_t{1}) > kTermNumbersMax, kNoDistances);
    factor *= part.scale;
    for (uint32_t c = 0; c < width; ++c) {
      add({producer, begin + c}, factor * weights[c], columns, row);
    }
    if (!part.linear.bias.empty()) constant += factor * part.linear.bias[result.second];
  }

  // Returns the linear layer with this result, or null.
  const LinearPart* layer_of(const Column& column) const {
    const auto* layer = builder_.graph.as<LinearNode>(builder_.producer_at(column.first).node);
    return layer != nullptr && layer->parts.size() == 1 ? &layer->parts[0] : nullptr;
  }

  // Returns the weights of a result. REQUIRES: layer_of(column).
  std::span<const double> weights_of(const Column& column) {
    const LinearSpec& layer = layer_of(column)->linear;
    const auto [known, is_new] = weights_.try_emplace(builder_.producer_at(column.first).node);
    if (is_new) known->second = layer.weight.exact();
    return std::span(known->second).subspan(size_t{column.second} * layer.inputs(), layer.inputs());
  }

  // Whether the columns are those of the queries except for the biases of their layers, as in
  // Transformer-XL.
  bool are_queries(std::span<const std::vector<Column>> columns,
                   std::span<const std::vector<Column>> queries) {
    const auto input_of = [&](const Column& column) {
      return builder_.graph.node(builder_.producer_at(column.first).node).inputs[0];
    };
    return std::ranges::equal(columns, queries, [&](const auto& own, const auto& query) {
      return std::ranges::equal(own, query, [&](const Column& a, const Column& b) {
        return layer_of(a) != nullptr && layer_of(b) != nullptr && input_of(a) == input_of(b) &&
               layer_of(a)->scale == layer_of(b)->scale &&
               std::ranges::equal(weights_of(a), weights_of(b));
      });
    });
  }

  // Replaces the columns by those of the queries. Adds the differences of layer biases to the
  // table's constants.
  void use_queries(QueryTermsFound& found, std::span<const std::vector<Column>> queries) {
    const auto bias = [&](const Column& column) {
      const LinearPart& layer = *layer_of(column);
      return layer.linear.bias.empty() ? 0.0 : layer.scale * layer.linear.bias[column.second];
    };
    const size_t width = found.table.dim + size_t{1};
    for (size_t i = 0; i < addends_.size(); ++i) {
      double* const row = found.table.values.data() + i * width;
      for (size_t d = 0; d + 1 < width; ++d) {
        const size_t head = i / distances_;
        row[width - 1] += row[d] * (bias(found.columns[head][d]) - bias(queries[head][d]));
      }
    }
    found.columns.assign(queries.begin(), queries.end());
  }

  GraphBuilder& builder_;
  const bool of_keys_;
  LinearExpr terms_;
  const size_t tokens_, distances_;
  size_t heads_ = 0;
  std::vector<std::optional<Addend>> addends_;  // of each head and distance
  std::map<Column, size_t> places_;             // index in the columns of the current head
  std::map<const Constant*, Array::Reals> constants_;
  std::map<ValueId, std::vector<double>> weights_;
};

}  // namespace

bool is_of_rows(const GraphBuilder& builder, const LinearExpr& value) {
  const size_t rank = value.shape.size();
  if (rank < 2 || value.shape[rank - 1] != value.shape[rank - 2] || value.shape.back() < 2) {
    return false;
  }
  const auto tokens = static_cast<size_t>(value.shape.back());
  uint32_t before = 0;
  for (size_t i = 0; i < tokens; ++i) {
    const int64_t first = value.at(0), own = value.at(i * tokens + i);
    if (!builder.is_node(first) || !builder.is_node(own)) return false;
    // A window reads only some rows of an image, in order.
    const uint32_t row = builder.row_of(own);
    if (builder.fixes_rows ? i != 0 && row <= before : row != builder.row_of(first) + i) {
      return false;
    }
    before = row;
  }
  return true;
}

ScoresRef with_query_terms(const GraphBuilder& builder, const Scores& scores,
                           const LinearExprRef& value) {
  if (scores.sink || scores.zeroed || !scores.query || !is_of_rows(builder, *value) ||
      broadcast(scores.shape, value->shape) != scores.shape) {
    return nullptr;
  }
  const auto result = std::make_shared<Scores>(scores);
  const LinearExprRef terms = stretched(value, scores.shape);
  result->query_terms = scores.query_terms ? sum(scores.query_terms, terms, 1.0) : terms;
  return result;
}

QueryTermsFound read_query_terms(GraphBuilder& builder, const Scores& scores,
                                 std::span<const HeadPlace> order,
                                 std::span<const std::vector<Column>> queries, bool of_keys) {
  return TermReader(builder, scores, order, of_keys).read(queries);
}

}  // namespace arenite::convert
