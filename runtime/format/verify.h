// SPDX-License-Identifier: Apache-2.0
// Verifies a model file: after this, no later code checks the file again.
#pragma once

#include <cstddef>
#include <span>

#include "arenite/model.h"
#include "arenite/status.h"
#include "format/reader.h"

namespace arenite::format {

// Checks structure, meaning and checksums of all bytes, for every target in the file; kSkip leaves
// out the packed weights, whose values mean nothing to the verifier. Needs no memory but a bounded
// stack, and time linear in the file plus a bounded term. Fails with kBadModel, kVersionMismatch,
// or kUnsupported if the model needs what the build left out, and says why.
// REQUIRES: file.data() is a multiple of kModelAlignment.
Status verify(std::span<const std::byte> file, Diagnostic* why,
              Checksums checksums = Checksums::kVerify);

// The checksums of the packed weights of a file that was verified with kSkip.
Status verify_weights(std::span<const std::byte> file, Diagnostic* why);

// The arena formula that a program implies for a target: what the file must store.
// Returns false if a size overflows.
bool derive_formula(const ModelReader& model, Target target, arenite::ArenaFormula& formula);

}  // namespace arenite::format
