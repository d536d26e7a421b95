// SPDX-License-Identifier: Apache-2.0
// A program as the graph of one of its outputs, followed at one length.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "convert/exported/exported_program.h"
#include "convert/exported/lengths.h"
#include "convert/exported/reducer.h"
#include "convert/graph/graph.h"

namespace arenite::convert {

struct Followed {
  Graph graph;
  int64_t positions_max = 0;
  std::unique_ptr<Reducer> reducer;
};

// The program without ops that this output does not need, such as a second output's.
ExportedProgram needed_part(const ExportedProgram& program, size_t output);

// Follows all ops that the output needs. What is seen only then is added to `lengths`: rows of
// constants that the program puts before each sequence, and how it cuts images into patches.
// Throws InputError where something is not recognised.
Followed follow(const std::shared_ptr<const ExportedProgram>& program, Lengths& lengths,
                size_t output);

}  // namespace arenite::convert
