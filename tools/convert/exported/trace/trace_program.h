// SPDX-License-Identifier: Apache-2.0
// Traces a program to the graph of one of its outputs, at one length.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "convert/exported/trace/tracer.h"

namespace arenite::convert {

struct TracedProgram {
  Graph graph;
  std::vector<int64_t> positions_max{};  // of each input
  int64_t joined_positions_max = 0;      // of concatenations of inputs
  std::unique_ptr<Tracer> tracer;
};
// Traces all ops that the output needs. Adds to `trace_shape` the findings of the trace: prefix
// rows, and how images lie in their array. Throws InputError if something is not recognised.
TracedProgram trace_program(const std::shared_ptr<const ExportedProgram>& program,
                            TraceShape& trace_shape, size_t output);
// Traces one reading after the other, and returns the recognised one in `trace_shape`: features may
// be images, series, or columns before tokens, and rows may have to be kept apart.
TracedProgram trace_any(const std::shared_ptr<const ExportedProgram>& program,
                        TraceShape& trace_shape, size_t output);

}  // namespace arenite::convert
