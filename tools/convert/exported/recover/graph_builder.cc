// SPDX-License-Identifier: Apache-2.0
// Values as rows of nodes: sums are added up, columns gathered, and constants folded into layers.
#include "convert/exported/recover/graph_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

namespace arenite::convert {
namespace {

// More pieces than this side by side are no model's heads, but elements in disorder.
constexpr size_t kRunsMax = 1024;
constexpr size_t kSlicesMax = 8;           // of one node, before it is read in another order
constexpr size_t kCopiesMax = 8;           // of pieces, before a matrix is quicker
constexpr uint32_t kChosenWidthMax = 256;  // of a node that pieces are chosen of

constexpr size_t kKeptSumsMax = 64;                // materialised values that are remembered
constexpr size_t kKeptElements = size_t{1} << 25;  // of all of them

// Why rows of a value are no rows of a node: they are of several tokens, or of parts of one.
std::string why_no_rows(const GraphBuilder& builder, const ElementSum& value) {
  const auto width = static_cast<size_t>(value.shape.back());
  std::map<uint32_t, size_t> rows_of_tokens;  // that begin with an element of this token
  for (size_t first = 0, count = value.elements(); first < count; first += width) {
    std::set<uint32_t> tokens, columns;
    for (size_t i = first; i < first + width; ++i) {
      const int64_t number = value.at(i);
      if (number == kNoElement) {
        return "it puts zeros beside numbers of the model, as F.pad does: not supported, tokens "
               "cannot be shifted nor rows be widened";
      }
      if (builder.source(number).kind == Source::Kind::kTable) {
        return "it puts constants between numbers of the model: rows of constants are supported "
               "before the first token alone, as in torch.cat([constants, x], 1)";
      }
      if (builder.source(number).rows != builder.source(value.at(0)).rows) return kPooledGoesBack;
      tokens.insert(builder.row_of(number));
      columns.insert(builder.column_of(number).second);
    }
    ++rows_of_tokens[builder.row_of(value.at(first))];
    if (tokens.size() < 2) continue;
    if (columns.size() == 1 && tokens.size() < builder.sizes.tokens) {
      return "its rows are pieces of one column over several tokens, as patches of a series of "
             "each variable: not supported. Export the model for an example [variables, steps], "
             "which is one series a sequence, and for patches side by side";
    }
    if (columns.size() == 1) {
      return "its rows are one column of all tokens each, as after x.transpose(1, 2): not "
             "supported, layers work on the columns of each token. Where it is the variables that "
             "attend to each other, export the model for an example [sequences, variables, steps] "
             "and without the transposition";
    }
    return fmt::format(
        "it puts {} tokens of a sequence side by side in a row: not supported, a row has the "
        "numbers of one token, or of all pooled by their mean, maximum, first or last",
        tokens.size());
  }
  const size_t parts = rows_of_tokens.begin()->second;
  if (parts < 2) return "its rows are made of other columns from token to token: not supported";
  return fmt::format(
      "it makes {} rows of each token's numbers, such as its heads, or states and actions in turn: "
      "norms, sums, factors and gates take rows of heads, but other ops take one row for each "
      "token. Rows of several kinds in turn are to be made before the model",
      parts);
}

}  // namespace

uint32_t GraphBuilder::add_source(Source source) {
  sources_.push_back(std::move(source));
  return static_cast<uint32_t>(sources_.size() - 1);
}

uint32_t GraphBuilder::source_of_node(ValueId node, uint32_t rows) {
  const auto [known, is_new] = of_nodes_.try_emplace(node, 0);
  if (is_new) known->second = add_source({Source::Kind::kNode, node, rows, graph.width(node), {}});
  return known->second;
}

const Source& GraphBuilder::source(int64_t number) const {
  refuse_op_if(number == kNoElement, "it has zeros between numbers of the model");
  const Source& known = sources_.at(source_of(number));
  const auto index = static_cast<uint64_t>(index_of(number));
  refuse_op_if(index >= uint64_t{known.rows} * known.width,
               "it reads elements that its input has not");
  return known;
}

uint32_t GraphBuilder::row_of(int64_t number) const {
  return static_cast<uint32_t>(index_of(number) / source(number).width);
}

Column GraphBuilder::column_of(int64_t number) const {
  return {source_of(number), static_cast<uint32_t>(index_of(number) % source(number).width)};
}

ElementSumRef GraphBuilder::of_constant(const ConstantRef& constant) {
  const auto [known, is_new] = of_constants_.try_emplace(constant.get(), 0);
  if (is_new) {
    const auto width = static_cast<uint32_t>(constant->elements());
    known->second = add_source({Source::Kind::kTable, 0, 1, width, constant});
  }
  return whole_source(known->second, constant->shape());
}

// Many pieces of one narrow node, as of gates that each head has one of: a matrix of ones.
std::optional<ValueId> GraphBuilder::chosen_columns(const std::vector<Column>& columns,
                                                    size_t runs) {
  const Source& from = sources_[columns[0].first];
  const bool is_one = std::ranges::all_of(
      columns, [&](const Column& column) { return column.first == columns[0].first; });
  if (!is_one || runs <= kCopiesMax || from.kind != Source::Kind::kNode ||
      from.width > kChosenWidthMax) {
    return std::nullopt;
  }
  WeightRef weight;
  weight.name = name + ".columns";
  weight.rows = static_cast<uint32_t>(columns.size());
  weight.columns = from.width;
  weight.load = [columns, width = from.width] {
    std::vector<float> values(columns.size() * width, 0.0f);
    for (size_t i = 0; i < columns.size(); ++i) values[i * width + columns[i].second] = 1.0f;
    return values;
  };
  return graph.add_linear(weight.name, {weight, {}}, from.node);
}

ValueId GraphBuilder::gather(const std::vector<Column>& columns) {
  const auto known = gathered_.find(columns);
  if (known != gathered_.end()) return known->second;
  std::vector<std::pair<Column, uint32_t>> runs;  // their first columns and widths
  for (const auto& [from, column] : columns) {
    const bool goes_on = !runs.empty() && from == runs.back().first.first &&
                         column == runs.back().first.second + runs.back().second;
    if (!goes_on) runs.push_back({{from, column}, 0});
    ++runs.back().second;
  }
  refuse_op_if(runs.size() > kRunsMax, "its columns are in an order without structure");
  if (const auto chosen = chosen_columns(columns, runs.size())) return gathered_[columns] = *chosen;
  std::vector<ValueId> parts;
  for (const auto& [first, width] : runs) {
    const Source& from = sources_[first.first];
    refuse_op_if(from.kind != Source::Kind::kNode,
                 "it puts constants or token ids between numbers of the model");
    parts.push_back(width == from.width
                        ? from.node
                        : graph.add_slice(name + ".slice", from.node, first.second, width));
  }
  const ValueId node = parts.size() == 1 ? parts[0] : graph.add_concat(name + ".concat", parts);
  return gathered_[columns] = node;
}

// The mean, the first and the last of a single row are that row, which may be put together with
// others of its token.
uint32_t GraphBuilder::selected(uint32_t from, SelectKind kind, uint32_t first_row) {
  if (sizes.tokens == 1) return from;
  const auto [known, is_new] = selected_.try_emplace({from, kind, first_row}, 0);
  if (is_new) {
    refuse_op_if(sources_[from].kind != Source::Kind::kNode,
                 "it pools token ids, pixels or constants");
    const ValueId node = graph.add(name, SelectNode{kind, first_row}, {sources_[from].node});
    known->second = source_of_node(node, sizes.sequences);
  }
  return known->second;
}

ElementSumRef GraphBuilder::materialised(const ElementSumRef& given) {
  const ElementSumRef value = as_patches(*this, given);
  if (value->is_plain()) return value;
  for (const auto& [known, made] : materialised_) {
    const bool is_same = known->terms == value->terms && known->elements() == value->elements();
    if (known == value || is_same) return with_shape(made, value->shape);
  }
  const std::string before = name;
  if (!value->name.empty()) name = value->name;
  const ElementSumRef made = add_up(*this, value);
  name = before;
  materialised_.emplace_back(value, made);
  remembered_ += value->elements();
  while (materialised_.size() > kKeptSumsMax ||
         (remembered_ > kKeptElements && !materialised_.empty())) {
    remembered_ -= materialised_.front().first->elements();
    materialised_.erase(materialised_.begin());
  }
  return made;
}

bool is_of_ids(const GraphBuilder& builder, const ElementSum& value) {
  return value.is_plain() && value.elements() != 0 &&
         builder.source(value.at(0)).kind == Source::Kind::kTokens;
}

ElementSumRef in_place(const ElementSumRef& value, uint32_t from, uint32_t to) {
  if (value->terms[0].places.is_whole()) return whole_source(to, value->shape);
  std::vector<int64_t> numbers = numbers_of(*value);
  for (int64_t& number : numbers) number += (int64_t{to} - int64_t{from}) * kSourceElements;
  return plain(value->shape, std::move(numbers));
}

bool is_along_tokens(const GraphBuilder& builder, const ElementSum& value, size_t axis) {
  if (value.shape[axis] < 2) return false;
  const auto stride = static_cast<size_t>(strides_of(value.shape)[axis]);
  const int64_t first = value.at(0), next = value.at(stride);
  return first != kNoElement && next != kNoElement && builder.row_of(first) != builder.row_of(next);
}

std::optional<SourceRow> source_row(const GraphBuilder& builder, const ElementSum& value,
                                    size_t begin, size_t width) {
  SourceRow row;
  row.columns.reserve(width);
  for (size_t i = begin; i < begin + width; ++i) {
    const int64_t number = value.at(i);
    if (number == kNoElement || builder.source(number).kind == Source::Kind::kTable) return {};
    if (i == begin) row.row = builder.row_of(number);
    if (builder.row_of(number) != row.row) return {};
    row.columns.push_back(builder.column_of(number));
  }
  return row;
}

// Rows of values as rows of nodes.

namespace {

// Whether these rows of a whole source are those of all tokens.
bool has_all_tokens(const TraceSizes& sizes, const std::vector<uint32_t>& rows) {
  if (sizes.prefix == 0) return false;
  size_t next = 0;
  for (uint32_t row = 0; row < sizes.rows(); ++row) {
    if (next < rows.size() && rows[next] == row) {
      ++next;
    } else if (!sizes.is_of_prefix(row)) {
      return false;
    }
  }
  return next == rows.size();
}

// Which of a node's columns each of these is, where they are all of one node's in disorder.
std::vector<uint32_t> order_of(const GraphBuilder& builder, const std::vector<Column>& columns) {
  const Source& from = builder.source_at(columns[0].first);
  if (from.kind != Source::Kind::kNode || columns.size() != from.width) return {};
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

// One row of each sequence, the first or the last, as all rows of a node that selects them.
void select_one(GraphBuilder& builder, NodeRows& rows, std::vector<Column>& columns) {
  const TraceSizes& sizes = builder.sizes;
  const uint32_t place = rows.rows[0];
  const bool is_last = place == sizes.tokens - 1;
  refuse_op_if<Cause::kInput>(
      place > sizes.prefix && !is_last,
      "it takes token {} of each sequence: expected the first or the last, or give out all tokens "
      "and take this one in your program",
      place - sizes.prefix);
  for (uint32_t b = 0; b < sizes.sequences; ++b) {
    refuse_op_if<Cause::kInput>(rows.rows[b] != b * sizes.tokens + place, kMixesTokens);
    rows.rows[b] = b;
  }
  for (Column& column : columns) {
    column.first = is_last ? builder.selected(column.first, SelectKind::kLast, 0)
                           : builder.selected(column.first, SelectKind::kFirst, place);
  }
  rows.count = sizes.sequences;
}

// The dimensions of values of one shape, those last that step to other columns of the same token in
// one of them, and to another token in none: as heads that stand before the tokens.
std::vector<size_t> columns_last(const GraphBuilder& builder,
                                 const std::vector<ElementSumRef>& values) {
  const Shape& shape = values[0]->shape;
  std::vector<size_t> order(shape.size());
  std::iota(order.begin(), order.end(), size_t{0});
  if (elements_of(shape) == 0) return order;
  const Shape strides = strides_of(shape);
  std::stable_partition(order.begin(), order.end(), [&](size_t d) {
    if (shape[d] < 2) return true;
    bool has_columns = false;
    for (const ElementSumRef& value : values) {
      const int64_t from = value->at(0), to = value->at(static_cast<size_t>(strides[d]));
      if (from == kNoElement || to == kNoElement) return true;
      if (builder.row_of(from) != builder.row_of(to)) return true;
      has_columns = has_columns || from != to;
    }
    return !has_columns;
  });
  return order;
}

// The shape whose last dimension joins as many as have elements of one token.
Shape with_whole_rows(const GraphBuilder& builder, const ElementSum& value) {
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

// Values of one shape with one row for each token, which may be several rows of the value.
struct TokenRows {
  std::vector<size_t> order;
  Shape shape, flat;
  std::vector<NodeRows> rows;  // of each value

  ElementSumRef made(GraphBuilder& builder, ValueId node) const {
    const ElementSumRef whole = on_rows(builder, rows[0], flat, node, rows[0].width);
    return permuted(with_shape(whole, shape), inverse_order(order));
  }
};

TokenRows token_rows(GraphBuilder& builder, const std::vector<ElementSumRef>& values) {
  TokenRows result;
  result.order = columns_last(builder, values);
  for (const ElementSumRef& value : values) {
    const ElementSumRef ordered = permuted(value, result.order);
    if (result.rows.empty()) {
      result.shape = ordered->shape;
      result.flat = with_whole_rows(builder, *ordered);
    }
    result.rows.push_back(rows_of(builder, with_shape(ordered, result.flat)));
  }
  return result;
}

}  // namespace

NodeRows rows_of(GraphBuilder& builder, const ElementSumRef& given, std::vector<uint32_t>* order) {
  const TraceSizes& sizes = builder.sizes;
  const ElementSumRef value = builder.materialised(as_patches(builder, given));
  refuse_op_if(value->shape.empty(), "it is a single number");
  const auto width = static_cast<uint32_t>(value->shape.back());
  const size_t count = value->elements();
  refuse_op_if(count == 0, "it is empty");
  NodeRows result{0, width, {}, 0};
  if (value->terms[0].places.is_whole()) {
    const Source& whole = builder.source_at(value->terms[0].places.source);
    if (whole.width == width && whole.kind == Source::Kind::kNode) {
      result.node = whole.node;
      result.count = whole.rows;
      result.rows.resize(count / width);
      std::iota(result.rows.begin(), result.rows.end(), 0u);
      return result;
    }
  }
  std::vector<Column> columns;
  for (size_t i = 0; i < count; i += width) {
    auto row = source_row(builder, *value, i, width);
    if (i == 0 && row) columns = row->columns;
    if (!row || row->columns != columns) {
      throw NotRecognised(why_no_rows(builder, *value), Cause::kInput);
    }
    result.rows.push_back(row->row);
  }
  result.count = builder.source(value->at(0)).rows;
  for (const Column& column : columns) {
    refuse_op_if<Cause::kInput>(builder.source_at(column.first).rows != result.count,
                                kPooledGoesBack);
  }
  const bool selects =
      result.count == sizes.rows() && sizes.tokens > 1 && result.rows.size() == sizes.sequences;
  if (selects) select_one(builder, result, columns);
  refuse_op_if<Cause::kInput>(
      result.rows.size() < result.count && !has_all_tokens(sizes, result.rows),
      "it leaves tokens out, which depends on how many there are: give out all tokens, and take "
      "these in your program");
  if (order != nullptr) *order = order_of(builder, columns);
  const bool keeps_order = order != nullptr && !order->empty();
  result.node = keeps_order ? builder.source_at(columns[0].first).node : builder.gather(columns);
  return result;
}

ElementSumRef on_rows(GraphBuilder& builder, const NodeRows& rows, const Shape& shape, ValueId node,
                      uint32_t width) {
  Shape made = shape;
  made.back() = width;
  const uint32_t to = builder.source_of_node(node, rows.count);
  bool in_order = rows.rows.size() == rows.count;
  for (size_t i = 0; i < rows.rows.size() && in_order; ++i) in_order = rows.rows[i] == i;
  if (in_order) return whole_source(to, std::move(made));
  std::vector<int64_t> numbers;
  for (const uint32_t row : rows.rows) {
    for (uint32_t c = 0; c < width; ++c)
      numbers.push_back(number_of(to, uint64_t{row} * width + c));
  }
  return plain(std::move(made), std::move(numbers));
}

ElementSumRef on_one_source(GraphBuilder& builder, const ElementSumRef& value) {
  if (value->terms[0].places.is_whole()) return value;
  const TraceSizes& sizes = builder.sizes;
  const uint32_t first = source_of(value->at(0));
  const Source& from = builder.source(value->at(0));
  std::vector<bool> seen(size_t{from.rows} * from.width, false);
  bool is_one = true;
  for (size_t i = 0, count = value->elements(); i < count && is_one; ++i) {
    const auto index = static_cast<size_t>(index_of(value->at(i)));
    is_one = source_of(value->at(i)) == first && index < seen.size() && !seen[index];
    if (is_one) seen[index] = true;
  }
  // Before rows of constants are put before those of tokens, none are read there.
  for (size_t i = 0; i < seen.size() && is_one && from.rows == sizes.rows(); ++i) {
    if (sizes.is_of_prefix(static_cast<uint32_t>(i / from.width))) seen[i] = true;
  }
  if (is_one && std::ranges::count(seen, false) == 0) return value;
  // The rows of a slice or of a concatenation.
  const TokenRows whole = token_rows(builder, {value});
  return whole.made(builder, whole.rows[0].node);
}

ElementSumRef product(GraphBuilder& builder, const ElementSumRef& a, const ElementSumRef& b) {
  const Shape shape = broadcast(a->shape, b->shape);
  const ElementSumRef first = stretched(builder.materialised(a), shape);
  const ElementSumRef second = stretched(builder.materialised(b), shape);
  const TokenRows both = token_rows(builder, {first, second});
  refuse_op_if(both.rows[0].count != both.rows[1].count, kPooledGoesBack);
  refuse_op_if(both.rows[0].rows != both.rows[1].rows, kMixesTokens);
  return both.made(builder, builder.graph.add(builder.name, MultiplyNode{},
                                              {both.rows[0].node, both.rows[1].node}));
}

ValueId output(GraphBuilder& builder, const ElementSumRef& given) {
  refuse_op_if(given->elements() == 0, "it has no elements");
  ElementSumRef value = builder.materialised(given);
  // One number for each token.
  const bool is_column =
      value->shape.size() >= 2 && is_along_tokens(builder, *value, value->shape.size() - 1);
  if (is_column) {
    Shape shape = value->shape;
    shape.push_back(1);
    value = with_shape(value, shape);
  }
  if (value->shape.size() == 1) value = with_shape(value, {1, value->shape[0]});
  refuse_op_if<Cause::kInput>(
      is_column && value->elements() > builder.source(value->at(0)).rows,
      "it gives out its columns before the tokens: give out [sequences, tokens, columns], and "
      "leave the last transposition to your program");
  refuse_op_if<Cause::kInput>(
      with_whole_rows(builder, *value).back() != value->shape.back(),
      "it gives out the numbers of each row as {}: give them out side by side, and leave this last "
      "view or unflatten to your program",
      shape_text(value->shape));
  const NodeRows rows = rows_of(builder, value);
  for (size_t i = 0; i < rows.rows.size(); ++i) {
    if (rows.rows[i] == i && rows.rows.size() == rows.count) continue;
    refuse_op_if<Cause::kInput>(
        rows.rows.size() < rows.count && has_all_tokens(builder.sizes, rows.rows),
        "it leaves out rows of constants that were put before the tokens: give out all rows, or "
        "one for each sequence");
    throw NotRecognised(
        "it gives out rows in another order than that of the tokens: leave the last transposition "
        "to your program",
        Cause::kInput);
  }
  return rows.node;
}

// ---- values that are another one times constants: functions are of that one, and linear layers
// take the constants into their weights ----

namespace {

// What each element of `value` is times that of `base`; empty where it is no multiple.
std::vector<double> ratios_of(const ElementSum& value, const ElementSum& base) {
  if (value.shape != base.shape || value.terms.size() != base.terms.size()) return {};
  std::vector<double> ratios;
  for (size_t t = 0; t < value.terms.size(); ++t) {
    const Term& term = value.terms[t];
    const Term& other = base.terms[t];
    if (term.places != other.places) return {};
    const bool is_even = !term.factors.each && !other.factors.each;
    for (size_t i = 0, count = is_even ? 1 : value.elements(); i < count; ++i) {
      if (other.factors.at(i) == 0.0) return {};
      const double ratio = term.factors.at(i) / other.factors.at(i);
      if (t == 0) ratios.push_back(ratio);
      if (ratios[ratios.size() == 1 ? 0 : i] != ratio) return {};
    }
    if (is_even && ratios.size() > 1) return {};
  }
  return ratios;
}

}  // namespace

std::optional<Multiple> multiple_of_node(const GraphBuilder& builder, const ElementSumRef& value) {
  if (value->is_plain() || value->elements() == 0) return std::nullopt;
  const auto factor = [&](std::vector<double> ratios) {
    Shape shape = ratios.size() == 1 ? Shape() : value->shape;
    return Array::real(std::move(shape), std::move(ratios));
  };
  for (const auto& [known, made] : builder.all_materialised()) {
    std::vector<double> ratios = ratios_of(*value, *known);
    if (ratios.size() == 1 && ratios[0] == 1.0) return std::nullopt;
    if (!ratios.empty()) return Multiple{made, factor(std::move(ratios))};
  }
  if (value->terms.size() != 1) return std::nullopt;
  const ElementSumRef bare = make_sum({value->shape, {Term{value->terms[0].places}}});
  return Multiple{bare, factor(ratios_of(*value, *bare))};
}

std::optional<FoldedInput> columns_of_node(const GraphBuilder& builder,
                                           const ElementSumRef& value) {
  if (value->is_plain() || value->shape.empty() || value->elements() == 0) return std::nullopt;
  const auto width = static_cast<size_t>(value->shape.back());
  const size_t count = value->elements();
  FoldedInput folded;
  const Term* of_model = nullptr;
  folded.offsets.assign(width, 0.0);
  for (const Term& term : value->terms) {
    const int64_t number = term.places.at(0);
    if (of_model == nullptr && builder.is_node(number)) {
      of_model = &term;
      continue;
    }
    if (number == kNoElement || builder.source(number).kind != Source::Kind::kTable)
      return std::nullopt;
    // A row of constants, the same for all tokens.
    const Array::Reals constants = builder.source(number).table->array().to_reals();
    const auto offset = [&](size_t i) {
      return term.factors.at(i) * constants[static_cast<size_t>(index_of(term.places.at(i)))];
    };
    for (size_t i = 0; i < count; ++i) {
      if (source_of(term.places.at(i)) != source_of(number)) return std::nullopt;
      if (offset(i) != offset(i % width)) return std::nullopt;
    }
    for (size_t c = 0; c < width; ++c) folded.offsets[c] += offset(c);
  }
  if (of_model == nullptr) return std::nullopt;
  for (size_t c = 0; c < width; ++c) folded.factors.push_back(of_model->factors.at(c));
  for (size_t i = 0; i < count; ++i) {
    if (!builder.is_node(of_model->places.at(i))) return std::nullopt;
    if (of_model->factors.at(i) != folded.factors[i % width]) return std::nullopt;
  }
  folded.value = make_sum({value->shape, {Term{of_model->places}}});
  return folded;
}

bool has_factors_of_heads(const GraphBuilder& builder, const ElementSumRef& value) {
  if (value->terms.size() != 1 || !value->has_own_factors()) return false;
  if (value->elements() == 0 || columns_of_node(builder, value)) return false;
  std::map<Column, double> factors;
  for (size_t i = 0, count = value->elements(); i < count; ++i) {
    if (!builder.is_node(value->at(i))) return false;
    const double factor = value->terms[0].factors.at(i);
    if (factors.emplace(builder.column_of(value->at(i)), factor).first->second != factor)
      return false;
  }
  return true;
}

// W (factors x + offsets) + b
ElementSumRef linear(GraphBuilder& builder, const ElementSumRef& given,
                     const WeightRef& given_weight, std::vector<double> bias) {
  auto folded = columns_of_node(builder, given);
  if (folded) {
    // One factor goes with the node, and a layer that was made before takes in what follows it.
    const ValueId node = builder.source(folded->value->at(0)).node;
    const bool is_one_factor = given->terms.size() == 1 && !given->has_own_factors();
    if (is_one_factor || builder.graph.as<LinearNode>(node) ||
        builder.graph.as<EmbeddingNode>(node)) {
      folded.reset();
    }
  }
  std::vector<uint32_t> order;
  const NodeRows rows = folded ? rows_of(builder, folded->value) : rows_of(builder, given, &order);
  refuse_op_if(rows.width != given_weight.columns, "its weight has another width");
  WeightRef weight = order.empty() ? given_weight : with_columns(given_weight, order);
  if (folded) {
    const std::vector<double> values = given_weight.exact();
    bias.resize(weight.rows, 0.0);
    for (size_t i = 0; i < values.size(); ++i) {
      bias[i / weight.columns] += values[i] * folded->offsets[i % weight.columns];
    }
    set_exact(weight, [given_weight, factors = folded->factors] {
      std::vector<double> scaled = given_weight.exact();
      for (size_t i = 0; i < scaled.size(); ++i) scaled[i] *= factors[i % factors.size()];
      return scaled;
    });
    weight.name = builder.name;
  }
  const ValueId node = builder.graph.add_linear(builder.name, {weight, std::move(bias)}, rows.node);
  return on_rows(builder, rows, given->shape, node, weight.rows);
}

}  // namespace arenite::convert
