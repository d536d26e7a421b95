// SPDX-License-Identifier: Apache-2.0
// The check of a recognised graph against the program that it came from.
#pragma once

#include "convert/exported/exported_model.h"
#include "convert/exported/lengths.h"

namespace arenite::convert {

// Computes both in double precision, on the author's example and on random inputs, with sequences
// of several lengths where the program is told these, and notes in `model` how far they are apart.
// Throws InputError where that is more than rounding.
void compare_with_program(ExportedModel& model, const Lengths& lengths);

}  // namespace arenite::convert
