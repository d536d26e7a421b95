// SPDX-License-Identifier: Apache-2.0
// Traces a program to the graph of one of its outputs, for inputs of one length.
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
  int64_t joined_positions_max = 0;      // of other row axes, such as concatenated inputs
  std::unique_ptr<Tracer> tracer;
};
// Traces all ops that the output needs. Adds the image layouts that the trace finds to
// `trace_shape`. Throws InputError if an op is not recognised.
TracedProgram trace_program(const std::shared_ptr<const ExportedProgram>& program,
                            TraceShape& trace_shape, size_t output);
// Traces under several interpretations of the input: features may be images, series, or columns
// before tokens, and the number of rows may be fixed. Returns the first that is recognised, in
// `trace_shape`.
TracedProgram trace_any(const std::shared_ptr<const ExportedProgram>& program,
                        TraceShape& trace_shape, size_t output);

}  // namespace arenite::convert
