// SPDX-License-Identifier: Apache-2.0
// Writes a bias of (query, key) pairs as columns of queries and keys. Lowers attention within
// windows with queries and keys on different row axes. Only for a fixed number of rows.
//
//   q k^T + r[query, kind(key)]  ->  [q | r[query]] [k | one_hot(kind(key))]^T
#include "convert/exported/recover/pair_columns.h"
#include "convert/exported/recover/concat_rows.h"
#include "convert/exported/recover/images.h"
#include "convert/exported/recover/row_layout.h"
#include "convert/exported/recover/row_view.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "convert/exported/recover/scores.h"

namespace arenite::convert {
namespace {

constexpr size_t kColumnsMax = 8192;  // columns added for one bias

}  // namespace

LinearExprRef constants(GraphBuilder& builder, Shape shape, std::vector<double> numbers) {
  return builder.constant_expr(std::make_shared<const Constant>(
      kNoValue, Array::real(std::move(shape), std::move(numbers))));
}

LinearExprRef same_columns(GraphBuilder& builder, const LinearExpr& rows, Shape shape,
                           std::vector<double> numbers) {
  const Producer& from = builder.producer(rows.front());
  LinearSpec layer;
  layer.weight.name = builder.name + ".constants";
  layer.weight.rows = static_cast<uint32_t>(numbers.size());
  layer.weight.columns = from.width;
  set_exact(layer.weight,
            [size = numbers.size() * from.width] { return std::vector<double>(size, 0.0); });
  layer.bias = std::move(numbers);
  const uint32_t count = layer.weight.rows;
  const uint32_t producer = builder.producer_of_node(
      builder.graph.add_linear(layer.weight.name, layer, from.node), from.rows);
  const auto width = static_cast<size_t>(rows.shape.back());
  std::vector<int64_t> elements;
  for (size_t first = 0; first < rows.elements(); first += width) {
    const uint64_t row = builder.row_of(rows.at(first));
    for (uint32_t c = 0; c < count; ++c) elements.push_back(element_id(producer, row * count + c));
  }
  return plain(std::move(shape), std::move(elements));
}

std::vector<double> repeated(std::span<const double> numbers, size_t times) {
  std::vector<double> all;
  for (size_t i = 0; i < times; ++i) all.insert(all.end(), numbers.begin(), numbers.end());
  return all;
}

namespace {

// Concatenates the columns of `a` and `b`.
LinearExprRef concat_columns(const LinearExprRef& a, const LinearExprRef& b) {
  const auto width = static_cast<size_t>(a->shape.back());
  const auto more = static_cast<size_t>(b->shape.back());
  std::vector<int64_t> element_ids;
  for (size_t row = 0; row * width < a->elements(); ++row) {
    for (size_t c = 0; c < width; ++c) element_ids.push_back(a->at(row * width + c));
    for (size_t c = 0; c < more; ++c) element_ids.push_back(b->at(row * more + c));
  }
  Shape shape = a->shape;
  shape.back() += b->shape.back();
  return plain(std::move(shape), std::move(element_ids));
}

// Appends constants [.., rows, count] to the columns of `given` [.., rows, columns]. Throws
// NotRecognised if repeated rows, such as keys that heads share, get different constants.
LinearExprRef append_constants(GraphBuilder& builder, const LinearExprRef& given, size_t count,
                               std::vector<double> numbers) {
  const ScopedAxis on(builder, *given);
  const LinearExprRef rows = builder.materialised(given);
  const auto width = static_cast<size_t>(rows->shape.back());
  std::map<int64_t, size_t> known;  // first row with this element id in column 0
  for (size_t row = 0; row * width < rows->elements(); ++row) {
    const size_t first = known.try_emplace(rows->at(row * width), row).first->second;
    refuse_op_if(!std::equal(numbers.begin() + static_cast<ptrdiff_t>(row * count),
                             numbers.begin() + static_cast<ptrdiff_t>((row + 1) * count),
                             numbers.begin() + static_cast<ptrdiff_t>(first * count)),
                 "the constants added to scores differ between heads that share keys; expected the "
                 "same for all of them");
  }
  Shape shape = rows->shape;
  shape.back() = static_cast<int64_t>(count);
  const auto has_first = [&](size_t i) { return numbers[i] == numbers[i % count]; };
  bool are_same = builder.is_node(rows->front());
  for (size_t i = 0; i < numbers.size() && are_same; ++i) are_same = has_first(i);
  if (are_same) {
    numbers.resize(count);
    return concat_columns(rows, same_columns(builder, *rows, shape, std::move(numbers)));
  }
  const auto columns =
      columns_of_constants(builder, constants(builder, shape, std::move(numbers)), rows);
  refuse_op_if(
      !columns,
      "constants are added to scores whose queries or keys are no token rows; expected token rows");
  return concat_columns(rows, *columns);
}

// Writes a bias that reads elements of the query's row as columns. Keys of one kind get equal
// biases from all queries; queries of one kind read the same columns for each kind of key.
class QueryColumns {
 public:
  QueryColumns(GraphBuilder& builder, const LinearExpr& terms, const Term& term)
      : builder_(builder), shape_(terms.shape), term_(term) {
    const size_t rank = shape_.size();
    queries_ = static_cast<size_t>(shape_[rank - 2]);
    keys_ = static_cast<size_t>(shape_[rank - 1]);
    matrices_ = terms.elements() / queries_ / keys_;
    find_keys();
    find_queries();
  }

  // Returns the columns to append to queries, [.., queries, count]: one per kind of key.
  LinearExprRef columns() const {
    const size_t count = firsts_.size();
    refuse_op_if(count * patterns_.size() > kColumnsMax,
                 "the bias that queries add to scores has too many columns; expected fewer "
                 "different distances, or queries that read fewer columns");
    std::map<std::vector<Column>, std::vector<size_t>> heads;  // matrices with the same columns
    for (size_t m = 0; m < matrices_; ++m) heads[columns_of(m)].push_back(m);
    std::vector<int64_t> element_ids(matrices_ * queries_ * count);
    for (const auto& [columns, matrices] : heads) {
      const LinearExprRef own = of_head(columns, matrices);
      for (size_t i = 0; i < own->elements(); ++i) {
        const size_t row = i / count;
        element_ids[(matrices[row / queries_] * queries_ + row % queries_) * count + i % count] =
            own->at(i);
      }
    }
    Shape shape = shape_;
    shape.back() = static_cast<int64_t>(count);
    return plain(std::move(shape), std::move(element_ids));
  }

  // Returns the columns to append to keys, [keys, count]: `one` at the kind of each key, else 0.
  std::vector<double> of_keys(double one) const {
    std::vector<double> numbers(keys_ * firsts_.size(), 0.0);
    for (size_t k = 0; k < keys_; ++k) numbers[k * firsts_.size() + kinds_of_keys_[k]] = one;
    return numbers;
  }
  size_t count() const { return firsts_.size(); }
  size_t matrices() const { return matrices_; }

 private:
  using Part = std::pair<Column, double>;  // column and factor; producer 0: none

  Part part(size_t i) const {
    const int64_t number = term_.places.at(i);
    const double factor = term_.factors.at(i);
    if (number == kNoElement || factor == 0.0) return {};
    refuse_op_if(!builder_.is_node(number),
                 "one value added to scores has both constants and elements of the query; expected "
                 "two separate additions");
    return {builder_.column_of(number), factor};
  }

  void find_keys() {
    std::map<std::vector<std::pair<int64_t, double>>, size_t> known;
    for (size_t k = 0; k < keys_; ++k) {
      std::vector<std::pair<int64_t, double>> own;
      for (size_t i = k; i < matrices_ * queries_ * keys_; i += keys_) {
        own.emplace_back(term_.places.at(i), term_.factors.at(i));
      }
      const auto [found, is_new] = known.try_emplace(std::move(own), known.size());
      kinds_of_keys_.push_back(found->second);
      if (is_new) firsts_.push_back(k);
    }
  }

  void find_queries() {
    std::map<std::vector<Part>, size_t> known;
    for (size_t q = 0; q < queries_; ++q) {
      std::vector<Part> own;
      for (size_t m = 0; m < matrices_; ++m) {
        for (const size_t k : firsts_) own.push_back(part((m * queries_ + q) * keys_ + k));
      }
      const auto [found, is_new] = known.try_emplace(own, known.size());
      kinds_of_queries_.push_back(found->second);
      if (is_new) patterns_.push_back(std::move(own));
    }
  }

  // Returns the node's row that the biases of a query are read from. `row` is matrix * queries +
  // query.
  uint32_t row_of(size_t row) const {
    std::optional<uint32_t> found;
    for (size_t k = 0; k < keys_; ++k) {
      const int64_t number = term_.places.at(row * keys_ + k);
      if (number == kNoElement) continue;
      refuse_op_if(
          found.value_or(builder_.row_of(number)) != builder_.row_of(number),
          "the bias of a query reads rows of several tokens; expected only the query's own token");
      found = builder_.row_of(number);
    }
    refuse_op_if(!found, "a query has no bias, but others have; expected one for each query");
    return *found;
  }

  // Returns the columns that all kinds of queries read for all kinds of keys. A missing column is
  // replaced by any other, with factor 0.
  std::vector<Column> columns_of(size_t matrix) const {
    const size_t count = firsts_.size();
    std::vector<Column> columns;
    Column any{};
    for (const std::vector<Part>& pattern : patterns_) {
      for (size_t c = 0; c < count; ++c) {
        columns.push_back(pattern[matrix * count + c].first);
        if (any.first == 0) any = columns.back();
      }
    }
    refuse_op_if(any.first == 0, "a head has no bias, but others have; expected one for each head");
    for (Column& column : columns) column = column.first == 0 ? any : column;
    return columns;
  }

  // Returns [queries of these matrices, count]: the columns of each query's kind. All kinds are
  // computed, and factors 0 and 1 select.
  LinearExprRef of_head(const std::vector<Column>& columns,
                        const std::vector<size_t>& matrices) const {
    const size_t count = firsts_.size();
    std::vector<int64_t> element_ids;
    std::vector<double> factors;
    for (const size_t m : matrices) {
      for (size_t q = 0; q < queries_; ++q) {
        const uint64_t row = row_of(m * queries_ + q);
        for (size_t i = 0; i < columns.size(); ++i) {
          const auto& [producer, column] = columns[i];
          element_ids.push_back(
              element_id(producer, row * builder_.producer_at(producer).width + column));
          const bool is_own = i / count == kinds_of_queries_[q];
          factors.push_back(is_own ? patterns_[i / count][m * count + i % count].second : 0.0);
        }
      }
    }
    const Shape shape = {static_cast<int64_t>(matrices.size() * queries_),
                         static_cast<int64_t>(columns.size())};
    const LinearExprRef all =
        make_sum({shape,
                  {Term{{0, std::make_shared<const std::vector<int64_t>>(std::move(element_ids))},
                        {1.0, std::make_shared<const std::vector<double>>(std::move(factors))}}}});
    WeightRef ones;
    ones.name = builder_.name + ".own";
    ones.rows = static_cast<uint32_t>(count);
    ones.columns = static_cast<uint32_t>(columns.size());
    set_exact(ones, [count, width = columns.size()] {
      std::vector<double> matrix(count * width, 0.0);
      for (size_t i = 0; i < width; ++i) matrix[i % count * width + i] = 1.0;
      return matrix;
    });
    return linear(builder_, builder_.materialised(all), ones, {});
  }

  GraphBuilder& builder_;
  const Shape& shape_;
  const Term& term_;
  size_t queries_ = 0, keys_ = 0, matrices_ = 0;
  std::vector<size_t> kinds_of_keys_, firsts_;  // kind of each key, first key of each kind
  std::vector<size_t> kinds_of_queries_;
  std::vector<std::vector<Part>> patterns_;  // [kinds of queries][matrices, kinds of keys]
};

}  // namespace

ScoresRef query_terms_as_columns(GraphBuilder& builder, const Scores& scores) {
  refuse_op_if(scores.tanh_factor || scores.head_factors || scores.zeroed || scores.sink ||
                   scores.scale == 0.0,
               "biases that queries add are combined with capped scores, factors of heads, 0/1 "
               "masks or sinks; expected scores without these");
  auto result = std::make_shared<Scores>(scores);
  result->query_terms.reset();
  for (const Term& term : scores.query_terms->terms) {
    const ScopedAxis on(builder, *scores.query);
    const QueryColumns found(builder, *scores.query_terms, term);
    result->query = concat_columns(builder.materialised(result->query), found.columns());
    result->key = append_constants(builder, result->key, found.count(),
                                   repeated(found.of_keys(1.0 / scores.scale), found.matrices()));
  }
  return result;
}

LinearExprRef subsampled_rows(GraphBuilder& builder, const LinearExprRef& given) {
  const LinearExprRef value = builder.materialised(given);
  const ScopedAxis on(builder, *value);
  const TraceSizes sizes = builder.sizes;
  const auto width = static_cast<size_t>(value->shape.back());
  const auto rows = static_cast<size_t>(value->shape[value->shape.size() - 2]);
  if (!builder.is_node(value->front()) || builder.is_per_sequence(value->front()) ||
      rows >= sizes.tokens) {
    return given;
  }
  std::map<Column, size_t> columns;
  std::vector<uint32_t> places;
  for (size_t i = 0; i < value->elements(); ++i) {
    if (!builder.is_node(value->at(i)) || builder.producer(value->at(i)).rows != sizes.rows()) {
      return given;
    }
    const uint32_t place = builder.row_of(value->at(i)) % sizes.tokens;
    const size_t row = i / width % rows;
    if (row == places.size()) places.push_back(place);
    if (places[row] != place) return given;
    columns.try_emplace(builder.column_of(value->at(i)), columns.size());
  }
  std::vector<Column> all(columns.size());
  for (const auto& [column, index] : columns) all[index] = column;
  const uint32_t producer = builder.producer_of_node(builder.gather(all), sizes.rows());
  std::vector<int64_t> element_ids;
  for (uint64_t sequence = 0; sequence < sizes.sequences; ++sequence) {
    for (const uint32_t place : places) {
      for (size_t c = 0; c < all.size(); ++c) {
        element_ids.push_back(
            element_id(producer, (sequence * sizes.tokens + place) * all.size() + c));
      }
    }
  }
  const LinearExprRef chosen =
      plain({sizes.sequences, static_cast<int64_t>(rows), static_cast<int64_t>(all.size())},
            std::move(element_ids));
  const LinearExprRef made = as_windows(builder, chosen);
  if (made == chosen) return given;
  std::vector<int64_t> elements;
  for (size_t i = 0; i < value->elements(); ++i) {
    const size_t row = builder.row_of(value->at(i)) / sizes.tokens * rows + i / width % rows;
    elements.push_back(made->at(row * all.size() + columns.at(builder.column_of(value->at(i)))));
  }
  return plain(value->shape, std::move(elements));
}

// ---- windows on two row axes; windowed_attention.cc has those on one ----

namespace {

// The windows of a value [.., rows, columns]: the head of each window, identified by its columns,
// and the order that undoes the windows.
struct OrderOfWindows {
  std::vector<size_t> heads;               // [windows], index of (sequence, head)
  std::vector<uint32_t> sequences;         // [heads]
  std::vector<std::vector<size_t>> order;  // [heads][rows of the row axis]: row of the value
};

std::optional<OrderOfWindows> window_rows(GraphBuilder& builder, const LinearExprRef& value) {
  const ScopedAxis on(builder, *value);
  const auto rows = static_cast<size_t>(value->shape[value->shape.size() - 2]);
  const uint32_t tokens = builder.sizes.tokens;
  constexpr size_t kNone = SIZE_MAX;
  const auto layout = row_layout(builder, *value);
  if (!layout || layout->has_zeros()) return std::nullopt;
  std::map<HeadPlace, size_t> known;
  OrderOfWindows found;
  for (size_t i = 0; i < layout->rows(); ++i) {
    if (builder.is_per_sequence(builder.producer_at(layout->kinds[layout->kind[i]][0].first))) {
      return std::nullopt;
    }
    const uint32_t place = layout->row[i] % tokens, sequence = layout->row[i] / tokens;
    const size_t head = known.try_emplace({sequence, layout->kind[i]}, known.size()).first->second;
    if (head == found.order.size()) {
      found.order.emplace_back(tokens, kNone);
      found.sequences.push_back(sequence);
    }
    if (i % rows == 0) found.heads.push_back(head);
    if (found.heads.back() != head || found.order[head][place] != kNone) return std::nullopt;
    found.order[head][place] = i;
  }
  for (const std::vector<size_t>& order : found.order) {
    if (std::ranges::count(order, kNone) != 0) return std::nullopt;
  }
  const size_t heads = found.sequences.size();
  if (!std::ranges::is_sorted(found.sequences) || heads % builder.sizes.sequences != 0) return {};
  for (size_t head = 0; head < heads; ++head) {
    if (found.sequences[head] != head / (heads / builder.sizes.sequences)) return {};
  }
  return found;
}

// Undoes the windows: returns [sequences, heads, rows of the row axis, columns].
LinearExprRef in_order(const LinearExprRef& value, const OrderOfWindows& rows) {
  const int64_t width = value->shape.back();
  const int64_t sequences = int64_t{rows.sequences.back()} + 1;
  Movement movement{.shape = {sequences, static_cast<int64_t>(rows.order.size()) / sequences,
                              static_cast<int64_t>(rows.order[0].size()), width}};
  std::vector<int64_t>& sources = movement.sources.emplace();
  for (const std::vector<size_t>& order : rows.order) {
    for (const size_t row : order) {
      for (int64_t c = 0; c < width; ++c) {
        sources.push_back(static_cast<int64_t>(row) * width + c);
      }
    }
  }
  return moved(movement, value);
}

}  // namespace

std::optional<LinearExprRef> attend_in_windows(GraphBuilder& builder, const Scores& scores,
                                               const LinearExprRef& values) {
  const size_t rank = scores.shape.size();
  const Shape lead = leading(scores.shape);
  const bool is_known = scores.query && scores.has_softmax && !scores.added && !scores.sink &&
                        !scores.query_terms && !scores.head_factors && !scores.tanh_factor;
  if (!is_known || broadcast(lead, leading(values->shape)) != lead) return std::nullopt;
  const auto queries_on = builder.row_axis_of(*scores.query),
             keys_on = builder.row_axis_of(*scores.key);
  if (!queries_on || !keys_on || queries_on == keys_on ||
      scores.shape[rank - 1] == builder.sizes_of(*keys_on).tokens) {
    return std::nullopt;
  }
  const LinearExprRef query = builder.materialised(scores.query);
  const LinearExprRef key = builder.materialised(scores.key);
  const LinearExprRef value = builder.materialised(with_leading(values, lead));
  const auto queries = window_rows(builder, query), keys = window_rows(builder, key),
             weighed = window_rows(builder, value);
  if (!queries || !keys || !weighed || queries->heads != keys->heads ||
      keys->heads != weighed->heads || keys->order != weighed->order) {
    return std::nullopt;
  }
  Scores whole = scores;
  whole.query = in_order(query, *queries);
  whole.key = in_order(key, *keys);
  whole.shape = whole.query->shape;
  whole.shape.back() = whole.key->shape[2];
  const auto query_rows = static_cast<size_t>(scores.shape[rank - 2]);
  const auto key_rows = static_cast<size_t>(scores.shape[rank - 1]);
  Array::Reals added;
  for (size_t head = 0; head < queries->order.size(); ++head) {
    for (const size_t own : queries->order[head]) {
      for (const size_t other : keys->order[head]) {
        added.push_back(own / query_rows == other / key_rows ? 0.0 : kHiddenScore);
      }
    }
  }
  whole.added = Array::real(whole.shape, std::move(added));
  const LinearExprRef made = attend(builder, whole, in_order(value, *weighed));
  const int64_t width = made->shape.back();
  Movement back{.shape = matrices_shape(lead, scores.shape[rank - 2], width)};
  std::vector<int64_t>& sources = back.sources.emplace(elements_of(back.shape));
  size_t from = 0;
  for (const std::vector<size_t>& order : queries->order) {
    for (const size_t row : order) {
      for (int64_t c = 0; c < width; ++c) {
        sources[row * static_cast<size_t>(width) + static_cast<size_t>(c)] =
            static_cast<int64_t>(from) * width + c;
      }
      ++from;
    }
  }
  return moved(back, made);
}

}  // namespace arenite::convert
