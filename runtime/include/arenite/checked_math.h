// SPDX-License-Identifier: Apache-2.0
// Size arithmetic with a sticky overflow, so that a whole formula is checked once at its end:
//
//     const Checked bytes = Checked(rows) * columns * sizeof(float) + padding;
//     if (!bytes.ok()) return Status::kInvalidArgument;
//
#pragma once

#include <cstddef>
#include <cstdint>

namespace arenite {

// A size in bytes or elements, or "too large". A result is too large if it exceeds size_t or if an
// operand is too large. SIZE_MAX encodes this state, since no object has that size.
class Checked {
 public:
  // Holds a size; too large if it exceeds size_t.
  constexpr Checked(uint64_t value)  // NOLINT: implicit
      : value_(value < SIZE_MAX ? static_cast<size_t>(value) : SIZE_MAX) {}

  // Returns whether the size and all that it was computed from fit size_t.
  constexpr bool ok() const { return value_ != SIZE_MAX; }
  // Returns the size, or SIZE_MAX if it is too large, which fails every comparison with a limit.
  constexpr size_t value() const { return value_; }

  // Returns the sum. Out of line, since formulas contain many of them.
  [[gnu::noinline]] friend constexpr Checked operator+(Checked a, Checked b) {
    size_t sum = 0;
    return __builtin_add_overflow(a.value_, b.value_, &sum) ? SIZE_MAX : sum;
  }
  // Returns the product. Out of line for the same reason.
  [[gnu::noinline]] friend constexpr Checked operator*(Checked a, Checked b) {
    size_t product = 0;
    const bool overflow = __builtin_mul_overflow(a.value_, b.value_, &product);
    return overflow || !a.ok() || !b.ok() ? SIZE_MAX : product;
  }

 private:
  size_t value_;
};

// Returns the smallest multiple of `unit` that is at least `a`. REQUIRES: `unit` is a power of two.
constexpr Checked round_up(Checked a, uint32_t unit) {
  const size_t beyond = a.value() & (unit - 1);
  return beyond == 0 ? a : a + (unit - beyond);
}

// Returns a / b, rounded up, without overflow. REQUIRES: b != 0.
constexpr uint32_t div_up(uint32_t a, uint32_t b) { return a / b + (a % b != 0 ? 1 : 0); }

}  // namespace arenite
