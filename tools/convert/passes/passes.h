// SPDX-License-Identifier: Apache-2.0
// What is done to a graph between its author's form and the runtime's. Each pass keeps the results,
// up to rounding, and can be left out; what the runtime then lacks, lowering makes up for.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "convert/graph/graph.h"

namespace arenite::convert {

struct Pass {
  const char* name;
  void (*run)(Graph& graph);
};

std::span<const Pass> all_passes();  // in the order in which they run

// The graph after all passes but those named. Throws InputError for a name that no pass has.
Graph rewrite(Graph graph, const std::vector<std::string>& without = {});

}  // namespace arenite::convert
