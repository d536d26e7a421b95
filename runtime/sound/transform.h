// SPDX-License-Identifier: Apache-2.0
// Fourier transforms of 2, 3, 4, 5 or 7 complex elements, float or integer, of which longer
// transforms are composed.
#pragma once

#include <cstdint>

namespace arenite::sound {

template <typename Number>
struct Complex {
  Number re, im;

  friend Complex operator+(Complex a, Complex b) { return {a.re + b.re, a.im + b.im}; }
  friend Complex operator-(Complex a, Complex b) { return {a.re - b.re, a.im - b.im}; }
};
template <typename Number, typename Turn>
Complex<Number> operator*(Complex<Number> a, Complex<Turn> root) {
  return {a.re * root.re - a.im * root.im, a.re * root.im + a.im * root.re};
}
template <typename Number>
Complex<Number> times_minus_i(Complex<Number> a) {
  return {a.im, -a.re};
}

inline constexpr uint32_t kRadixMax = 7;

// Transforms a[0 ... radix) in place; root_at(i) is root i of the `length` roots of 1. For an odd
// radix:
//   y[k] = a[0] + sum over j = 1 ... radix / 2 of
//          (a[j] + a[radix - j]) re(w^jk) + i (a[j] - a[radix - j]) im(w^jk),
// with w = e^(-2 pi i / radix): each sum and each difference is multiplied once per result.
template <typename Number, typename RootAt>
void transform_few(Complex<Number> (&a)[kRadixMax], uint32_t radix, uint32_t length,
                   RootAt root_at) {
  using Pair = Complex<Number>;
  if (radix == 2) {
    const Pair sum = a[0] + a[1];
    a[1] = a[0] - a[1];
    a[0] = sum;
  } else if (radix == 4) {
    const Pair even = a[0] + a[2], odd = a[1] + a[3];
    const Pair left = a[0] - a[2], right = times_minus_i(a[1] - a[3]);
    a[0] = even + odd;
    a[1] = left + right;
    a[2] = even - odd;
    a[3] = left - right;
  } else {
    Pair made[kRadixMax];
    for (uint32_t k = 0; k < radix; ++k) {
      Pair sum = a[0], turned = {};
      for (uint32_t j = 1; j <= radix / 2; ++j) {
        const auto root = root_at(j * k % radix * (length / radix));
        const Pair both = a[j] + a[radix - j], apart = a[j] - a[radix - j];
        sum = sum + Pair{both.re * root.re, both.im * root.re};
        turned = turned + Pair{-apart.im * root.im, apart.re * root.im};
      }
      made[k] = sum + turned;
    }
    for (uint32_t k = 0; k < radix; ++k) a[k] = made[k];
  }
}

}  // namespace arenite::sound
