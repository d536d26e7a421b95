// SPDX-License-Identifier: Apache-2.0
// Whether what a program computes at two lengths is one model.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "convert/exported/exported_model.h"
#include "convert/exported/trace/trace_shape.h"
#include "convert/graph/graph.h"

namespace arenite::convert {
// Keys by their distance, where that is all that counts: a range around 0. REQUIRES: a buffer's.
std::optional<CompiledMask> mask_rule(const Mask& mask);

// Why the graphs of two lengths, the shorter one first, are not one model; empty: they are.
std::string difference(const Graph& shorter, const Graph& longer);

// The check of a recognised graph against the program that it came from.

// Outputs of a graph and of its program that are further apart than rounding explains.
struct ProgramDifference {
  double difference, value;  // the largest ones

  std::string text() const;
};

// Computes both in double precision at the length of `trace_shape`, on the author's example where
// it is of that length and on random inputs, with sequences of several lengths where the program is
// told these, and notes in `model` how far they are apart. Gives the difference where that is more
// than rounding.
std::optional<ProgramDifference> compare_with_program(ExportedModel& model,
                                                      const TraceShape& trace_shape);

// The same at lengths that were not followed: the shortest and the next one, the longest that takes
// no more work than is in proportion, and some between, which `seed` chooses.
struct OtherLengths {
  std::vector<int64_t> right;
  std::map<int64_t, std::string> wrong;  // and why
};
OtherLengths compare_at_other_lengths(ExportedModel& model, const TraceShape& trace_shape,
                                      int64_t shortest, int64_t longest, uint32_t seed);

}  // namespace arenite::convert
