// SPDX-License-Identifier: Apache-2.0
// Passes rewrite a graph from its author's form to a form with one runtime op for each node. They
// keep the results, up to rounding, and can be left out; lowering then emits other ops instead.
//
//   Graph rewritten = rewrite(std::move(graph), {"tie-embedding"});  // all passes but this one
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

std::span<const Pass> all_passes();  // in execution order

// Runs all passes but those named in `without`. Throws InputError for an unknown name.
Graph rewrite(Graph graph, const std::vector<std::string>& without = {});

}  // namespace arenite::convert
