// SPDX-License-Identifier: Apache-2.0
// Lowers ops across the token axis, if its length is fixed. A linear layer over tokens, as in
// MLP-Mixer, becomes a linear layer between two transpositions. A mean or a softmax over groups of
// rows becomes attention.
//
//   linear(x.transpose(1, 2))  ->  transpose(x), linear; two transpositions in a row cancel out
//   x[:, [0, 0, 1, 2, 2]]      ->  gather of rows 0, 0, 1, 2, 2 of x
#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "convert/exported/recover/concat_rows.h"
#include "convert/exported/recover/pair_columns.h"
#include "convert/exported/recover/row_matrices.h"
#include "convert/exported/recover/row_view.h"
#include "convert/exported/recover/scores.h"

namespace arenite::convert {
namespace {

constexpr size_t kPairsMax = size_t{1} << 26;  // pairs of rows in one mask

// Whether each run along the last dimension reads one column, and all runs read the same tokens in
// the same order.
bool has_one_column(const GraphBuilder& builder, const LinearExpr& value) {
  const auto width = static_cast<size_t>(value.shape.back());
  const uint32_t tokens = builder.sizes.tokens;
  for (size_t i = 0, count = value.elements(); i < count; ++i) {
    const int64_t number = value.at(i), first = value.at(i - i % width);
    if (!builder.is_node(number) || builder.column_of(number) != builder.column_of(first) ||
        builder.row_of(number) % tokens != builder.row_of(value.at(i % width)) % tokens) {
      return false;
    }
  }
  return true;
}

// Returns the row axis of the newest node with `rows` rows per sequence, or a new one.
uint32_t row_axis_with(GraphBuilder& builder, uint32_t rows) {
  Graph& graph = builder.graph;
  for (auto value = graph.order().rbegin(); value != graph.order().rend(); ++value) {
    if (graph.is_on(AxisKind::kOne, *value)) continue;
    for (uint32_t s = 0; s < builder.row_axes(); ++s) {
      const bool is_found = builder.axis_number_of(s) == graph.axis(*value);
      if (is_found && builder.sizes_of(s).tokens == rows) return s;
    }
  }
  return builder.row_axis_on(graph.add_axis({.kind = AxisKind::kConstants, .rows = rows}), rows);
}

// Multiplies the rows of a sequence by a matrix [results, rows], column by column.
//   rows [4, columns], matrix [3, 4]  ->  [columns, 4], linear [columns, 3], [3, columns]
class RowProduct {
 public:
  // REQUIRES: `to` is the row axis of the results.
  RowProduct(GraphBuilder& builder, std::vector<Column> columns, uint32_t to)
      : builder_(builder), columns_(std::move(columns)), to_(to) {
    for (uint32_t i = 0; i < columns_.size(); ++i) places_[columns_[i]] = i;
  }

  // REQUIRES: the current row axis is that of `columns`.
  void multiply(const WeightRef& matrix, const std::vector<double>& bias) {
    Graph& graph = builder_.graph;
    const std::string name = builder_.name;
    const auto count = static_cast<uint32_t>(columns_.size());
    const uint32_t axis = graph.add_axis({.kind = AxisKind::kConstants, .rows = count});
    const ValueId columns =
        transposed(name + ".columns", builder_.gather(columns_), builder_.sizes.tokens, axis);
    const ValueId products = graph.add_linear(name, {matrix, bias}, columns);
    set_results(transposed(name + ".rows", products, count, axis_of(matrix.rows)), matrix.rows);
  }

  // Gathers the rows `list` of each sequence. REQUIRES: as for `multiply`.
  void take(const std::vector<uint32_t>& list) {
    const auto results = static_cast<uint32_t>(list.size());
    const ValueId rows = builder_.gather(columns_);
    set_results(builder_.graph.add_taken(builder_.name + ".rows", rows, list, axis_of(results)),
                results);
  }

  // Returns the id of row `result` of the product, in the column and the sequence of element
  // `number`.
  int64_t at(int64_t number, uint64_t result) const {
    const uint64_t sequence = builder_.row_of(number) / builder_.sizes.tokens;
    return element_id(producer_, (sequence * results_ + result) * columns_.size() +
                                     places_.at(builder_.column_of(number)));
  }

 private:
  // Transposes a node. A preceding activation is applied after the transposition, so that two
  // transpositions cancel out.
  ValueId transposed(const std::string& name, ValueId input, uint32_t rows, uint32_t axis) {
    Graph& graph = builder_.graph;
    if (const auto* before = graph.as<SelectNode>(input);
        before != nullptr && before->kind == SelectKind::kTransposed) {
      const ValueId from = graph.node(input).inputs[0];
      if (graph.axis(from) == axis) return from;
    }
    if (graph.as<ActivationNode>(input) != nullptr) {
      const Node function = graph.node(input);
      return graph.add(function.name, function.body,
                       {transposed(name, function.inputs[0], rows, axis)});
    }
    return graph.add_transposed(name, input, rows, axis);
  }

  uint32_t axis_of(uint32_t results) {
    return results == 1 ? builder_.graph.add_axis({.kind = AxisKind::kOne})
                        : builder_.axis_number_of(to_);
  }

  void set_results(ValueId node, uint32_t results) {
    results_ = results;
    producer_ = builder_.producer_of_node(node, builder_.sizes.sequences * results);
  }

  GraphBuilder& builder_;
  const std::vector<Column> columns_;
  std::map<Column, uint32_t> places_;
  const uint32_t to_;
  uint32_t results_ = 0;
  uint32_t producer_ = 0;
};

// Wraps `numbers` as a weight, named by the builder.
WeightRef matrix_of(const GraphBuilder& builder, uint32_t rows, std::vector<double> numbers) {
  WeightRef weight;
  weight.name = builder.name + ".rows";
  weight.rows = rows;
  weight.columns = static_cast<uint32_t>(numbers.size() / rows);
  set_exact(weight, [numbers = std::move(numbers)] { return numbers; });
  return weight;
}

// Returns the distinct columns of a value, in order of appearance.
std::vector<Column> columns_of(const GraphBuilder& builder, const LinearExpr& value) {
  std::set<Column> known;
  std::vector<Column> columns;
  for (size_t i = 0, count = value.elements(); i < count; ++i) {
    const Column column = builder.column_of(value.at(i));
    if (known.insert(column).second) columns.push_back(column);
  }
  return columns;
}

// Applies `compute` to each row along the last dimension of `given`, [.., rows], giving [..,
// results]. Returns nullopt unless these are rows of one sequence, the same rows for every column.
template <typename Compute>
std::optional<LinearExprRef> over_rows(GraphBuilder& builder, const LinearExprRef& given,
                                       uint32_t results, const Compute& compute) {
  const size_t rank = given->shape.size();
  const auto inputs = static_cast<size_t>(given->shape.back());
  if (rank < 2 || inputs < 2 || given->elements() == inputs || !builder.is_node(given->front())) {
    return std::nullopt;
  }
  const ScopedAxis on(builder, *given);
  const TraceSizes& sizes = builder.sizes;
  if (inputs > sizes.tokens || !is_along_tokens(builder, *given, rank - 1) ||
      !has_one_column(builder, *given)) {
    return std::nullopt;
  }
  const LinearExprRef value = builder.materialised(given);
  if (!has_one_column(builder, *value)) return std::nullopt;
  std::vector<uint32_t> rows(inputs);  // of a sequence, in the value's order
  for (size_t i = 0; i < inputs; ++i) rows[i] = builder.row_of(value->at(i)) % sizes.tokens;
  const bool is_same = results == sizes.tokens;
  RowProduct product(builder, columns_of(builder, *value),
                     is_same ? builder.row_axis() : row_axis_with(builder, results));
  compute(product, rows);
  std::vector<int64_t> element_ids;
  for (size_t i = 0; i < value->elements(); i += inputs) {
    for (size_t row = 0; row < results; ++row) element_ids.push_back(product.at(value->at(i), row));
  }
  Shape shape = value->shape;
  shape.back() = static_cast<int64_t>(results);
  return plain(std::move(shape), std::move(element_ids));
}

}  // namespace

std::optional<LinearExprRef> linear_over_rows(GraphBuilder& builder, const LinearExprRef& given,
                                              const WeightRef& weight,
                                              const std::vector<double>& bias) {
  const uint32_t inputs = weight.columns, results = weight.rows;
  if (given->shape.empty() || given->shape.back() != int64_t{inputs}) return std::nullopt;
  return over_rows(builder, given, results, [&](RowProduct& product, std::span<uint32_t> rows) {
    const uint32_t tokens = builder.sizes.tokens;
    if (inputs == tokens && std::ranges::is_sorted(rows)) return product.multiply(weight, bias);
    // Scatters the matrix columns to their rows of the sequence; rows that are not read get zeros.
    const std::vector<double> given_numbers = weight.exact();
    std::vector<double> numbers(size_t{results} * tokens, 0.0);
    for (size_t i = 0; i < given_numbers.size(); ++i) {
      numbers[i / inputs * tokens + rows[i % inputs]] = given_numbers[i];
    }
    WeightRef matrix = matrix_of(builder, results, std::move(numbers));
    matrix.name = weight.name;
    product.multiply(matrix, bias);
  });
}

namespace {

// A gather of token rows: after a permutation of dimensions, the last one steps through `list`.
struct RowGather {
  std::vector<size_t> order;  // permutation of the value's dimensions
  LinearExprRef columns;
  std::vector<uint32_t> list;  // token row at each index
};

// Returns nullopt for rows in order and evenly spaced, such as slices, and if all rows are repeated
// equally often. Reads only the first term.
std::optional<RowGather> find_row_gather(const GraphBuilder& builder, const LinearExprRef& value) {
  const size_t rank = value->shape.size();
  const uint32_t tokens = builder.sizes.tokens;
  for (size_t axis = 0; axis < rank; ++axis) {
    const auto results = static_cast<size_t>(value->shape[axis]);
    if (results < 3 || value->elements() == results) continue;
    RowGather found = {std::vector<size_t>(rank), nullptr, std::vector<uint32_t>(results)};
    std::iota(found.order.begin(), found.order.end(), size_t{0});
    const auto place = found.order.begin() + static_cast<ptrdiff_t>(axis);
    std::rotate(place, place + 1, found.order.end());
    found.columns = permuted(value, found.order);
    if (!has_one_column(builder, *found.columns)) continue;
    for (size_t row = 0; row < results; ++row) {
      found.list[row] = builder.row_of(found.columns->at(row)) % tokens;
    }
    std::map<uint32_t, size_t> times;
    std::set<int64_t> steps;
    for (size_t row = 0; row < results; ++row) {
      ++times[found.list[row]];
      if (row != 0) steps.insert(int64_t{found.list[row]} - found.list[row - 1]);
    }
    const size_t often = times.begin()->second;
    const bool is_even =
        std::ranges::all_of(times, [&](const auto& t) { return t.second == often; });
    if ((often == 1 || !is_even) && (steps.size() > 1 || *steps.begin() < 0)) return found;
  }
  return std::nullopt;
}

}  // namespace

bool gathers_rows(GraphBuilder& builder, const LinearExprRef& value) {
  if (!builder.fixes_rows || value->elements() == 0 || !builder.is_node(value->front())) {
    return false;
  }
  const ScopedAxis on(builder, *value);
  return find_row_gather(builder, value).has_value();
}

std::optional<LinearExprRef> gathered_rows(GraphBuilder& builder, const LinearExprRef& value) {
  if (!value->is_plain() || !gathers_rows(builder, value)) return std::nullopt;
  const ScopedAxis on(builder, *value);
  const auto [order, columns, list] = *find_row_gather(builder, value);
  const bool is_same = list.size() == builder.sizes.tokens;
  RowProduct product(
      builder, columns_of(builder, *columns),
      is_same ? builder.row_axis() : row_axis_with(builder, static_cast<uint32_t>(list.size())));
  product.take(list);
  std::vector<int64_t> element_ids;
  for (size_t i = 0; i < columns->elements(); ++i) {
    element_ids.push_back(product.at(columns->at(i), i % list.size()));
  }
  return permuted(plain(columns->shape, std::move(element_ids)), inverse_order(order));
}

// ---- values on other row axes ----

namespace {

// Maps each row of `like` to the row of `value` at the same indices. REQUIRES: one shape. Empty if
// a row of `like` meets several rows.
std::vector<uint32_t> matching_rows(const GraphBuilder& builder, const LinearExpr& value,
                                    const LinearExpr& like) {
  constexpr uint32_t kNone = UINT32_MAX;
  const uint32_t sequences = builder.sizes.sequences;
  const uint32_t own = builder.producer(like.front()).rows / sequences;
  const uint32_t others = builder.producer(value.front()).rows / sequences;
  std::vector<uint32_t> which(own, kNone);
  for (size_t i = 0, count = like.elements(); i < count; ++i) {
    if (!builder.is_node(like.at(i)) || !builder.is_node(value.at(i)) ||
        builder.producer(like.at(i)).rows != own * sequences ||
        builder.producer(value.at(i)).rows != others * sequences) {
      return {};
    }
    const uint32_t row = builder.row_of(like.at(i)), other = builder.row_of(value.at(i));
    uint32_t& known = which[row % own];
    if (known == kNone) known = other % others;
    if (known != other % others || row / own != other / others) return {};
  }
  std::ranges::replace(which, kNone, 0u);
  return which;
}

// Gathers the rows of `value` onto the row axis of `like`, by the map of matching_rows.
LinearExprRef gather_onto(GraphBuilder& builder, const LinearExpr& value, const LinearExpr& like,
                          const std::vector<uint32_t>& which) {
  const uint32_t row_axis = builder.row_axis_of(value).value(),
                 to = builder.row_axis_of(like).value();
  const ScopedAxis on(builder, row_axis);
  RowProduct product(builder, columns_of(builder, value), to);
  product.take(which);
  std::vector<int64_t> element_ids;
  for (size_t i = 0, count = value.elements(); i < count; ++i) {
    element_ids.push_back(product.at(value.at(i), builder.row_of(like.at(i)) % which.size()));
  }
  return plain(value.shape, std::move(element_ids));
}

// Whether `value` needs no row gather: its rows are those of `like`, in order, or a single row that
// broadcasts.
bool needs_no_gather(const GraphBuilder& builder, const LinearExpr& value, const LinearExpr& like,
                     const std::vector<uint32_t>& which) {
  if (!builder.reads_images() && std::ranges::count(which, which[0]) == std::ssize(which)) {
    return true;
  }
  bool is_same = builder.row_axis_of(like) == builder.row_axis_of(value);
  for (uint32_t row = 0; row < which.size() && is_same; ++row) is_same = which[row] == row;
  return is_same;
}

// Gathers the rows of `b` onto the row axis of `a`, or else those of `a` onto the axis of `b`.
void align_rows(GraphBuilder& builder, LinearExprRef& a, LinearExprRef& b) {
  const Shape shape = broadcast(a->shape, b->shape);
  const LinearExprRef first = stretched(a, shape), second = stretched(b, shape);
  if (const auto which = matching_rows(builder, *second, *first); !which.empty()) {
    if (!needs_no_gather(builder, *second, *first, which)) {
      b = gather_onto(builder, *second, *first, which);
    }
  } else if (const auto turn = matching_rows(builder, *first, *second); !turn.empty()) {
    a = gather_onto(builder, *first, *second, turn);
  }
}

// Whether the value has rows of a node, and these are not per-sequence rows.
bool has_rows_of_nodes(const GraphBuilder& builder, const LinearExpr& value) {
  return value.is_plain() && value.elements() != 0 && builder.is_node(value.front()) &&
         builder.row_axis_of(value) && !builder.is_per_sequence(value.front());
}

// Whether the value begins with the first row of a node and ends with its last.
bool is_in_order(const GraphBuilder& builder, const LinearExpr& value) {
  const int64_t last = value.at(value.elements() - 1);
  return builder.is_node(last) && builder.row_of(value.front()) == 0 &&
         builder.row_of(last) + 1 == builder.producer(last).rows;
}

}  // namespace

void align_row_axes(GraphBuilder& builder, std::vector<LinearExprRef>& values) {
  LinearExprRef* most = nullptr;  // value with most rows; without images, rows in order come first
  const auto rows = [&](const LinearExprRef& of) {
    const bool comes_first = !builder.reads_images() && is_in_order(builder, *of);
    return std::pair(comes_first, builder.producer(of->front()).rows);
  };
  for (LinearExprRef& value : values) {
    if (!has_rows_of_nodes(builder, *value)) return;
    if (most == nullptr || rows(value) > rows(*most)) most = &value;
  }
  for (LinearExprRef& value : values) {
    if (&value != most) align_rows(builder, *most, value);
  }
}

std::vector<LinearExprRef> align_concat_rows(GraphBuilder& builder,
                                             std::vector<LinearExprRef> values,
                                             std::optional<size_t> joins) {
  const bool are_columns = joins && *joins + 1 == values[0]->shape.size();
  const auto has_rows = [&](const LinearExprRef& value) {
    return has_rows_of_nodes(builder, *value);
  };
  if (!builder.fixes_rows || builder.reads_images() || !are_columns ||
      !std::ranges::all_of(values, has_rows)) {
    return values;
  }
  const auto found = std::ranges::find_if(
      values, [&](const LinearExprRef& value) { return is_in_order(builder, *value); });
  if (found == values.end()) return values;
  const auto step = (*found)->shape.back();
  const auto count = static_cast<int64_t>((*found)->elements()) / step;
  const LinearExprRef first =  // the first column
      moved(Movement{.shape = {count}, .walk = {count}, .strides = {step}}, *found);
  for (LinearExprRef& value : values) {
    Shape shape = value->shape;
    shape.back() = 1;
    if (first->elements() != elements_of(shape)) continue;
    const LinearExprRef like = stretched(with_shape(first, shape), value->shape);
    const auto which = matching_rows(builder, *value, *like);
    if (which.empty() || needs_no_gather(builder, *value, *like, which)) continue;
    value = gather_onto(builder, *value, *like, which);
  }
  return values;
}

// ---- groups of rows ----

namespace {

// A partition of the rows of each sequence into groups along the last dimension. It is the same for
// all columns and sequences.
struct RowGroups {
  LinearExprRef value;  // [.., rows of a group]
  std::vector<Column> columns;
  std::vector<size_t> group,
      index;        // of each row of a sequence: its group, and its index in the group
  size_t size = 0;  // rows of a group

  // Returns a matrix [rows, rows]: `same` where both rows are in one group, else `other`.
  std::vector<double> pairs(double same, double other) const {
    std::vector<double> numbers;
    for (const size_t a : group) {
      for (const size_t b : group) numbers.push_back(a == b ? same : other);
    }
    return numbers;
  }
};

std::optional<RowGroups> row_groups(const GraphBuilder& builder, const LinearExprRef& given,
                                    size_t axis) {
  if (!builder.fixes_rows || !given->is_plain() || !builder.is_node(given->front())) return {};
  const TraceSizes& sizes = builder.sizes;
  constexpr size_t kNone = SIZE_MAX;
  RowGroups found;
  std::vector<size_t> order(given->shape.size());
  std::iota(order.begin(), order.end(), size_t{0});
  order.erase(order.begin() + static_cast<ptrdiff_t>(axis));
  order.push_back(axis);
  found.value = permuted(given, order);
  found.size = static_cast<size_t>(given->shape[axis]);
  if (found.size < 2 || found.size >= sizes.tokens ||
      uint64_t{sizes.tokens} * sizes.tokens > kPairsMax) {
    return {};
  }
  found.group.assign(sizes.tokens, kNone);
  found.index.assign(sizes.tokens, kNone);
  std::map<std::pair<uint32_t, Column>, size_t> seen;  // count of rows, by sequence and column
  size_t groups = 0;
  for (size_t i = 0; i < found.value->elements(); ++i) {
    const int64_t number = found.value->at(i), first = found.value->at(i - i % found.size);
    if (!builder.is_node(number) || builder.producer(number).rows != sizes.rows()) return {};
    const uint32_t row = builder.row_of(number), place = row % sizes.tokens;
    const uint32_t before = builder.row_of(first);
    const Column column = builder.column_of(number);
    if (column != builder.column_of(first) || row / sizes.tokens != before / sizes.tokens)
      return {};
    const auto [known, is_new] = seen.try_emplace({row / sizes.tokens, column}, 0);
    if (is_new && row < sizes.tokens) found.columns.push_back(column);
    ++known->second;
    if (found.group[place] == kNone) {
      found.group[place] = i % found.size == 0 ? groups++ : found.group[before % sizes.tokens];
      found.index[place] = i % found.size;
    }
    if (found.group[place] != found.group[before % sizes.tokens] ||
        found.index[place] != i % found.size) {
      return {};
    }
  }
  for (const auto& [column, count] : seen) {
    if (count != sizes.tokens) return {};
  }
  return found;
}

}  // namespace

// Lowers the mean of each group to attention with equal weights within the group.
std::optional<LinearExprRef> mean_of_groups(GraphBuilder& builder, const LinearExprRef& given,
                                            size_t axis) {
  const ScopedAxis on(builder, *given);
  const auto groups = row_groups(builder, given, axis);
  if (!groups) return std::nullopt;
  const TraceSizes sizes = builder.sizes;
  const size_t width = groups->columns.size();
  Scores scores{.shape = {sizes.sequences, sizes.tokens, sizes.tokens}};
  scores.added = Array::real({sizes.tokens, sizes.tokens}, groups->pairs(0.0, kHiddenScore));
  scores.has_softmax = true;
  const LinearExprRef made =
      attend(builder, scores,
             whole_producer(builder.producer_of_node(builder.gather(groups->columns), sizes.rows()),
                            {sizes.sequences, sizes.tokens, static_cast<int64_t>(width)}));
  std::map<Column, size_t> places;
  for (size_t c = 0; c < width; ++c) places[groups->columns[c]] = c;
  std::vector<int64_t> element_ids;
  for (size_t i = 0; i < groups->value->elements(); i += groups->size) {
    const int64_t number = groups->value->at(i);
    element_ids.push_back(
        made->at(builder.row_of(number) * width + places.at(builder.column_of(number))));
  }
  Shape shape = groups->value->shape;
  shape.pop_back();
  return plain(std::move(shape), std::move(element_ids));
}

// Lowers the softmax of each group to attention within the group. The values are one-hot indices in
// the group, so the result has all weights of the group; each row selects its own.
std::optional<LinearExprRef> softmax_of_groups(GraphBuilder& builder, const LinearExprRef& given,
                                               size_t axis) {
  const ScopedAxis on(builder, *given);
  const auto groups = row_groups(builder, given, axis);
  if (!groups) return std::nullopt;
  const TraceSizes sizes = builder.sizes;
  const auto heads = static_cast<int64_t>(groups->columns.size());
  const auto size = static_cast<int64_t>(groups->size);
  const Shape lead = {sizes.sequences, heads};
  std::vector<int64_t> element_ids;
  for (uint32_t sequence = 0; sequence < sizes.sequences; ++sequence) {
    for (const auto& [producer, column] : groups->columns) {
      for (uint64_t row = 0; row < sizes.tokens; ++row) {
        const uint64_t width = builder.producer_at(producer).width;
        element_ids.push_back(
            element_id(producer, (sequence * uint64_t{sizes.tokens} + row) * width + column));
      }
    }
  }
  std::vector<double> own;
  for (const size_t index : groups->index) {
    for (int64_t i = 0; i < size; ++i) own.push_back(static_cast<size_t>(i) == index ? 1.0 : 0.0);
  }
  Scores scores{.shape = matrices_shape(lead, sizes.tokens, sizes.tokens)};
  scores.key = plain(matrices_shape(lead, sizes.tokens, 1), std::move(element_ids));
  scores.query = same_columns(builder, *scores.key, scores.key->shape, {1.0});
  scores.added = Array::real({sizes.tokens, sizes.tokens}, groups->pairs(0.0, kHiddenScore));
  scores.has_softmax = true;
  const auto which =
      columns_of_constants(builder,
                           constants(builder, matrices_shape(lead, sizes.tokens, size),
                                     repeated(own, static_cast<size_t>(sizes.sequences * heads))),
                           scores.key);
  if (!which) return std::nullopt;
  const LinearExprRef weights = builder.materialised(
      scaled(attend(builder, scores, *which), Array::real({sizes.tokens, size}, own)));
  WeightRef ones;
  ones.name = builder.name + ".own";
  ones.rows = 1;
  ones.columns = static_cast<uint32_t>(size);
  set_exact(ones, [count = ones.columns] { return std::vector<double>(count, 1.0); });
  const LinearExprRef made = linear(builder, weights, ones, {});  // [sequences, heads, tokens, 1]
  std::map<Column, size_t> places;
  for (size_t c = 0; c < groups->columns.size(); ++c) places[groups->columns[c]] = c;
  std::vector<int64_t> elements;
  for (size_t i = 0; i < groups->value->elements(); ++i) {
    const int64_t number = groups->value->at(i);
    const size_t row = builder.row_of(number);
    const size_t head =
        row / sizes.tokens * groups->columns.size() + places.at(builder.column_of(number));
    elements.push_back(made->at(head * sizes.tokens + row % sizes.tokens));
  }
  std::vector<size_t> order(given->shape.size());
  std::iota(order.begin(), order.end(), size_t{0});
  order.erase(order.begin() + static_cast<ptrdiff_t>(axis));
  order.push_back(axis);
  return permuted(plain(groups->value->shape, std::move(elements)), inverse_order(order));
}

}  // namespace arenite::convert
