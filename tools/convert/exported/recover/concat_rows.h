// SPDX-License-Identifier: Apache-2.0
// Concatenates rows of tokens, constants and several inputs to rows of one node, interleaves them,
// and takes such rows apart again.
//
//   cat([cls, x], 1)               ->  join of constant rows and x
//   stack([r, s, a], 2).flatten(1, 2)  ->  rows in turn: r0 s0 a0 r1 s1 a1 ..
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "convert/exported/recover/graph_builder.h"

namespace arenite::convert {

// Concatenates rows of several row axes, or of constants, along `dim` as rows of one node; nullopt
// for any other values.
std::optional<LinearExprRef> concat_rows(GraphBuilder& builder,
                                         const std::vector<LinearExprRef>& values, size_t dim);
// Turns rows [.., rows, columns] that are all tokens beside constant or per-sequence rows, by
// whatever op they were put there, into their concatenation; returns any other value as it is.
LinearExprRef rows_beside_tokens(GraphBuilder& builder, const LinearExprRef& value);
// Returns rows that are one part of a concatenation as rows of a node; any other value as it is.
LinearExprRef part_of_joined(GraphBuilder& builder, const LinearExprRef& value);
// Turns interleaved rows of several kinds, such as return, state and action of each step, into rows
// of one node; returns any other value as it is.
LinearExprRef rows_in_turn(GraphBuilder& builder, const LinearExprRef& value);
// Turns some interleaved rows of each token, or all side by side, into columns of the token's row;
// returns any other value as it is.
LinearExprRef rows_side_by_side(GraphBuilder& builder, const LinearExprRef& value);
// Broadcasts constants [.., rows, columns] to rows of each sequence, where the leading indices of
// `like` [.., rows, columns] map to (sequence, head); nullopt if they do not.
std::optional<LinearExprRef> rows_of_constants(GraphBuilder& builder, const ConstantRef& constant,
                                               const LinearExprRef& like);
// Returns constants [.., columns] as columns of the token rows of `like`; nullopt if `like` has
// none.
std::optional<LinearExprRef> columns_of_constants(GraphBuilder& builder,
                                                  const LinearExprRef& constants,
                                                  const LinearExprRef& like);
// Returns a linear expression of constants alone as constant `number` of the program; else null.
ConstantRef constant_of_sum(const GraphBuilder& builder, const LinearExpr& value, ElementType type,
                            uint32_t number);

}  // namespace arenite::convert
