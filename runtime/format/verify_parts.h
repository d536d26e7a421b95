// SPDX-License-Identifier: Apache-2.0
// The parts of the verifier. Each returns true, or refuses with a reason.
#pragma once

#include "core/message.h"
#include "format/file_layout.h"
#include "format/reader.h"
#include "format/tokenizer_reader.h"

namespace arenite::format {

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

bool verify_needs(std::span<const std::byte> file, const Refusal& refuse);
bool verify_tensors(const ModelReader& model, const Refusal& refuse);
bool verify_slots(const ModelReader& model, const Refusal& refuse);
bool verify_flow(const ModelReader& model, const Refusal& refuse);
bool verify_ops(const ModelReader& model, const Refusal& refuse);
bool verify_masks(const ModelReader& model, const Refusal& refuse);
bool verify_packed(const ModelReader& model, std::span<const std::byte> file, size_t metadata_bytes,
                   const Refusal& refuse);
bool verify_segment_checksums(const ModelReader& model, std::span<const std::byte> file,
                              const Refusal& refuse);
bool verify_tokenizer(std::span<const std::byte> file, const Refusal& refuse);
bool verify_unicode(const TokenizerView& tokenizer, const Refusal& refuse);

}  // namespace arenite::format
