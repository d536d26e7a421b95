// SPDX-License-Identifier: Apache-2.0
// Size arithmetic that remembers whether it overflowed, so that a whole formula is checked once.
#pragma once

#include <cstdint>

namespace arenite {

// A 64-bit unsigned number, or "too large" once any operation overflowed. The largest number stands
// for that, which no size is.
class Checked {
 public:
  constexpr Checked(uint64_t value) : value_(value) {}  // NOLINT: implicit

  constexpr bool ok() const { return value_ != UINT64_MAX; }
  constexpr uint64_t value() const { return value_; }
  // The value, or the largest number where it overflowed: fails every comparison with a limit.
  constexpr uint64_t saturated() const { return value_; }

  friend constexpr Checked operator+(Checked a, Checked b) { return add(a.value_, b.value_); }
  friend constexpr Checked operator*(Checked a, Checked b) { return multiply(a.value_, b.value_); }

 private:
  // Out of line, since 32-bit CPUs need many instructions.
  [[gnu::noinline]] static constexpr uint64_t add(uint64_t a, uint64_t b) {
    uint64_t sum = 0;
    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
  }
  [[gnu::noinline]] static constexpr uint64_t multiply(uint64_t a, uint64_t b) {
    uint64_t product = 0;
    const bool overflow = __builtin_mul_overflow(a, b, &product);
    return overflow || a == UINT64_MAX || b == UINT64_MAX ? UINT64_MAX : product;
  }

  uint64_t value_;
};

// The smallest multiple of `unit` that is at least `a`. REQUIRES: a power of two.
constexpr Checked round_up(Checked a, uint64_t unit) {
  const uint64_t beyond = a.value() & (unit - 1);
  return beyond == 0 ? a : a + (unit - beyond);
}

constexpr uint32_t div_up(uint32_t a, uint32_t b) { return a / b + (a % b != 0 ? 1 : 0); }

}  // namespace arenite
