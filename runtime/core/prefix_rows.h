// SPDX-License-Identifier: Apache-2.0
// How many rows of constants each sequence begins with. A build whose models have none knows that
// while it compiles, so that what counts them takes no code there, and no memory.
#pragma once

#include <cstdint>

#include "core/needs.h"

namespace arenite {

template <bool kIsLinked>
struct PrefixCount {
  uint32_t rows = 0;

  constexpr PrefixCount(uint32_t count = 0) : rows(count) {}
  constexpr operator uint32_t() const { return rows; }
};

template <>
struct PrefixCount<false> {
  constexpr PrefixCount(uint32_t = 0) {}
  constexpr operator uint32_t() const { return 0; }
};

using PrefixRows = PrefixCount<linked(Need::kPrefix)>;

inline constexpr uint32_t kPrefixRowsMax = 65536;

}  // namespace arenite
