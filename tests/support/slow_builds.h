// SPDX-License-Identifier: Apache-2.0
// Detects slow builds (emulators, sanitizers), in which tests run samples only. An emulator adds
// other kernels, another compiler and sometimes a 32-bit size_t to a native run; loops over
// anything else run every nth case there.
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

// Returns every nth case in an emulator, including the first and the last; else all.
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

// Chooses every nth case of nested loops in an emulator, and elsewhere all. If n is coprime to the
// lengths of the loops, each of their values has its turn.
class Turns {
 public:
  explicit Turns(size_t every) : every_(kEmulated ? every : 1) {}
  bool has_next() { return cases_++ % every_ == 0; }

 private:
  size_t every_;
  size_t cases_ = 0;
};

}  // namespace arenite::test
