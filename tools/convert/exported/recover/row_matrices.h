// SPDX-License-Identifier: Apache-2.0
// Computes rows of a sequence from its other rows, if their number is fixed: multiplies them by a
// matrix over the token axis, gathers them, or reduces groups of them.
//
//   linear(x.transpose(1, 2))  ->  transpose(x), linear, transposed back
//   x[:, [0, 0, 1, 2, 2]]      ->  gather of rows 0, 0, 1, 2, 2 of x
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "convert/exported/recover/graph_builder.h"

namespace arenite::convert {

// Moves values to one row axis by row gathers. Leaves them unchanged unless each row of one value
// always meets the same row of the others.
void align_row_axes(GraphBuilder& builder, std::vector<LinearExprRef>& values);
// Gathers the rows of values to be concatenated along dimension `joins`, so that all are on the row
// axis of the first value with rows in order. Only for a fixed number of rows.
std::vector<LinearExprRef> align_concat_rows(GraphBuilder& builder,
                                             std::vector<LinearExprRef> values,
                                             std::optional<size_t> joins);
// Multiplies [.., tokens] by a matrix over the token axis, giving [.., results]. Returns nullopt
// unless the last dimension steps through the tokens of one column.
std::optional<LinearExprRef> linear_over_rows(GraphBuilder& builder, const LinearExprRef& value,
                                              const WeightRef& weight,
                                              const std::vector<double>& bias);
// Whether a value gathers token rows: reordered, skipped or repeated, as after flips, rolls and
// replicate padding.
bool gathers_rows(GraphBuilder& builder, const LinearExprRef& value);
// Adds the node that gathers these rows. Returns nullopt for any other value.
std::optional<LinearExprRef> gathered_rows(GraphBuilder& builder, const LinearExprRef& value);
// Return the mean or the softmax along `axis` if it steps through groups of rows that partition the
// tokens; else nullopt.
std::optional<LinearExprRef> mean_of_groups(GraphBuilder& builder, const LinearExprRef& value,
                                            size_t axis);
std::optional<LinearExprRef> softmax_of_groups(GraphBuilder& builder, const LinearExprRef& value,
                                               size_t axis);

}  // namespace arenite::convert
