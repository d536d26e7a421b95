// SPDX-License-Identifier: Apache-2.0
// Buffers that the modules of decoders register beside their weights.
#pragma once

#include <string>

#include "convert/spec/model_tensors.h"

namespace arenite::convert {

// The first buffer that is a causal mask; empty: there is none. Throws InputError for a mask that
// is not causal.
std::string causal_buffer(const ModelTensors& tensors);

// Passes over those that carry no weights, by the end of their names, once what they say is
// checked: throws InputError for a mask that is not causal.
void pass_over_buffers(ModelTensors& tensors);

}  // namespace arenite::convert
