// SPDX-License-Identifier: Apache-2.0
// Writes out what core/arena_formula.h evaluates.
#include "convert/formula_text.h"

#include <fmt/format.h>

namespace arenite::convert {

std::string describe_formula(const ArenaFormula& formula) {
  std::string text = fmt::format("= ({} + {} S)", kSessionBytes, kSequenceBytes);
  text += fmt::format(" + S ({} ceil(P / {}) + {} ceil(P / {}))", formula.kv_bytes_per_panel,
                      formula.nr, formula.kv_bytes_per_page, kPagePositions);
  text += fmt::format(" + ({} T + {})", formula.activation_bytes_per_token, kReadAheadBytes);
  text += fmt::format(" + N ({} ({} ceil(P / {}) + {}))", formula.score_rows * sizeof(float),
                      formula.nr, formula.nr, kScoreRowPadding + formula.nr);
  return text;
}

}  // namespace arenite::convert
