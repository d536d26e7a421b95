// SPDX-License-Identifier: Apache-2.0
// What a model of a program gives out, and what of the program that needs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "convert/exported/exported_model.h"
#include "convert/exported/read/exported_program.h"
#include "convert/exported/trace/trace_shape.h"

namespace arenite::convert {
// What a program's model gives out: one of its outputs, or several side by side.

struct ChosenOutput {
  // The one given, or one that has the outputs that are asked for side by side as its last output.
  std::shared_ptr<const ExportedProgram> program;
  size_t index = 0;     // of the program's outputs
  size_t outputs = 1;   // tensors that the program given has
  std::string words{};  // for the account; empty where there was no choice
};

// `wanted` counts tensors from 0; none: the first. Throws InputError for one that is not there, and
// for several whose rows differ.
ChosenOutput choose_output(std::shared_ptr<const ExportedProgram> program,
                           const std::vector<uint32_t>& wanted);

// What is left to do for the graph of an exported program, once it holds at all trace_shape.

// Which rows go out, and what nobody reads is taken out. Where no row depends on later tokens, a
// call gives out the rows that it asks for: a program that gives those of last tokens alone has
// others, too. Throws InputError, which begins with `where`, for constants before the tokens that
// nothing depends on.
void settle_outputs(ExportedModel& model, const TraceShape& trace_shape, const std::string& where);

// Ids are looked up, and types are added to them; what is multiplied by 0 is not read. Throws
// InputError, which begins with `where`.
void require_inputs(Graph& graph, const TraceShape& trace_shape, const std::string& where);

}  // namespace arenite::convert
