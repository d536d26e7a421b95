// SPDX-License-Identifier: Apache-2.0
// Refuses models that need parts of the runtime that a build with ARENITE_MODEL left out.
#include "format/model_needs.h"
#include "format/verify_parts.h"

namespace arenite::format {
namespace {

// The field that asks for it. Names of the needs would take flash, more with each new need; those
// of fields are there for other refusals.
constexpr const char* field_of(Need need) {
  if (need < Need::kSelectAsAsked) return "ops.kind";
  if (need < Need::kLayerNorm) return "ops.rows";
  if (need < Need::kRelu) return "ops.norm";
  if (need < Need::kStripMask) return "ops.function";
  if (need < Need::kW8) return "masks.kind";
  if (need < Need::kInt8Cache) return "tensors.type";
  if (need < Need::kBytePairs) return "signature.kv_cache";
  return need < Need::kScoreCap ? "tokenizer.kind" : "ops.terms";
}

}  // namespace

bool verify_needs(std::span<const std::byte> file, const Refusal& refuse) {
  if constexpr (kEverythingLinked) return true;
  return for_each_need(file, [&](Need need, uint32_t index) {
    if (linked(need)) return true;
    return refuse("this build has only what its ARENITE_MODEL needs: name this model there, too",
                  Message::of(field_of(need)), index);
  });
}

}  // namespace arenite::format
