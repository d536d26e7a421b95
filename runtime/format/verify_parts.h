// SPDX-License-Identifier: Apache-2.0
// The parts of the verifier. Each returns true, or refuses with a reason.
#pragma once

#include "arenite/status.h"
#include "core/message.h"
#include "format/file_layout.h"
#include "format/reader.h"
#include "format/tokenizer_reader.h"

namespace arenite::format {

// Fills in the diagnostic of a refused file.
class Refusal {
 public:
  explicit Refusal(Diagnostic& why) : why_(why) {}

  // Always return false, so that a check reads: return refuse(...).
  bool operator()(Message reason, Message field, uint32_t index = 0) const;
  template <typename Found, typename Expected = uint32_t>
  bool operator()(Message reason, Message field, uint32_t index, Found found,
                  Expected expected = 0) const {
    // There are many calls; most pass 32-bit numbers, which halves their code.
    if constexpr (sizeof(found) <= sizeof(uint32_t) && sizeof(expected) <= sizeof(uint32_t)) {
      return narrow(reason, field, index, static_cast<uint32_t>(found),
                    static_cast<uint32_t>(expected));
    } else {
      return wide(reason, field, index, static_cast<uint64_t>(found),
                  static_cast<uint64_t>(expected));
    }
  }

 private:
  bool narrow(Message reason, Message field, uint32_t index, uint32_t found,
              uint32_t expected) const;
  bool wide(Message reason, Message field, uint32_t index, uint64_t found, uint64_t expected) const;

  Diagnostic& why_;
};

bool verify_needs(std::span<const std::byte> file, const Refusal& refuse);
bool verify_tensors(const ModelReader& model, const Refusal& refuse);
bool verify_slots(const ModelReader& model, const Refusal& refuse);
bool verify_flow(const ModelReader& model, const Refusal& refuse);
bool verify_ops(const ModelReader& model, const Refusal& refuse);
bool verify_masks(const ModelReader& model, const Refusal& refuse);
bool verify_packed(const ModelReader& model, std::span<const std::byte> file,
                   uint64_t metadata_bytes, const Refusal& refuse);
bool verify_segment_checksums(const ModelReader& model, std::span<const std::byte> file,
                              const Refusal& refuse);
bool verify_tokenizer(std::span<const std::byte> file, const Refusal& refuse);
bool verify_unicode(const TokenizerView& tokenizer, const Refusal& refuse);

}  // namespace arenite::format
