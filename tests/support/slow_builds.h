// SPDX-License-Identifier: Apache-2.0
// Detects builds in which tests take many times longer; there, tests run samples only. What an
// emulator adds to a native run is the kernels of its CPU, the code of another compiler and, of
// some, sizes of 32 bits: other loops run through every so many of their cases there.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <utility>
#include <vector>

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

// Returns every so many of the cases in an emulator, the first and the last among them; else all.
template <typename Case>
std::vector<Case> thinned(std::vector<Case> all, size_t every) {
  if (!kEmulated || all.empty()) return all;
  std::vector<Case> some;
  for (size_t i = 0; i + 1 < all.size(); i += every) some.push_back(std::move(all[i]));
  some.push_back(std::move(all.back()));
  return some;
}

template <typename Case>
std::vector<Case> thinned(std::initializer_list<Case> all, size_t every) {
  return thinned(std::vector<Case>(all), every);
}

// Chooses every so many of the cases of nested loops in an emulator, and elsewhere all. If the
// number has no common divisor with the lengths of the loops, each of their values has its turn.
class Turns {
 public:
  explicit Turns(size_t every) : every_(kEmulated ? every : 1) {}
  bool has_next() { return cases_++ % every_ == 0; }

 private:
  size_t every_;
  size_t cases_ = 0;
};

}  // namespace arenite::test
