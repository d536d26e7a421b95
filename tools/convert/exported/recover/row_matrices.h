// SPDX-License-Identifier: Apache-2.0
// Rows that are computed of other rows of a sequence, where their number is fixed: by a matrix over
// the token axis, by a list, or by groups.
//
//   linear(x.transpose(1, 2))  ->  transpose(x), linear, transposed back
//   x[:, [0, 0, 1, 2, 2]]      ->  rows of x by the list 0, 0, 1, 2, 2
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "convert/exported/recover/graph_builder.h"

namespace arenite::convert {

// Moves values to one row axis where their rows are of several axes but always pair up alike.
// Other values stay as they are.
void align_row_axes(GraphBuilder& builder, std::vector<LinearExprRef>& values);
// Moves values that are concatenated along `joins` to the row axis of the first one whose rows are
// in order. Only for a fixed number of rows.
std::vector<LinearExprRef> columns_alike(GraphBuilder& builder, std::vector<LinearExprRef> values,
                                         std::optional<size_t> joins);
// Multiplies rows that are one column of all tokens, [.., tokens] -> [.., results]: a matrix over
// the token axis, whose length is fixed. Returns nullopt for any other value.
std::optional<LinearExprRef> linear_over_rows(GraphBuilder& builder, const LinearExprRef& value,
                                              const WeightRef& weight,
                                              const std::vector<double>& bias);
// Whether a value takes token rows in another order, unevenly, or some of them repeatedly, as after
// flips, rolls and padding by copies.
bool lists_rows(GraphBuilder& builder, const LinearExprRef& value);
// Returns such a value as rows that are taken by a list; nullopt for any other value.
std::optional<LinearExprRef> taken_rows(GraphBuilder& builder, const LinearExprRef& value);
// Return the mean or the softmax along `axis` if the rows along it are groups that partition the
// tokens, with a row for each token; else nullopt.
std::optional<LinearExprRef> mean_of_groups(GraphBuilder& builder, const LinearExprRef& value,
                                            size_t axis);
std::optional<LinearExprRef> softmax_of_groups(GraphBuilder& builder, const LinearExprRef& value,
                                               size_t axis);

}  // namespace arenite::convert
