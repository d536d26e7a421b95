// SPDX-License-Identifier: Apache-2.0
// Counts the steps of code that was compiled with a call in each of its blocks.
#pragma once

#include <cstdint>

namespace arenite::test {

// Since the last call: blocks run in what was compiled with -fsanitize-coverage=trace-pc, and each
// byte that the C library's functions compare or search for it. Copies have a constant length.
uint64_t counted_steps();

}  // namespace arenite::test
