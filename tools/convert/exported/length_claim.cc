// SPDX-License-Identifier: Apache-2.0
#include "convert/exported/length_claim.h"

#include <fmt/format.h>

namespace arenite::convert {

std::string counted_tokens(int64_t tokens) {
  return fmt::format("{} token{}", tokens, tokens == 1 ? "" : "s");
}

std::string LengthClaim::text() const {
  if (!why_exact.empty()) {
    std::string text = fmt::format("{} {} tokens a call: {}", tells_lengths ? "at most" : "exactly",
                                   traced, why_exact);
    for (size_t i = 1; i < doubts.size(); ++i) text += "\n" + doubts[i];
    return text + export_lines;
  }
  std::string text = "any length";
  if (shortest > 1) text += fmt::format(" from {}", shortest);
  if (positions != 0) text += fmt::format(" up to {}", positions);
  text += is_causal ? ", token by token too" : ", whole sequences";
  text += fmt::format(": masks follow one rule and ops are the same at {}", traced);
  if (other != 0) text += fmt::format(" and {}", other);
  text += " tokens";
  if (is_end_chosen) text += "; --context N makes it longer";
  if (ends_with_mask) text += "; its mask is no rule of distances";
  if (ends_with_terms) text += "; what it adds to scores was followed so far";
  if (longest != 0) text += "; as --expect proves";
  if (!computed.empty()) {
    text += fmt::format("\ncomputed at {} tokens, too", fmt::join(computed, ", "));
  }
  return text;
}

}  // namespace arenite::convert
