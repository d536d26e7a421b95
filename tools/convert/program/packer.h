// SPDX-License-Identifier: Apache-2.0
// Lays weights out as the kernels of a target read them.
#pragma once

#include <span>

#include "convert/program/program.h"
#include "core/packing.h"

namespace arenite::convert {

// Writes `weights` [outputs, inputs] and the bias of `tensor` into `packed`, in the layout of
// packing.h or as plain rows; what lies beyond the outputs is zero.
// REQUIRES: packed.size() * 4 == stored_bytes(tensor.shape(), packing).
void pack_weights(const ProgramTensor& tensor, std::span<const float> weights, Packing packing,
                  std::span<float> packed);

}  // namespace arenite::convert
