// SPDX-License-Identifier: Apache-2.0
// Ops on integer rows, for CPUs without an FPU: a build with ARENITE_INTEGER_ROWS runs them instead
// of the float ops (runtime/DESIGN.md). They compute with integers alone, so the bits are the same
// everywhere.
//
// An element takes the four bytes of its float: a signed mantissa in the upper 24 bits and an
// exponent in the lower 8, which is the same for all elements that an op writes to a row:
//   element = mantissa * 2^(exponent - 150), for example 0x00000596 = 5 * 2^0
// So copies of rows need no conversion, views of columns need no exponent of their own, and zero
// bits are 0. With the exponent kNotFinite all elements of a row are NaN; infinities and elements
// from 2^127 on become NaN, too.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/float_bits.h"
#include "core/views.h"
#include "kernels/kernel_set.h"
#include "ops/attention.h"
#include "ops/row_ops.h"
#include "ops/rows.h"

namespace arenite {

#if defined(ARENITE_INTEGER_ROWS)
inline constexpr bool kRowsAreIntegers = true;
#else
inline constexpr bool kRowsAreIntegers = false;
#endif

}  // namespace arenite

namespace arenite::integers {

inline constexpr uint32_t kNotFinite = 255;

// Rows hold floats only, because of the strict aliasing rule: an integer is stored as the float
// with the same bits.
inline int32_t bits_of(float element) { return bit_cast<int32_t>(element); }
inline float with_bits(int32_t bits) { return bit_cast<float>(bits); }

// REQUIRES: x != 0.
inline int32_t leading_zeros(uint32_t x) { return __builtin_clz(x); }

inline constexpr uint32_t kExponentBits = 0xFF;
inline int32_t mantissa_of(int32_t number) { return number & ~static_cast<int32_t>(kExponentBits); }
inline int32_t shifted_left(int32_t x, int32_t left) {
  return static_cast<int32_t>(static_cast<uint32_t>(x) << left);
}

// x >> right, which is 0 or -1 beyond 31.
inline int32_t shifted(int32_t x, int32_t right) { return x >> (right < 31 ? right : 31); }

// floor(x * factor / 2^16). REQUIRES: factor < 2^16.
[[gnu::always_inline]] inline int32_t times(int32_t x, uint32_t factor) {
  uint32_t lower = static_cast<uint32_t>(x) & 0xFFFF;
#if defined(ARENITE_THUMB_1)
  asm("uxth %0, %1" : "=l"(lower) : "l"(x));  // compilers take two shifts
#endif
  return (x >> 16) * static_cast<int32_t>(factor) + static_cast<int32_t>(lower * factor >> 16);
}
// floor(x * factor / 2^16). REQUIRES: |factor| <= 2^15.
[[gnu::always_inline]] inline int32_t times_signed(int32_t x, int32_t factor) {
  return (x >> 16) * factor + ((x & 0xFFFF) * factor >> 16);
}

// Parts of a positive float that is not a denormal: upper_bits, in 16 bits, * 2^(field_of - 142).
inline uint32_t field_of(uint32_t bits) { return bits << 1 >> 24; }
inline uint32_t upper_bits(uint32_t bits) { return (bits << 8 | 0x80000000u) >> 16; }

// The scales and biases (floats) of an epilogue of a linear layer or a norm: y = x * scale + bias.
struct Ends {
  uint32_t scale = 1;  // the largest exponent fields
  uint32_t bias = 1;
  bool has_negative_scales = false;

  void take(const float* scales, const float* biases, uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
      const auto bits = bit_cast<uint32_t>(scales[i]);
      scale = std::max(scale, field_of(bits));
      has_negative_scales = has_negative_scales || bits >> 31 != 0;
      if (biases != nullptr) bias = std::max(bias, field_of(bit_cast<uint32_t>(biases[i])));
    }
  }
  bool are_finite() const { return scale < 255 && bias < 255; }
  // Returns the exponent of results, which are integers * 2^(exponent - 150), for rows of 31-bit
  // integers * 2^of_rows before the scale. It leaves both terms of the sum a bit of headroom.
  int32_t exponent(int32_t of_rows) const {
    const int32_t of_products = of_rows + static_cast<int32_t>(scale) + 16 - 142 + 150;
    return std::max(of_products, static_cast<int32_t>(bias) - 6) + 1;
  }
};

// Returns the bias as a signed integer of 31 bits, to be shifted right by 7 and by how far its
// exponent is below that of `Ends`.
[[gnu::always_inline]] inline int32_t bias_bits(uint32_t bits) {
  const auto magnitude = static_cast<int32_t>(((bits & 0x7FFFFF) | 0x800000) << 7);
  return static_cast<int32_t>(bits) < 0 ? -magnitude : magnitude;
}

// The exponent and the magnitude of a row's elements.
struct Scan {
  uint32_t exponent;   // of all elements, or kNotFinite
  uint32_t magnitude;  // its highest bit is that of the largest element; at least 2^8 - 1
  // Returns how far all elements can be shifted left, as 32-bit integers.
  int32_t room() const { return leading_zeros(magnitude) - 1; }
};
// Scans a row. If several ops wrote it, its elements are first shifted to one exponent, in place.
Scan scan(const float* row, uint32_t count);

// Packs integers, each * 2^(exponent - 150), into elements, in place.
void pack(float* row, uint32_t count, int32_t exponent);
void fill_with_nan(float* row, uint32_t count);

// Returns the table's value at `place` * 2^-15, by a parabola through three entries.
[[gnu::always_inline]] inline uint32_t interpolated(const uint16_t* table, uint32_t place) {
  const uint16_t* const at = table + (place >> 15);
  const auto part = static_cast<int32_t>(place & 0x7FFF);
  const int32_t first = at[0], difference = at[1] - first;
  const int32_t second = at[2] - at[1] - difference;
  const int32_t slope = difference + ((part - 0x8000) * second >> 16);
  return static_cast<uint32_t>(first + (part * slope >> 15));
}

// Convert rows from floats to integers or back, in place. Values below 2^-126 become zeros; other
// floats keep 23 bits, counted from the highest bit in their row.
void from_floats(const Matrix& rows);
void to_floats(const Matrix& rows);

// Return whether an op exists for integer rows; other ops take floats.
bool has_linear(const WeightView& weights);
bool has_norm(NormKind kind);
bool has_activation(Activation function);
bool has_attention(const KernelSet& kernels, const Attention& op);

// The ops of the same names (linear.h, row_ops.h, attention.h). REQUIRES: has_... of the op. Rows
// become NaN for a scale, gain, bias or angle that no real model has, such as infinity.
void linear(const ConstMatrix& input, const WeightView& weights, const Matrix& output,
            const ScratchArea& scratch, const ParallelFor& parallel);
void add(const KernelSet& kernels, const ConstMatrix& input, const OtherRows& other,
         const Matrix& output, const ParallelFor& parallel);
void norm(const NormWeights& weights, uint32_t groups, const ConstMatrix& input,
          const Matrix& output, const ParallelFor& parallel);
void activation(Activation function, const ConstMatrix& input, const OtherRows& factor,
                const Matrix& output, const ParallelFor& parallel);
void rope(const KernelSet& kernels, const ConstMatrix& input, uint32_t heads, const float* angles,
          uint32_t rotary_dim, const StepRows& rows, const Matrix& output,
          const ParallelFor& parallel);
// select() of the kind kMean.
void mean(const ConstMatrix& input, std::span<const SequenceRows> rows,
          std::span<const SequenceRows> to, const Matrix& output, const ParallelFor& parallel);
void attention(const KernelSet& kernels, const Attention& op, const ParallelFor& parallel);

}  // namespace arenite::integers

namespace arenite {

namespace floats {
using arenite::add;
using arenite::rope;
inline void from_floats(const Matrix&) {}
inline void to_floats(const Matrix&) {}
}  // namespace floats

// The kind of rows that the build computes with.
#if defined(ARENITE_INTEGER_ROWS)
namespace build_rows = integers;
#else
namespace build_rows = floats;
#endif

}  // namespace arenite
