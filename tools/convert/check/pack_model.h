// SPDX-License-Identifier: Apache-2.0
// Makes the model file of a program, with the self-test that Session::self_test runs, takes the
// self-test away again, and packs a file for other targets, without the checkpoint it was made of.
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

struct RepackedModel {
  AlignedBytes file;
  Target source = Target::kPortable;  // of the file that was given: whose weights were taken
  std::vector<Target> tested;         // that passed the file's self-test; none: it has no such test
};

// The model of a verified file with its weights packed for `targets`, in this order: the bytes that
// a conversion to these targets writes on this machine. The file's self-test must pass on all of
// them that this CPU runs, or on scalar kernels if it runs none; then it is recorded anew, as its
// tolerances depend on the targets. A file without one gets none. Throws InputError, which begins
// with `path`, where packing cannot be undone, since weights lie otherwise than any converter packs
// them or targets that stay disagree; for a test that fails; for a model that is too large.
RepackedModel repack_model(std::span<const std::byte> file, const std::vector<Target>& targets,
                           const std::string& path);

}  // namespace arenite::convert
