// SPDX-License-Identifier: Apache-2.0
// Permutations come before scales, and both before joining: these change the weights of one layer.
#include "convert/passes/passes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "convert/files/error.h"

namespace arenite::convert {

std::span<const Pass> all_passes() {
  static constexpr Pass kPasses[] = {
      {"drop-rows", drop_rows},
      {"compile-masks", compile_masks},
      {"permute-rotations", permute_rotations},
      {"fold-scales", fold_scales},
      {"join-projections", join_projections},
      {"share-caches", share_caches},
      {"tie-embedding", tie_embedding},
  };
  return kPasses;
}

void run_passes(Graph& graph, const std::vector<std::string>& without) {
  const std::span<const Pass> passes = all_passes();
  for (const std::string& name : without) {
    if (std::ranges::any_of(passes, [&](const Pass& pass) { return pass.name == name; })) continue;
    std::vector<std::string> names;
    for (const Pass& pass : passes) names.push_back(pass.name);
    throw InputError("no pass is called {}: expected one of {}", quote(name),
                     fmt::join(names, ", "));
  }
  for (const Pass& pass : passes) {
    if (std::ranges::count(without, pass.name) == 0) pass.run(graph);
  }
}

}  // namespace arenite::convert
