// SPDX-License-Identifier: Apache-2.0
// How the weights of a graph are stored: in which types, and what numbers the file then holds. The
// difference between these and the author's is what storing costs.
#pragma once

#include "convert/graph/graph.h"

namespace arenite::convert {

// Decides the type of each matrix of weights. Comes before all passes, since weights of different
// types are never joined.
void choose_types(Graph& graph);

// The graph after all passes, with the numbers that its file holds: factors are multiplied in, and
// each number is what is left of it in the type of its weight. They are read when they are loaded.
Graph with_stored_weights(Graph graph);

// Whether one of these numbers is not what the author's and a factor give. Reads weights only where
// this can be, and stops at the first one.
bool is_rounded(Graph graph);

}  // namespace arenite::convert
