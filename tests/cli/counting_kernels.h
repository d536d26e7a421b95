// SPDX-License-Identifier: Apache-2.0
// Counts the multiply-adds that kernels are asked for: the linker puts a kernel set that counts in
// the place of each (-Wl,--wrap), so the runtime under test is the one that is shipped.
#pragma once

#include <cstdint>

namespace arenite::test {

// Since the last call; of one thread.
uint64_t counted_multiply_adds();

}  // namespace arenite::test
