// SPDX-License-Identifier: Apache-2.0
// Writes programs as model files and reads them back; runtime/format/SPEC.md defines the format.
//
//   const AlignedBytes file = write_model(program, {target});
//   const Program again = read_model(file.span(), 0);
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

// The elements of a tensor in row-major order, or a view of packed weights, which include the bias.
using WeightElements = std::variant<Floats, QuantizedMatrix, WeightView>;
WeightElements load_elements(const ProgramTensor& tensor);

// Writes the weights [outputs, inputs] and the bias of `tensor` into `packed`, in the layout of
// packing.h or as plain rows; lanes beyond the outputs are zero. Repacking weights of another
// target is lossless: all packings of a type differ only in the order of elements. REQUIRES:
// elements of the tensor's type; packed.size() == stored_bytes(tensor.shape(), packing).
void pack_weights(const ProgramTensor& tensor, const WeightElements& numbers, Packing packing,
                  std::span<std::byte> packed);

// Throws InputError for programs beyond the format's limits: too many slots, ops, tensors or masks,
// no op at all, or elements that are not finite.
void check_format_limits(const Program& program);

// Returns the size of write_model's file without loading any weights. Throws InputError as
// write_model does.
uint64_t model_bytes(const Program& program, const std::vector<Target>& targets,
                     uint32_t self_test_tokens = 0);

// Returns a model file with the weights packed for each target, in the order given, and with room
// for a self-test of `self_test_tokens` tokens, which pack_model fills in (0: none). Throws
// InputError if sizes overflow. Does not check the program otherwise.
AlignedBytes write_model(const Program& program, const std::vector<Target>& targets,
                         uint32_t self_test_tokens = 0);

// Reads the program of a model file, with the weights packed for target `packed_index` of the file.
// Weights and tokenizer are views into the file. REQUIRES: the file is verified, and outlives the
// program.
Program read_model(std::span<const std::byte> file, uint32_t packed_index);

}  // namespace arenite::convert
