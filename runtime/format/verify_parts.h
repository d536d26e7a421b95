// SPDX-License-Identifier: Apache-2.0
// The parts of the verifier. Each returns true, or refuses with a reason.
#pragma once

#include "arenite/status.h"
#include "format/file_layout.h"
#include "format/reader.h"
#include "format/tokenizer_reader.h"

namespace arenite::format {

// Fills in the diagnostic of a refused file.
class Refusal {
 public:
  explicit Refusal(Diagnostic& why) : why_(why) {}

  // Always returns false, so that a check reads: return refuse(...).
  bool operator()(const char* reason, const char* field, uint32_t index = 0, uint64_t found = 0,
                  uint64_t expected = 0) const {
    why_ = Diagnostic{};
    why_.reason = reason;
    why_.field = field;
    why_.op_index = index;
    why_.found = found;
    why_.expected = expected;
    return false;
  }

 private:
  Diagnostic& why_;
};

bool verify_needs(std::span<const std::byte> file, const Refusal& refuse);
bool verify_slots(const ModelReader& model, const Refusal& refuse);
bool verify_flow(const ModelReader& model, const Refusal& refuse);
bool verify_ops(const ModelReader& model, const Refusal& refuse);
bool verify_masks(const ModelReader& model, uint64_t metadata_bytes, const Refusal& refuse);
bool verify_packed(const ModelReader& model, std::span<const std::byte> file,
                   uint64_t metadata_bytes, const Refusal& refuse);
bool verify_segment_checksums(const ModelReader& model, std::span<const std::byte> file,
                              const Refusal& refuse);
bool verify_tokenizer(std::span<const std::byte> file, const Refusal& refuse);
bool verify_unicode(const TokenizerView& tokenizer, const Refusal& refuse);

}  // namespace arenite::format
