// SPDX-License-Identifier: Apache-2.0
// Programs as model files, written and read again; runtime/format/SPEC.md says which bits.
#pragma once

#include <cstddef>
#include <span>
#include <variant>
#include <vector>

#include "arenite/target.h"
#include "convert/files/memory.h"
#include "convert/program/program.h"
#include "core/packing.h"

namespace arenite::convert {

// The numbers of a tensor, in the order of its rows; or, with its bias, where they lie packed.
using Numbers = std::variant<std::vector<float>, QuantizedMatrix, WeightView>;
Numbers load_numbers(const ProgramTensor& tensor);

// Writes the numbers [outputs, inputs] and the bias of `tensor` into `packed`, in the layout of
// packing.h or as plain rows; what lies beyond the outputs is zero. Of weights that lie packed for
// another target all bits are kept: a type has one family of packings, and these differ only in
// where a number lies.
// REQUIRES: numbers of the tensor's type; packed.size() == stored_bytes(tensor.shape(), packing).
void pack_weights(const ProgramTensor& tensor, const Numbers& numbers, Packing packing,
                  std::span<std::byte> packed);

// Throws InputError for what no file may hold: more slots, ops, tensors or masks than there is room
// for, no op at all, and numbers that are not finite.
void check_format_limits(const Program& program);

// How long write_model's file is, without reading any weights. Throws InputError as it does.
uint64_t model_bytes(const Program& program, const std::vector<Target>& targets,
                     uint32_t self_test_tokens = 0);

// The bytes of a model file with the weights packed for each target, in the order given, and with
// room for a self-test of so many tokens (pack_model fills it in); 0: none.
// Throws InputError if sizes overflow; else writes what it is given, right or wrong.
AlignedBytes write_model(const Program& program, const std::vector<Target>& targets,
                         uint32_t self_test_tokens = 0);

// The program of a model file, whose weights are those packed for target `packed_index` of the
// file. Weights and tokenizer stay where they lie. REQUIRES: the file is verified, and outlives
// the program.
Program read_model(std::span<const std::byte> file, uint32_t packed_index);

}  // namespace arenite::convert
