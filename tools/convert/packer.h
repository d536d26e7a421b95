// SPDX-License-Identifier: Apache-2.0
// Lays weights out as the kernels of a target read them.
#pragma once

#include <span>

#include "convert/program.h"
#include "core/packing.h"

namespace arenite::convert {

// Writes `tensor` into `packed`, in the layout of packing.h; what lies beyond its outputs is zero.
// REQUIRES: packed.size() * 4 == packed_weight_bytes(packing, tensor.outputs, tensor.inputs).
void pack_weights(const ProgramTensor& tensor, Packing packing, std::span<float> packed);

}  // namespace arenite::convert
