// SPDX-License-Identifier: Apache-2.0
// Makes nodes of the converter's graph of values whose elements are known to come from other nodes.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "convert/exported/recover/traced_value.h"
#include "convert/graph/graph.h"
#include "core/windows.h"

namespace arenite::convert {
// What was traced: so many sequences of so many rows.
struct TraceSizes {
  uint32_t sequences = 1;
  uint32_t tokens = 0;  // places of a sequence, those of its prefix included
  uint32_t prefix = 0;  // rows of constants that the program puts before those that it is given
  // Where it does so in several steps: the first ones put are the last ones of all.
  bool puts_last_first = false;

  uint32_t rows() const { return sequences * tokens; }
  bool is_of_prefix(uint32_t row) const { return row % tokens < prefix; }
};

// What shows while a program is followed, which is then followed anew.
struct Discovery {
  uint32_t row_axis = 0;
  uint32_t prefix = 0;  // rows of constants before each sequence, more than TraceSizes says
  std::optional<ImageLayout> image{};  // what its images are
};

// A matrix of elements that values are made of.
struct Producer {
  enum class Kind { kNode, kTokens, kTypes, kTable, kImages };

  Kind kind = Kind::kNode;
  ValueId node = 0;   // of kNode
  uint32_t rows = 0;  // places of all sequences, or as many as sequences
  uint32_t width = 0;
  ConstantRef table{};    // of kTable, whose elements are those of the constant
  uint32_t row_axis = 0;  // that it was made in
};

// What is computed with at a time: the rows that come from one input, or those of several joined.
// Of several inputs each is a row axis; where rows are kept apart, so are those of constants, those
// of windows, and joined ones of any kind.
struct RowAxis {
  TraceSizes sizes;            // of the rows that are computed with: windows may make fewer
  uint32_t traced_tokens = 0;  // of the input
  uint32_t axis = 0;           // of these rows
  uint32_t of = 0;             // whose rows windows are laid over, or the row axis itself
  int64_t positions_max = 0;   // as far as is known; 0: any number
  // Of joined rows those that were joined, with their tokens.
  std::optional<std::pair<uint32_t, uint32_t>> parts{};
};

// A column of a producer, the same one in each row.
using Column = std::pair<uint32_t, uint32_t>;  // producer and column

// A convolution over the tokens of a node, `places` a sequence, from place `first` on.
struct TokenWindows {
  Windows windows;
  ValueId input = 0;
  uint32_t places = 0;
  uint32_t first = 0;
  std::function<ValueId(const Windows&, ValueId input)> add{};  // its nodes
  std::optional<uint32_t> row_axis{};  // of the node; none: the present one
};

// A value as the rows of one node, whose columns are the value's last dimension, in the order of
// the value's other dimensions: `rows` says which row each of these is.
struct RowView {
  ValueId node = 0;
  uint32_t width = 0;
  std::vector<uint32_t> rows;
  uint32_t count = 0;  // of the node
};

// Rows of a table of positions as elements of a constant: for each column the index of row 0,
// and the step from row to row.
struct TablePart {
  ConstantRef constant;
  std::vector<double> factors;     // [columns]
  std::vector<int64_t> first_row;  // [columns], indices into the constant
  int64_t stride = 0;              // from row to row; 0: all rows are the same
  // Which of its rows each place of the prefix has, -1: none. Those of tokens follow.
  std::vector<int64_t> prefix_rows{};
};
struct PositionTable {
  ValueId node = 0;
  std::vector<TablePart> parts;
  uint32_t row_axis = 0;
};

// A value of the program where its inputs have other lengths.
using ConstantAt = std::function<Array(uint32_t value)>;

// The graph so far, and which elements values can be made of.
class GraphBuilder {
 public:
  // One row axis for each input, whose name is that of the author.
  GraphBuilder(std::shared_ptr<const ExportedProgram> of_program,
               const std::vector<TraceSizes>& of_inputs, const std::vector<std::string>& names,
               bool keeps_apart = false);

  const std::shared_ptr<const ExportedProgram> program;
  // Whether rows of constants, of windows and joined ones are row axes of their own. Else the first
  // are a prefix of tokens, which windows take the place of.
  const bool keeps_rows_apart;
  bool has_other_rows = false;  // for which that makes a difference
  // Whether there may be numbers of each pair of rows, as of a matrix over them, since sequences
  // have as many rows as that of the example, and no others. Rows are kept apart then.
  bool fixes_rows = false;
  TraceSizes sizes;  // of the present row axis
  Graph graph;
  std::string name;  // of nodes that are made next
  std::optional<Discovery> found;
  std::vector<PositionTable> tables;
  bool columns_first = false;    // of what is given out: [sequences, columns, tokens]
  bool may_see_nothing = false;  // a row, as ids before it may be those of padding alone

  // Throws NotRecognised for what is no element.
  const Producer& producer(int64_t number) const;
  uint32_t row_of(int64_t number) const;
  Column column_of(int64_t number) const;
  bool is_node(int64_t number) const {
    return number != kNoElement && producer(number).kind == Producer::Kind::kNode;
  }
  const Producer& producer_at(uint32_t index) const { return producers_.at(index); }
  // Whether it has one row for each sequence, and not one for each of its tokens.
  bool is_per_sequence(const Producer& from) const {
    return from.kind == Producer::Kind::kNode && from.rows == sizes.sequences && sizes.tokens > 1;
  }
  bool is_per_sequence(int64_t number) const {
    return number != kNoElement && is_per_sequence(producer(number));
  }
  uint32_t add_producer(Producer producer);
  uint32_t producer_of_node(ValueId node, uint32_t rows);
  // The elements of a constant.
  LinearExprRef of_constant(const ConstantRef& constant);

  // ---- row axes ----

  uint32_t row_axis() const { return row_axis_; }
  size_t row_axes() const { return row_axes_.size(); }
  // Works on another one from now on.
  void turn_to(uint32_t row_axis);
  int64_t positions_max(uint32_t row_axis) const;
  const TraceSizes& sizes_of(uint32_t row_axis) const {
    return row_axis == row_axis_ ? sizes : row_axes_[row_axis].sizes;
  }
  // The row axis whose rows a value has; nothing where it has rows of whole sequences, or
  // constants.
  std::optional<uint32_t> row_axis_of(const LinearExpr& value) const;
  uint32_t row_axis_of_column(const Column& column) const {
    return producers_[column.first].row_axis;
  }
  // The rows of several row axes, one after the other, as a row axis of their own.
  uint32_t joined_row_axis(uint32_t first, uint32_t second, ValueId node);
  // That of a node whose rows are parts of those of the present one, in turn; and a node whose rows
  // have those of another one side by side again, of which they are parts.
  uint32_t row_axis_in_turn(ValueId node);
  ValueId side_by_side(ValueId node);
  // That of the rows of an axis, which each sequence has so many of.
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

  // The same elements as one term without factors: sums are added up, rotations applied.
  LinearExprRef materialised(const LinearExprRef& value);
  // Value and what was made of it, the last few.
  const std::vector<std::pair<LinearExprRef, LinearExprRef>>& all_materialised() const {
    return materialised_;
  }
  // A node of the columns side by side.
  ValueId gather(const std::vector<Column>& columns);
  // The producer of one row of each sequence that is made of those of another one, from
  // `first_place` on.
  uint32_t selected(uint32_t producer, SelectKind kind, uint32_t first_place);
  // The producer whose rows are those so many tokens before, or after where `by` is negative, and
  // zeros beyond the sequence.
  uint32_t shifted(uint32_t producer, int64_t by);
  // One row of each sequence, that of the token at `place`, which counts from the nearer end.
  uint32_t selected_at(uint32_t producer, uint32_t place);
  // Rows of an axis beside those of tokens or windows.
  uint32_t constants_on(uint32_t axis) const;
  // Rows of constants that each sequence has in a node, and the place of the first.
  uint32_t constants_of(ValueId node) const;
  uint32_t first_place(ValueId node) const {
    return sizes.puts_last_first ? sizes.prefix - constants_of(node) : 0;
  }
  // Whether this times a node is the sum of rows that the node is the mean of: a sum is followed as
  // such a multiple, so that a division by the number of rows is a mean again at any length.
  bool is_sum_of_rows(ValueId node, double factor) const;
  // The rows of a node without the first ones, which are whole parts that were joined.
  ValueId without_first(ValueId node, uint32_t rows);
  // These alone.
  ValueId first_rows(ValueId node, uint32_t rows);
  // The nodes with equally many rows of constants, the fewest that one has. Those with a row for
  // each sequence are none of them.
  void align(std::vector<ValueId>& nodes);
  // Tightens what is known of the number of positions: of rows that are computed with, or of those
  // of another axis. 0: of any number.
  void limit_positions(int64_t most);
  // Tokens of the longest sequence that has so many rows on an axis, without those of constants.
  int64_t tokens_of_rows(int64_t rows, uint32_t axis) const;
  // Rows of a sequence of so many tokens, without those of constants.
  uint32_t rows_of_tokens(uint32_t tokens, uint32_t axis) const;
  uint32_t traced_rows(uint32_t axis) const {
    const RowAxis& own = row_axes_[row_axis_];
    return own.parts ? sizes.tokens - sizes.prefix : rows_of_tokens(own.traced_tokens, axis);
  }
  // What a convolution gives, [sequences, windows, columns]. Later values have as many rows.
  LinearExprRef of_windows(const TokenWindows& windows);
  // The first or the last windows of all as those of a convolution that has no others, and any
  // other value as it is.
  LinearExprRef without_windows(const LinearExprRef& value);

  // Where the input is images of which it is not known yet how they lie: their producer, and shape.
  uint32_t images = 0;
  Shape images_shape;
  bool reads_images() const {
    return images != 0 || std::ranges::any_of(graph.axes, &Axis::is_image);
  }

 private:
  // The first or the last rows of joined ones.
  ValueId part_of(ValueId node, bool is_first);
  uint32_t rows_of_first_part(ValueId node) const;  // UINT32_MAX: it has none
  // A row for each sequence as one for each row of `like`.
  ValueId repeated(ValueId node, ValueId like);
  // For each sequence the row that comes after so many.
  ValueId row_after(ValueId node, uint32_t rows);
  std::optional<ValueId> chosen_columns(const std::vector<Column>& columns, size_t runs);

  std::vector<Producer> producers_ = std::vector<Producer>(1);  // the first is none
  std::map<std::vector<Column>, ValueId> gathered_;
  std::map<std::tuple<uint32_t, SelectKind, uint32_t>, uint32_t> selected_;
  std::map<std::pair<uint32_t, int64_t>, uint32_t> shifted_;
  std::map<std::pair<ValueId, bool>, ValueId> parts_;
  std::map<ValueId, ValueId> side_by_side_;
  std::map<const Constant*, uint32_t> of_constants_;
  std::map<uint32_t, TokenWindows> windows_;  // by the producer of what they give
  std::map<ValueId, uint32_t> of_nodes_;
  std::vector<RowAxis> row_axes_;  // the present one without its sizes
  uint32_t row_axis_ = 0;
  std::vector<std::pair<LinearExprRef, LinearExprRef>> materialised_;
  size_t remembered_ = 0;  // elements of these
};

// Works on the row axis of a value, if it has one, until it goes.
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

// ---- the model's input in the shape that the author's code gets ----

// Of kTokens or kTypes.
LinearExprRef ids_input(GraphBuilder& builder, Producer::Kind kind, Shape shape);
LinearExprRef features_input(GraphBuilder& builder, Shape shape);
// The one row that each sequence has in a node, as one that was pooled, in another shape.
LinearExprRef row_of_sequence(GraphBuilder& builder, const LinearExprRef& value, Shape shape);
// [sequences, ...]; `layout` is how they lie, where that is known.
LinearExprRef images_input(GraphBuilder& builder, Shape shape,
                           const std::optional<ImageLayout>& layout);

// ---- values as rows of nodes (row_view.cc) ----

// With `order`, all of a node's columns in another order than the node's are left in that one, and
// column c of the value is the node's column (*order)[c]; empty: they are in order.
RowView rows_of(GraphBuilder& builder, const LinearExprRef& value,
                std::vector<uint32_t>* order = nullptr);
// A value in the shape of `rows` and `width` new columns, made by `node`.
LinearExprRef on_rows(GraphBuilder& builder, const RowView& rows, const Shape& shape, ValueId node,
                      uint32_t width);
// A row of elements that is one of a producer's, or of several sources' side by side: of a token's
// beside those that are for its whole sequence, the token's row.
struct SourceRow {
  uint32_t row = 0;
  std::vector<Column> columns;
};
// That of the `width` elements from `begin` on. Nothing where there are constants between them, or
// elements of other rows.
std::optional<SourceRow> producer_row(const GraphBuilder& builder, const LinearExpr& value,
                                      size_t begin, size_t width);
// A value whose rows are those of other tokens, all of them the same number of tokens away, with
// zeros at one end of a sequence, as a node's. Any other value as it is.
LinearExprRef shifted_rows(GraphBuilder& builder, const LinearExprRef& value);
// One row for each sequence that is made of a few tokens' numbers, as of columns of rows that
// sequences have one of. Any other value as it is.
LinearExprRef of_chosen_tokens(GraphBuilder& builder, const LinearExprRef& value);
// What happens to values: they are added up, multiplied, or moved.
enum class Together { kSum, kProduct, kMoved };
// Values that are one token of each sequence, where others are of another one, of all tokens or
// pooled: as rows of sequences, so that they can be put together; of what is added up, those of one
// token alone, too. Other values stay as they are.
std::vector<LinearExprRef> rows_of_sequences(GraphBuilder& builder,
                                             std::vector<LinearExprRef> values, Together how);
// Values that are put together where their rows are others, which always stand with the same ones:
// with rows of the same kind (row_matrices.cc). Others stay as they are.
void align_row_axes(GraphBuilder& builder, std::vector<LinearExprRef>& values);
// Values that `joins` puts side by side, with rows of the kind of the first one that has its rows
// in order, where sequences have so many rows and no others.
std::vector<LinearExprRef> columns_alike(GraphBuilder& builder, std::vector<LinearExprRef> values,
                                         std::optional<size_t> joins);
// The value without the dimensions along which it is repeated, which have then the extent 1.
LinearExprRef without_repeats(const LinearExprRef& value);
// What `make` gives for rows that are all the same columns of a producer. Rows of several kinds,
// such as the heads of each token, are taken apart, and what is made of them is put together again.
LinearExprRef each_kind_of_row(GraphBuilder& builder, const LinearExprRef& value,
                               const std::function<LinearExprRef(const LinearExprRef&)>& make);
// One term of one producer whose elements each stand once in it, and all of them.
LinearExprRef on_one_producer(GraphBuilder& builder, const LinearExprRef& value);
// `value` with another node's elements at the same rows and columns.
LinearExprRef in_place(const LinearExprRef& value, uint32_t from, uint32_t to);
// Whether it has token ids and nothing else.
bool is_of_ids(const GraphBuilder& builder, const LinearExpr& value);
// Whether a step along `axis` is one to another token.
bool is_along_tokens(const GraphBuilder& builder, const LinearExpr& value, size_t axis);

// A value that is one of one node times constants, and what these are. Nothing for a value that is
// such itself, or no multiple.
struct Multiple {
  LinearExprRef value;
  Array factor;
};
std::optional<Multiple> multiple_of_node(const GraphBuilder& builder, const LinearExprRef& value);
// Columns of a node times factors and with offsets, which are the same for all tokens.
struct FoldedInput {
  LinearExprRef value;
  std::vector<double> factors, offsets;  // [columns]
};
std::optional<FoldedInput> columns_of_node(const GraphBuilder& builder, const LinearExprRef& value);
// Whether it is one node times factors of its columns, which are not those of the value.
bool has_factors_of_heads(const GraphBuilder& builder, const LinearExprRef& value);

// ---- sums.cc and rotations.cc ----

// REQUIRES: not plain.
LinearExprRef add_up(GraphBuilder& builder, const LinearExprRef& value);
// Queries or keys that turn with their position as nodes. Nothing where this is no rotation.
std::optional<LinearExprRef> find_rotation(GraphBuilder& builder, const LinearExpr& value);
// A whole rotation as one node, and any other value as it is.
LinearExprRef rotated_or_same(GraphBuilder& builder, const LinearExprRef& value);

// ---- ops, as nodes of the builder's name ----

LinearExprRef embedding(GraphBuilder& builder, const ConstantRef& table, const LinearExprRef& ids);
// Rows of a table as constants, one for each of `rows`.
LinearExprRef table_rows(GraphBuilder& builder, const ConstantRef& table, Shape shape,
                         const std::vector<int64_t>& rows);
// Rows of positions that leave ids of padding out, which have the row before that of position
// 0.
LinearExprRef padded_positions(GraphBuilder& builder, const ConstantRef& table,
                               const LinearExprRef& ids, int64_t padding);
LinearExprRef linear(GraphBuilder& builder, const LinearExprRef& value, const WeightRef& weight,
                     std::vector<double> bias);
// The same of rows that are one column of the tokens each, [.., tokens] to [.., results]: a matrix
// over the tokens, of which there are so many and no others. Nothing for any other value.
std::optional<LinearExprRef> linear_over_rows(GraphBuilder& builder, const LinearExprRef& value,
                                              const WeightRef& weight,
                                              const std::vector<double>& bias);
// All rows of the tokens, of which some stand there more often, as after padding by the first and
// the last one: such a product. Nothing for any other value.
std::optional<LinearExprRef> repeated_rows(GraphBuilder& builder, const LinearExprRef& value);
// Of each run of elements of the last dimension.
LinearExprRef norm(GraphBuilder& builder, const LinearExprRef& value, NormSpec spec);
LinearExprRef normalize(GraphBuilder& builder, const LinearExprRef& value, NormKind kind);
LinearExprRef activation(GraphBuilder& builder, const LinearExprRef& value, ActivationNode node);
LinearExprRef product(GraphBuilder& builder, const LinearExprRef& a, const LinearExprRef& b);
// A value in which rows of constants stand before those of the tokens, with these rows in a node,
// and any other value as it is.
LinearExprRef prefixed(GraphBuilder& builder, const LinearExprRef& value);
// A value whose rows are pixels of windows side by side, as patches are, as rows of a node of such
// windows, and any other value as it is. Of images of which it is not known how they lie, throws
// NotRecognised, and says in builder.found what they seem to be.
LinearExprRef as_windows(GraphBuilder& builder, const LinearExprRef& value);
// Of each column the largest number along `axis`, or the mean, where the pixels along it are those
// of a window, in any order; nothing where they are anything else.
std::optional<LinearExprRef> pooled_windows(GraphBuilder& builder, const LinearExprRef& value,
                                            size_t axis, SelectKind kind);
// The mean along `axis`, or the softmax, where the rows along it are a group of the tokens, which
// share them out: with a row for each token. Nothing for any other value (row_matrices.cc).
std::optional<LinearExprRef> mean_of_groups(GraphBuilder& builder, const LinearExprRef& value,
                                            size_t axis);
std::optional<LinearExprRef> softmax_of_groups(GraphBuilder& builder, const LinearExprRef& value,
                                               size_t axis);
// Of images that a convolution reads as [sequences, channels, height, width]: throws NotRecognised,
// and says in builder.found how they lie. Other values stay as they are.
void find_image(GraphBuilder& builder, const LinearExpr& value);

// ---- concat_rows.cc ----

// Rows of several row axes, or of constants, one after the other along dimension `dim`, as rows of
// one node; nothing for values that are anything else.
std::optional<LinearExprRef> concat_rows(GraphBuilder& builder,
                                         const std::vector<LinearExprRef>& values, size_t dim);
// The rows of one of those row axes alone, in a node; and any other value as it is.
LinearExprRef part_of_joined(GraphBuilder& builder, const LinearExprRef& value);
// Rows of several kinds for each token in turn, as returns, states and actions, each made by
// another layer: as those of one node. Any other value as it is.
LinearExprRef rows_in_turn(GraphBuilder& builder, const LinearExprRef& value);
// Some of the rows in turn of each token, or all of them side by side: as columns of the token's
// row. Any other value as it is.
LinearExprRef rows_side_by_side(GraphBuilder& builder, const LinearExprRef& value);
// Constants [.., rows, columns] as rows that each sequence has, where `like` [.., rows, columns]
// says which leading indices are sequences and which are heads; nothing where it does not.
std::optional<LinearExprRef> rows_of_constants(GraphBuilder& builder, const ConstantRef& constant,
                                               const LinearExprRef& like);

// Constants [.., columns] as columns beside those of `like`, which has as many rows; nothing where
// these are no rows of tokens.
std::optional<LinearExprRef> columns_of_constants(GraphBuilder& builder,
                                                  const LinearExprRef& constants,
                                                  const LinearExprRef& like);
// A sum of constants alone as the program's constant `number`; null for any other.
ConstantRef constant_of_sum(const GraphBuilder& builder, const LinearExpr& value, ElementType type,
                            uint32_t number);

// One row of each sequence, of all along `axis`.
LinearExprRef pooled(GraphBuilder& builder, const LinearExprRef& value, size_t axis,
                     SelectKind kind);
// The node that gives out a value of the model.
ValueId output(GraphBuilder& builder, const LinearExprRef& value);

// Gives tables of positions all their rows: those of a prefix, and of so many tokens of each
// input, at which `constant_at` gives values.
void fill_position_tables(GraphBuilder& builder, const std::vector<uint32_t>& positions,
                          const ConstantAt& constant_at);

}  // namespace arenite::convert
