// SPDX-License-Identifier: Apache-2.0
// From a graph to the runtime's program: chooses ops, shares memory, places it.
#pragma once

#include <string>

#include "convert/graph/graph.h"
#include "convert/program/program.h"

namespace arenite::convert {

// What the runtime has no op for, because a pass was left out, is made of other ops: a factor by an
// activation, a permutation by a product with a matrix of zeros and ones.
Program lower(Graph graph, const std::string& name);

}  // namespace arenite::convert
