// SPDX-License-Identifier: Apache-2.0
// Size arithmetic that remembers whether it overflowed, so that a whole formula is checked once.
#pragma once

#include <cstdint>

namespace arenite {

// A 64-bit unsigned number, or "too large" once any operation overflowed.
class Checked {
 public:
  constexpr Checked(uint64_t value) : value_(value) {}  // NOLINT: implicit

  constexpr bool ok() const { return ok_; }
  constexpr uint64_t value() const { return value_; }
  // The value, or the largest number where it overflowed: fails every comparison with a limit.
  constexpr uint64_t saturated() const { return ok_ ? value_ : UINT64_MAX; }

  friend constexpr Checked operator+(Checked a, Checked b) {
    Checked sum(0);
    const bool overflow = __builtin_add_overflow(a.value_, b.value_, &sum.value_);
    sum.ok_ = a.ok_ && b.ok_ && !overflow;
    return sum;
  }
  friend constexpr Checked operator*(Checked a, Checked b) {
    Checked product(0);
    const bool overflow = __builtin_mul_overflow(a.value_, b.value_, &product.value_);
    product.ok_ = a.ok_ && b.ok_ && !overflow;
    return product;
  }

 private:
  uint64_t value_;
  bool ok_ = true;
};

// The smallest multiple of `unit` that is at least `a`. REQUIRES: unit > 0.
constexpr Checked round_up(Checked a, uint64_t unit) {
  const Checked padded = a + (unit - 1);
  return padded.ok() ? Checked(padded.value() / unit * unit) : padded;
}

constexpr uint32_t div_up(uint32_t a, uint32_t b) { return a / b + (a % b != 0 ? 1 : 0); }

}  // namespace arenite
