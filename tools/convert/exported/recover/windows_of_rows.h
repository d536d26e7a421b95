// SPDX-License-Identifier: Apache-2.0
// Rows that have other rows of a window side by side, such as patches of a series.
#pragma once

#include <optional>

#include "convert/exported/recover/graph_builder.h"

namespace arenite::convert {

// Turns rows that are windows over rows of the current row axis, but not of pixels, into rows of a
// windows node. Outside a sequence, a window has zeros or copies of rows that it sees. Returns
// nullopt for any other value.
std::optional<LinearExprRef> windows_of_rows(GraphBuilder& builder, const LinearExprRef& value);

}  // namespace arenite::convert
