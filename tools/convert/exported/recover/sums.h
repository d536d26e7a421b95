// SPDX-License-Identifier: Apache-2.0
// Lowers sums of terms: adds them up in nodes, or finds that they rotate queries and keys by angles
// of the position.
//
//   x * cos + rotate_half(x) * sin  ->  rotate(x), by the frequencies of the angles
#pragma once

#include <optional>

#include "convert/exported/recover/graph_builder.h"

namespace arenite::convert {

// Adds up the terms in nodes. REQUIRES: not plain.
LinearExprRef add_up(GraphBuilder& builder, const LinearExprRef& value);
// Returns rotated queries or keys as nodes, or nullopt if the value is no rotation.
std::optional<LinearExprRef> find_rotation(GraphBuilder& builder, const LinearExpr& value);
// Returns a whole rotation as one node, and any other value as it is.
LinearExprRef rotated_or_same(GraphBuilder& builder, const LinearExprRef& value);

}  // namespace arenite::convert
