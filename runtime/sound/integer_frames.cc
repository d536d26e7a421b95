// SPDX-License-Identifier: Apache-2.0
// Computes spectra of sound with integers. Transforms work on 32-bit block floating point (elements
// with a common exponent) and 16-bit roots; results are floats with 16 significant bits.
#include "core/float_bits.h"
#include "ops/integer_rows.h"
#include "sound/frames.h"

#if defined(ARENITE_INTEGER_ROWS)
#include <algorithm>

#if !defined(__clang__) && !defined(__x86_64__)
#pragma GCC optimize("O2")  // independent of the flags for the rest of the firmware
#endif
#include "sound/transform.h"

namespace arenite::sound {
namespace {

using arenite::integers::field_of;
using arenite::integers::kNotFinite;
using arenite::integers::leading_zeros;
using arenite::integers::shifted;
using arenite::integers::times;
using arenite::integers::times_signed;
using arenite::integers::upper_bits;
using arenite::integers::with_bits;

// The real or imaginary part of a root, in steps of 2^-15.
struct RootPart {
  int32_t steps;
};
RootPart root_part_of(float x) {
  const auto bits = bit_cast<uint32_t>(x);
  const auto magnitude = static_cast<int32_t>((bits & 0x7FFFFF) | 0x800000);
  const auto right = 134 - static_cast<int32_t>(field_of(bits));
  const int32_t steps = right < 7 ? 1 << 15 : (shifted(magnitude, right) + 1) >> 1;
  return {static_cast<int32_t>(bits) < 0 ? -steps : steps};
}

// A 32-bit fixed-point number. Sums do not overflow for the roots of a transform; with other tables
// in the file they wrap around.
struct Fixed {
  uint32_t bits;

  int32_t number() const { return static_cast<int32_t>(bits); }
  Fixed half() const { return {static_cast<uint32_t>(number() >> 1)}; }
  friend Fixed operator+(Fixed a, Fixed b) { return {a.bits + b.bits}; }
  friend Fixed operator-(Fixed a, Fixed b) { return {a.bits - b.bits}; }
  friend Fixed operator-(Fixed a) { return {0 - a.bits}; }
  friend Fixed operator*(Fixed a, RootPart b) {
    return {static_cast<uint32_t>(times_signed(a.number(), b.steps)) << 1};
  }
};
using Pair = Complex<Fixed>;
using Root = Complex<RootPart>;

Root root_at(const float* pairs, size_t index) {
  return {root_part_of(pairs[2 * index]), root_part_of(pairs[2 * index + 1])};
}
// Elements are stored as floats with their bits (integer_rows.h).
Pair at(const float* pair) {
  return {{bit_cast<uint32_t>(pair[0])}, {bit_cast<uint32_t>(pair[1])}};
}
void put(float* pair, Pair value) {
  pair[0] = bit_cast<float>(value.re.bits);
  pair[1] = bit_cast<float>(value.im.bits);
}

Pair halved(Pair x, uint32_t times) {
  return {{static_cast<uint32_t>(x.re.number() >> times)},
          {static_cast<uint32_t>(x.im.number() >> times)}};
}

// Returns how often elements are halved before `radix` of them are added, to avoid overflow.
uint32_t halvings_of(uint32_t radix) { return radix == 2 ? 1 : radix < 5 ? 2 : 3; }

// Stockham's algorithm, as in frames.cc. `exponent` grows by the halvings.
float* transform(const float* roots, uint32_t length, float* x, float* y, int32_t& exponent) {
  uint32_t stride = 1;
  for (uint32_t left = length; left > 1;) {
    const uint32_t radix = radix_of(left), part = left / radix, halvings = halvings_of(radix);
    for (uint32_t p = 0; p < part; ++p) {
      Root turns[kRadixMax];
      for (uint32_t k = 1; k < radix && p != 0; ++k) turns[k] = root_at(roots, p * k * stride);
      const float* from = x + 2 * stride * p;
      float* to = y + 2 * stride * radix * p;
      for (uint32_t q = 0; q < stride; ++q, from += 2, to += 2) {
        Pair few[kRadixMax];
        few[0] = halved(at(from), halvings);
        for (uint32_t j = 1; j < radix; ++j) {
          few[j] = halved(at(from + 2 * j * stride * part), halvings);
        }
        transform_few(few, radix, length, [roots](uint32_t i) { return root_at(roots, i); });
        put(to, few[0]);
        for (uint32_t k = 1; k < radix; ++k) {
          put(to + 2 * k * stride, p == 0 ? few[k] : few[k] * turns[k]);
        }
      }
    }
    std::swap(x, y);
    left = part;
    stride *= radix;
    exponent += static_cast<int32_t>(halvings);
  }
  return x;
}

// Returns the bits of the largest float that is not above magnitude * 2^exponent.
uint32_t float_of(uint32_t magnitude, int32_t exponent) {
  if (magnitude == 0) return 0;
  const int32_t left = leading_zeros(magnitude);
  const int32_t field = exponent + 158 - left;
  if (field < 1) return 0;
  if (field >= static_cast<int32_t>(kNotFinite)) return 0x7FC00000;
  return (static_cast<uint32_t>(field) << 23) + (magnitude << left << 1 >> 9);
}

// log2(1 + x) in steps of 2^-15, for x = 0, 1/64, ..., 1 and two values beyond.
struct Logarithms {
  uint16_t values[67] = {};
  consteval Logarithms() {
    for (int i = 0; i < 67; ++i) {
      const double z = i / (i + 128.0);
      double series = 0;
      for (int term = 41; term > 0; term -= 2) series = 1.0 / term + z * z * series;
      values[i] = static_cast<uint16_t>(2 * z * series / 0.6931471805599453 * 32768 + 0.5);
    }
  }
};
constexpr Logarithms kLogarithms;

// Returns |a * 2^exponent|^2.
float square_of(Pair a, int32_t exponent) {
  const int32_t re = a.re.number(), im = a.im.number();
  const auto magnitude = static_cast<uint32_t>((re ^ re >> 31) | (im ^ im >> 31));
  const int32_t left = leading_zeros(magnitude | 1) - 1;
  const int32_t x = static_cast<int32_t>(a.re.bits << left) >> 16;
  const int32_t y = static_cast<int32_t>(a.im.bits << left) >> 16;
  const uint32_t square = static_cast<uint32_t>(x * x) + static_cast<uint32_t>(y * y);
  return bit_cast<float>(float_of(square, 2 * (exponent + 16 - left)));
}

// Multiplies the frame by the window and converts it to 30-bit integers with a common exponent:
// element = integer * 2^exponent. Returns false if an element is not finite.
bool begin(const SoundView& view, float* frame, int32_t& exponent) {
  const uint32_t window = view.numbers->window;
  uint32_t most = 1, most_of_window = 1;
  for (uint32_t i = 0; i < window; ++i) {
    most = std::max(most, field_of(bit_cast<uint32_t>(frame[i])));
    most_of_window = std::max(most_of_window, field_of(bit_cast<uint32_t>(view.window()[i])));
  }
  if (most == kNotFinite || most_of_window == kNotFinite) return false;
  for (uint32_t i = 0; i < window; ++i) {
    const auto bits = bit_cast<uint32_t>(frame[i]), factor = bit_cast<uint32_t>(view.window()[i]);
    const int32_t magnitude = static_cast<int32_t>(((bits & 0x7FFFFF) | 0x800000) << 6);
    const uint32_t field = field_of(bits), field_of_factor = field_of(factor);
    int32_t x = 0;
    if (field != 0 && field_of_factor != 0) {
      x = shifted(magnitude, static_cast<int32_t>(most - field));
      x = shifted(times(x, upper_bits(factor)),
                  static_cast<int32_t>(most_of_window - field_of_factor));
    }
    frame[i] = with_bits(static_cast<int32_t>(bits ^ factor) < 0 ? -x : x);
  }
  exponent = static_cast<int32_t>(most + most_of_window) - 150 - 6 + 16 - 142;
  return true;
}

}  // namespace

float* integers::spectrum(const SoundView& view, float* x, float* other) {
  const uint32_t n = view.numbers->points / 2;
  int32_t exponent = 0;
  if (!begin(view, x, exponent)) {
    std::fill_n(other, n + 1, __builtin_nanf(""));
    return other;
  }
  const float* const z = transform(view.roots(), n, x, other, exponent);
  float* const power = z == x ? other : x;
  for (uint32_t k = 0; k <= n / 2; ++k) {
    const Pair a = at(z + 2 * k), b = at(z + (k == 0 ? 0 : 2 * (n - k)));
    const auto quarter = [](Fixed number) { return number.half().half(); };
    const Pair sum = {quarter(a.re) + quarter(b.re), quarter(a.im) - quarter(b.im)};
    const Pair difference = {quarter(a.re) - quarter(b.re), quarter(a.im) + quarter(b.im)};
    const Pair turned = times_minus_i(difference * root_at(view.half_roots(), k));
    power[k] = square_of(sum + turned, exponent + 1);
    power[n - k] = square_of(sum - turned, exponent + 1);
  }
  return power;
}

float integers::sum(const float* weights, const float* x, uint32_t count) {
  uint32_t most = 0;
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t of_weight = field_of(bit_cast<uint32_t>(weights[i]));
    const uint32_t of_x = field_of(bit_cast<uint32_t>(x[i]));
    if (of_weight == kNotFinite || of_x == kNotFinite) return __builtin_nanf("");
    if (of_weight != 0 && of_x != 0) most = std::max(most, of_weight + of_x);
  }
  const int32_t room = 33 - leading_zeros(count | 1);
  int32_t sum = 0;
  for (uint32_t i = 0; i < count; ++i) {
    const auto a = bit_cast<uint32_t>(weights[i]), b = bit_cast<uint32_t>(x[i]);
    if (field_of(a) == 0 || field_of(b) == 0) continue;
    const uint32_t right = most - field_of(a) - field_of(b) + static_cast<uint32_t>(room);
    const uint32_t product = upper_bits(a) * upper_bits(b) >> std::min<uint32_t>(right, 31);
    sum += static_cast<int32_t>(a ^ b) < 0 ? -static_cast<int32_t>(product)
                                           : static_cast<int32_t>(product);
  }
  const uint32_t magnitude = static_cast<uint32_t>(sum < 0 ? -sum : sum);
  const uint32_t sign = static_cast<uint32_t>(sum) & 0x80000000u;
  return bit_cast<float>(sign | float_of(magnitude, static_cast<int32_t>(most) - 284 + room));
}

float integers::logarithm(float x) {
  const auto bits = bit_cast<uint32_t>(x);
  const auto field = static_cast<int32_t>(bits >> 23);  // negative numbers have 256 more
  if (field < 1 || field >= static_cast<int32_t>(kNotFinite)) return __builtin_nanf("");
  const uint32_t fraction =
      arenite::integers::interpolated(kLogarithms.values, (bits & 0x7FFFFF) >> 2);
  // log(2) in units of 2^-22 and of 2^-15.
  const int32_t y =
      (field - 127) * 2907270 + times_signed(static_cast<int32_t>(fraction << 8), 22713);
  const uint32_t magnitude = static_cast<uint32_t>(y < 0 ? -y : y);
  return bit_cast<float>((static_cast<uint32_t>(y) & 0x80000000u) | float_of(magnitude, -22));
}

}  // namespace arenite::sound
#endif
