// SPDX-License-Identifier: Apache-2.0
#include "convert/program/compile.h"

#include <utility>

#include "convert/passes/passes.h"

namespace arenite::convert {

Graph rewrite(Graph graph, const std::vector<std::string>& without_passes) {
  run_passes(graph, without_passes);
  return graph;
}

Program compile(const Graph& graph, const std::string& name,
                const std::vector<std::string>& without_passes) {
  return lower(rewrite(graph, without_passes), name);
}

}  // namespace arenite::convert
