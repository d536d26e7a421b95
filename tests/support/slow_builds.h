// SPDX-License-Identifier: Apache-2.0
// Detects builds in which tests take many times longer; there, tests run samples only.
#pragma once

namespace arenite::test {

// Whether tests run in an emulator.
#ifdef ARENITE_TESTS_ARE_EMULATED
inline constexpr bool kEmulated = true;
#else
inline constexpr bool kEmulated = false;
#endif

// Whether they run in an emulator, or with a sanitizer.
#ifdef ARENITE_TESTS_ARE_SANITIZED
inline constexpr bool kSampled = true;
#else
inline constexpr bool kSampled = kEmulated;
#endif

}  // namespace arenite::test
