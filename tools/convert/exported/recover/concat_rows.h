// SPDX-License-Identifier: Apache-2.0
// Concatenates rows of tokens, constants and several inputs to rows of one node. Interleaves rows
// of several kinds. Undoes both.
//
//   cat([cls, x], 1)               ->  join of constant rows and x
//   stack([r, s, a], 2).flatten(1, 2)  ->  interleaved rows r0 s0 a0 r1 s1 a1 ..
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "convert/exported/recover/graph_builder.h"

namespace arenite::convert {

// Concatenates rows of several row axes, or of constants, along `dim` to rows of one node. Returns
// nullopt for any other values.
std::optional<LinearExprRef> concat_rows(GraphBuilder& builder,
                                         const std::vector<LinearExprRef>& values, size_t dim);
// If the value is rows [.., rows, columns] with all tokens beside constant or per-sequence rows,
// concatenates them, whichever op put them there. Returns any other value unchanged.
LinearExprRef rows_beside_tokens(GraphBuilder& builder, const LinearExprRef& value);
// If the value is one part of concatenated rows, slices it out by a node. Returns any other value
// unchanged.
LinearExprRef slice_of_concat(GraphBuilder& builder, const LinearExprRef& value);
// Adds a node for interleaved rows, such as return, state and action of each step. Returns any
// other value unchanged.
LinearExprRef interleaved_rows(GraphBuilder& builder, const LinearExprRef& value);
// Undoes an interleaving for a value that reads some kinds of interleaved rows, or all of them in
// one row: they become columns of the token's row. Returns any other value unchanged.
LinearExprRef deinterleaved_rows(GraphBuilder& builder, const LinearExprRef& value);
// Adds constant rows [.., rows, columns] for each sequence and head of `like` [.., rows, columns].
// Returns nullopt if the leading indices of `like` do not map to (sequence, head).
std::optional<LinearExprRef> rows_of_constants(GraphBuilder& builder, const ConstantRef& constant,
                                               const LinearExprRef& like);
// Returns constants [.., columns] as columns of a node with the token rows of `like`. Returns
// nullopt if `like` has none.
std::optional<LinearExprRef> columns_of_constants(GraphBuilder& builder,
                                                  const LinearExprRef& constants,
                                                  const LinearExprRef& like);
// Returns a sum of constants as the program's value `number`; null if the sum has other elements.
ConstantRef constant_of_sum(const GraphBuilder& builder, const LinearExpr& value, ElementType type,
                            uint32_t number);

}  // namespace arenite::convert
