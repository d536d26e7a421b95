// SPDX-License-Identifier: Apache-2.0
// Ops on rows of integers, for CPUs without an FPU: what a build with ARENITE_INTEGER_ROWS runs in
// the place of floats (runtime/DESIGN.md). Only integers compute, so the bits are the same
// everywhere.
//
// In memory a number takes the place of its float: a signed mantissa in the upper 24 bits and in
// the lower 8 an exponent that all numbers have that an op writes to a row; it stands for
// mantissa * 2^(exponent - 150). Copies of rows are copies of numbers, columns need no place for an
// exponent of their own, and zero is zero. With the exponent kNotFinite all numbers of a row are
// NaN: that is what becomes of infinities, too, and of numbers from 2^127 on.
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

inline int32_t* numbers_of(float* row) { return reinterpret_cast<int32_t*>(row); }
inline const int32_t* numbers_of(const float* row) { return reinterpret_cast<const int32_t*>(row); }

// Bit 31 - n is the highest of x. REQUIRES: x != 0.
inline int32_t leading_zeros(uint32_t x) { return __builtin_clz(x); }

inline constexpr uint32_t kExponentBits = 0xFF;
inline int32_t mantissa_of(int32_t number) { return number & ~static_cast<int32_t>(kExponentBits); }
inline int32_t shifted_left(int32_t x, int32_t left) {
  return static_cast<int32_t>(static_cast<uint32_t>(x) << left);
}

// x >> right, and 0 or -1 beyond 31.
inline int32_t shifted(int32_t x, int32_t right) { return x >> (right < 31 ? right : 31); }

// floor(x * factor / 2^16). REQUIRES: factor < 2^16.
[[gnu::always_inline]] inline int32_t times(int32_t x, uint32_t factor) {
  uint32_t lower = static_cast<uint32_t>(x) & 0xFFFF;
#if defined(ARENITE_THUMB_1)
  asm("uxth %0, %1" : "=l"(lower) : "l"(x));  // compilers shift to and fro
#endif
  return (x >> 16) * static_cast<int32_t>(factor) + static_cast<int32_t>(lower * factor >> 16);
}
// The same for a signed one. REQUIRES: |factor| <= 2^15.
[[gnu::always_inline]] inline int32_t times_signed(int32_t x, int32_t factor) {
  return (x >> 16) * factor + ((x & 0xFFFF) * factor >> 16);
}

// A positive float as 16 bits * 2^(field - 142), of which none is a denormal; or its parts.
inline uint32_t field_of(uint32_t bits) { return bits << 1 >> 24; }
inline uint32_t upper_bits(uint32_t bits) { return (bits << 8 | 0x80000000u) >> 16; }

// Floats that end a row, of a linear layer or of a norm: numbers are multiplied with scales, and
// biases are added.
struct Ends {
  uint32_t scale = 1;  // the largest fields
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
  // Of rows whose 31 bits stand for themselves * 2^exponent before the scale, what those stand for
  // that end them: * 2^(result - 150), with a bit of room for each of both terms.
  int32_t exponent(int32_t of_rows) const {
    const int32_t of_products = of_rows + static_cast<int32_t>(scale) + 16 - 142 + 150;
    return std::max(of_products, static_cast<int32_t>(bias) - 6) + 1;
  }
};

// A bias as 31 bits, which are to be shifted right by 7 and what its exponent is less than that of
// `Ends`.
[[gnu::always_inline]] inline int32_t bias_bits(uint32_t bits) {
  const auto magnitude = static_cast<int32_t>(((bits & 0x7FFFFF) | 0x800000) << 7);
  return static_cast<int32_t>(bits) < 0 ? -magnitude : magnitude;
}

// What an op has to know of a row before it reads it.
struct Scan {
  uint32_t exponent;   // of all numbers; kNotFinite
  uint32_t magnitude;  // has the highest bit of the largest of them, as they lie; at least 2^8 - 1
  // How far all can be shifted left, as 32 bits.
  int32_t room() const { return leading_zeros(magnitude) - 1; }
};
// A row that several ops wrote gets one exponent first, where it lies.
Scan scan(const float* row, uint32_t count);

// Makes numbers of integers, where they lie, each of which stands for itself * 2^(exponent - 150).
void pack(int32_t* row, uint32_t count, int32_t exponent);
void fill_with_nan(int32_t* row, uint32_t count);

// Of x at `place` in steps of 2^-15: a table's value, by a parabola through three of them.
[[gnu::always_inline]] inline uint32_t interpolated(const uint16_t* table, uint32_t place) {
  const uint16_t* const at = table + (place >> 15);
  const auto part = static_cast<int32_t>(place & 0x7FFF);
  const int32_t first = at[0], difference = at[1] - first;
  const int32_t second = at[2] - at[1] - difference;
  const int32_t slope = difference + ((part - 0x8000) * second >> 16);
  return static_cast<uint32_t>(first + (part * slope >> 15));
}

// Rows of floats become rows of integers, and the other way round, where they lie. Floats below
// 2^-126 become zeros, and so do numbers; others of up to 23 bits below a row's largest are exact.
void from_floats(const Matrix& rows);
void to_floats(const Matrix& rows);

// Which ops there are for rows of integers; all others take floats.
bool has_linear(const WeightView& weights);
bool has_norm(NormKind kind);
bool has_activation(Activation function);
bool has_attention(const KernelSet& kernels, const Attention& op);

// The ops of the same names (linear.h, row_ops.h, attention.h). REQUIRES: they are there. Where
// scales, gains, biases or angles are none that a model has, such as infinities, rows become NaN.
void linear(const ConstMatrix& input, const WeightView& weights, const Matrix& output,
            const ScratchArea& scratch, const ParallelFor& parallel);
void add(const ConstMatrix& input, const OtherRows& other, const Matrix& output,
         const ParallelFor& parallel);
void norm(const NormWeights& weights, uint32_t groups, const ConstMatrix& input,
          const Matrix& output, const ParallelFor& parallel);
void activation(Activation function, const ConstMatrix& input, const OtherRows& factor,
                const Matrix& output, const ParallelFor& parallel);
void rope(const ConstMatrix& input, uint32_t heads, const float* angles, uint32_t rotary_dim,
          const StepRows& rows, const Matrix& output, const ParallelFor& parallel);
// Of the rows of each sequence: select() of the kind kMean.
void mean(const ConstMatrix& input, std::span<const SequenceRows> rows,
          std::span<const SequenceRows> to, const Matrix& output, const ParallelFor& parallel);
void attention(const KernelSet& kernels, const Attention& op, const ParallelFor& parallel);

}  // namespace arenite::integers
