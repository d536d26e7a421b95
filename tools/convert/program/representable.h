// SPDX-License-Identifier: Apache-2.0
// What the runtime has no op for, said with the ops that it has.
#pragma once

#include "convert/graph/graph.h"

namespace arenite::convert {

// Scales of scores become scales of queries, rotations of neighbours those of halves, and parts of
// a concatenation that lie elsewhere are copied.
void make_representable(Graph& graph);

}  // namespace arenite::convert
