// SPDX-License-Identifier: Apache-2.0
// Writes out what core/arena_formula.h evaluates.
#include "convert/formula_text.h"

#include <fmt/format.h>

namespace arenite::convert {

FormulaText describe_parts(const ArenaFormula& formula) {
  return {
      fmt::format("{} + {} S", kSessionBytes, kSequenceBytes),
      fmt::format("S ({} ceil(P / {}) + {} ceil(P / {}))", formula.kv_bytes_per_panel, formula.nr,
                  formula.kv_bytes_per_page, kPagePositions),
      fmt::format("{} T + {}", formula.activation_bytes_per_token, kReadAheadBytes),
      fmt::format("N ({} ({} ceil(P / {}) + {}))", formula.score_rows * sizeof(float), formula.nr,
                  formula.nr, kScoreRowPadding + formula.nr),
  };
}

}  // namespace arenite::convert
