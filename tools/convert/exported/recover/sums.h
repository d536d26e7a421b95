// SPDX-License-Identifier: Apache-2.0
// Lowers sums of terms to nodes: to additions, or to rotary position embeddings of queries and
// keys.
//
//   x * cos + rotate_half(x) * sin  ->  rotate(x), by the frequencies of the angles
#pragma once

#include <optional>

#include "convert/exported/recover/graph_builder.h"

namespace arenite::convert {

// Adds nodes for the sum of all terms. REQUIRES: !value->is_plain().
LinearExprRef lower_sum(GraphBuilder& builder, const LinearExprRef& value);
// Adds rotation nodes for queries or keys. Returns nullopt if the value is no rotation.
std::optional<LinearExprRef> find_rotation(GraphBuilder& builder, const LinearExpr& value);
// Adds rotation nodes if the value is a rotation; else returns it unchanged.
LinearExprRef rotated_or_same(GraphBuilder& builder, const LinearExprRef& value);

}  // namespace arenite::convert
