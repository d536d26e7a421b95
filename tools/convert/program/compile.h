// SPDX-License-Identifier: Apache-2.0
// From a graph to the runtime's program: the passes, then the lowering.
#pragma once

#include <string>
#include <vector>

#include "convert/graph/graph.h"
#include "convert/program/program.h"

namespace arenite::convert {

// The graph after all passes but those named. Throws InputError for a name that no pass has.
Graph rewrite(Graph graph, const std::vector<std::string>& without_passes = {});

// The runtime's program for a graph. Throws InputError for the name of a pass that there is not.
Program compile(const Graph& graph, const std::string& name,
                const std::vector<std::string>& without_passes = {});

}  // namespace arenite::convert
