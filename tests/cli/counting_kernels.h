// SPDX-License-Identifier: Apache-2.0
// Counts the multiply-adds of kernel calls. The linker (-Wl,--wrap) replaces each kernel set by a
// counting one, so the tests link the shipped runtime.
#pragma once

#include <cstdint>

namespace arenite::test {

// Returns the multiply-adds since the last call, on one thread.
uint64_t counted_multiply_adds();

}  // namespace arenite::test
