// SPDX-License-Identifier: Apache-2.0
// Makes the model file of a program, with the self-test that Session::self_test runs, and takes the
// self-test away again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "arenite/target.h"
#include "convert/files/memory.h"
#include "convert/program/program.h"

namespace arenite::convert {

// How many tokens a self-test of this program feeds: past one row of every kernel set, more where
// a mask shows the first ones nothing but later ones, fewer in a short context.
uint32_t self_test_tokens(const Program& program);

// The targets of a file that this CPU runs, the scalar one first.
std::vector<Target> runnable_targets(const AlignedBytes& file);

// The model file. What its self-test feeds is text where the model has a tokenizer that can read
// it, else ids of its vocabulary, or features of zero mean and unit variance. What the ops make of
// it is what the scalar kernels make of it, or the first of `targets` that this CPU runs; how far
// the others may be off is 1e-4 of a row's length, or 16 times as far as any of them is off here.
// Throws InputError, which begins with `path`, for a model beyond the format.
AlignedBytes pack_model(const Program& program, const std::vector<Target>& targets,
                        const std::string& path);

// The parts of pack_model, for a file that write_model left room for a self-test in: records it, or
// puts in one that was recorded before. REQUIRES: as many bytes as there is room for.
void record_self_test(AlignedBytes& file, const Program& program);
void set_self_test(AlignedBytes& file, std::span<const std::byte> bytes);

// Takes the self-test out of a verified file, which gets shorter.
void strip_self_test(AlignedBytes& file);

}  // namespace arenite::convert
