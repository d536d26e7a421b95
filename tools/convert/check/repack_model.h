// SPDX-License-Identifier: Apache-2.0
// Other targets for a model file, without the checkpoint that it was made of.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "arenite/target.h"
#include "convert/files/memory.h"

namespace arenite::convert {

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
