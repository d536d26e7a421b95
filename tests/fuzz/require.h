// SPDX-License-Identifier: Apache-2.0
// Ends the process if a promise is broken, so that libFuzzer keeps the input.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace arenite::test {

inline void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "broken promise: %s\n", what);
  std::abort();
}

}  // namespace arenite::test
