// SPDX-License-Identifier: Apache-2.0
// The parts of C++20 that we use and the C++ library of emscripten 3.1.6 lacks.
// tools/cmake/wasm.cmake includes this file before each source.
#pragma once

#include <algorithm>
#include <iterator>

namespace std {

template <typename To, typename From>
constexpr To bit_cast(const From& from) {
  return __builtin_bit_cast(To, from);
}

namespace ranges {

constexpr auto copy(const auto& from, auto to) { return std::copy(begin(from), end(from), to); }
constexpr void fill(auto&& range, const auto& value) { std::fill(begin(range), end(range), value); }
constexpr bool equal(const auto& a, const auto& b) {
  return std::equal(begin(a), end(a), begin(b), end(b));
}
constexpr bool all_of(const auto& range, auto holds) {
  return std::all_of(begin(range), end(range), holds);
}
constexpr bool none_of(const auto& range, auto holds) {
  return std::none_of(begin(range), end(range), holds);
}
constexpr void transform(auto first, auto last, auto to, auto change) {
  std::transform(first, last, to, change);
}

}  // namespace ranges
}  // namespace std
