// SPDX-License-Identifier: Apache-2.0
// A graph as text, a line for each value, for people who want to see what was recognised.
#pragma once

#include <string>

#include "convert/graph/graph.h"

namespace arenite::convert {

std::string print_graph(const Graph& graph);

}  // namespace arenite::convert
