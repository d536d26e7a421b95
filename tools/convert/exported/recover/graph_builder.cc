// SPDX-License-Identifier: Apache-2.0
// Implements GraphBuilder: producers, row axes, windows, gathered columns and materialised sums.
// Also lowers linear layers, and folds constants into their weights.
//
//   gather({A0, A1, B3})         ->  concat(slice(A, 0, 2), slice(B, 3, 1))
//   linear(W, b) of 2 x + c      ->  linear(2 W, W c + b) of x
//   linear(W) of [x[:, -3:]] flat  ->  last row of a convolution with kernel 3
#include "convert/exported/recover/graph_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "convert/exported/recover/images.h"
#include "convert/exported/recover/row_matrices.h"
#include "convert/exported/recover/row_view.h"
#include "convert/exported/recover/sums.h"

namespace arenite::convert {
namespace {

// Limits the slices in a concatenation: columns in more pieces are not heads, but in disorder.
constexpr size_t kRunsMax = 1024;
constexpr size_t kCopiesMax = 8;           // slices; for more, a matrix product is faster
constexpr uint32_t kChosenWidthMax = 256;  // of a node whose columns a 0/1 matrix selects

constexpr uint32_t kShiftMax = 64;  // tokens

constexpr size_t kKeptSumsMax = 64;                // cached materialised values
constexpr size_t kKeptElements = size_t{1} << 25;  // of all cached values

}  // namespace

GraphBuilder::GraphBuilder(std::shared_ptr<const ExportedProgram> of_program,
                           const std::vector<TraceSizes>& of_inputs,
                           const std::vector<std::string>& names)
    : program(std::move(of_program)), sizes(of_inputs[0]) {
  graph.inputs[0].name = names[0];
  for (uint32_t i = 0; i < of_inputs.size(); ++i) {
    if (i != 0) graph.add_input(names[i]);
    const TraceSizes& of_input = of_inputs[i];
    row_axes_.push_back({of_input, of_input.tokens, graph.inputs[i].axis, i, 0, {}});
  }
}

void GraphBuilder::switch_to(uint32_t row_axis) {
  if (row_axis == row_axis_) return;
  row_axes_[row_axis_].sizes = sizes;
  row_axis_ = row_axis;
  sizes = row_axes_[row_axis].sizes;
}

int64_t GraphBuilder::positions_max(uint32_t row_axis) const {
  return row_axes_[row_axis].positions_max;
}

std::optional<uint32_t> GraphBuilder::row_axis_of(const LinearExpr& value) const {
  for (const Term& term : value.terms) {
    for (size_t i = 0, count = value.elements(); i < count; ++i) {
      const int64_t number = term.places.at(i);
      if (number == kNoElement) continue;
      const Producer& from = producers_.at(producer_of(number));
      const bool has_rows =
          from.kind != Producer::Kind::kTable &&
          (from.kind != Producer::Kind::kNode || !graph.is_on(AxisKind::kOne, from.node));
      if (has_rows) return from.row_axis;
      if (term.places.is_whole()) break;
    }
  }
  return std::nullopt;
}

uint32_t GraphBuilder::joined_row_axis(uint32_t first, uint32_t second, ValueId node) {
  const uint32_t tokens = sizes_of(first).tokens + sizes_of(second).tokens;
  const uint32_t joined = row_axis_on(graph.axis(node), tokens);
  row_axes_[joined].parts = std::pair(first, second);
  // Positions of constants and of one input's rows are limited as those of the input.
  const auto has_inputs = [&](uint32_t part) { return graph.inputs_of(axis_number_of(part)) != 0; };
  if (!has_inputs(first)) {
    row_axes_[joined].of = row_axes_[second].of;
  } else if (!has_inputs(second)) {
    row_axes_[joined].of = row_axes_[first].of;
  }
  return joined;
}

uint32_t GraphBuilder::interleaved_row_axis(ValueId node) {
  const RowAxis from = row_axes_[row_axis_];
  const uint32_t made =
      row_axis_on(graph.axis(node), sizes.tokens * graph.axes[graph.axis(node)].rows);
  row_axes_[made].of = from.of;
  row_axes_[made].traced_tokens = from.traced_tokens;
  return made;
}

ValueId GraphBuilder::side_by_side(ValueId node) {
  const auto* select = graph.as<SelectNode>(node);
  if (select != nullptr && select->kind == SelectKind::kTurns) return graph.node(node).inputs[0];
  const auto [known, is_new] = side_by_side_.try_emplace(node, 0);
  if (is_new) known->second = graph.add_side_by_side(name + ".side_by_side", node);
  return known->second;
}

uint32_t GraphBuilder::row_axis_on(uint32_t axis, uint32_t rows) {
  for (uint32_t i = 0; i < row_axes_.size(); ++i) {
    if (row_axes_[i].axis == axis) return i;
  }
  const auto number = static_cast<uint32_t>(row_axes_.size());
  row_axes_.push_back({{sizes.sequences, rows}, rows, axis, number, 0, {}});
  return number;
}

uint32_t GraphBuilder::add_producer(Producer producer) {
  producer.row_axis = row_axis_;
  if (producer.kind == Producer::Kind::kNode) {
    const bool is_one = graph.is_on(AxisKind::kOne, producer.node);
    producer.row_axis = row_axis_on(graph.axis(producer.node), is_one ? 1 : sizes.tokens);
  }
  producers_.push_back(std::move(producer));
  return static_cast<uint32_t>(producers_.size() - 1);
}

uint32_t GraphBuilder::producer_of_node(ValueId node, uint32_t rows) {
  const auto [known, is_new] = of_nodes_.try_emplace(node, 0);
  if (is_new) known->second = add_producer({Producer::Kind::kNode, node, rows, graph.width(node)});
  return known->second;
}

const Producer& GraphBuilder::producer(int64_t number) const {
  refuse_op_if(number == kNoElement,
               "some elements are zeros, as by padding; expected only elements of the model");
  const Producer& known = producers_.at(producer_of(number));
  const auto index = static_cast<uint64_t>(index_of(number));
  refuse_op_if(index >= uint64_t{known.rows} * known.width,
               "an element is out of range of its tensor; expected an index within the tensor");
  return known;
}

uint32_t GraphBuilder::row_of(int64_t number) const {
  return static_cast<uint32_t>(index_of(number) / producer(number).width);
}

Column GraphBuilder::column_of(int64_t number) const {
  return {producer_of(number), static_cast<uint32_t>(index_of(number) % producer(number).width)};
}

LinearExprRef GraphBuilder::constant_expr(const ConstantRef& constant) {
  const auto [known, is_new] = of_constants_.try_emplace(constant.get(), 0);
  if (is_new) {
    const auto width = static_cast<uint32_t>(constant->elements());
    known->second = add_producer({Producer::Kind::kTable, 0, 1, width, constant, 0});
  }
  return whole_producer(known->second, constant->shape());
}

// Gathers columns of one narrow node by a 0/1 matrix, if slices would be too many, as for one gate
// per head. Returns nullopt for other columns.
std::optional<ValueId> GraphBuilder::gather_by_matrix(const std::vector<Column>& columns,
                                                      size_t runs) {
  const Producer& from = producers_[columns[0].first];
  const bool is_one = std::ranges::all_of(
      columns, [&](const Column& column) { return column.first == columns[0].first; });
  if (!is_one || runs <= kCopiesMax || from.kind != Producer::Kind::kNode ||
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
  const auto [known, is_new] = gathered_.try_emplace(columns, 0);
  if (is_new) {
    known->second = gathered(columns);
    columns_of_gathered_[known->second] = &known->first;
  }
  return known->second;
}

// For example, gather(a a a b b b) becomes gather(a b).
ValueId GraphBuilder::narrow_factor(ValueId wide) {
  const auto known = columns_of_gathered_.find(wide);
  if (known == columns_of_gathered_.end()) return wide;
  const std::vector<Column>& columns = *known->second;
  const auto [producer, first] = columns.front();
  const auto each = static_cast<uint32_t>(std::ranges::count(columns, columns.front()));
  for (uint32_t i = 0; i < columns.size(); ++i) {
    if (columns[i] != Column{producer, first + i / each}) return wide;
  }
  const Producer& from = producers_[producer];
  const auto factors = static_cast<uint32_t>(columns.size()) / each;
  if (each == 1 || columns.size() % each != 0 || from.kind != Producer::Kind::kNode) return wide;
  if (factors == from.width) return from.node;
  return graph.add_slice(name + ".slice", from.node, first, factors);
}

ValueId GraphBuilder::gathered(const std::vector<Column>& columns) {
  std::vector<std::pair<Column, uint32_t>> runs;  // first column and width
  for (const auto& [from, column] : columns) {
    const bool goes_on = !runs.empty() && from == runs.back().first.first &&
                         column == runs.back().first.second + runs.back().second;
    if (!goes_on) runs.push_back({{from, column}, 0});
    ++runs.back().second;
  }
  refuse_op_if(runs.size() > kRunsMax,
               "columns of the model are gathered in too many pieces; expected contiguous pieces, "
               "such as heads");
  if (const auto chosen = gather_by_matrix(columns, runs.size())) return *chosen;
  std::vector<ValueId> parts;
  for (const auto& [first, width] : runs) {
    const Producer& from = producers_[first.first];
    refuse_op_if(from.kind != Producer::Kind::kNode,
                 "a row has constants or token ids beside columns of the model; expected only "
                 "columns of the model");
    parts.push_back(width == from.width
                        ? from.node
                        : graph.add_slice(name + ".slice", from.node, first.second, width));
  }
  const auto like =
      std::ranges::find_if(parts, [&](ValueId part) { return !graph.is_on(AxisKind::kOne, part); });
  for (ValueId& part : parts) {
    if (like != parts.end() && graph.is_on(AxisKind::kOne, part)) part = repeated(part, *like);
  }
  return parts.size() == 1 ? parts[0] : graph.add_concat(name + ".concat", parts);
}

ValueId GraphBuilder::repeated(ValueId node, ValueId like) {
  const uint32_t width = graph.width(node);
  std::vector<ValueId> copies(1, like);
  while (copies.size() * graph.width(like) < width) copies.push_back(like);
  ValueId zeros = copies.size() == 1 ? like : graph.add_concat(name + ".copies", copies);
  if (graph.width(zeros) != width) zeros = graph.add_slice(name + ".slice", zeros, 0, width);
  zeros = graph.add(name + ".zeros", ScaleNode{0.0}, {zeros});
  return graph.add(name + ".repeated", AddNode{}, {zeros, node});
}

// With one token per sequence, the row itself is its mean, maximum, first and last row, so no node
// is added.
uint32_t GraphBuilder::selected(uint32_t from, SelectKind kind) {
  if (sizes.tokens == 1) return from;
  const auto [known, is_new] = selected_.try_emplace({from, kind}, 0);
  if (is_new) {
    const ValueId node = producers_[from].node;
    refuse_op_if(producers_[from].kind != Producer::Kind::kNode || node >= graph.values(),
                 "token ids, pixels or constants are pooled; expected rows of a layer, so embed or "
                 "project them first");
    known->second = producer_of_node(graph.add_select(name, kind, node), sizes.sequences);
  }
  return known->second;
}

uint32_t GraphBuilder::shifted(uint32_t from, int64_t by) {
  const auto [known, is_new] = shifted_.try_emplace({from, by}, 0);
  if (!is_new) return known->second;
  const Producer producer = producers_[from];
  const auto rows = static_cast<uint32_t>(std::abs(by));
  refuse_op_if(
      producer.kind != Producer::Kind::kNode || producer.rows != sizes.rows() || rows > kShiftMax,
      "a token far from both ends of the sequence is selected; expected at most {} tokens from "
      "either end",
      kShiftMax);
  DepthwiseNode node;
  WindowAxis& window = node.windows.lines;
  window.kernel = 2;
  window.dilation = rows;
  (by > 0 ? window.before : window.after) = rows;
  node.kernel.name = name + ".shift";
  node.kernel.rows = 2;
  node.kernel.columns = producer.width;
  set_exact(node.kernel, [width = producer.width, by] {
    std::vector<double> taps(2 * size_t{width}, 0.0);
    std::fill_n(taps.begin() + (by > 0 ? 0 : width), width, 1.0);
    return taps;
  });
  const ValueId made = graph.add_depthwise(name + ".shift", node, producer.node);
  return shifted_[{from, by}] = producer_of_node(made, producer.rows);
}

uint32_t GraphBuilder::selected_at(uint32_t from, uint32_t place) {
  const uint32_t after = sizes.tokens - 1 - place;
  if (place == 0) return selected(from, SelectKind::kFirst);
  if (after == 0) return selected(from, SelectKind::kLast);
  if (after <= place) return selected(shifted(from, after), SelectKind::kLast);
  return selected(shifted(from, -int64_t{place}), SelectKind::kFirst);
}

namespace {

// Returns the axis of tokens or windows in a concatenation with constants.
uint32_t without_constants(const Graph& graph, uint32_t axis) {
  while (graph.axes[axis].kind == AxisKind::kJoined) {
    const bool has_tokens = graph.inputs_of(graph.axes[axis].other) != 0;
    axis = has_tokens ? graph.axes[axis].other : graph.axes[axis].source;
  }
  return axis;
}

}  // namespace

uint32_t GraphBuilder::constant_rows_of_axis(uint32_t axis) const {
  const Axis& own = graph.axes[axis];
  if (own.kind == AxisKind::kConstants) return own.rows;
  if (own.kind == AxisKind::kOne) return 1;
  return own.kind == AxisKind::kJoined
             ? constant_rows_of_axis(own.source) + constant_rows_of_axis(own.other)
             : 0;
}

int64_t GraphBuilder::tokens_of_rows(int64_t rows, uint32_t axis) const {
  if (rows == 0) return 0;
  const Axis& own = graph.axes[without_constants(graph, axis)];
  if (own.kind == AxisKind::kPixels) {
    return tokens_of_rows(rows / own.rows * graph.axes[own.source].rows, own.source);
  }
  if (own.kind == AxisKind::kTurns) return tokens_of_rows(rows / own.rows, own.source);
  if (own.kind != AxisKind::kWindows) return rows;
  return tokens_of_rows(rows * own.stride - 1 + own.window, own.source);
}

uint32_t GraphBuilder::rows_of_tokens(uint32_t tokens, uint32_t axis) const {
  return graph.rows(without_constants(graph, axis), tokens);
}

void GraphBuilder::limit_positions(int64_t most) {
  const uint32_t axis = row_axes_[row_axis_].axis;
  if (most == 0 || graph.inputs_of(axis) == 0) return;
  int64_t& known = row_axes_[row_axes_[row_axis_].of].positions_max;
  const int64_t rows = std::max<int64_t>(1, most - constant_rows_of_axis(axis));
  known = tighter(known, tokens_of_rows(rows, axis));
}

// ---- windows over tokens ----

LinearExprRef GraphBuilder::windows_expr(const TokenWindows& given) {
  TokenWindows windows = given;
  windows.row_axis = given.row_axis.value_or(row_axis_);
  const ScopedAxis on(*this, *windows.row_axis);
  const ValueId node = windows.add(windows.windows, windows.input);
  const bool is_same = graph.axis(node) == graph.axis(windows.input);
  refuse_op_if(!is_same && parts_of(row_axis_),
               "windows over concatenated inputs change the number of rows; expected stride 1 and "
               "padding that keeps it");
  const uint32_t count = is_same ? windows.places : windows.windows.count(windows.places);
  const uint32_t width = graph.width(node);
  const uint32_t own = row_axis_on(graph.axis(node), count);
  if (!is_same) row_axes_[own].of = row_axes_[row_axis_].of;
  if (!is_same) row_axes_[own].traced_tokens = row_axes_[row_axis_].traced_tokens;
  const uint32_t producer = producer_of_node(node, sizes.sequences * count);
  windows_.try_emplace(producer, windows);
  return whole_producer(producer, {sizes.sequences, count, width});
}

LinearExprRef GraphBuilder::trim_windows(const LinearExprRef& value) {
  if (!value->is_plain() || value->terms[0].places.is_whole() || value->elements() == 0) {
    return value;
  }
  const uint32_t from = producer_of(value->at(0));
  const auto known = windows_.find(from);
  if (known == windows_.end()) return value;
  TokenWindows windows = known->second;
  const Producer producer = producers_[from];
  const uint32_t places = producer.rows / sizes.sequences;
  uint32_t begin = places, last = 0;
  for (size_t i = 0, count = value->elements(); i < count; ++i) {
    if (producer_of(value->at(i)) != from) return value;
    const uint32_t place = row_of(value->at(i)) % places;
    begin = std::min(begin, place);
    last = std::max(last, place);
  }
  if (windows.windows.width != 1) return value;
  WindowAxis& window = windows.windows.lines;
  const uint32_t before = begin * window.stride;
  const uint32_t after = (places - 1 - last) * window.stride;
  if (before + after == 0 || before > window.before || after > window.after) return value;
  window.before -= before;
  window.after -= after;
  const LinearExprRef made = windows_expr(windows);
  const auto to = int64_t{producer_of(made->at(0))};
  const uint32_t made_places = producers_[producer_of(made->at(0))].rows / sizes.sequences;
  std::vector<int64_t> element_ids = element_ids_of(*value);
  for (int64_t& number : element_ids) {
    const uint32_t row = row_of(number);
    const uint32_t own = row / places * made_places + row % places - begin;
    number = element_id(static_cast<uint32_t>(to),
                        uint64_t{own} * producer.width + column_of(number).second);
  }
  return plain(value->shape, std::move(element_ids));
}

bool GraphBuilder::is_sum_of_rows(ValueId node, double factor) const {
  const auto* select = graph.as<SelectNode>(node);
  if (select == nullptr || select->kind != SelectKind::kMean) return false;
  const ValueId input = graph.node(node).inputs[0];
  const auto own = std::ranges::find(row_axes_, graph.axis(input), &RowAxis::axis);
  if (own == row_axes_.end()) return false;
  return factor == sizes_of(static_cast<uint32_t>(own - row_axes_.begin())).tokens;
}

LinearExprRef GraphBuilder::materialised(const LinearExprRef& given) {
  const LinearExprRef value = images == 0 ? given : as_windows(*this, given);
  if (value->is_plain()) return value;
  const ScopedAxis on(*this, *value);
  for (const auto& [known, made] : materialised_) {
    const bool is_same = known->terms == value->terms && known->elements() == value->elements();
    if (known == value || is_same) return with_shape(made, value->shape);
  }
  const std::string before = name;
  if (!value->name.empty()) name = value->name;
  const LinearExprRef made = lower_sum(*this, value);
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

namespace {

// Returns value / base for each element, or a single ratio if all are equal; empty if `value` is no
// multiple of `base`.
std::vector<double> ratios_of(const LinearExpr& value, const LinearExpr& base) {
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

std::optional<Multiple> multiple_of_node(const GraphBuilder& builder, const LinearExprRef& value) {
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
  const Factors& factors = value->terms[0].factors;
  if (!factors.each && builder.is_node(value->at(0)) &&
      builder.is_sum_of_rows(builder.producer(value->at(0)).node, factors.uniform)) {
    return std::nullopt;
  }
  const LinearExprRef bare = make_sum({value->shape, {Term{value->terms[0].places}}});
  return Multiple{bare, factor(ratios_of(*value, *bare))};
}

std::optional<FoldedInput> folded_input(const GraphBuilder& builder, const LinearExprRef& value) {
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
    if (number == kNoElement || builder.producer(number).kind != Producer::Kind::kTable)
      return std::nullopt;
    // The term is a row of constants, equal for all tokens.
    const Array::Reals constants = builder.producer(number).table->array().to_reals();
    const auto offset = [&](size_t i) {
      return term.factors.at(i) * constants[static_cast<size_t>(index_of(term.places.at(i)))];
    };
    for (size_t i = 0; i < count; ++i) {
      if (producer_of(term.places.at(i)) != producer_of(number)) return std::nullopt;
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

bool has_factors_of_heads(const GraphBuilder& builder, const LinearExprRef& value) {
  if (value->terms.size() != 1 || !value->has_own_factors()) return false;
  if (value->elements() == 0 || folded_input(builder, value)) return false;
  std::map<Column, double> factors;
  for (size_t i = 0, count = value->elements(); i < count; ++i) {
    if (!builder.is_node(value->at(i))) return false;
    const double factor = value->terms[0].factors.at(i);
    if (factors.emplace(builder.column_of(value->at(i)), factor).first->second != factor)
      return false;
  }
  return true;
}

namespace {

// Lowers W (factors x + offsets) + b: folds the factors into W, and the offsets into b.
LinearExprRef linear_of_rows(GraphBuilder& builder, const LinearExprRef& given,
                             const WeightRef& given_weight, std::vector<double> bias) {
  auto folded = folded_input(builder, given);
  if (folded) {
    // A uniform factor stays with the node. A preceding linear layer or embedding absorbs other
    // factors.
    const ValueId node = builder.producer(folded->value->at(0)).node;
    const bool is_one_factor = given->terms.size() == 1 && !given->has_own_factors();
    if (is_one_factor || builder.graph.as<LinearNode>(node) ||
        builder.graph.as<EmbeddingNode>(node)) {
      folded.reset();
    }
  }
  std::vector<uint32_t> order;
  const RowView rows = folded ? rows_of(builder, folded->value) : rows_of(builder, given, &order);
  refuse_op_if(rows.width != given_weight.columns,
               "weight and input have different widths; expected equal widths");
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

// A row that concatenates features of the first or last tokens, permuted: column c of token t is
// element inputs[t, c].
struct TokensInRow {
  std::vector<Column> columns;   // read from each token
  std::vector<uint32_t> inputs;  // [tokens, columns]
  uint32_t tokens = 0;
  bool are_last = false;
};

// Returns nullopt unless rows read several tokens at one end of their sequence.
std::optional<TokensInRow> tokens_in_row(const GraphBuilder& builder, const LinearExpr& value) {
  const TraceSizes& sizes = builder.sizes;
  const auto width = static_cast<size_t>(value.shape.back());
  if (!value.is_plain() || value.elements() != width * sizes.sequences || sizes.tokens == 1) {
    return std::nullopt;
  }
  std::map<uint32_t, std::map<Column, uint32_t>> tokens;  // element in the row, by token and column
  for (size_t i = 0; i < value.elements(); ++i) {
    const int64_t number = value.at(i);
    if (!builder.is_node(number) || builder.producer(number).rows != sizes.rows())
      return std::nullopt;
    const uint32_t row = builder.row_of(number);
    if (row / sizes.tokens != i / width) return std::nullopt;
    const auto input = static_cast<uint32_t>(i % width);
    const auto [known, is_new] =
        tokens[row % sizes.tokens].try_emplace(builder.column_of(number), input);
    if (known->second != input) return std::nullopt;
  }
  TokensInRow found;
  found.tokens = static_cast<uint32_t>(tokens.size());
  const uint32_t first = tokens.begin()->first, last = tokens.rbegin()->first;
  found.are_last = last + 1 == sizes.tokens;
  const bool are_together = last - first + 1 == found.tokens && (found.are_last || first == 0);
  if (found.tokens < 2 || !are_together || found.tokens > kWindowRowsMax) return std::nullopt;
  for (const auto& [column, input] : tokens.begin()->second) found.columns.push_back(column);
  for (const auto& [place, columns] : tokens) {
    size_t c = 0;
    for (const auto& [column, input] : columns) {
      if (c >= found.columns.size() || column != found.columns[c++]) return std::nullopt;
      found.inputs.push_back(input);
    }
  }
  if (found.inputs.size() != width) return std::nullopt;
  return found;
}

// Lowers a linear layer over the first or last tokens to a convolution, and selects its first or
// last row.
std::optional<LinearExprRef> linear_of_tokens(GraphBuilder& builder, const LinearExprRef& given,
                                              const WeightRef& weight,
                                              const std::vector<double>& bias) {
  if (given->shape.empty() || given->elements() == 0) return std::nullopt;
  const LinearExprRef value = given->is_plain() ? given : builder.materialised(given);
  const auto found = tokens_in_row(builder, *value);
  if (!found || weight.columns != found->inputs.size()) return std::nullopt;
  Windows window;
  window.lines.kernel = found->tokens;
  const Axis axis = builder.graph_axis_of(builder.row_axis());
  if (axis.is_image() && axis.other > 1) {
    if (found->tokens != axis.rows) return std::nullopt;  // some pixels
    window.lines.kernel = axis.rows / axis.other;
    window.columns.kernel = window.width = axis.other;
  }
  if (found->are_last && window.width == 1) window.lines.before = found->tokens - 1;
  const ValueId rows = builder.gather(found->columns);
  const ValueId windows = builder.graph.add_windows(builder.name + ".windows", window, rows);
  std::vector<uint32_t> order(found->inputs.size());
  for (size_t i = 0; i < order.size(); ++i) order[found->inputs[i]] = static_cast<uint32_t>(i);
  const ValueId node =
      builder.graph.add_linear(builder.name, {with_columns(weight, order), bias}, windows);
  const ValueId one = builder.graph.add_select(
      builder.name + ".row", found->are_last ? SelectKind::kLast : SelectKind::kFirst, node);
  Shape shape = given->shape;
  shape.back() = weight.rows;
  return whole_producer(builder.producer_of_node(one, builder.sizes.sequences), shape);
}

// Whether the first row along the last dimension has elements of several tokens.
bool mixes_tokens(const GraphBuilder& builder, const LinearExpr& value) {
  const auto width = std::min(value.elements(), static_cast<size_t>(value.shape.back()));
  std::optional<uint32_t> token;
  for (size_t i = 0; i < width; ++i) {
    if (value.at(i) == kNoElement) continue;
    if (!builder.is_node(value.at(i))) return false;
    if (builder.is_per_sequence(value.at(i))) continue;
    const uint32_t row = builder.row_of(value.at(i));
    if (token.value_or(row) != row) return true;
    token = row;
  }
  return false;
}

// Lowers a linear layer over windows of tokens, such as patches of a series, to a convolution.
// Returns nullopt if rows are no windows.
std::optional<LinearExprRef> linear_of_windows(GraphBuilder& builder, const LinearExprRef& given,
                                               const WeightRef& weight,
                                               const std::vector<double>& bias) {
  if (given->shape.empty() || !mixes_tokens(builder, *given)) return std::nullopt;
  const LinearExprRef value = builder.materialised(given);
  const ScopedAxis on(builder, *value);
  if (builder.graph_axis_of(builder.row_axis()).is_image()) return std::nullopt;
  const auto windows = windows_of_rows(builder, value);
  if (!windows) return std::nullopt;
  return linear_of_rows(builder, *windows, weight, bias);
}

}  // namespace

LinearExprRef linear(GraphBuilder& builder, const LinearExprRef& value, const WeightRef& weight,
                     std::vector<double> bias) {
  if (const auto made = linear_of_tokens(builder, value, weight, bias)) return *made;
  if (builder.fixes_rows) {
    if (const auto made = linear_over_rows(builder, value, weight, bias)) return *made;
  }
  return each_kind_of_row(builder, value, [&](const LinearExprRef& rows) {
    if (rows != value && weight.columns > builder.sizes.tokens) {
      if (const auto made = linear_of_tokens(builder, rows, weight, bias)) return *made;
    }
    if (const auto made = linear_of_windows(builder, rows, weight, bias)) return *made;
    // A refusal of the whole value is clearer than that of some rows.
    const bool is_refused = rows != value && mixes_tokens(builder, *rows);
    return linear_of_rows(builder, is_refused ? value : rows, weight, bias);
  });
}

}  // namespace arenite::convert
