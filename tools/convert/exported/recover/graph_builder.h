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

#include "convert/exported/recover/constant.h"
#include "convert/exported/recover/element_sum.h"
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
};

// Thrown where a program puts more rows of constants before each sequence than its TraceSizes say:
// it is then followed anew.
struct PrefixFound {
  uint32_t rows = 0;
};

// Thrown where a program cuts its images into patches: it is then followed anew.
struct PatchesFound {
  ImagePatches patches;
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

inline constexpr const char* kMixesTokens =
    "its rows mix elements of several tokens, which only attention and pooling may do";

// The value of a program at another length.
using ConstantAt = std::function<Array(uint32_t value, int64_t tokens)>;

class GraphBuilder {
 public:
  GraphBuilder(std::shared_ptr<const ExportedProgram> program, TraceSizes sizes)
      : program_(std::move(program)), sizes_(sizes), sources_(1) {}

  Graph& graph() { return graph_; }
  const TraceSizes& sizes() const { return sizes_; }
  // Throws NotRecognised for what is no element.
  const Source& source(int64_t number) const;
  uint32_t row_of(int64_t number) const;
  Column column_of(int64_t number) const;
  // Whether it has token ids and nothing else.
  bool is_of_ids(const ElementSum& value) const {
    return value.is_plain() && value.elements() != 0 &&
           source(value.terms[0].places.at(0)).kind == Source::Kind::kTokens;
  }
  uint32_t source_of_node(ValueId node, uint32_t rows);
  // What nodes that are made next are called.
  void set_name(std::string name) { name_ = std::move(name); }
  const std::string& name() const { return name_; }

  // The model's input in the shape that the author's code gets.
  ElementSumRef tokens_input(Shape shape);
  ElementSumRef types_input(Shape shape);
  ElementSumRef features_input(Shape shape, uint32_t width);
  // Images, in the shape [sequences, ...] that the author's code gets; `patches` is how they are
  // cut, where that is known.
  ElementSumRef images_input(Shape shape, const std::optional<ImagePatches>& patches);
  // The elements of a constant.
  ElementSumRef of_constant(const ConstantRef& constant);

  // ---- values of one node ----

  // The same elements as one term without factors: sums are added up, rotations applied.
  ElementSumRef materialised(const ElementSumRef& value);
  // A value that is one of one node times constants, and what these are. Nothing for a value that
  // is such itself, or no multiple.
  struct Multiple {
    ElementSumRef value;
    Array factor;
  };
  std::optional<Multiple> multiple_of_node(const ElementSumRef& value) const;
  // Columns of a node times factors and with offsets, which are the same for all tokens.
  struct FoldedInput {
    ElementSumRef value;
    std::vector<double> factors, offsets;  // [columns]
  };
  std::optional<FoldedInput> columns_of_node(const ElementSumRef& value) const;
  // Whether it is one node times factors of its columns, which are not those of the value.
  bool has_factors_of_heads(const ElementSumRef& value) const;
  // A whole rotation as one node, and any other value as it is.
  ElementSumRef rotated_or_same(const ElementSumRef& value);
  // All of it as the rows of one node, whose columns are the value's last dimension, in the order
  // of the value's other dimensions: `rows` says which row each of these is.
  struct Rows {
    ValueId node = 0;
    uint32_t width = 0;
    std::vector<uint32_t> rows;
    uint32_t count = 0;  // of the node
  };
  // With `order`, all of a node's columns in another order than the node's are left in that one,
  // and column c of the value is the node's column (*order)[c]; empty: they are in order.
  Rows rows_of(const ElementSumRef& value, std::vector<uint32_t>* order = nullptr);
  // A value in the shape of `rows` and `width` new columns, made by `node`.
  // The rows of a value as a node of their own.
  ElementSumRef rows_as_node(const ElementSumRef& value);
  ElementSumRef on_rows(const Rows& rows, const Shape& shape, ValueId node, uint32_t width);
  // A node of the columns side by side.
  ValueId gather(const std::vector<Column>& columns);

  // ---- ops ----

  ElementSumRef embedding(const ConstantRef& table, const ElementSumRef& ids);
  bool is_embedding_with_tables(const ElementSum& value) const;
  ElementSumRef table_rows(const ConstantRef& table, Shape shape, const std::vector<int64_t>& rows);
  // Rows of positions that leave ids of padding out, which have the row before that of position 0.
  ElementSumRef padded_positions(const ConstantRef& table, const ElementSumRef& ids,
                                 int64_t padding);
  ElementSumRef linear(const ElementSumRef& value, const WeightRef& weight,
                       std::vector<double> bias);
  // Of each run of elements of the last dimension.
  ElementSumRef norm(const ElementSumRef& value, NormSpec spec);
  ElementSumRef normalize(const ElementSumRef& value, NormKind kind = NormKind::kLength);
  ElementSumRef activation(const ElementSumRef& value, ActivationNode node);
  ElementSumRef product(const ElementSumRef& a, const ElementSumRef& b);
  // A value in which rows of constants stand before those of the tokens, with these rows in a node;
  // null for any other value.
  ElementSumRef prefixed(const ElementSumRef& value);
  // A value that may be made of images' elements, as one that is made of their patches, whose
  // numbers are the last dimension. Throws PatchesFound.
  ElementSumRef as_patches(const ElementSumRef& value);
  // One row of each sequence, of all along `axis`.
  ElementSumRef pooled(const ElementSumRef& value, size_t axis, SelectKind kind);
  // Whether a step along `axis` is one to another token.
  bool is_along_tokens(const ElementSumRef& value, size_t axis) const;
  // The node that gives out a value of the model.
  ValueId output(const ElementSumRef& value);

  // ---- length ----

  // Tightens what is known of the number of positions.
  void limit_positions(int64_t positions_max);
  int64_t positions_max() const { return positions_max_; }
  // Gives tables of positions all their rows: those of a prefix and of so many tokens.
  void finish(uint32_t positions, const ConstantAt& constant_at);
  bool has_position_tables() const { return !tables_.empty(); }

 private:
  friend class SumBuilder;
  friend class RotationFinder;

  // The rows of a table of positions are elements of a constant: for each column the index of row
  // 0, and the constant's dimension that positions are along.
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

  uint32_t add_source(Source source);
  void remember(const ElementSumRef& value, const ElementSumRef& made);
  // Which of a node's columns each of these is, where they are all of one node's in disorder.
  std::vector<uint32_t> order_of(const std::vector<Column>& columns) const;
  uint32_t selected(uint32_t source, SelectKind kind, uint32_t first_row);
  struct Prefix;
  bool read_prefix(const ElementSumRef& value, Prefix& prefix) const;
  bool is_of_prefix(uint32_t row) const { return row % sizes_.tokens < sizes_.prefix; }
  // The rows of a whole source that a value has, where it has those of all tokens.
  bool has_all_tokens(const std::vector<uint32_t>& rows) const;
  // What a linear layer reads, where its own weights take the constants in.
  std::optional<FoldedInput> folded_input(const ElementSumRef& value) const;
  // `value` with another node's elements at the same rows and columns.
  ElementSumRef in_place(const ElementSumRef& value, uint32_t from, uint32_t to) const;
  // One term of one source whose elements each stand once in it, and all of them.
  ElementSumRef on_one_source(const ElementSumRef& value);
  std::vector<size_t> columns_last(const std::vector<ElementSumRef>& values) const;
  Shape with_whole_rows(const ElementSumRef& value) const;
  std::optional<ValueId> chosen_columns(const std::vector<Column>& columns, size_t runs);

  std::shared_ptr<const ExportedProgram> program_;
  TraceSizes sizes_;
  Graph graph_;
  std::string name_;
  std::vector<Source> sources_;  // the first is none
  uint32_t images_ = 0;          // source, where the input is images
  uint32_t patches_ = 0;         // of their patches
  Shape images_shape_;
  ImagePatches image_;
  std::map<std::vector<Column>, ValueId> gathered_;
  std::map<std::tuple<uint32_t, SelectKind, uint32_t>, uint32_t> selected_;
  std::map<const Constant*, uint32_t> of_constants_;
  std::map<ValueId, uint32_t> of_nodes_;
  std::vector<std::pair<ElementSumRef, ElementSumRef>> materialised_;  // the last few
  size_t remembered_ = 0;                                              // elements of these
  std::vector<PositionTable> tables_;
  int64_t positions_max_ = 0;
};

}  // namespace arenite::convert
