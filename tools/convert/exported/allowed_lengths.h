// SPDX-License-Identifier: Apache-2.0
// Finds the sequence lengths at which an archive guarantees that the traced graph is the author's
// model. torch.export records a range for each symbolic size, and guards over sizes. Both are
// evaluated here, and so is length arithmetic that two traces would miss.
//
//   range of s27: [2, 512]; guard: s27 <= 128; example: 8 tokens  ->  min 1, max 128
//   guard: s27 % 2 == 0; example: 8 tokens                        ->  min 8, max 8
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "convert/exported/read/exported_program.h"
#include "convert/exported/trace/trace_shape.h"
#include "convert/graph/graph.h"

namespace arenite::convert {

// The lengths of one input. `why_exact` says why only the example's length is allowed; it is empty
// if others are allowed, too.
struct AllowedLengths {
  int64_t min = 1;
  std::optional<int64_t> max{};
  std::string why_exact{};
  std::string parting_guard{};  // beyond the interval it holds for other lengths again; or empty
};

// Returns the interval around the example's length where the input's range and all guards on this
// input alone hold. REQUIRES: the input's number of tokens is symbolic.
AllowedLengths allowed_lengths(const ExportedProgram& program, const TraceShape& trace_shape,
                               size_t input);

// Returns the first guard over several inputs that fails, or cannot be checked, for some
// combination of their lengths; empty if there is none. Lengths run from `least` to `most`; a most
// of 0 means unbounded.
std::string guard_of_several(const ExportedProgram& program, const TraceShape& trace_shape,
                             const std::vector<int64_t>& least, const std::vector<int64_t>& most);

// Returns the first op that computes a number from lengths that is neither constant nor linear in
// the rows of an axis (n // 8, for instance); empty if there is none. A model with such a number is
// only known at lengths that were computed.
std::string nonlinear_op(const ExportedProgram& program, const TraceShape& trace_shape,
                         const Graph& graph, const std::vector<int64_t>& least,
                         const std::vector<int64_t>& most);

}  // namespace arenite::convert
