// SPDX-License-Identifier: Apache-2.0
// Writes out what core/arena_formula.h evaluates.
#include "convert/program/formula_text.h"

#include <fmt/format.h>

#include "core/mask_view.h"

namespace arenite::convert {

FormulaText describe_parts(const ArenaFormula& formula) {
  FormulaText text;
  std::string longest;  // the positions of the cache that holds most
  for (uint32_t i = 0; i < formula.group_count; ++i) {
    const CacheGroup& group = formula.groups[i];
    std::string held = "P";
    if (group.behind != kUnlimited) {
      held = fmt::format("R{}", text.rings.size() + 1);
      text.rings.push_back(fmt::format("{} = min(P, {} + {} ceil((T + {}) / {}))", held,
                                       kPagePositions, kPagePositions, int64_t{group.behind} - 1,
                                       kPagePositions));
    }
    text.kv_cache.push_back(fmt::format("{}S ({} ceil({} / {}) + {} ceil({} / {}))",
                                        i == 0 ? "" : "+ ", group.bytes_per_panel, held, formula.nr,
                                        group.bytes_per_page, held, kPagePositions));
    if (longest != "P") {
      longest = held == "P" || longest.empty() ? held : fmt::format("max({}, {})", longest, held);
    }
  }
  const std::string outputs = formula.activation_bytes_per_output == 0
                                  ? ""
                                  : fmt::format("{} O + ", formula.activation_bytes_per_output);
  text.session = fmt::format("{} + {} S", kSessionBytes, kSequenceBytes);
  if (text.kv_cache.empty()) text.kv_cache = {"0"};
  text.activations =
      fmt::format("{} T + {}{}", formula.activation_bytes_per_token, outputs, kReadAheadBytes);
  text.scratch =
      formula.score_rows == 0
          ? "0"
          : fmt::format("N ({} ({} ceil({} / {}) + {}))", formula.score_rows * sizeof(float),
                        formula.nr, longest, formula.nr, kScoreRowPadding + formula.nr);
  return text;
}

}  // namespace arenite::convert
