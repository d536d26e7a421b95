// SPDX-License-Identifier: Apache-2.0
// Turns an encoder into a program.
#pragma once

#include <string>

#include "convert/program/program.h"
#include "convert/spec/model_spec.h"

namespace arenite::convert {

// Folds the scale of scores into the weights of the query and fuses query, key and value into one
// matrix. All layers share one cache, since an encoder keeps nothing from call to call; those of a
// causal model have one each, so that it can be fed token by token like a decoder. Hidden states
// are those of PyTorch's `output_hidden_states`. Gives out a row for each token (of a causal model,
// for those that a call asks for), or, where the spec pools, for each sequence. Slots are placed
// (planner.h); weights are read when the writer packs them, so the files of `spec` must still be
// there then. Throws InputError.
Program build_encoder_program(const EncoderSpec& spec, const std::string& name);

}  // namespace arenite::convert
