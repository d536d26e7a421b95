// SPDX-License-Identifier: Apache-2.0
// Refuses models that need parts of the runtime that a build with ARENITE_MODEL left out.
#include <algorithm>
#include <array>

#include "format/model_needs.h"
#include "format/verify_parts.h"

namespace arenite::format {
namespace {

// Of the needs that a build can lack here; names that nobody says would take flash.
constexpr auto kNames = [] {
  std::array<const char*, static_cast<size_t>(Need::kScoreCap)> names{};
  std::copy_n(kNeedNames, names.size(), names.begin());
  return names;
}();

}  // namespace

bool verify_needs(std::span<const std::byte> file, const Refusal& refuse) {
  if constexpr (kEverythingLinked) return true;
  return for_each_need(file, [&](Need need, uint32_t index) {
    if (linked(need)) return true;
    return refuse("this build has only what its ARENITE_MODEL needs: name this model there, too",
                  Message::of(kNames[static_cast<size_t>(need)]), index);
  });
}

}  // namespace arenite::format
