// SPDX-License-Identifier: Apache-2.0
#include "cli/formula_output.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "core/mask_view.h"

namespace arenite::tool {

std::vector<std::string> formula_lines(const ArenaFormula& formula) {
  std::vector<std::string> lines;
  for (uint32_t i = 0; i < formula.group_count; ++i) {
    const CacheGroup& group = formula.groups[i];
    const std::string held = group.lookback == kUnlimited
                                 ? std::string("all positions")
                                 : fmt::format("the last {}", uint64_t{group.lookback} + 1);
    lines.push_back(fmt::format("cache {} of {}: {} a panel of {}, {} a page of {}",
                                name(group.kv_type), held, group.bytes_per_panel, formula.nr,
                                group.bytes_per_page, kPagePositions));
  }
  std::string activations =
      fmt::format("activations {} a token", formula.activation_bytes_per_token);
  if (formula.activation_bytes_per_output != 0) {
    activations += fmt::format(", {} a row given out", formula.activation_bytes_per_output);
  }
  lines.push_back(activations);
  std::string scratch = formula.score_rows == 0
                            ? std::string("scratch none for scores")
                            : fmt::format("scratch {} rows of scores", formula.score_rows);
  if (formula.scratch_bytes_per_token != 0) {
    scratch += fmt::format(", {} a token", formula.scratch_bytes_per_token);
  }
  if (formula.scratch_bytes_per_thread != 0) {
    scratch += fmt::format(", or {} a thread", formula.scratch_bytes_per_thread);
  }
  lines.push_back(scratch);
  return lines;
}

nlohmann::ordered_json formula_json(const ArenaFormula& formula) {
  using Json = nlohmann::ordered_json;
  Json groups = Json::array();
  for (uint32_t i = 0; i < formula.group_count; ++i) {
    const CacheGroup& group = formula.groups[i];
    groups.push_back({{"lookback", group.lookback == kUnlimited ? Json() : Json(group.lookback)},
                      {"kv_type", name(group.kv_type)},
                      {"bytes_per_panel", group.bytes_per_panel},
                      {"bytes_per_page", group.bytes_per_page},
                      {"scratch_bytes_per_thread", group.scratch_bytes_per_thread}});
  }
  return {{"activation_bytes_per_token", formula.activation_bytes_per_token},
          {"activation_bytes_per_output", formula.activation_bytes_per_output},
          {"scratch_bytes_per_token", formula.scratch_bytes_per_token},
          {"scratch_bytes_per_thread", formula.scratch_bytes_per_thread},
          {"nr", formula.nr},
          {"score_rows", formula.score_rows},
          {"cache_groups", std::move(groups)}};
}

}  // namespace arenite::tool
