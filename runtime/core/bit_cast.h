// SPDX-License-Identifier: Apache-2.0
// std::bit_cast, by what it is made of: libc++ has it since version 14, and emscripten 3.1 an older
// one.
#pragma once

namespace arenite {

// The bytes of `from` as a value of another type of the same size, which the compiler checks.
template <typename To, typename From>
constexpr To bit_cast(const From& from) {
  return __builtin_bit_cast(To, from);
}

}  // namespace arenite
