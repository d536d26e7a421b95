// SPDX-License-Identifier: Apache-2.0
// Expresses values as rows of one node. Adds nodes for values that are not, such as shifted or
// selected tokens.
//
//   x [2, 5, 8] over node A [10, 8]  ->  RowView{A, width 8, rows 0 .. 9, count 10}
//   x[:, -1]                         ->  RowView{last(A), width 8, rows 0 and 1, count 2}
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "convert/exported/recover/graph_builder.h"

namespace arenite::convert {

// A value as rows of one node: its last dimension is the node's columns. `rows` has the node's row
// for each index of the other dimensions, in row-major order.
struct RowView {
  ValueId node = 0;
  uint32_t width = 0;
  std::vector<uint32_t> rows;
  uint32_t count = 0;  // rows of the node

  // Whether these are all rows of the node, in order.
  bool are_all() const {
    if (rows.size() != count) return false;
    for (uint32_t i = 0; i < count; ++i) {
      if (rows[i] != i) return false;
    }
    return true;
  }
};
// Returns the value as rows of a node. Throws NotRecognised if a row mixes tokens. With `order`,
// columns may be permuted: column c of the value is column (*order)[c] of the node. An empty order
// is the identity.
RowView rows_of(GraphBuilder& builder, const LinearExprRef& value,
                std::vector<uint32_t>* order = nullptr);
// Returns rows `rows` of `node`, which an op made of `rows.node`, in `shape` with `width` as its
// last dimension.
LinearExprRef on_rows(GraphBuilder& builder, const RowView& rows, const Shape& shape, ValueId node,
                      uint32_t width);
// Lowers a shift by some tokens, with zeros at one end, to a node: F.pad(x, (0, 0, 1, 0))[:, :-1]
// is a depthwise convolution with taps [1, 0]. Returns any other value unchanged.
LinearExprRef shifted_rows(GraphBuilder& builder, const LinearExprRef& value);
// Adds select nodes for a few tokens of each sequence, if a value reads these in one row per
// sequence. Returns any other value unchanged.
LinearExprRef select_tokens(GraphBuilder& builder, const LinearExprRef& value);
// The op that combines values: a sum, a product, or a movement such as a concatenation.
enum class Combination { kSum, kProduct, kMoved };
// Adds select nodes for values that read one token of each sequence, if other values read another
// token, all tokens or pooled rows. Then all can be combined. For kSum, does so too if all read the
// same token. Leaves other values unchanged.
std::vector<LinearExprRef> rows_of_sequences(GraphBuilder& builder,
                                             std::vector<LinearExprRef> values, Combination how);
// Undoes a broadcast: reduces dimensions along which the value repeats to extent 1.
LinearExprRef without_repeats(const LinearExprRef& value);
// Calls `make` for each group of rows with the same columns, such as each head of the tokens.
// Returns the results in the order of the rows.
LinearExprRef each_kind_of_row(GraphBuilder& builder, const LinearExprRef& value,
                               const std::function<LinearExprRef(const LinearExprRef&)>& make);
// Returns the value as a single term, with each element of one producer exactly once.
LinearExprRef on_one_producer(GraphBuilder& builder, const LinearExprRef& value);
// Replaces producer `from` by `to`; rows and columns stay the same.
LinearExprRef replace_producer(const LinearExprRef& value, uint32_t from, uint32_t to);
// Whether the elements are token ids, or satisfy is_of_types.
bool is_of_ids(const GraphBuilder& builder, const LinearExpr& value);
bool is_of_types(const GraphBuilder& builder, const LinearExpr& value);
// Whether neighbours along dimension `axis` are rows of different tokens.
bool is_along_tokens(const GraphBuilder& builder, const LinearExpr& value, size_t axis);
// Returns the node of an output, which has a row for each token, or one per sequence.
ValueId output(GraphBuilder& builder, const LinearExprRef& value);

}  // namespace arenite::convert
