// SPDX-License-Identifier: Apache-2.0
// Checks the inputs of a traced program and determines its model's output: rows, layout, and
// whether it runs token by token.
//
//   causal decoder, program returns x[:, -1]  ->  rows that a call asks for, kLastRows
//   encoder, program returns x.mean(1)        ->  one row for each sequence
#pragma once

#include <string>

#include "convert/exported/exported_model.h"
#include "convert/exported/trace/trace_shape.h"

namespace arenite::convert {

// Whether no row depends on a later token. Selecting the last row keeps a function causal, unless
// other tokens read that row.
bool is_causal_function(const Graph& graph, const GraphFunction& function,
                        const TraceShape& trace_shape);

// Removes unread nodes and sets which rows are outputs. A causal model outputs the rows that a call
// asks for, even if the program selects only the last row.
void settle_outputs(ExportedModel& model, const TraceShape& trace_shape);

// Throws InputError, beginning with `where`, unless all inputs have the same order of axes.
void require_one_order(const TraceShape& trace_shape, const std::string& where);

// Throws InputError, beginning with `where`, unless all ids are looked up in a table, types are
// added to embedded tokens, and the output depends on each of several inputs. Clears unread token
// types.
void require_inputs(Graph& graph, const TraceShape& trace_shape, const std::string& where);

// Notes the inputs of `program` that are missing in `asked`, by name and in unread_inputs. Its bits
// count the user's inputs without `sides`: masks, lengths, positions and types.
void note_unread(ExportedModel& model, const ExportedProgram& program, const ExportedProgram& asked,
                 const std::vector<SideInput>& sides);

// Returns the fewest tokens of an input for which each convolution has a full window.
int64_t tokens_of_a_window(const Graph& graph, size_t input);

}  // namespace arenite::convert
