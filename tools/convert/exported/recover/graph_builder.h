// SPDX-License-Identifier: Apache-2.0
// Builds the converter's graph during a trace: maps traced values to rows of nodes, and adds the
// nodes of ops.
//
// Invariants: an element id belongs to one producer, and a producer lies on one row axis. A node is
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
// The extent of a row axis in the trace: `sequences` of `tokens` rows each.
struct TraceSizes {
  uint32_t sequences = 1;
  uint32_t tokens = 0;  // of a sequence

  uint32_t rows() const { return sequences * tokens; }
};

// The layout of an image input. A trace that finds the layout is aborted and restarted with it.
struct FoundImage {
  uint32_t row_axis = 0;
  ImageLayout layout;
};

// A source of elements, as a matrix [rows, width]: an input, a table or a node.
struct Producer {
  enum class Kind { kNode, kTokens, kTypes, kTable, kImages };

  Kind kind = Kind::kNode;
  ValueId node = 0;   // of kNode
  uint32_t rows = 0;  // all tokens of all sequences, or one row per sequence
  uint32_t width = 0;
  ConstantRef table{};    // of kTable: the constant with these elements
  uint32_t row_axis = 0;  // of its rows
};

// The rows that an op computes. Each input has a row axis of its own, and so have constants,
// windows and concatenations.
struct RowAxis {
  TraceSizes sizes;
  uint32_t traced_tokens = 0;  // of the input
  uint32_t axis = 0;           // in Graph::axes
  uint32_t of = 0;             // of windows: the row axis of the input; else itself
  int64_t positions_max = 0;   // 0: no known limit
  // The two row axes that this one concatenates, if any.
  std::optional<std::pair<uint32_t, uint32_t>> parts{};
};

// All elements of a producer in one column.
using Column = std::pair<uint32_t, uint32_t>;  // producer and column

// A convolution over the `places` rows of each sequence of `input`.
struct TokenWindows {
  Windows windows;
  ValueId input = 0;
  uint32_t places = 0;
  std::function<ValueId(const Windows&, ValueId input)> add{};  // adds the nodes
  std::optional<uint32_t> row_axis{};  // of `input`; nullopt: the current one
};

// A term of a position table: column c of row r is factors[c] * constant[first_row[c] + r *
// stride].
struct TablePart {
  ConstantRef constant;
  std::vector<double> factors;     // [columns]
  std::vector<int64_t> first_row;  // [columns], index of row 0 in the constant
  int64_t stride = 0;              // between rows; 0: all rows are equal
};
struct PositionTable {
  ValueId node = 0;
  std::vector<TablePart> parts;
  uint32_t row_axis = 0;
};

// Recomputes a constant value of the program for inputs of other lengths.
using ConstantAt = std::function<Array(uint32_t value)>;

// Holds the graph built so far, the producers of its elements, and the row axes.
class GraphBuilder {
 public:
  // Creates one row axis for each input. `names` are those of the program.
  GraphBuilder(std::shared_ptr<const ExportedProgram> of_program,
               const std::vector<TraceSizes>& of_inputs, const std::vector<std::string>& names);

  const std::shared_ptr<const ExportedProgram> program;
  // Whether all sequences have exactly as many rows as in the example. Then weights may depend on
  // rows, as in a matrix over the token axis.
  bool fixes_rows = false;
  TraceSizes sizes;  // of the current row axis
  Graph graph;
  std::string name;  // for the nodes that are added next
  std::optional<FoundImage> found;
  std::vector<PositionTable> tables;
  std::set<Column> mark_columns;  // feature columns of 0 and 1, read as token types
  bool columns_first = false;     // the output is [sequences, columns, tokens]
  bool may_see_nothing = false;   // all keys of a row may be padding ids

  // Returns the producer of an element. Throws NotRecognised for kNoElement, or an index out of
  // range.
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
  LinearExprRef constant_expr(const ConstantRef& constant);

  // ---- row axes ----

  uint32_t row_axis() const { return row_axis_; }
  size_t row_axes() const { return row_axes_.size(); }
  // Sets the current row axis.
  void switch_to(uint32_t row_axis);
  int64_t positions_max(uint32_t row_axis) const;
  const TraceSizes& sizes_of(uint32_t row_axis) const {
    return row_axis == row_axis_ ? sizes : row_axes_[row_axis].sizes;
  }
  // Returns the row axis of a value; nullopt if all elements are constants or in per-sequence rows.
  std::optional<uint32_t> row_axis_of(const LinearExpr& value) const;
  uint32_t row_axis_of_column(const Column& column) const {
    return producers_[column.first].row_axis;
  }
  // Returns the row axis of `node`, whose rows concatenate those of two row axes.
  uint32_t joined_row_axis(uint32_t first, uint32_t second, ValueId node);
  // Returns the row axis of `node`, whose rows are parts of the rows of the current axis,
  // interleaved.
  uint32_t interleaved_row_axis(ValueId node);
  // Undoes an interleaving: returns a node in which the interleaved rows of a token are columns of
  // one row.
  ValueId side_by_side(ValueId node);
  // Returns the row axis of graph axis `axis`; adds it, with `rows` per sequence, if it is new.
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

  // Returns the value as one term with factor 1. Adds nodes for sums and rotations.
  LinearExprRef materialised(const LinearExprRef& value);
  // Cached pairs of a value and its materialised form.
  const std::vector<std::pair<LinearExprRef, LinearExprRef>>& all_materialised() const {
    return materialised_;
  }
  // Returns a node with these columns, made of slices and a concatenation.
  ValueId gather(const std::vector<Column>& columns);
  // For a gathered node that repeats each of its columns equally often, returns a node with each
  // column once, which a MultiplyNode takes as second input. Returns any other node unchanged.
  ValueId narrow_factor(ValueId wide);
  // Returns the producer of a select node: the mean, maximum, first or last row of each sequence.
  uint32_t selected(uint32_t producer, SelectKind kind);
  // Returns the producer of a shift: its row t is row t - by of `producer`, or a zero row outside
  // the sequence.
  uint32_t shifted(uint32_t producer, int64_t by);
  // Returns the producer of a select node that takes the token at `place` of each sequence.
  uint32_t selected_at(uint32_t producer, uint32_t place);
  // Counts the constant rows of a graph axis: those that are neither tokens nor windows.
  uint32_t constant_rows_of_axis(uint32_t axis) const;
  // Whether factor * node is the sum of the rows that a mean node averages. A sum is traced as a
  // multiple of the mean, so that a division by the row count gives the mean at any length.
  bool is_sum_of_rows(ValueId node, double factor) const;
  // Limits the current row axis to `most` positions; 0: no limit.
  void limit_positions(int64_t most);
  // Returns the most tokens that give at most `rows` rows on a graph axis, constant rows left out.
  int64_t tokens_of_rows(int64_t rows, uint32_t axis) const;
  // Returns how many rows `tokens` tokens give on a graph axis, constant rows left out.
  uint32_t rows_of_tokens(uint32_t tokens, uint32_t axis) const;
  uint32_t traced_rows(uint32_t axis) const {
    const RowAxis& own = row_axes_[row_axis_];
    return own.parts ? sizes.tokens : rows_of_tokens(own.traced_tokens, axis);
  }
  // Adds a convolution and returns its output [sequences, windows, columns].
  LinearExprRef windows_expr(const TokenWindows& windows);
  // Reduces the padding of a convolution whose first or last windows are sliced off, as by
  // conv(x)[:, :, :-padding]. Returns any other value unchanged.
  LinearExprRef trim_windows(const LinearExprRef& value);

  // The producer of an image input whose layout is not known yet, or 0; and the shape of one image.
  uint32_t images = 0;
  Shape images_shape;
  bool reads_images() const {
    return images != 0 || std::ranges::any_of(graph.axes, &Axis::is_image);
  }

 private:
  // Broadcasts the row of each sequence to all rows of `like`.
  ValueId repeated(ValueId node, ValueId like);
  // Adds the nodes of a gather that is not cached.
  ValueId gathered(const std::vector<Column>& columns);
  std::optional<ValueId> gather_by_matrix(const std::vector<Column>& columns, size_t runs);

  std::vector<Producer> producers_ = std::vector<Producer>(1);  // index 0 is unused
  std::map<std::vector<Column>, ValueId> gathered_;
  std::map<ValueId, const std::vector<Column>*> columns_of_gathered_;
  std::map<std::pair<uint32_t, SelectKind>, uint32_t> selected_;
  std::map<std::pair<uint32_t, int64_t>, uint32_t> shifted_;
  std::map<ValueId, ValueId> side_by_side_;
  std::map<const Constant*, uint32_t> of_constants_;
  std::map<uint32_t, TokenWindows> windows_;  // by the producer of their output
  std::map<ValueId, uint32_t> of_nodes_;
  std::vector<RowAxis> row_axes_;  // `sizes` replaces the sizes of the current one
  uint32_t row_axis_ = 0;
  std::vector<std::pair<LinearExprRef, LinearExprRef>> materialised_;
  size_t remembered_ = 0;  // elements in materialised_
};

// Switches to the row axis of a value until the end of the scope. Keeps the current axis if the
// value has none.
class ScopedAxis {
 public:
  ScopedAxis(GraphBuilder& builder, const LinearExpr& value) : ScopedAxis(builder) {
    if (builder.row_axes() == 1) return;
    if (const auto row_axis = builder.row_axis_of(value)) builder.switch_to(*row_axis);
  }
  ScopedAxis(GraphBuilder& builder, uint32_t row_axis) : ScopedAxis(builder) {
    builder.switch_to(row_axis);
  }
  ScopedAxis(const ScopedAxis&) = delete;
  ScopedAxis& operator=(const ScopedAxis&) = delete;
  ~ScopedAxis() { builder_.switch_to(before_); }

 private:
  explicit ScopedAxis(GraphBuilder& builder) : builder_(builder), before_(builder.row_axis()) {}

  GraphBuilder& builder_;
  const uint32_t before_;
};

// ---- model inputs, in the shape of the program's inputs ----

// Adds an input of token ids or token types. REQUIRES: kTokens or kTypes.
LinearExprRef ids_input(GraphBuilder& builder, Producer::Kind kind, Shape shape);
LinearExprRef features_input(GraphBuilder& builder, Shape shape);
// Selects the only row of each sequence of a node on a token axis, as per-sequence rows.
LinearExprRef row_of_sequence(GraphBuilder& builder, const LinearExprRef& value, Shape shape);

// Writes a value as a materialised value times a factor. Returns nullopt if all factors are 1, or
// if the value is no multiple of a node.
struct Multiple {
  LinearExprRef value;
  Array factor;
};
std::optional<Multiple> multiple_of_node(const GraphBuilder& builder, const LinearExprRef& value);
// A value as factors[c] * value + offsets[c] in column c, the same for all tokens.
struct FoldedInput {
  LinearExprRef value;
  std::vector<double> factors, offsets;  // [columns]
};
std::optional<FoldedInput> folded_input(const GraphBuilder& builder, const LinearExprRef& value);
// Whether the value is one term with a factor for each column of the node, such as one per head,
// but not for each of its own last-dimension columns.
bool has_factors_of_heads(const GraphBuilder& builder, const LinearExprRef& value);

// ---- ops, as nodes with the builder's name ----

LinearExprRef embedding(GraphBuilder& builder, const ConstantRef& table, const LinearExprRef& ids);
// Returns rows `rows` of a table as constants.
LinearExprRef table_rows(GraphBuilder& builder, const ConstantRef& table, Shape shape,
                         const std::vector<int64_t>& rows);
// Looks up positions that do not count padding ids. A padding id reads the row before position 0.
LinearExprRef padded_positions(GraphBuilder& builder, const ConstantRef& table,
                               const LinearExprRef& ids, int64_t padding);
LinearExprRef linear(GraphBuilder& builder, const LinearExprRef& value, const WeightRef& weight,
                     std::vector<double> bias);
// Normalises each run of spec.gain.size() elements of the last dimension.
LinearExprRef norm(GraphBuilder& builder, const LinearExprRef& value, NormSpec spec);
LinearExprRef normalize(GraphBuilder& builder, const LinearExprRef& value, NormKind kind);
LinearExprRef activation(GraphBuilder& builder, const LinearExprRef& value, ActivationNode node);
LinearExprRef product(GraphBuilder& builder, const LinearExprRef& a, const LinearExprRef& b);

// Reduces dimension `axis`, which steps through tokens, to one row per sequence.
LinearExprRef pooled(GraphBuilder& builder, const LinearExprRef& value, size_t axis,
                     SelectKind kind);

// Sets the weights of position tables to the rows for positions[i] tokens of input i. `constant_at`
// recomputes the constants.
void fill_position_tables(GraphBuilder& builder, const std::vector<uint32_t>& positions,
                          const ConstantAt& constant_at);

}  // namespace arenite::convert
