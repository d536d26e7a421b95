// SPDX-License-Identifier: Apache-2.0
// Rows that are those of windows side by side, as patches of a series.
#pragma once

#include <optional>

#include "convert/exported/recover/graph_builder.h"

namespace arenite::convert {

// Rows of windows over those of the present row axis, which are no pixels, as rows of a node of
// such windows. Beyond a sequence are zeros, or copies of rows that the same window sees. Nothing
// for any other value.
std::optional<LinearExprRef> windows_of_rows(GraphBuilder& builder, const LinearExprRef& value);

}  // namespace arenite::convert
