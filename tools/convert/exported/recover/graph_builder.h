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

namespace arenite::convert {
// What was traced: so many sequences of so many rows.
struct TraceSizes {
  uint32_t sequences = 1;
  uint32_t tokens = 0;  // of a sequence, the rows of its prefix included
  uint32_t prefix = 0;  // rows of constants that the program puts before those that it is given
  // Where it does so in several steps: the first ones put are the last ones of all.
  bool puts_last_first = false;

  uint32_t rows() const { return sequences * tokens; }
  bool is_of_prefix(uint32_t row) const { return row % tokens < prefix; }
};

// What shows while a program is followed, which is then followed anew.
struct Discovery {
  uint32_t prefix = 0;  // rows of constants before each sequence, more than TraceSizes says
  std::optional<ImagePatches> patches{};  // that it cuts its images into
};

// A matrix of elements that values are made of.
struct Source {
  enum class Kind { kNode, kTokens, kTypes, kTable, kImages };

  Kind kind = Kind::kNode;
  ValueId node = 0;   // of kNode
  uint32_t rows = 0;  // tokens of all sequences, or as many as sequences
  uint32_t width = 0;
  ConstantRef table{};  // of kTable, whose elements are those of the constant
};

// A column of a source, the same one in each row.
using Column = std::pair<uint32_t, uint32_t>;  // source and column

// A value as the rows of one node, whose columns are the value's last dimension, in the order of
// the value's other dimensions: `rows` says which row each of these is.
struct NodeRows {
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
};

// The value of a program at another length.
using ConstantAt = std::function<Array(uint32_t value, int64_t tokens)>;

// The graph so far, and which elements values can be made of.
class GraphBuilder {
 public:
  GraphBuilder(std::shared_ptr<const ExportedProgram> of_program, TraceSizes trace_sizes)
      : program(std::move(of_program)), sizes(trace_sizes) {}

  const std::shared_ptr<const ExportedProgram> program;
  const TraceSizes sizes;
  Graph graph;
  std::string name;           // of nodes that are made next
  int64_t positions_max = 0;  // as far as is known; 0: any number
  std::optional<Discovery> found;
  std::vector<PositionTable> tables;

  // Throws NotRecognised for what is no element.
  const Source& source(int64_t number) const;
  uint32_t row_of(int64_t number) const;
  Column column_of(int64_t number) const;
  bool is_node(int64_t number) const {
    return number != kNoElement && source(number).kind == Source::Kind::kNode;
  }
  const Source& source_at(uint32_t index) const { return sources_.at(index); }
  uint32_t add_source(Source source);
  uint32_t source_of_node(ValueId node, uint32_t rows);
  // The elements of a constant.
  ElementSumRef of_constant(const ConstantRef& constant);

  // The same elements as one term without factors: sums are added up, rotations applied.
  ElementSumRef materialised(const ElementSumRef& value);
  // Value and what was made of it, the last few.
  const std::vector<std::pair<ElementSumRef, ElementSumRef>>& all_materialised() const {
    return materialised_;
  }
  // A node of the columns side by side.
  ValueId gather(const std::vector<Column>& columns);
  // The source of one row of each sequence that is made of those of another one.
  uint32_t selected(uint32_t source, SelectKind kind, uint32_t first_row);
  // Tightens what is known of the number of positions.
  void limit_positions(int64_t most) { positions_max = tighter(positions_max, most); }

  // Where the input is images: their source, that of their patches or 0, and their shape.
  uint32_t images = 0, patches = 0;
  Shape images_shape;
  ImagePatches image;

 private:
  std::optional<ValueId> chosen_columns(const std::vector<Column>& columns, size_t runs);

  std::vector<Source> sources_ = std::vector<Source>(1);  // the first is none
  std::map<std::vector<Column>, ValueId> gathered_;
  std::map<std::tuple<uint32_t, SelectKind, uint32_t>, uint32_t> selected_;
  std::map<const Constant*, uint32_t> of_constants_;
  std::map<ValueId, uint32_t> of_nodes_;
  std::vector<std::pair<ElementSumRef, ElementSumRef>> materialised_;
  size_t remembered_ = 0;  // elements of these
};

// ---- the model's input in the shape that the author's code gets ----

// Of kTokens or kTypes.
ElementSumRef ids_input(GraphBuilder& builder, Source::Kind kind, Shape shape);
ElementSumRef features_input(GraphBuilder& builder, Shape shape);
// [sequences, ...]; `patches` is how they are cut, where that is known.
ElementSumRef images_input(GraphBuilder& builder, Shape shape,
                           const std::optional<ImagePatches>& patches);

// ---- values of one node ----

// With `order`, all of a node's columns in another order than the node's are left in that one, and
// column c of the value is the node's column (*order)[c]; empty: they are in order.
NodeRows rows_of(GraphBuilder& builder, const ElementSumRef& value,
                 std::vector<uint32_t>* order = nullptr);
// A value in the shape of `rows` and `width` new columns, made by `node`.
ElementSumRef on_rows(GraphBuilder& builder, const NodeRows& rows, const Shape& shape, ValueId node,
                      uint32_t width);
// A row of elements that is one of a source's, or of several sources' side by side.
struct SourceRow {
  uint32_t row = 0;
  std::vector<Column> columns;
};
// That of the `width` elements from `begin` on. Nothing where there are constants between them, or
// elements of other rows.
std::optional<SourceRow> source_row(const GraphBuilder& builder, const ElementSum& value,
                                    size_t begin, size_t width);
// One term of one source whose elements each stand once in it, and all of them.
ElementSumRef on_one_source(GraphBuilder& builder, const ElementSumRef& value);
// `value` with another node's elements at the same rows and columns.
ElementSumRef in_place(const ElementSumRef& value, uint32_t from, uint32_t to);
// Whether it has token ids and nothing else.
bool is_of_ids(const GraphBuilder& builder, const ElementSum& value);
// Whether a step along `axis` is one to another token.
bool is_along_tokens(const GraphBuilder& builder, const ElementSum& value, size_t axis);

// A value that is one of one node times constants, and what these are. Nothing for a value that is
// such itself, or no multiple.
struct Multiple {
  ElementSumRef value;
  Array factor;
};
std::optional<Multiple> multiple_of_node(const GraphBuilder& builder, const ElementSumRef& value);
// Columns of a node times factors and with offsets, which are the same for all tokens.
struct FoldedInput {
  ElementSumRef value;
  std::vector<double> factors, offsets;  // [columns]
};
std::optional<FoldedInput> columns_of_node(const GraphBuilder& builder, const ElementSumRef& value);
// Whether it is one node times factors of its columns, which are not those of the value.
bool has_factors_of_heads(const GraphBuilder& builder, const ElementSumRef& value);

// ---- sums.cc ----

// REQUIRES: not plain.
ElementSumRef add_up(GraphBuilder& builder, const ElementSumRef& value);
// Queries or keys that turn with their position as one node. Nothing where this is no rotation.
// Throws NotRecognised for one that the runtime lacks.
std::optional<ElementSumRef> find_rotation(GraphBuilder& builder, const ElementSum& value);
// A whole rotation as one node, and any other value as it is.
ElementSumRef rotated_or_same(GraphBuilder& builder, const ElementSumRef& value);

// ---- ops, as nodes of the builder's name ----

ElementSumRef embedding(GraphBuilder& builder, const ConstantRef& table, const ElementSumRef& ids);
// Rows of a table as constants, one for each of `rows`.
ElementSumRef table_rows(GraphBuilder& builder, const ConstantRef& table, Shape shape,
                         const std::vector<int64_t>& rows);
// Rows of positions that leave ids of padding out, which have the row before that of position
// 0.
ElementSumRef padded_positions(GraphBuilder& builder, const ConstantRef& table,
                               const ElementSumRef& ids, int64_t padding);
ElementSumRef linear(GraphBuilder& builder, const ElementSumRef& value, const WeightRef& weight,
                     std::vector<double> bias);
// Of each run of elements of the last dimension.
ElementSumRef norm(GraphBuilder& builder, const ElementSumRef& value, NormSpec spec);
ElementSumRef normalize(GraphBuilder& builder, const ElementSumRef& value, NormKind kind);
ElementSumRef activation(GraphBuilder& builder, const ElementSumRef& value, ActivationNode node);
ElementSumRef product(GraphBuilder& builder, const ElementSumRef& a, const ElementSumRef& b);
// A value in which rows of constants stand before those of the tokens, with these rows in a node,
// and any other value as it is.
ElementSumRef prefixed(GraphBuilder& builder, const ElementSumRef& value);
// A value that may be made of images' elements, as one that is made of their patches, whose
// numbers are the last dimension.
ElementSumRef as_patches(GraphBuilder& builder, const ElementSumRef& value);
// One row of each sequence, of all along `axis`.
ElementSumRef pooled(GraphBuilder& builder, const ElementSumRef& value, size_t axis,
                     SelectKind kind);
// The node that gives out a value of the model.
ValueId output(GraphBuilder& builder, const ElementSumRef& value);

// Gives tables of positions all their rows: those of a prefix and of so many tokens.
void fill_position_tables(GraphBuilder& builder, uint32_t positions, const ConstantAt& constant_at);

}  // namespace arenite::convert
