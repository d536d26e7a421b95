// SPDX-License-Identifier: Apache-2.0
// Verifies a model file, so that no later code has to check it again. Below verify() are its parts;
// each returns true, or fills in the diagnostic and returns false.
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

// Checks the structure, the meaning and the checksums of all bytes, for every target in the file.
// With kSkip, omits the checksums of segments, since no value in them needs a check. Uses a bounded
// stack and no other memory, and time linear in the file's size plus a bounded term. Fails with
// kBadModel, kVersionMismatch, or kUnsupported if the model needs a part that the build left out;
// `why` says what is wrong. REQUIRES: file.data() is a multiple of kModelAlignment.
Status verify(std::span<const std::byte> file, Diagnostic* why, const LoadOptions& options = {});

// Checks the checksums of the segments of a file that was verified with kSkip.
Status verify_weights(std::span<const std::byte> file, Diagnostic* why, Crc32c crc32c);

// Derives from the program the arena formula that the file must store for a target. Returns false
// if a coefficient exceeds 32 bits or there are too many groups of caches.
bool derive_formula(const ModelReader& model, Target target, arenite::ArenaFormula& formula);

// Fills in the diagnostic of a refused file.
class Refusal {
 public:
  explicit Refusal(Diagnostic* why) : why_(why) {}

  // Returns false, so that a check can end with: return refuse(...);
  template <typename Found = uint32_t, typename Expected = uint32_t>
  [[gnu::always_inline]] bool operator()(Message reason, Message field, uint32_t index = 0,
                                         Found found = 0, Expected expected = 0) const {
    explain(why_, reason, field, index, found, expected);
    return false;
  }

 private:
  Diagnostic* why_;
};

// FlatBuffers' structural verification: whether all fields of the schema can be read in place.
// REQUIRES: metadata has at least 8 bytes, and at most kMetadataBytesMax.
bool is_well_formed(std::span<const std::byte> metadata);
// Only for builds with kFunctionsLinked; in others verify_needs accepts just a single input and
// function.
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
