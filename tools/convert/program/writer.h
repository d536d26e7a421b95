// SPDX-License-Identifier: Apache-2.0
// Writes programs as model files; runtime/format/SPEC.md says which bits.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "arenite/target.h"
#include "convert/files/memory.h"
#include "convert/program/program.h"
#include "core/packing.h"

namespace arenite::convert {

// Writes `weights` [outputs, inputs] and the bias of `tensor` into `packed`, in the layout of
// packing.h or as plain rows; what lies beyond the outputs is zero.
// REQUIRES: packed.size() * 4 == stored_bytes(tensor.shape(), packing).
void pack_weights(const ProgramTensor& tensor, std::span<const float> weights, Packing packing,
                  std::span<float> packed);

// Throws InputError if the program has more slots, ops, tensors or masks than a file may hold.
void check_format_limits(const Program& program);

// The bytes of a model file with the weights packed for each target, in the order given, and with
// room for a self-test of so many tokens (pack_model fills it in); 0: none.
// Throws InputError if sizes overflow; else writes what it is given, right or wrong.
AlignedBytes write_model(const Program& program, const std::vector<Target>& targets,
                         uint32_t self_test_tokens = 0);

}  // namespace arenite::convert
