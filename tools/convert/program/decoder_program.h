// SPDX-License-Identifier: Apache-2.0
// Turns a decoder into a program.
#pragma once

#include <string>

#include "convert/program/program.h"
#include "convert/spec/model_spec.h"

namespace arenite::convert {

// Folds the scale of scores into what makes the queries, fuses query, key and value into one
// matrix, and gate and up into another, and makes the tables of angles. Logits are computed for the
// rows that a call gives out. Hidden states are those of PyTorch's `output_hidden_states`. Slots
// are placed (planner.h); weights are read when the writer packs them, so the files of `spec` must
// still be there then. Throws InputError.
Program build_decoder_program(const DecoderSpec& spec, const std::string& name);

}  // namespace arenite::convert
