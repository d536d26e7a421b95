// SPDX-License-Identifier: Apache-2.0
// For which lengths a conversion is its author's model, and why.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace arenite::convert {

struct LengthClaim {
  int64_t traced = 0;                 // tokens of the example
  int64_t other = 0;                  // that were followed, too; 0: none
  int64_t shortest = 1;               // sequence
  int64_t positions = 0;              // of the longest one; 0: any
  int64_t longest = 0;                // that the author's outputs prove; 0: they prove none
  std::vector<int64_t> computed{};    // lengths that were not followed
  bool is_causal = false;             // runs token by token
  bool tells_lengths = false;         // the program is told what is padding
  bool is_end_chosen = false;         // `positions` are those of the example
  bool ends_with_mask = false;        // which is no rule
  bool ends_with_terms = false;       // of scores
  std::string why_exact{};            // it is the model at the example's length alone; or empty
  std::vector<std::string> doubts{};  // literals that may be why, the first one in `why_exact`
  std::string export_lines{};         // that spare the doubts

  std::string text() const;  // lines for a person
};

std::string counted_tokens(int64_t tokens);

}  // namespace arenite::convert
