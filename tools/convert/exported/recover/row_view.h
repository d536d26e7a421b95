// SPDX-License-Identifier: Apache-2.0
// Reads linear expressions as rows of one node, and turns those that are no such rows, such as
// shifted or chosen tokens, into nodes with these rows.
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

// A value as rows of one node: its last dimension is the node's columns, and `rows` has the node
// row for each index of its other dimensions, in row-major order.
struct RowView {
  ValueId node = 0;
  uint32_t width = 0;
  std::vector<uint32_t> rows;
  uint32_t count = 0;  // of all rows of the node
};
// Returns the value as rows of a node. With `order`, columns may be permuted: column c of the value
// is column (*order)[c] of the node; empty: they are in order. Throws NotRecognised if a row mixes
// tokens.
RowView rows_of(GraphBuilder& builder, const LinearExprRef& value,
                std::vector<uint32_t>* order = nullptr);
// Returns the columns of `node`, a result of `rows`, in `shape` with `width` as its last dimension.
LinearExprRef on_rows(GraphBuilder& builder, const RowView& rows, const Shape& shape, ValueId node,
                      uint32_t width);
// Turns rows that are shifted by a number of tokens, with zeros at one end, into rows of a node:
// F.pad(x, (0, 0, 1, 0))[:, :-1] is a depthwise convolution with taps [1, 0]. Returns any other
// value as it is.
LinearExprRef shifted_rows(GraphBuilder& builder, const LinearExprRef& value);
// Turns one row per sequence that has elements of a few tokens into columns of per-sequence rows,
// one for each token. Returns any other value as it is.
LinearExprRef of_chosen_tokens(GraphBuilder& builder, const LinearExprRef& value);
// How values are combined: added, multiplied, or moved.
enum class Together { kSum, kProduct, kMoved };
// Turns values that are one token of each sequence into per-sequence rows where others are another
// token, all tokens or pooled, so that they can be combined; for kSum, also if all are the same
// token. Other values stay as they are.
std::vector<LinearExprRef> rows_of_sequences(GraphBuilder& builder,
                                             std::vector<LinearExprRef> values, Together how);
// Undoes a broadcast: dimensions along which the value repeats get extent 1.
LinearExprRef without_repeats(const LinearExprRef& value);
// Calls `make` for each group of rows with the same columns, such as each head of the tokens, and
// puts the results back in order.
LinearExprRef each_kind_of_row(GraphBuilder& builder, const LinearExprRef& value,
                               const std::function<LinearExprRef(const LinearExprRef&)>& make);
// Returns the value as one term with each element of a single producer exactly once.
LinearExprRef on_one_producer(GraphBuilder& builder, const LinearExprRef& value);
// Returns `value` with producer `to` in place of `from`, at the same rows and columns.
LinearExprRef in_place(const LinearExprRef& value, uint32_t from, uint32_t to);
// Whether the elements are token ids or, as is_of_types, types of tokens or columns of marks.
bool is_of_ids(const GraphBuilder& builder, const LinearExpr& value);
bool is_of_types(const GraphBuilder& builder, const LinearExpr& value);
bool is_along_tokens(const GraphBuilder& builder, const LinearExpr& value, size_t axis);
ValueId output(GraphBuilder& builder, const LinearExprRef& value);

}  // namespace arenite::convert
