// SPDX-License-Identifier: Apache-2.0
// Packs a program into a model file with the self-test that Session::self_test runs, strips the
// self-test, and repacks a file for other targets without its checkpoint.
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

// Returns how many tokens the self-test of this program has: several rows for every kernel set,
// more if a mask hides all but later keys from the first queries, fewer in a short context.
uint32_t self_test_tokens(const Program& program);

// Returns the targets of a file that this CPU runs, the scalar one first.
std::vector<Target> runnable_targets(const AlignedBytes& file);

// Returns the model file. Its self-test uses text if the model has a tokenizer that can encode it,
// else ids of the vocabulary, or features of zero mean and unit variance. The expected results are
// those of the first runnable target, or of the scalar kernels if there is none. The tolerance is
// 1e-4 of the largest row norm (1e-2 if activations are rounded to int8), or 16 times the
// difference from another runnable target if that is larger. The tolerance for the other cache type
// is at least as large. Throws InputError that begins with `path` for a model beyond the format's
// limits.
AlignedBytes pack_model(const Program& program, const std::vector<Target>& targets,
                        const std::string& path);

// The parts of pack_model, for a file in which write_model left room for a self-test: one records
// the self-test, the other sets an earlier recording. REQUIRES: bytes.size() equals the room.
void record_self_test(AlignedBytes& file, const Program& program);
void set_self_test(AlignedBytes& file, std::span<const std::byte> bytes);

// Removes the self-test from a verified file, which becomes shorter.
void strip_self_test(AlignedBytes& file);

struct RepackedModel {
  AlignedBytes file;
  Target source = Target::kPortable;  // target of the given file whose weights were used
  std::vector<Target> tested;  // targets that passed the file's self-test; empty: it has none
};

// Repacks the weights of a verified file for `targets`, in this order. The result equals the file
// of a conversion to these targets on this machine. The file's self-test must pass on all of them
// that this CPU runs, or on scalar kernels if it runs none. The self-test is then recorded again,
// as its tolerances depend on the targets. A file without a self-test gets none.
//
// Throws InputError that begins with `path` if weights cannot be unpacked (because no converter
// packs them like that, or because kept targets disagree), if a self-test fails, or if the model is
// too large.
RepackedModel repack_model(std::span<const std::byte> file, const std::vector<Target>& targets,
                           const std::string& path);

}  // namespace arenite::convert
