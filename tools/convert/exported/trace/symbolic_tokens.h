// SPDX-License-Identifier: Apache-2.0
// A program that was exported with fixed sizes, with its number of tokens as a symbol.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "convert/exported/read/exported_program.h"

namespace arenite::convert {
struct SymbolicTokens {
  // Sizes that are the number of tokens, or that and rows before them, are expressions of a symbol;
  // all other literals are constants.
  std::shared_ptr<const ExportedProgram> program;
  // What may depend on the number of tokens otherwise, with the author's line; none: nothing can.
  std::vector<std::string> doubts;
};

// `axis` is that of tokens in the input `value`, of which the example has `sequences`.
SymbolicTokens with_symbolic_tokens(const ExportedProgram& program, uint32_t value, size_t axis,
                                    int64_t sequences);

// Numbers of a program that nobody makes of the number of tokens.

// Whether a literal cannot be made of the number of tokens, as far as people write such: it is a
// common number of models, `widths` explain it, or it is far from all numbers of tokens. What
// stands beside positions may be any of them; the model's own numbers (`is_beside_numbers`) have
// common ones.
bool is_constant(double number, bool is_beside_numbers, int64_t tokens,
                 const std::set<int64_t>& widths);

}  // namespace arenite::convert
