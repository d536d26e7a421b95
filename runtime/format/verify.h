// SPDX-License-Identifier: Apache-2.0
// Verifies a model file: after this, no later code checks the file again. Its parts come after it:
// each returns true, or refuses with a reason.
#pragma once

#include <cstddef>
#include <span>

#include "arenite/checked_math.h"
#include "arenite/model.h"
#include "arenite/status.h"
#include "core/message.h"
#include "format/file_layout.h"
#include "format/reader.h"
#include "format/tokenizer_reader.h"

namespace arenite::format {

// Checks structure, meaning and checksums of all bytes, for every target in the file; with kSkip
// not those of the packed weights, whose values mean nothing to the verifier. Needs no memory but a
// bounded stack, and time linear in the file plus a bounded term. Fails with kBadModel,
// kVersionMismatch, or kUnsupported if the model needs what the build left out, and says why.
// REQUIRES: file.data() is a multiple of kModelAlignment.
Status verify(std::span<const std::byte> file, Diagnostic* why, const LoadOptions& options = {});

// The checksums of the packed weights of a file that was verified with kSkip.
Status verify_weights(std::span<const std::byte> file, Diagnostic* why, Crc32c crc32c);

// The arena formula that a program implies for a target: what the file must store.
// Returns false if a size overflows.
bool derive_formula(const ModelReader& model, Target target, arenite::ArenaFormula& formula);

// Fills in the diagnostic of a refused file.
class Refusal {
 public:
  explicit Refusal(Diagnostic* why) : why_(why) {}

  // False, so that a check reads: return refuse(...).
  template <typename Found = uint32_t, typename Expected = uint32_t>
  [[gnu::always_inline]] bool operator()(Message reason, Message field, uint32_t index = 0,
                                         Found found = 0, Expected expected = 0) const {
    explain(why_, reason, field, index, found, expected);
    return false;
  }

 private:
  Diagnostic* why_;
};

// Whether all that the schema says can be read in place. REQUIRES: at least 8 bytes, and at most
// kMetadataBytesMax.
bool is_well_formed(std::span<const std::byte> metadata);
// A build whose models have one input and one function refuses all others as a need.
bool verify_functions(const ModelReader& model, const Refusal& refuse);
bool verify_axes(const ModelReader& model, const Refusal& refuse);
bool verify_tensors(const ModelReader& model, const Refusal& refuse);
bool verify_slots(const ModelReader& model, const Refusal& refuse);
bool verify_flow(const ModelReader& model, const Refusal& refuse);
bool verify_ops(const ModelReader& model, const Refusal& refuse);
bool verify_masks(const ModelReader& model, const Refusal& refuse);
bool verify_packed(const ModelReader& model, std::span<const std::byte> file, size_t metadata_bytes,
                   const Refusal& refuse);
bool verify_segment_checksums(const ModelReader& model, std::span<const std::byte> file,
                              Crc32c crc32c, const Refusal& refuse);
bool verify_sound(const ModelReader& model, const Refusal& refuse);
bool verify_tokenizer(std::span<const std::byte> file, const Refusal& refuse);

}  // namespace arenite::format
