// SPDX-License-Identifier: Apache-2.0
// What a program that was followed takes and gives: checks of its inputs, and the rows that go out.
#pragma once

#include <string>

#include "convert/exported/exported_model.h"
#include "convert/exported/trace/trace_shape.h"

namespace arenite::convert {

// Whether no row of the function depends on later tokens. What is given out of the last tokens
// alone can be asked for, unless tokens read it.
bool is_causal_function(const Graph& graph, const GraphFunction& function,
                        const TraceShape& trace_shape);

// Which rows go out, and what nobody reads is taken out. Where no row depends on later tokens, a
// call gives out the rows that it asks for: a program that gives those of last tokens alone has
// others, too.
void settle_outputs(ExportedModel& model, const TraceShape& trace_shape);

// Arrays of all inputs are read in one order. Throws InputError, which begins with `where`.
void require_one_order(const TraceShape& trace_shape, const std::string& where);

// Ids are looked up, and types are added to them; what is multiplied by 0 is not read. Throws
// InputError, which begins with `where`.
void require_inputs(Graph& graph, const TraceShape& trace_shape, const std::string& where);

// Names the inputs of `program` that `asked` has not. Tools count those of the author's that are no
// masks, lengths, positions or types.
void note_unread(ExportedModel& model, const ExportedProgram& program, const ExportedProgram& asked,
                 const std::vector<SideInput>& sides);

// The fewest tokens of an input of which each convolution sees a whole window.
int64_t tokens_of_a_window(const Graph& graph, size_t input);

}  // namespace arenite::convert
