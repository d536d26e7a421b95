// SPDX-License-Identifier: Apache-2.0
#include "convert/exported/constant_numbers.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace arenite::convert {
namespace {

constexpr int64_t kTokenPartsMax = 8;   // of the tokens, as n // 8
constexpr int64_t kCommonPartsMax = 2;  // that a common number may be
constexpr int64_t kNeighboursMax = 3;   // numbers around that of the tokens
constexpr double kLargeMin = 1000.0;    // bases of rotations, and what hides scores
constexpr double kSmallMax = 1e-3;      // what keeps a quotient finite
constexpr double kSameNumber = 1e-7;    // share that rounding to float32 may change

// Numbers of activations, roots and means, which stand beside the model's own numbers.
constexpr double kCommonNumbers[] = {2.0,
                                     3.0,
                                     0.5,
                                     0.25,
                                     0.044715,
                                     0.7978845608028654,
                                     1.702,
                                     1.4142135623730951,
                                     0.7071067811865476,
                                     0.6366197723675814,
                                     6.0};

bool are_same_number(double a, double b) { return std::fabs(a - b) <= kSameNumber * std::fabs(a); }

bool is_or_divides(double number, double size) {
  return size > 0.0 && (are_same_number(number, size) || are_same_number(number, 1.0 / size));
}

bool is_root_of(double number, double size) {
  return is_or_divides(number, std::sqrt(size)) ||
         is_or_divides(number, std::sqrt(std::sqrt(size)));
}

// Whether `number` is made of so many tokens as people make one: a part of them, a neighbour, a
// root, a logarithm.
bool is_made_of(double number, int64_t count, int64_t parts_max, int64_t neighbours_max) {
  const auto tokens = static_cast<double>(count);
  for (int64_t i = 1; i <= parts_max; ++i) {
    const auto parts = static_cast<double>(i);
    for (const double part :
         {tokens / parts, std::floor(tokens / parts), std::ceil(tokens / parts)}) {
      if (is_or_divides(number, part)) return true;
    }
  }
  if (is_or_divides(number, 2.0 * tokens)) return true;
  for (int64_t i = -neighbours_max; i <= neighbours_max; ++i) {
    const double near = tokens + static_cast<double>(i);
    if (is_or_divides(number, near)) return true;
    if (std::abs(i) > 1 || near <= 0.0) continue;
    if (is_or_divides(number, std::sqrt(near)) || is_or_divides(number, std::log(near)) ||
        is_or_divides(number, std::log2(near)) || is_or_divides(number, std::log10(near))) {
      return true;
    }
  }
  return false;
}

}  // namespace

bool is_constant(double number, bool is_beside_numbers, int64_t tokens,
                 const std::set<int64_t>& widths) {
  const double size = std::fabs(number);
  if (size == 0.0 || size == 1.0 || !std::isfinite(number)) return true;
  const auto is_number = [&](double each) { return are_same_number(size, each); };
  const bool is_common = is_beside_numbers && std::ranges::any_of(kCommonNumbers, is_number);
  const bool is_made = is_common ? is_made_of(size, tokens, kCommonPartsMax, 1)
                                 : is_made_of(size, tokens, kTokenPartsMax, kNeighboursMax);
  if (is_made) return false;
  return is_common || size >= kLargeMin || size <= kSmallMax ||
         std::ranges::any_of(widths, [&](int64_t width) {
           const auto whole = static_cast<double>(width);
           return width > 1 && (is_or_divides(size, whole) || is_root_of(size, whole));
         });
}

}  // namespace arenite::convert
