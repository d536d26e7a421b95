// SPDX-License-Identifier: Apache-2.0
// Concatenates rows of several row axes and of constants, and interleaves rows of several kinds.
//
//   torch.cat([x, memory], 1)             ->  join(x, memory) on a row axis of its own
//   torch.stack([s, a], 2).flatten(1, 2)  ->  interleaved rows s0 a0 s1 a1 .. of concat(s, a)
//   joined[:, :x.shape[1]]                ->  first part of the join

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "convert/exported/recover/concat_rows.h"
#include "convert/exported/recover/graph_builder.h"
#include "convert/exported/recover/images.h"
#include "convert/exported/recover/row_layout.h"
#include "convert/exported/recover/row_view.h"

namespace arenite::convert {
namespace {

// A value [.., rows, columns] whose rows are all rows of a node.
struct RowsOfNode {
  ValueId node = 0;
  uint32_t row_axis = 0;
  uint32_t rows = 0;  // per sequence
};

// Returns all rows of a node as a value of `shape`, [.., rows, columns].
LinearExprRef rows_as_elements(GraphBuilder& builder, const RowsOfNode& rows,
                               const HeadOrder& heads, const Shape& shape) {
  const ScopedAxis on(builder, rows.row_axis);
  const auto width = static_cast<uint64_t>(shape.back());
  const uint32_t sequences = builder.sizes.sequences;
  const uint32_t producer = builder.producer_of_node(rows.node, sequences * rows.rows);
  if (heads.count == 1 && std::ranges::is_sorted(heads.order))
    return whole_producer(producer, shape);
  std::vector<int64_t> element_ids;
  for (const auto& [sequence, head] : heads.order) {
    for (uint64_t row = uint64_t{sequence} * rows.rows, end = row + rows.rows; row < end; ++row) {
      for (uint64_t c = 0; c < width; ++c) {
        element_ids.push_back(element_id(producer, (row * heads.count + head) * width + c));
      }
    }
  }
  return plain(shape, std::move(element_ids));
}

// Adds a node of constants [.., rows, columns], which concatenates the heads along its columns.
// Returns nullopt if sequences have different constants.
std::optional<RowsOfNode> constant_rows(GraphBuilder& builder, const Array::Reals& values,
                                        const Shape& shape, const HeadOrder& heads,
                                        const std::string& name) {
  const auto width = static_cast<size_t>(shape.back());
  const auto rows = static_cast<size_t>(shape[shape.size() - 2]);
  std::vector<double> table(rows * heads.count * width);
  for (size_t i = 0; i < values.size(); ++i) {
    const auto& [sequence, head] = heads.order.at(i / width / rows);
    double& own = table[(i / width % rows * heads.count + head) * width + i % width];
    if (sequence == heads.order[0].first) own = values[i];
    if (own != values[i]) return std::nullopt;
  }
  WeightRef weight;
  weight.name = name.empty() ? builder.name : name;
  weight.rows = static_cast<uint32_t>(rows);
  weight.columns = static_cast<uint32_t>(heads.count * width);
  set_exact(weight, [table] { return table; });
  const ValueId node = builder.graph.add_constants(builder.name + ".rows", weight);
  return RowsOfNode{node, builder.row_axis_on(builder.graph.axis(node), weight.rows), weight.rows};
}

// Returns the elements of a value that has only constants and zeros, and the name of one of the
// constants; nullopt for any other value.
std::optional<Array::Reals> constant_elements(const GraphBuilder& builder, const LinearExpr& value,
                                              std::string& name) {
  const ConstantRef made = constant_of_sum(builder, value, ElementType::kF64, kNoValue);
  if (!made || !value.is_plain()) return std::nullopt;
  for (size_t i = 0; i < value.elements() && name.empty(); ++i) {
    if (value.at(i) == kNoElement) continue;
    const Constant& table = *builder.producer(value.at(i)).table;
    if (table.value() != kNoValue) name = name_of(*builder.program, table);
  }
  return made->array().to_reals();
}

// Reads a value [.., rows, columns] as all rows of a row axis, or as one row per sequence, and sets
// `heads`. Returns nullopt for any other value.
std::optional<RowsOfNode> rows_on_axis(GraphBuilder& builder, const LinearExpr& value,
                                       HeadOrder& heads) {
  const HeadRows found = head_rows(builder, value);
  if (!found.why.empty() || !found.heads.are_complete(builder.sizes.sequences)) {
    return std::nullopt;
  }
  heads = found.heads;
  std::vector<Column> all;
  for (const auto& own : found.columns) all.insert(all.end(), own.begin(), own.end());
  const ValueId node = builder.gather(all);
  const uint32_t row_axis =
      found.are_pooled ? builder.row_axis_on(builder.graph.axis(node), 1) : builder.row_axis();
  return RowsOfNode{node, row_axis, static_cast<uint32_t>(value.shape[value.shape.size() - 2])};
}

// Maps each leading index to (sequence, head).
std::optional<HeadOrder> heads_of_rows(const GraphBuilder& builder, const LinearExpr& value) {
  const auto block = static_cast<size_t>(value.shape.back() * value.shape[value.shape.size() - 2]);
  HeadOrder heads;
  for (size_t start = 0; start < value.elements(); start += block) {
    for (const Term& term : value.terms) {
      const int64_t number = term.places.at(start);
      if (!builder.is_node(number) || builder.is_per_sequence(number)) continue;
      heads.add(builder.row_of(number) / builder.sizes.tokens);
      break;
    }
  }
  const bool fits =
      heads.are_complete(builder.sizes.sequences) && heads.order.size() * block == value.elements();
  return fits ? std::optional(heads) : std::nullopt;
}

// Returns the constant rows of a node as a weight; null for any other node.
const WeightRef* constants_of(const GraphBuilder& builder, const RowsOfNode& rows) {
  const auto* node = builder.graph.as<EmbeddingNode>(rows.node);
  const bool are_constants = node != nullptr && builder.is_of_constants(rows.row_axis) &&
                             !node->tokens && !node->types && node->positions &&
                             node->positions->rows == rows.rows;
  return are_constants ? &*node->positions : nullptr;
}

RowsOfNode joined_with(GraphBuilder& builder, const RowsOfNode& first, const RowsOfNode& second) {
  const WeightRef* const a = constants_of(builder, first);
  const WeightRef* const b = constants_of(builder, second);
  if (a != nullptr && b != nullptr) {
    WeightRef both = *a;
    both.rows += b->rows;
    set_exact(both, [one = *a, other = *b] {
      std::vector<double> values = one.exact();
      const std::vector<double> more = other.exact();
      values.insert(values.end(), more.begin(), more.end());
      return values;
    });
    const ValueId node = builder.graph.add_constants(builder.name + ".rows", both);
    return {node, builder.row_axis_on(builder.graph.axis(node), both.rows), both.rows};
  }
  const ValueId node = builder.graph.add_join(builder.name, first.node, second.node);
  return {node, builder.joined_row_axis(first.row_axis, second.row_axis, node),
          first.rows + second.rows};
}

class JoinedRows {
 public:
  JoinedRows(GraphBuilder& builder, const std::vector<LinearExprRef>& values, size_t dim)
      : builder_(builder), order_(values[0]->shape.size()) {
    std::iota(order_.begin(), order_.end(), size_t{0});
    const auto place = order_.begin() + static_cast<ptrdiff_t>(dim);
    std::rotate(place, place + 1, order_.end() - 1);
    for (const LinearExprRef& value : values) values_.push_back(permuted(value, order_));
  }

  std::optional<LinearExprRef> join() {
    std::vector<std::optional<RowsOfNode>> parts(values_.size());
    std::optional<HeadOrder> heads;
    for (size_t i = 0; i < values_.size(); ++i) {
      if (!is_of_model(values_[i])) continue;
      HeadOrder own;
      parts[i] = read(values_[i], own);
      if (!parts[i] || heads.value_or(own) != own) return std::nullopt;
      heads = own;
    }
    if (!heads) return std::nullopt;
    std::vector<RowsOfNode> all;
    for (size_t i = 0; i < values_.size(); ++i) {
      std::string name;
      if (!parts[i]) {
        const auto numbers = constant_elements(builder_, *values_[i], name);
        if (!numbers) return std::nullopt;
        // A zero row for several heads is a key that attention reads as a sink.
        const bool are_zeros =
            std::ranges::all_of(*numbers, [](double number) { return number == 0.0; });
        const Shape& own = values_[i]->shape;
        if (are_zeros && heads->count > 1 && own[own.size() - 2] == 1) return std::nullopt;
        parts[i] = constant_rows(builder_, *numbers, values_[i]->shape, *heads, name);
      }
      if (!parts[i]) return std::nullopt;
      all.push_back(*parts[i]);
    }
    // A binary tree of concatenations adds few different row axes.
    for (size_t count = all.size(); count > 1; count = (count + 1) / 2) {
      for (size_t i = 0; i < count; i += 2) {
        all[i / 2] = i + 1 < count ? joined_with(builder_, all[i], all[i + 1]) : all[i];
      }
    }
    Shape shape = values_[0]->shape;
    shape[shape.size() - 2] = all[0].rows;
    return permuted(rows_as_elements(builder_, all[0], *heads, shape), inverse_order(order_));
  }

 private:
  bool is_of_model(const LinearExprRef& value) const {
    return std::ranges::any_of(value->terms, [&](const Term& term) {
      return builder_.is_node(term.places.at(0)) ||
             (value->elements() > 1 && builder_.is_node(term.places.at(value->elements() - 1)));
    });
  }

  std::optional<RowsOfNode> read(const LinearExprRef& given, HeadOrder& heads) {
    const ScopedAxis on_given(builder_, *given);
    const LinearExprRef value = as_windows(builder_, builder_.materialised(given));
    const ScopedAxis on(builder_, *value);
    return rows_on_axis(builder_, *value, heads);
  }

  GraphBuilder& builder_;
  std::vector<size_t> order_;  // permutation of dimensions to [.., rows, columns]
  std::vector<LinearExprRef> values_;
};

}  // namespace

std::optional<LinearExprRef> concat_rows(GraphBuilder& builder,
                                         const std::vector<LinearExprRef>& values, size_t dim) {
  if (values[0]->shape.size() < 2 || values.size() < 2) return std::nullopt;
  std::vector<uint32_t> row_axes;
  for (const LinearExprRef& value : values) {
    if (value->elements() == 0 || value->shape.size() != values[0]->shape.size()) return {};
    if (const auto row_axis = builder.row_axis_of(*value)) row_axes.push_back(*row_axis);
  }
  const bool are_one =
      !row_axes.empty() && std::ranges::count(row_axes, row_axes[0]) == std::ssize(values);
  // Other code concatenates the columns of values on one row axis.
  const bool are_columns =
      are_one && (dim + 1 == values[0]->shape.size() || !builder.reads_images());
  if (are_columns) return std::nullopt;
  // If the tokens are the last dimension, all values are transposed first.
  if (dim + 1 < values[0]->shape.size()) return JoinedRows(builder, values, dim).join();
  std::vector<LinearExprRef> as_rows;
  for (const LinearExprRef& value : values) as_rows.push_back(transposed(value));
  const auto made = JoinedRows(builder, as_rows, dim - 1).join();
  return made ? std::optional(transposed(*made)) : std::nullopt;
}

LinearExprRef rows_beside_tokens(GraphBuilder& builder, const LinearExprRef& value) {
  const size_t rank = value->shape.size();
  if (!value->is_plain() || value->terms[0].places.is_whole() || rank < 2) return value;
  const ScopedAxis on(builder, *value);
  const int64_t rows = value->shape[rank - 2], width = value->shape[rank - 1];
  if (value->elements() == 0 || rows <= int64_t{builder.sizes.tokens}) return value;
  enum class Kind { kConstant, kOfSequence, kToken };
  std::vector<Kind> kinds;  // of the rows of the first matrix
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t number = value->at(static_cast<size_t>(row * width));
    kinds.push_back(!builder.is_node(number)          ? Kind::kConstant
                    : builder.is_per_sequence(number) ? Kind::kOfSequence
                                                      : Kind::kToken);
  }
  if (std::ranges::count(kinds, Kind::kToken) != int64_t{builder.sizes.tokens}) return value;
  std::vector<LinearExprRef> parts;
  bool has_values = false;
  for (size_t begin = 0, end = 0; begin < kinds.size(); begin = end) {
    while (end < kinds.size() && kinds[end] == kinds[begin]) {
      ++end;
      if (kinds[begin] == Kind::kOfSequence) break;
    }
    Movement cut{.shape = value->shape, .walk = value->shape, .strides = strides_of(value->shape)};
    cut.shape[rank - 2] = cut.walk[rank - 2] = static_cast<int64_t>(end - begin);
    cut.offset = static_cast<int64_t>(begin) * width;
    parts.push_back(moved(cut, value));
    has_values = has_values || kinds[begin] == Kind::kOfSequence;
    if (kinds[begin] != Kind::kConstant) continue;
    std::string name;
    const auto numbers = constant_elements(builder, *parts.back(), name);
    if (!numbers) return value;
    has_values =
        has_values || std::ranges::any_of(*numbers, [](double number) { return number != 0.0; });
  }
  // Zeros alone may be cut off again, as in a shift by one token.
  if (!has_values) return value;
  return concat_rows(builder, parts, rank - 2).value_or(value);
}

std::optional<LinearExprRef> rows_of_constants(GraphBuilder& builder, const ConstantRef& constant,
                                               const LinearExprRef& like) {
  const ScopedAxis on(builder, *like);
  const auto heads = heads_of_rows(builder, *like);
  if (!heads || constant->shape().size() < 2) return std::nullopt;
  Shape shape = like->shape;
  shape[shape.size() - 2] = constant->shape()[constant->shape().size() - 2];
  shape.back() = constant->shape().back();
  if (broadcast(shape, constant->shape()) != shape) return std::nullopt;
  const std::string name =
      constant->value() == kNoValue ? "" : name_of(*builder.program, *constant);
  const auto rows =
      constant_rows(builder, stretched_reals(constant->array(), shape), shape, *heads, name);
  if (!rows) return std::nullopt;
  return rows_as_elements(builder, *rows, *heads, shape);
}

namespace {

// Rows begin .. begin + count - 1 of each sequence, with these columns.
struct Run {
  std::vector<Column> columns;
  uint32_t begin = 0, count = 0;
};

std::optional<Run> run_of_rows(const GraphBuilder& builder, const LinearExpr& value) {
  const auto layout = row_layout(builder, value);
  const uint32_t sequences = builder.sizes.sequences;
  if (!layout || layout->kinds.size() != 1 || layout->rows() % sequences != 0) return {};
  const size_t each = layout->rows() / sequences;
  for (size_t row = 0; row < layout->rows(); ++row) {
    if (layout->row[row] != row / each * builder.sizes.tokens + layout->row[0] + row % each) {
      return std::nullopt;
    }
  }
  return Run{layout->kinds[0], layout->row[0], static_cast<uint32_t>(each)};
}

}  // namespace

LinearExprRef slice_of_concat(GraphBuilder& builder, const LinearExprRef& value) {
  const auto found = builder.row_axes() > 1 ? builder.row_axis_of(*value) : std::nullopt;
  if (!found || !builder.parts_of(*found) || !value->is_plain() || value->shape.empty()) {
    return value;
  }
  auto run = run_of_rows(builder, *value);
  // A single selected row is per sequence, and needs no slice.
  if (!run || (run->count == 1 && value->shape.size() < 3)) return value;
  std::vector<bool> are_first;  // the part taken at each level of the tree
  uint32_t row_axis = *found;
  while (run->count != builder.sizes_of(row_axis).tokens) {
    if (!builder.parts_of(row_axis) && run->count == 1) break;
    if (!builder.parts_of(row_axis)) return value;
    const auto [first, second] = *builder.parts_of(row_axis);
    const uint32_t before = builder.sizes_of(first).tokens;
    are_first.push_back(run->begin + run->count <= before);
    if (!are_first.back() && run->begin < before) return value;
    run->begin -= are_first.back() ? 0 : before;
    row_axis = are_first.back() ? first : second;
  }
  if (are_first.empty()) return value;
  // A single row is selected, and becomes a per-sequence row.
  const uint32_t last = builder.sizes_of(row_axis).tokens - 1;
  const bool is_at_end = run->count == 1 && (run->begin == 0 || run->begin == last);
  const bool is_first = last == 0 ? are_first.back() : run->begin == 0;
  while (is_at_end && !are_first.empty() && are_first.back() == is_first) are_first.pop_back();
  ValueId node = builder.gather(run->columns);
  for (const bool part : are_first) node = builder.graph.add_part(builder.name, part, node);
  const ScopedAxis on(builder, row_axis);
  if (is_at_end) {
    const SelectKind kind = is_first ? SelectKind::kFirst : SelectKind::kLast;
    node = builder.graph.add_select(builder.name, kind, node);
    return whole_producer(builder.producer_of_node(node, builder.sizes.sequences), value->shape);
  }
  const uint32_t rows = builder.producer_of_node(node, builder.sizes.rows());
  return whole_producer(run->count == 1 ? builder.selected_at(rows, run->begin) : rows,
                        value->shape);
}

namespace {

constexpr size_t kKindsMax = 8;  // of interleaved rows

// Returns the columns of each kind of interleaved rows in a value [.., columns]. Kinds have
// different producers, or different columns. Empty for any other value.
std::vector<std::vector<Column>> interleaved_kinds(const GraphBuilder& builder,
                                                   const LinearExpr& value) {
  const auto width = static_cast<size_t>(value.shape.back());
  const size_t all = builder.sizes.rows(), rows = value.elements() / width;
  if (rows % all != 0 || rows / all < 2 || rows / all > kKindsMax) return {};
  const size_t count = rows / all;
  // Interleaved rows share a dimension with the tokens. Heads have a dimension of their own, or
  // share the dimension of sequences.
  const auto in_turn = static_cast<int64_t>(count * builder.sizes.tokens);
  const ptrdiff_t sequences = value.shape.size() < 3 ? 0 : 1;  // dimensions of sequences
  if (std::count(value.shape.begin() + sequences, value.shape.end() - 1, in_turn) == 0) return {};
  const auto layout = row_layout(builder, value);
  if (!layout) return {};
  std::vector<std::vector<Column>> kinds;
  std::set<uint32_t> sources;
  for (size_t row = 0; row < rows; ++row) {
    const uint32_t kind = layout->kind[row];
    if (layout->row[row] != row / count || kind != layout->kind[row % count]) return {};
    if (row >= count) continue;
    kinds.push_back(layout->kinds[kind]);
    sources.insert(kinds.back()[0].first);
  }
  // If kinds share a producer, the shape must rule out heads.
  const bool are_rows = value.shape.size() == 3 && value.shape[1] == in_turn &&
                        value.shape[0] == builder.sizes.sequences && builder.sizes.tokens > 1;
  return sources.size() == count || are_rows ? kinds : std::vector<std::vector<Column>>{};
}

}  // namespace

LinearExprRef interleaved_rows(GraphBuilder& builder, const LinearExprRef& value) {
  if (!value->is_plain() || value->shape.size() < 2 || value->elements() == 0 ||
      !builder.is_node(value->at(0)) ||
      (value->terms[0].places.is_whole() && value->shape.size() != 3)) {
    return value;
  }
  const ScopedAxis on(builder, *value);
  const std::vector<std::vector<Column>> kinds = interleaved_kinds(builder, *value);
  std::vector<Column> columns;  // of all kinds
  for (const std::vector<Column>& kind : kinds) {
    for (const Column& column : kind) {
      if (builder.row_axis_of_column(column) != builder.row_axis()) return value;
      columns.push_back(column);
    }
  }
  if (kinds.empty() || builder.parts_of(builder.row_axis())) return value;
  const ValueId node = builder.graph.add_in_turn(builder.name + ".turns", builder.gather(columns),
                                                 static_cast<uint32_t>(kinds.size()));
  const ScopedAxis in_turn(builder, builder.interleaved_row_axis(node));
  return whole_producer(builder.producer_of_node(node, builder.sizes.rows()), value->shape);
}

LinearExprRef deinterleaved_rows(GraphBuilder& builder, const LinearExprRef& value) {
  const auto found = builder.row_axis_of(*value);
  const bool is_plain = value->is_plain() && !value->shape.empty() && value->elements() != 0;
  if (!found || !is_plain || builder.graph_axis_of(*found).kind != AxisKind::kTurns) return value;
  const ScopedAxis on(builder, *found);
  const Axis axis = builder.graph_axis_of(*found);
  const uint32_t rows = builder.sizes.rows();
  std::vector<bool> is_there(rows, false);
  for (size_t i = 0, count = value->elements(); i < count; ++i) {
    if (!builder.is_node(value->at(i)) || builder.producer(value->at(i)).rows != rows) return value;
    is_there[builder.row_of(value->at(i))] = true;
  }
  const uint32_t first = builder.row_of(value->at(0));
  const uint32_t last = builder.row_of(value->at(static_cast<size_t>(value->shape.back()) - 1));
  const bool are_all = std::ranges::count(is_there, false) == 0;
  if (first == last ? are_all : first / axis.rows != last / axis.rows) return value;
  for (uint32_t row = 0; row < rows; ++row) {
    if (is_there[row] != is_there[row % axis.rows]) return value;
  }
  // Elements keep their index: [rows, columns] is only reshaped.
  std::map<uint32_t, uint32_t> to;  // by producer
  std::vector<int64_t> element_ids;
  const uint32_t row_axis = builder.row_axis_on(axis.source, builder.sizes.tokens / axis.rows);
  for (size_t i = 0, count = value->elements(); i < count; ++i) {
    const auto [known, is_new] = to.try_emplace(producer_of(value->at(i)));
    if (is_new) {
      const ValueId node = builder.side_by_side(builder.producer(value->at(i)).node);
      const ScopedAxis back(builder, row_axis);
      known->second = builder.producer_of_node(node, builder.sizes.rows());
    }
    element_ids.push_back(element_id(known->second, static_cast<uint64_t>(index_of(value->at(i)))));
  }
  return plain(value->shape, std::move(element_ids));
}

ConstantRef constant_of_sum(const GraphBuilder& builder, const LinearExpr& value, ElementType type,
                            uint32_t number) {
  if (value.elements() == 0) return nullptr;
  Array::Reals numbers(value.elements(), 0.0);
  int64_t positions_max = 0;
  for (const Term& term : value.terms) {
    std::map<uint32_t, Array::Reals> tables;
    for (size_t i = 0; i < numbers.size(); ++i) {
      const int64_t place = term.places.at(i);
      if (place == kNoElement) continue;
      const Producer& from = builder.producer(place);
      if (from.kind != Producer::Kind::kTable) return nullptr;
      const auto [table, is_new] = tables.try_emplace(producer_of(place));
      if (is_new) table->second = from.table->array().to_reals();
      positions_max = tighter(positions_max, from.table->positions_max);
      numbers[i] += term.factors.at(i) * table->second[static_cast<size_t>(index_of(place))];
    }
  }
  auto made =
      std::make_shared<Constant>(number, Array::real(value.shape, std::move(numbers)).to(type));
  made->positions_max = positions_max;
  return made;
}

std::optional<LinearExprRef> columns_of_constants(GraphBuilder& builder,
                                                  const LinearExprRef& constants,
                                                  const LinearExprRef& like) {
  const auto width = static_cast<uint32_t>(constants->shape.back());
  const auto step = static_cast<size_t>(like->shape.back());
  if (!like->is_plain() || step == 0 || width == 0 ||
      constants->elements() * step != like->elements() * width) {
    return std::nullopt;
  }
  const ScopedAxis on(builder, *like);
  // If a token has several rows that begin with different columns, such as heads, each kind gets
  // its own columns.
  std::map<Column, uint32_t> kinds;
  std::vector<std::pair<uint32_t, uint32_t>> rows;  // node row and kind
  for (size_t i = 0; i < like->elements(); i += step) {
    const int64_t number = like->at(i);
    const bool is_token = builder.is_node(number) && !builder.is_per_sequence(number) &&
                          builder.producer(number).rows == builder.sizes.rows();
    if (!is_token || (step > 1 && builder.row_of(number) != builder.row_of(like->at(i + 1)))) {
      return std::nullopt;
    }
    const auto kind = static_cast<uint32_t>(kinds.size());
    const auto known = kinds.try_emplace(builder.column_of(number), kind).first;
    rows.emplace_back(builder.row_of(number), known->second);
  }
  const Producer& from = builder.producer(like->front());
  const auto all = static_cast<uint32_t>(kinds.size()) * width;
  LinearSpec zeros;
  zeros.weight.name = builder.name + ".constants";
  zeros.weight.rows = all;
  zeros.weight.columns = from.width;
  set_exact(zeros.weight,
            [count = size_t{all} * from.width] { return std::vector<double>(count, 0.0); });
  const uint32_t producer = builder.producer_of_node(
      builder.graph.add_linear(zeros.weight.name, zeros, from.node), builder.sizes.rows());
  std::vector<int64_t> elements;
  for (const auto& [row, kind] : rows) {
    for (uint32_t c = 0; c < width; ++c) {
      elements.push_back(element_id(producer, uint64_t{row} * all + kind * uint64_t{width} + c));
    }
  }
  return builder.materialised(sum(plain(constants->shape, std::move(elements)), constants, 1.0));
}

}  // namespace arenite::convert
