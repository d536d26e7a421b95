// SPDX-License-Identifier: Apache-2.0
// What is left to do for the graph of an exported program, once it holds at all lengths.
#pragma once

#include <string>

#include "convert/exported/exported_model.h"
#include "convert/exported/lengths.h"

namespace arenite::convert {

// Which rows go out, and what nobody reads is taken out. Where no row depends on later tokens, a
// call gives out the rows that it asks for: a program that gives those of last tokens alone has
// others, too. Throws InputError, which begins with `where`, for constants before the tokens that
// nothing depends on.
void settle_outputs(ExportedModel& model, const Lengths& lengths, const std::string& where);

// Ids are looked up, and types are added to them; what is multiplied by 0 is not read. Throws
// InputError, which begins with `where`.
void require_inputs(Graph& graph, const Lengths& lengths, const std::string& where);

}  // namespace arenite::convert
