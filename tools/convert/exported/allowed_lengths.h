// SPDX-License-Identifier: Apache-2.0
// For which lengths an archive says that its program is the author's model.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "convert/exported/read/exported_program.h"
#include "convert/exported/trace/trace_shape.h"
#include "convert/graph/graph.h"

namespace arenite::convert {

// Of one input. `why_exact`: why it is the model at the example's length alone; or empty.
struct AllowedLengths {
  int64_t min = 1;
  std::optional<int64_t> max{};
  std::string why_exact{};
};

// Those around the example's for which the input's range and all guards of it alone hold.
// REQUIRES: the input's number of tokens is a symbol.
AllowedLengths allowed_lengths(const ExportedProgram& program, const TraceShape& trace_shape,
                               size_t input);

// The first guard about several inputs that does not hold for all of their lengths together. Empty:
// there is none. `most` has 0 for an input of any number of tokens.
std::string guard_of_several(const ExportedProgram& program, const TraceShape& trace_shape,
                             const std::vector<int64_t>& least, const std::vector<int64_t>& most);

// The first op that makes a number of the lengths which is neither the same at all of them, nor
// grows in proportion with the rows of an axis, as n // 8 may: lengths that were not tried say
// nothing of it. Empty: there is none.
std::string uneven_number(const ExportedProgram& program, const TraceShape& trace_shape,
                          const Graph& graph, const std::vector<int64_t>& least,
                          const std::vector<int64_t>& most);

}  // namespace arenite::convert
