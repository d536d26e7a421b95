// SPDX-License-Identifier: Apache-2.0
// Builds the converter's graph during a trace: maps traced values to rows of nodes, and adds the
// nodes of ops.
//
// Invariants: an element id belongs to one producer; a producer lies on one row axis; a node is
// [rows, width], where rows are all tokens of all sequences, or one row per sequence.
//
// Example: x [2, 5, 8] is node A [10, 8]; x[:, -1] is ids A32..A39 and A72..A79
//   rows_of(x[:, -1])  ->  RowView{select last(A), width 8, rows {0, 1}, count 2}
//   rows_of(x)         ->  RowView{A, width 8, rows {0, .., 9}, count 10}
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "convert/exported/recover/traced_value.h"
#include "convert/graph/graph.h"
#include "core/windows.h"

namespace arenite::convert {
// The traced extent: `sequences` of `tokens` rows each.
struct TraceSizes {
  uint32_t sequences = 1;
  uint32_t tokens = 0;  // of a sequence

  uint32_t rows() const { return sequences * tokens; }
};

// The layout of an image input, found during a trace, which then starts anew.
struct FoundImage {
  uint32_t row_axis = 0;
  ImageLayout layout;
};

// A matrix [rows, width] whose elements traced values are made of.
struct Producer {
  enum class Kind { kNode, kTokens, kTypes, kTable, kImages };

  Kind kind = Kind::kNode;
  ValueId node = 0;   // of kNode
  uint32_t rows = 0;  // all tokens of all sequences, or one row per sequence
  uint32_t width = 0;
  ConstantRef table{};    // of kTable: the constant with these elements
  uint32_t row_axis = 0;  // on which it was added
};

// The rows that ops run over. Each input has a row axis, and so have constants, windows and
// concatenations.
struct RowAxis {
  TraceSizes sizes;
  uint32_t traced_tokens = 0;  // of the input
  uint32_t axis = 0;           // in Graph::axes
  uint32_t of = 0;             // the row axis that windows slide over, or itself
  int64_t positions_max = 0;   // 0: no known limit
  // The two row axes that were concatenated, if any.
  std::optional<std::pair<uint32_t, uint32_t>> parts{};
};

// A column of a producer, over all of its rows.
using Column = std::pair<uint32_t, uint32_t>;  // producer and column

// A convolution over the `places` rows of each sequence of `input`.
struct TokenWindows {
  Windows windows;
  ValueId input = 0;
  uint32_t places = 0;
  std::function<ValueId(const Windows&, ValueId input)> add{};  // adds its nodes
  std::optional<uint32_t> row_axis{};  // of `input`; nullopt: the current one
};

// Rows of a position table: column c of row r is factors[c] * constant[first_row[c] + r * stride].
struct TablePart {
  ConstantRef constant;
  std::vector<double> factors;     // [columns]
  std::vector<int64_t> first_row;  // [columns], indices into the constant
  int64_t stride = 0;              // 0: all rows are equal
};
struct PositionTable {
  ValueId node = 0;
  std::vector<TablePart> parts;
  uint32_t row_axis = 0;
};

// Recomputes a constant value of the program at other input lengths.
using ConstantAt = std::function<Array(uint32_t value)>;

// The graph so far, the producers of its elements, and the row axes.
class GraphBuilder {
 public:
  // Creates one row axis for each input; `names` are the author's.
  GraphBuilder(std::shared_ptr<const ExportedProgram> of_program,
               const std::vector<TraceSizes>& of_inputs, const std::vector<std::string>& names);

  const std::shared_ptr<const ExportedProgram> program;
  // Whether sequences have exactly as many rows as in the example, so that weights may span pairs
  // of rows, as a matrix over the token axis does.
  bool fixes_rows = false;
  TraceSizes sizes;  // of the current row axis
  Graph graph;
  std::string name;  // of the nodes added next
  std::optional<FoundImage> found;
  std::vector<PositionTable> tables;
  std::set<Column> mark_columns;  // of features: 0 or 1 for each token, as types of tokens
  bool columns_first = false;     // the output is [sequences, columns, tokens]
  bool may_see_nothing = false;   // all keys of a row may be padding ids

  // Throws NotRecognised if the id is no element.
  const Producer& producer(int64_t number) const;
  uint32_t row_of(int64_t number) const;
  Column column_of(int64_t number) const;
  bool is_node(int64_t number) const {
    return number != kNoElement && producer(number).kind == Producer::Kind::kNode;
  }
  const Producer& producer_at(uint32_t index) const { return producers_.at(index); }
  // Whether the producer has one row per sequence rather than one per token.
  bool is_per_sequence(const Producer& from) const {
    return from.kind == Producer::Kind::kNode && from.rows == sizes.sequences && sizes.tokens > 1;
  }
  bool is_per_sequence(int64_t number) const {
    return number != kNoElement && is_per_sequence(producer(number));
  }
  uint32_t add_producer(Producer producer);
  uint32_t producer_of_node(ValueId node, uint32_t rows);
  LinearExprRef of_constant(const ConstantRef& constant);

  // ---- row axes ----

  uint32_t row_axis() const { return row_axis_; }
  size_t row_axes() const { return row_axes_.size(); }
  // Makes another row axis the current one.
  void turn_to(uint32_t row_axis);
  int64_t positions_max(uint32_t row_axis) const;
  const TraceSizes& sizes_of(uint32_t row_axis) const {
    return row_axis == row_axis_ ? sizes : row_axes_[row_axis].sizes;
  }
  // Returns the row axis of a value; nullopt if it has only constants and per-sequence rows.
  std::optional<uint32_t> row_axis_of(const LinearExpr& value) const;
  uint32_t row_axis_of_column(const Column& column) const {
    return producers_[column.first].row_axis;
  }
  // Returns the row axis of `node`, the concatenation of two row axes.
  uint32_t joined_row_axis(uint32_t first, uint32_t second, ValueId node);
  // Returns the row axis of a node that interleaves parts of each row of the current one.
  uint32_t interleaved_row_axis(ValueId node);
  // Returns a node with the interleaved rows of `node` as columns of one row again.
  ValueId side_by_side(ValueId node);
  // Returns the row axis on graph axis `axis` with `rows` per sequence, added if it is new.
  uint32_t row_axis_on(uint32_t axis, uint32_t rows);
  uint32_t axis_number_of(uint32_t row_axis) const { return row_axes_[row_axis].axis; }
  const Axis& graph_axis_of(uint32_t row_axis) const {
    return graph.axes[row_axes_[row_axis].axis];
  }
  bool is_of_constants(uint32_t row_axis) const {
    return graph_axis_of(row_axis).kind == AxisKind::kConstants;
  }
  const std::optional<std::pair<uint32_t, uint32_t>>& parts_of(uint32_t row_axis) const {
    return row_axes_[row_axis].parts;
  }

  // Returns the same elements as one term with factor 1: sums and rotations become nodes.
  LinearExprRef materialised(const LinearExprRef& value);
  // The most recent values and their materialised forms.
  const std::vector<std::pair<LinearExprRef, LinearExprRef>>& all_materialised() const {
    return materialised_;
  }
  ValueId gather(const std::vector<Column>& columns);
  // Returns the columns that a gathered node repeats, if each of them fills an equal share of it;
  // else the node. A MultiplyNode takes them as its second input.
  ValueId narrow_factor(ValueId wide);
  // Returns the producer with one row per sequence: the mean, maximum, first or last of the rows of
  // another one.
  uint32_t selected(uint32_t producer, SelectKind kind);
  // Returns the producer whose row t is row t - by of another one, with zeros outside the sequence.
  uint32_t shifted(uint32_t producer, int64_t by);
  // Returns the producer with one row per sequence, that of the token at `place`.
  uint32_t selected_at(uint32_t producer, uint32_t place);
  // Counts the rows on an axis that are neither tokens nor windows.
  uint32_t constants_on(uint32_t axis) const;
  // Whether factor * node is the sum of the rows that the node averages. A sum is traced as such a
  // multiple, so that dividing by the number of rows is a mean at any length.
  bool is_sum_of_rows(ValueId node, double factor) const;
  // Limits the current row axis to `most` positions; 0: no limit.
  void limit_positions(int64_t most);
  // Returns the tokens of the longest sequence with this many rows on an axis, without constants.
  int64_t tokens_of_rows(int64_t rows, uint32_t axis) const;
  // Returns the rows of a sequence of this many tokens, without constants.
  uint32_t rows_of_tokens(uint32_t tokens, uint32_t axis) const;
  uint32_t traced_rows(uint32_t axis) const {
    const RowAxis& own = row_axes_[row_axis_];
    return own.parts ? sizes.tokens : rows_of_tokens(own.traced_tokens, axis);
  }
  // Adds a convolution and returns its output [sequences, windows, columns].
  LinearExprRef of_windows(const TokenWindows& windows);
  // Turns a convolution whose first or last windows were cut off, as conv(x)[:, :, :-padding] does,
  // into a convolution with less padding; returns any other value as it is.
  LinearExprRef without_windows(const LinearExprRef& value);

  // Producer and shape of an image input whose layout is not known yet; 0: none.
  uint32_t images = 0;
  Shape images_shape;
  bool reads_images() const {
    return images != 0 || std::ranges::any_of(graph.axes, &Axis::is_image);
  }

 private:
  // Broadcasts one row per sequence to each row of `like`.
  ValueId repeated(ValueId node, ValueId like);
  // Returns gather(columns) of `columns` that no call has asked for before.
  ValueId gathered(const std::vector<Column>& columns);
  std::optional<ValueId> chosen_columns(const std::vector<Column>& columns, size_t runs);

  std::vector<Producer> producers_ = std::vector<Producer>(1);  // index 0 is none
  std::map<std::vector<Column>, ValueId> gathered_;
  std::map<ValueId, const std::vector<Column>*> columns_of_gathered_;
  std::map<std::pair<uint32_t, SelectKind>, uint32_t> selected_;
  std::map<std::pair<uint32_t, int64_t>, uint32_t> shifted_;
  std::map<ValueId, ValueId> side_by_side_;
  std::map<const Constant*, uint32_t> of_constants_;
  std::map<uint32_t, TokenWindows> windows_;  // by the producer of their output
  std::map<ValueId, uint32_t> of_nodes_;
  std::vector<RowAxis> row_axes_;  // the sizes of the current one are in `sizes`
  uint32_t row_axis_ = 0;
  std::vector<std::pair<LinearExprRef, LinearExprRef>> materialised_;
  size_t remembered_ = 0;  // elements in materialised_
};

// Switches to the row axis of a value, if any, for the lifetime of the object.
class ScopedAxis {
 public:
  ScopedAxis(GraphBuilder& builder, const LinearExpr& value) : ScopedAxis(builder) {
    if (builder.row_axes() == 1) return;
    if (const auto row_axis = builder.row_axis_of(value)) builder.turn_to(*row_axis);
  }
  ScopedAxis(GraphBuilder& builder, uint32_t row_axis) : ScopedAxis(builder) {
    builder.turn_to(row_axis);
  }
  ScopedAxis(const ScopedAxis&) = delete;
  ScopedAxis& operator=(const ScopedAxis&) = delete;
  ~ScopedAxis() { builder_.turn_to(before_); }

 private:
  explicit ScopedAxis(GraphBuilder& builder) : builder_(builder), before_(builder.row_axis()) {}

  GraphBuilder& builder_;
  const uint32_t before_;
};

// ---- model inputs, in the shape that the author's code gets ----

// REQUIRES: kTokens or kTypes.
LinearExprRef ids_input(GraphBuilder& builder, Producer::Kind kind, Shape shape);
LinearExprRef features_input(GraphBuilder& builder, Shape shape);
// Turns a node with one row per sequence into a pooled row of this shape.
LinearExprRef row_of_sequence(GraphBuilder& builder, const LinearExprRef& value, Shape shape);

// A value as value * factor. nullopt for a value without factors, or that is no such multiple.
struct Multiple {
  LinearExprRef value;
  Array factor;
};
std::optional<Multiple> multiple_of_node(const GraphBuilder& builder, const LinearExprRef& value);
// factors[c] * value + offsets[c] in each column c, equal for all tokens.
struct FoldedInput {
  LinearExprRef value;
  std::vector<double> factors, offsets;  // [columns]
};
std::optional<FoldedInput> columns_of_node(const GraphBuilder& builder, const LinearExprRef& value);
// Whether the value is one term whose factors depend on the node's column, not on the value's.
bool has_factors_of_heads(const GraphBuilder& builder, const LinearExprRef& value);

// ---- ops, as nodes with the builder's name ----

LinearExprRef embedding(GraphBuilder& builder, const ConstantRef& table, const LinearExprRef& ids);
// Returns rows of a table as constants, one for each of `rows`.
LinearExprRef table_rows(GraphBuilder& builder, const ConstantRef& table, Shape shape,
                         const std::vector<int64_t>& rows);
// Looks up positions that skip padding ids; padding gets the row before that of position 0.
LinearExprRef padded_positions(GraphBuilder& builder, const ConstantRef& table,
                               const LinearExprRef& ids, int64_t padding);
LinearExprRef linear(GraphBuilder& builder, const LinearExprRef& value, const WeightRef& weight,
                     std::vector<double> bias);
// Normalises each run of spec.gain.size() elements of the last dimension.
LinearExprRef norm(GraphBuilder& builder, const LinearExprRef& value, NormSpec spec);
LinearExprRef normalize(GraphBuilder& builder, const LinearExprRef& value, NormKind kind);
LinearExprRef activation(GraphBuilder& builder, const LinearExprRef& value, ActivationNode node);
LinearExprRef product(GraphBuilder& builder, const LinearExprRef& a, const LinearExprRef& b);

// Pools along `axis` to one row per sequence.
LinearExprRef pooled(GraphBuilder& builder, const LinearExprRef& value, size_t axis,
                     SelectKind kind);

// Fills position tables with the rows of positions[i] tokens of input i, which `constant_at`
// computes.
void fill_position_tables(GraphBuilder& builder, const std::vector<uint32_t>& positions,
                          const ConstantAt& constant_at);

}  // namespace arenite::convert
