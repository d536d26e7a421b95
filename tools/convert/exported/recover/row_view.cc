// SPDX-License-Identifier: Apache-2.0
// Expresses values as rows of nodes: finds the producer, row and columns of each row, and adds
// nodes with just these rows. Also lowers products and outputs, which need such rows.
//
//   x[:, -1]                         ->  select last(x), one row per sequence
//   torch.cat([x[..., :4], y], -1)   ->  concat(slice(x, 0, 4), y), one row per token
//   F.pad(x, (0, 0, 1, 0))[:, :-1]   ->  depthwise convolution with taps [1, 0]
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "convert/exported/recover/graph_builder.h"
#include "convert/exported/recover/images.h"
#include "convert/exported/recover/row_layout.h"
#include "convert/exported/recover/row_matrices.h"
#include "convert/exported/recover/row_view.h"

namespace arenite::convert {
namespace {

constexpr size_t kSlicesMax = 8;         // of one node; more are one permutation
constexpr size_t kChosenTokensMax = 16;  // of a sequence, in one row

// Explains why the rows of a value are not rows of a node: they mix tokens, or are parts of a
// token's row.
std::string why_no_rows(const GraphBuilder& builder, const LinearExpr& value) {
  const auto width = static_cast<size_t>(value.shape.back());
  std::map<uint32_t, size_t> rows_of_tokens;  // count of rows, by token
  for (size_t first = 0, count = value.elements(); first < count; first += width) {
    std::set<uint32_t> tokens, columns;
    for (size_t i = first; i < first + width; ++i) {
      const int64_t number = value.at(i);
      if (number == kNoElement) {
        return "a row has zeros beside elements of the model, as by F.pad; expected elements only: "
               "pad the input, or concatenate whole rows";
      }
      if (builder.producer(number).kind == Producer::Kind::kTable) {
        return "a row has constants beside elements of the model; expected elements only: "
               "concatenate constant rows before or after all tokens, as in torch.cat([constants, "
               "x], 1)";
      }
      if (builder.is_per_sequence(number) != builder.is_per_sequence(value.at(0)))
        return kPooledAmongTokens;
      tokens.insert(builder.row_of(number));
      columns.insert(builder.column_of(number).second);
    }
    ++rows_of_tokens[builder.row_of(value.at(first))];
    if (tokens.size() < 2) continue;
    if (columns.size() == 1 && tokens.size() < builder.sizes.tokens) {
      return "a row has one column of several tokens, as patches of each variable do; export the "
             "model for an example [variables, steps], with one series per sequence";
    }
    if (columns.size() == 1) {
      return "cannot apply a layer along the token axis, as after x.transpose(1, 2); to attend "
             "between variables, export the model for an example [sequences, variables, steps] "
             "without the transposition";
    }
    return fmt::format(
        "a row has columns of {} tokens; expected the columns of one token, or of all tokens "
        "pooled",
        tokens.size());
  }
  const size_t parts = rows_of_tokens.begin()->second;
  if (parts < 2)
    return "the rows read different columns of their tokens; expected the same columns in each row";
  return fmt::format(
      "each token has {} rows, such as heads; only norms, sums, factors and gates accept these, so "
      "interleave other kinds of rows by one op, as in torch.stack(rows, 2).flatten(1, 2)",
      parts);
}
}  // namespace

bool is_of_ids(const GraphBuilder& builder, const LinearExpr& value) {
  return value.is_plain() && value.elements() != 0 &&
         (builder.producer(value.at(0)).kind == Producer::Kind::kTokens ||
          is_of_types(builder, value));
}

bool is_of_types(const GraphBuilder& builder, const LinearExpr& value) {
  return value.is_plain() && value.elements() != 0 &&
         (builder.producer(value.at(0)).kind == Producer::Kind::kTypes ||
          builder.mark_columns.contains(builder.column_of(value.at(0))));
}

LinearExprRef replace_producer(const LinearExprRef& value, uint32_t from, uint32_t to) {
  if (value->terms[0].places.is_whole()) return whole_producer(to, value->shape);
  std::vector<int64_t> element_ids = element_ids_of(*value);
  for (int64_t& number : element_ids) number += (int64_t{to} - int64_t{from}) * kProducerElements;
  return plain(value->shape, std::move(element_ids));
}

bool is_along_tokens(const GraphBuilder& builder, const LinearExpr& value, size_t axis) {
  if (value.shape[axis] < 2) return false;
  const auto stride = static_cast<size_t>(strides_of(value.shape)[axis]);
  const int64_t first = value.at(0), next = value.at(stride);
  return first != kNoElement && next != kNoElement && builder.row_of(first) != builder.row_of(next);
}

// ---- values as rows of nodes ----

namespace {

// Returns the index of each column in its node, if they permute all columns of one node and would
// take too many slices; else empty.
std::vector<uint32_t> order_of(const GraphBuilder& builder, const std::vector<Column>& columns) {
  const Producer& from = builder.producer_at(columns[0].first);
  if (from.kind != Producer::Kind::kNode || columns.size() != from.width) return {};
  std::vector<uint32_t> order;
  std::vector<bool> is_there(columns.size(), false);
  size_t runs = 1;
  for (const Column& column : columns) {
    if (column.first != columns[0].first || is_there[column.second]) return {};
    is_there[column.second] = true;
    runs += order.empty() || column.second == order.back() + 1 ? 0 : 1;
    order.push_back(column.second);
  }
  return runs > kSlicesMax ? order : std::vector<uint32_t>{};
}

// If all rows are the same token of each sequence, replaces them by a select node with one row per
// sequence.
void select_one(GraphBuilder& builder, RowView& rows, std::vector<Column>& columns) {
  const TraceSizes& sizes = builder.sizes;
  const uint32_t place = rows.rows[0];
  for (uint32_t b = 0; b < sizes.sequences; ++b) {
    refuse_op_if<Cause::kInput>(rows.rows[b] != b * sizes.tokens + place, kMixesTokens);
    rows.rows[b] = b;
  }
  for (Column& column : columns) {
    if (builder.is_per_sequence(builder.producer_at(column.first))) continue;
    column.first = builder.selected_at(column.first, place);
  }
  rows.count = sizes.sequences;
}

// Returns an order of dimensions with those along columns of one token last, such as heads that
// precede the tokens.
std::vector<size_t> columns_last(const GraphBuilder& builder,
                                 const std::vector<LinearExprRef>& values) {
  const Shape& shape = values[0]->shape;
  std::vector<size_t> order(shape.size());
  std::iota(order.begin(), order.end(), size_t{0});
  if (elements_of(shape) == 0) return order;
  const Shape strides = strides_of(shape);
  std::stable_partition(order.begin(), order.end(), [&](size_t d) {
    if (shape[d] < 2) return true;
    bool has_columns = false;
    for (const LinearExprRef& value : values) {
      const int64_t from = value->at(0), to = value->at(static_cast<size_t>(strides[d]));
      if (from == kNoElement || to == kNoElement) return true;
      if (builder.row_of(from) != builder.row_of(to)) return true;
      has_columns = has_columns || from != to;
    }
    return !has_columns;
  });
  return order;
}

// Merges trailing dimensions as long as each row stays within one token.
Shape with_whole_rows(const GraphBuilder& builder, const LinearExpr& value) {
  Shape flat = value.shape;
  while (flat.size() > 1) {
    const int64_t last = flat.back() * flat[flat.size() - 2];
    const auto width = static_cast<size_t>(last);
    for (size_t i = 0, count = value.elements(); i < count; ++i) {
      const int64_t number = value.at(i);
      const bool is_same_row =
          number != kNoElement && builder.row_of(number) == builder.row_of(value.at(i - i % width));
      if (!is_same_row) return flat;
    }
    flat.pop_back();
    flat.back() = last;
  }
  return flat;
}

// Values of equal shape, permuted and reshaped to a row for each token.
struct TokenRows {
  std::vector<size_t> order;
  Shape shape, flat;
  std::vector<RowView> rows;  // of each value

  LinearExprRef made(GraphBuilder& builder, ValueId node) const {
    const LinearExprRef whole = on_rows(builder, rows[0], flat, node, rows[0].width);
    return permuted(with_shape(whole, shape), inverse_order(order));
  }
};

TokenRows token_rows(GraphBuilder& builder, const std::vector<LinearExprRef>& values) {
  TokenRows result;
  result.order = columns_last(builder, values);
  for (const LinearExprRef& value : values) {
    const LinearExprRef ordered = permuted(value, result.order);
    if (result.rows.empty()) {
      result.shape = result.flat = ordered->shape;
      const bool has_columns =
          !result.flat.empty() && !is_along_tokens(builder, *ordered, result.flat.size() - 1);
      if (!has_columns) result.flat.push_back(1);
      result.flat = with_whole_rows(builder, *with_shape(ordered, result.flat));
    }
    result.rows.push_back(rows_of(builder, with_shape(ordered, result.flat)));
  }
  return result;
}

}  // namespace

RowView rows_of(GraphBuilder& builder, const LinearExprRef& given, std::vector<uint32_t>* order) {
  const ScopedAxis on_given(builder, *given);
  const LinearExprRef windows = as_windows(builder, builder.materialised(given));
  const ScopedAxis on(builder, *windows);
  const TraceSizes& sizes = builder.sizes;
  const LinearExprRef value = select_tokens(builder, windows);
  refuse_op_if(value->shape.empty(), "the value is a scalar; expected [.., columns]");
  const auto width = static_cast<uint32_t>(value->shape.back());
  const size_t count = value->elements();
  refuse_op_if(count == 0, "it is empty");
  RowView result{0, width, {}, 0};
  if (value->terms[0].places.is_whole()) {
    const Producer& whole = builder.producer_at(value->terms[0].places.producer);
    if (whole.width == width && whole.kind == Producer::Kind::kNode) {
      result.node = whole.node;
      result.count = whole.rows;
      result.rows.resize(count / width);
      std::iota(result.rows.begin(), result.rows.end(), 0u);
      return result;
    }
  }
  auto layout = row_layout(builder, *value);
  if (!layout || layout->kinds.size() != 1 || layout->has_zeros()) {
    throw NotRecognised(why_no_rows(builder, *value), Cause::kInput);
  }
  std::vector<Column> columns = std::move(layout->kinds[0]);
  result.rows = std::move(layout->row);
  for (const Column& column : columns) {
    result.count = std::max(result.count, builder.producer_at(column.first).rows);
  }
  const bool selects =
      result.count == sizes.rows() && sizes.tokens > 1 && result.rows.size() == sizes.sequences;
  if (selects) select_one(builder, result, columns);
  if (order != nullptr) *order = order_of(builder, columns);
  const bool keeps_order = order != nullptr && !order->empty();
  result.node = keeps_order ? builder.producer_at(columns[0].first).node : builder.gather(columns);
  return result;
}

LinearExprRef select_tokens(GraphBuilder& builder, const LinearExprRef& value) {
  const TraceSizes& sizes = builder.sizes;
  if (!value->is_plain() || value->terms[0].places.is_whole() || value->shape.empty() ||
      sizes.tokens == 1) {
    return value;
  }
  const size_t count = value->elements();
  const auto width = static_cast<size_t>(value->shape.back());
  if (count == 0 || count / width != sizes.sequences) return value;
  std::map<uint32_t, std::set<uint32_t>> places;  // tokens read, by sequence
  for (size_t i = 0; i < count; ++i) {
    if (!builder.is_node(value->at(i))) return value;
    if (builder.producer(value->at(i)).rows != sizes.rows()) continue;
    const uint32_t row = builder.row_of(value->at(i));
    if (row / sizes.tokens != i / width) return value;
    std::set<uint32_t>& own = places[row / sizes.tokens];
    own.insert(row % sizes.tokens);
    if (own.size() > kChosenTokensMax) return value;
  }
  if (places.size() != sizes.sequences || places[0].size() < 2) return value;
  std::vector<int64_t> element_ids = element_ids_of(*value);
  for (int64_t& number : element_ids) {
    if (builder.producer(number).rows != sizes.rows()) continue;
    const uint32_t row = builder.row_of(number);
    const auto [from, column] = builder.column_of(number);
    const uint32_t to = builder.selected_at(from, row % sizes.tokens);
    number = element_id(to, uint64_t{row / sizes.tokens} * builder.producer_at(to).width + column);
  }
  return plain(value->shape, std::move(element_ids));
}

namespace {

constexpr size_t kRowKindsMax = 256;  // of one value

// Returns the columns of a row, which may be of several tokens; nullopt if it has other elements.
std::optional<std::vector<Column>> columns_of_row(const GraphBuilder& builder,
                                                  const LinearExpr& value, size_t begin,
                                                  size_t width) {
  std::vector<Column> columns;
  for (size_t i = begin; i < begin + width; ++i) {
    if (!builder.is_node(value.at(i))) return std::nullopt;
    columns.push_back(builder.column_of(value.at(i)));
  }
  return columns;
}

// Groups the indices of rows by their columns. Empty if all rows have equal columns, or if some
// element is not one of a node.
std::vector<std::vector<size_t>> kinds_of_rows(const GraphBuilder& builder,
                                               const LinearExpr& value) {
  if (value.shape.empty() || value.elements() == 0) return {};
  const auto width = static_cast<size_t>(value.shape.back());
  bool is_one = true;
  for (size_t i = 0, count = value.elements(); i < count; i += width) {
    if (!builder.is_node(value.at(i))) return {};
    is_one = is_one && builder.column_of(value.at(i)) == builder.column_of(value.at(0));
  }
  if (is_one) return {};
  std::map<std::vector<Column>, size_t> kinds;
  std::vector<std::vector<size_t>> rows;
  for (size_t i = 0, count = value.elements(); i < count; i += width) {
    auto columns = columns_of_row(builder, value, i, width);
    if (!columns) return {};
    const auto [known, is_new] = kinds.try_emplace(std::move(*columns), rows.size());
    if (is_new) rows.emplace_back();
    if (rows.size() > kRowKindsMax) return {};
    rows[known->second].push_back(i / width);
  }
  return rows;
}

// Returns the indices of all elements in these rows.
std::vector<int64_t> elements_of_rows(const std::vector<size_t>& rows, size_t width) {
  std::vector<int64_t> elements;
  elements.reserve(rows.size() * width);
  for (const size_t row : rows) {
    for (size_t c = 0; c < width; ++c) elements.push_back(static_cast<int64_t>(row * width + c));
  }
  return elements;
}

}  // namespace

LinearExprRef each_kind_of_row(GraphBuilder& builder, const LinearExprRef& given,
                               const std::function<LinearExprRef(const LinearExprRef&)>& make) {
  if (kinds_of_rows(builder, *given).empty()) return make(given);
  const LinearExprRef value = builder.materialised(given);
  const std::vector<std::vector<size_t>> kinds = kinds_of_rows(builder, *value);
  if (kinds.empty()) return make(value);
  const int64_t width = value->shape.back();
  std::vector<LinearExprRef> made;
  // index of each row in the concatenation of `made`
  std::vector<size_t> place(value->elements() / static_cast<size_t>(width));
  size_t rows = 0;
  for (const std::vector<size_t>& kind : kinds) {
    const Movement cut = {.shape = {static_cast<int64_t>(kind.size()), width},
                          .sources = elements_of_rows(kind, static_cast<size_t>(width))};
    made.push_back(make(moved(cut, value)));
    for (const size_t row : kind) place[row] = rows++;
  }
  Movement back = {.shape = value->shape};
  back.shape.back() = made[0]->shape.back();
  back.sources = elements_of_rows(place, static_cast<size_t>(back.shape.back()));
  return moved(back, made);
}

namespace {

constexpr int64_t kPooledRow = -1;

// Returns the token that all elements belong to, in each sequence, or kPooledRow for per-sequence
// rows; nullopt for any other value.
std::optional<int64_t> token_of(const GraphBuilder& builder, const LinearExpr& value) {
  const TraceSizes& sizes = builder.sizes;
  std::optional<int64_t> token;
  for (size_t i = 0, count = value.elements(); i < count; ++i) {
    if (!builder.is_node(value.at(i))) return {};
    const Producer& from = builder.producer(value.at(i));
    const bool is_of_tokens = from.rows == sizes.rows();
    const int64_t found =
        is_of_tokens ? int64_t{builder.row_of(value.at(i)) % sizes.tokens} : kPooledRow;
    if (token.value_or(found) != found) return {};
    token = found;
  }
  return token;
}

}  // namespace

std::vector<LinearExprRef> rows_of_sequences(GraphBuilder& builder,
                                             std::vector<LinearExprRef> values, Combination how) {
  if (builder.fixes_rows && how != Combination::kMoved) align_row_axes(builder, values);
  if (builder.sizes.tokens == 1 || values.empty()) return values;
  std::vector<std::optional<int64_t>> tokens;
  for (const LinearExprRef& value : values) tokens.push_back(token_of(builder, *value));
  const bool are_alike =
      std::ranges::count(tokens, tokens[0]) == static_cast<ptrdiff_t>(tokens.size());
  if (are_alike && (how != Combination::kSum || !tokens[0])) return values;
  const bool has_all_of_some =
      std::ranges::any_of(tokens, [](const auto& token) { return !token; });
  for (size_t i = 0; i < values.size(); ++i) {
    if (!tokens[i] || *tokens[i] == kPooledRow) continue;
    // A token that is concatenated with others is a row of its own, unless it is repeated.
    if (how == Combination::kMoved && has_all_of_some && without_repeats(values[i]) == values[i])
      continue;
    values[i] = each_kind_of_row(builder, values[i], [&](const LinearExprRef& value) {
      const LinearExprRef once = without_repeats(value);
      const RowView rows = rows_of(builder, once);
      return stretched(on_rows(builder, rows, once->shape, rows.node, rows.width), value->shape);
    });
  }
  return values;
}

LinearExprRef without_repeats(const LinearExprRef& value) {
  const auto is_whole = [](const Term& term) { return term.places.is_whole(); };
  if (std::ranges::any_of(value->terms, is_whole) || value->elements() == 0) return value;
  const Shape strides = strides_of(value->shape);
  Movement cut = {.shape = value->shape, .walk = value->shape, .strides = strides};
  for (size_t d = 0; d < strides.size(); ++d) {
    const auto stride = static_cast<size_t>(strides[d]);
    const size_t block = stride * static_cast<size_t>(value->shape[d]);
    const auto is_repeated = [&](const Term& term) {
      for (size_t i = 0, count = value->elements(); i < count; ++i) {
        const size_t first = i / block * block + i % stride;
        if (term.places.at(i) != term.places.at(first)) return false;
        if (term.factors.at(i) != term.factors.at(first)) return false;
      }
      return true;
    };
    if (value->shape[d] > 1 && std::ranges::all_of(value->terms, is_repeated)) {
      cut.shape[d] = cut.walk[d] = 1;
    }
  }
  return cut.shape == value->shape ? value : moved(cut, value);
}

LinearExprRef on_rows(GraphBuilder& builder, const RowView& rows, const Shape& shape, ValueId node,
                      uint32_t width) {
  Shape made = shape;
  made.back() = width;
  const uint32_t to = builder.producer_of_node(node, rows.count);
  if (rows.are_all()) return whole_producer(to, std::move(made));
  std::vector<int64_t> element_ids;
  for (const uint32_t row : rows.rows) {
    for (uint32_t c = 0; c < width; ++c)
      element_ids.push_back(element_id(to, uint64_t{row} * width + c));
  }
  return plain(std::move(made), std::move(element_ids));
}

LinearExprRef on_one_producer(GraphBuilder& builder, const LinearExprRef& value) {
  if (value->terms[0].places.is_whole()) return value;
  const ScopedAxis on(builder, *value);
  const uint32_t first = producer_of(value->at(0));
  const Producer& from = builder.producer(value->at(0));
  std::vector<bool> seen(size_t{from.rows} * from.width, false);
  bool is_one = true;
  for (size_t i = 0, count = value->elements(); i < count && is_one; ++i) {
    const auto index = static_cast<size_t>(index_of(value->at(i)));
    is_one = producer_of(value->at(i)) == first && index < seen.size() &&
             (!seen[index] || builder.is_per_sequence(from));
    if (is_one) seen[index] = true;
  }
  if (is_one && std::ranges::count(seen, false) == 0) return value;
  // A slice or a concatenation gets its own node.
  const TokenRows whole = token_rows(builder, {value});
  return whole.made(builder, whole.rows[0].node);
}

namespace {

// Splits dimension 0 into [rows, parts] if its neighbours are parts of one token's row.
Shape with_parts_of_tokens(const GraphBuilder& builder, const LinearExpr& value) {
  Shape shape = value.shape;
  const int64_t rows = builder.sizes.rows();
  if (shape.size() < 2 || value.elements() == 0 || shape[0] <= rows || shape[0] % rows != 0) {
    return shape;
  }
  const int64_t parts = shape[0] / rows;
  const auto step = value.elements() / static_cast<size_t>(shape[0]);
  const int64_t first = value.at(0), same = value.at(step), next = value.at(step * size_t(parts));
  const bool are_parts = builder.is_node(first) && builder.is_node(same) && builder.is_node(next) &&
                         builder.row_of(first) == builder.row_of(same) &&
                         builder.row_of(first) != builder.row_of(next);
  if (!are_parts) return shape;
  shape[0] = parts;
  shape.insert(shape.begin(), rows);
  return shape;
}

}  // namespace

LinearExprRef product(GraphBuilder& builder, const LinearExprRef& a, const LinearExprRef& b) {
  if (const Shape split = with_parts_of_tokens(builder, *a);
      split != a->shape && b->shape.size() == a->shape.size() && b->shape[0] == a->shape[0]) {
    Shape other = b->shape;
    other[0] = split[1];
    other.insert(other.begin(), split[0]);
    const Shape shape = broadcast(a->shape, b->shape);
    return with_shape(product(builder, with_shape(a, split), with_shape(b, other)), shape);
  }
  const std::vector<LinearExprRef> values = rows_of_sequences(
      builder, {builder.materialised(a), builder.materialised(b)}, Combination::kProduct);
  LinearExprRef first = without_repeats(values[0]), second = without_repeats(values[1]);
  const Shape shape = broadcast(first->shape, second->shape);
  // The value with token rows determines the order.
  if (token_of(builder, *first) && !token_of(builder, *second)) std::swap(first, second);
  TokenRows both = token_rows(builder, {stretched(first, shape), stretched(second, shape)});
  const RowView& rows = both.rows[0];
  const RowView& other = both.rows[1];
  const bool has_sequences = other.count < rows.count;
  bool are_same = rows.rows.size() == other.rows.size();
  for (size_t i = 0; i < rows.rows.size() && are_same; ++i) {
    const uint32_t row = has_sequences ? rows.rows[i] / builder.sizes.tokens : rows.rows[i];
    are_same = row == other.rows[i];
  }
  refuse_op_if(!are_same || rows.count < other.count, kMixesTokens);
  std::vector<ValueId> nodes = {rows.node, builder.narrow_factor(other.node)};
  if (nodes[1] == other.node && rows.count == other.count) {
    nodes = {other.node, builder.narrow_factor(rows.node)};
    if (nodes[1] == rows.node) std::swap(nodes[0], nodes[1]);
  }
  const LinearExprRef made =
      both.made(builder, builder.graph.add(builder.name, MultiplyNode{}, nodes));
  return stretched(made, broadcast(a->shape, b->shape));
}

namespace {

// Returns a shape [.., columns] for an output of any shape, whose last dimension has all elements
// of one token.
Shape shape_of_rows(const GraphBuilder& builder, const LinearExpr& value) {
  const auto width = static_cast<size_t>(value.shape.back());
  const size_t rows = builder.producer(value.at(0)).rows, whole = value.elements() / rows;
  // Several rows of one token are merged into one row.
  const bool has_several = whole > width && whole % width == 0 && value.elements() % rows == 0 &&
                           producer_row(builder, value, 0, whole);
  const bool is_row = !has_several && producer_row(builder, value, 0, width);
  if (is_row || value.elements() % rows != 0) return with_whole_rows(builder, value);
  return {static_cast<int64_t>(rows), static_cast<int64_t>(whole)};
}

// Transposes [sequences, columns, tokens] to [sequences, tokens, columns].
LinearExprRef tokens_first(const GraphBuilder& builder, const LinearExprRef& value) {
  const size_t sequences = builder.sizes.sequences;
  const size_t rows = builder.producer(value->at(0)).rows / sequences;
  const size_t width = value->elements() / (rows * sequences);
  refuse_op_if<Cause::kInput>(width * rows * sequences != value->elements(),
                              "the output has elements of some tokens only; expected those of all "
                              "tokens, so output all and slice them in your program");
  return transposed(with_shape(value, {static_cast<int64_t>(sequences), static_cast<int64_t>(width),
                                       static_cast<int64_t>(rows)}));
}

// Concatenates the rows of a few tokens of each sequence to one row; nullopt if the node has no row
// for each token.
std::optional<ValueId> as_one_row(GraphBuilder& builder, const RowView& rows) {
  const TraceSizes& sizes = builder.sizes;
  if (rows.count != sizes.rows()) return std::nullopt;
  const size_t each = rows.rows.size() / sizes.sequences;
  refuse_op_if<Cause::kInput>(each > kChosenTokensMax || rows.rows.size() % sizes.sequences != 0,
                              "the output has some tokens, whose count depends on the length; "
                              "expected all tokens, so output all and slice them in your program");
  const uint32_t from = builder.producer_of_node(rows.node, rows.count);
  std::vector<Column> columns;
  for (size_t i = 0; i < rows.rows.size(); ++i) {
    const uint32_t place = rows.rows[i] % sizes.tokens;
    refuse_op_if<Cause::kInput>(
        rows.rows[i] / sizes.tokens != i / each || place != rows.rows[i % each] % sizes.tokens,
        kMixesTokens);
    if (i >= each) continue;
    const uint32_t one = builder.selected_at(from, place);
    for (uint32_t c = 0; c < rows.width; ++c) columns.emplace_back(one, c);
  }
  return builder.gather(columns);
}

}  // namespace

namespace {

// Implements shifted_rows for a single term with factor 1.
LinearExprRef shifted_term(GraphBuilder& builder, const LinearExprRef& value) {
  const TraceSizes& sizes = builder.sizes;
  const bool has_rows = value->is_plain() && !value->terms[0].places.is_whole() &&
                        value->shape.size() > 1 && value->elements() != 0;
  if (!has_rows || sizes.tokens < 2) return value;
  const auto width = static_cast<size_t>(value->shape.back());
  if (value->elements() / width != sizes.rows()) return value;
  const auto is_zero = [&](size_t i) {
    const int64_t number = value->at(i);
    if (number == kNoElement) return true;
    const Producer& from = builder.producer(number);
    return from.kind == Producer::Kind::kTable && !from.table->is_large() &&
           from.table->array().to_reals()[static_cast<size_t>(index_of(number))] == 0.0;
  };
  std::vector<bool> is_empty(sizes.rows());
  for (size_t row = 0; row < is_empty.size(); ++row) {
    bool is_all = true;
    for (size_t i = row * width; i < (row + 1) * width && is_all; ++i) is_all = is_zero(i);
    is_empty[row] = is_all;
  }
  const int64_t empty = std::ranges::count(is_empty, true);
  if (empty == 0 || empty % sizes.sequences != 0 || empty == int64_t{sizes.rows()}) return value;
  const int64_t by = is_empty[0] ? empty / sizes.sequences : -(empty / sizes.sequences);
  std::vector<Column> columns;
  for (uint32_t row = 0; row < sizes.rows(); ++row) {
    const int64_t place = int64_t{row % sizes.tokens} - by;
    if (is_empty[row] != (place < 0 || place >= sizes.tokens)) return value;
    if (is_empty[row]) continue;
    auto found = producer_row(builder, *value, row * width, width);
    if (!found || int64_t{found->row} != int64_t{row} - by) return value;
    if (columns.empty()) columns = found->columns;
    if (found->columns != columns) return value;
  }
  const ValueId node = builder.gather(columns);
  const uint32_t to = builder.shifted(builder.producer_of_node(node, sizes.rows()), by);
  return whole_producer(to, value->shape);
}

}  // namespace

LinearExprRef shifted_rows(GraphBuilder& builder, const LinearExprRef& value) {
  if (value->is_plain()) return shifted_term(builder, value);
  LinearExpr made = *value;
  for (Term& term : made.terms) {
    const LinearExprRef bare = make_sum({value->shape, {Term{term.places}}});
    const LinearExprRef moved = shifted_term(builder, bare);
    if (moved == bare) return value;
    term.places = moved->terms[0].places;
  }
  return make_sum(std::move(made));
}

ValueId output(GraphBuilder& builder, const LinearExprRef& given) {
  const ScopedAxis on(builder, *given);
  refuse_op_if(given->elements() == 0, "the output is empty; expected at least one element");
  LinearExprRef value = builder.materialised(given);
  if (value->shape.empty()) value = with_shape(value, {1});
  // The last dimension steps through the tokens.
  const bool is_column =
      value->shape.size() >= 2 && is_along_tokens(builder, *value, value->shape.size() - 1);
  builder.columns_first = is_column && value->elements() > builder.producer(value->at(0)).rows;
  if (builder.columns_first) {
    value = tokens_first(builder, value);
  } else if (is_column) {
    Shape shape = value->shape;
    shape.push_back(1);
    value = with_shape(value, shape);
  }
  // The output may spread the elements of a row over several dimensions, in any order.
  if (!is_column) value = with_shape(value, shape_of_rows(builder, *value));
  if (value->shape.size() == 1) value = with_shape(value, {1, value->shape[0]});
  if (builder.fixes_rows) {
    // If the number of tokens is fixed, a row may have all elements of a sequence.
    value = as_windows(builder, value);
    const auto layout = row_layout(builder, *value);
    const auto sequences = int64_t{builder.sizes.sequences};
    const auto count = static_cast<int64_t>(value->elements());
    const bool has_rows = layout && layout->kinds.size() == 1;
    if (!has_rows) value = with_shape(value, {sequences, count / sequences});
  }
  const RowView rows = rows_of(builder, value);
  refuse_op_if<Cause::kInput>(!std::ranges::is_sorted(rows.rows) ||
                                  std::ranges::adjacent_find(rows.rows) != rows.rows.end(),
                              "the output's rows are not in the order of the tokens; leave the "
                              "last transposition or flip to your program");
  if (rows.rows.size() == rows.count) {
    const bool is_one = builder.sizes.tokens == 1 && given->shape.size() < 3 &&
                        !builder.graph.is_on(AxisKind::kOne, rows.node);
    if (!is_one) return rows.node;
    return builder.graph.add_select(builder.name, SelectKind::kFirst, rows.node);
  }
  const auto one = as_one_row(builder, rows);
  refuse_op_if<Cause::kInput>(!one, kMixesTokens);
  return *one;
}

}  // namespace arenite::convert
