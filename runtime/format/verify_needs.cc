// SPDX-License-Identifier: Apache-2.0
// Refuses models that need parts of the runtime that a build with ARENITE_MODEL left out.
#include "format/model_needs.h"
#include "format/verify_parts.h"

namespace arenite::format {

bool verify_needs(std::span<const std::byte> file, const Refusal& refuse) {
  if constexpr (kEverythingLinked) return true;
  return for_each_need(file, [&](Need need, uint32_t index) {
    if (linked(need)) return true;
    return refuse("this build has only what its ARENITE_MODEL needs: name this model there, too",
                  Message::of(name(need)), index);
  });
}

}  // namespace arenite::format
