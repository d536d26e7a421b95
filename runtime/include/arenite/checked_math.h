// SPDX-License-Identifier: Apache-2.0
// Size arithmetic that remembers whether it overflowed, so that a whole formula is checked once.
#pragma once

#include <cstddef>
#include <cstdint>

namespace arenite {

// A number of bytes or elements, or "too large" once it or what it was made of is beyond the
// address space. The largest number stands for that, which no size is.
class Checked {
 public:
  constexpr Checked(uint64_t value)  // NOLINT: implicit
      : value_(value < SIZE_MAX ? static_cast<size_t>(value) : SIZE_MAX) {}

  constexpr bool ok() const { return value_ != SIZE_MAX; }
  // SIZE_MAX where it is too large: that fails every comparison with a limit.
  constexpr size_t value() const { return value_; }

  // Out of line, since formulas have many of them.
  [[gnu::noinline]] friend constexpr Checked operator+(Checked a, Checked b) {
    size_t sum = 0;
    return __builtin_add_overflow(a.value_, b.value_, &sum) ? SIZE_MAX : sum;
  }
  [[gnu::noinline]] friend constexpr Checked operator*(Checked a, Checked b) {
    size_t product = 0;
    const bool overflow = __builtin_mul_overflow(a.value_, b.value_, &product);
    return overflow || !a.ok() || !b.ok() ? SIZE_MAX : product;
  }

 private:
  size_t value_;
};

// The smallest multiple of `unit` that is at least `a`. REQUIRES: a power of two.
constexpr Checked round_up(Checked a, uint32_t unit) {
  const size_t beyond = a.value() & (unit - 1);
  return beyond == 0 ? a : a + (unit - beyond);
}

constexpr uint32_t div_up(uint32_t a, uint32_t b) { return a / b + (a % b != 0 ? 1 : 0); }

}  // namespace arenite
