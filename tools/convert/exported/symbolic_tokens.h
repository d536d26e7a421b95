// SPDX-License-Identifier: Apache-2.0
// A program that was exported with fixed sizes, with its number of tokens as a symbol.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "convert/exported/exported_program.h"

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

}  // namespace arenite::convert
