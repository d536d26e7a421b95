// SPDX-License-Identifier: Apache-2.0
// Whether tests run in an emulator, where what other builds test in full is tested by samples.
#pragma once

namespace arenite::test {

#ifdef ARENITE_TESTS_ARE_EMULATED
inline constexpr bool kEmulated = true;
#else
inline constexpr bool kEmulated = false;
#endif

}  // namespace arenite::test
