// SPDX-License-Identifier: Apache-2.0
// Ops that make a row of each row, or of a token: functions of numbers and of rows, sums,
// rotations, look-ups, and what begins and ends a program.
#pragma once

#include <cfloat>
#include <cstring>
#include <span>

#include "arenite/parallel.h"
#include "core/op_kinds.h"
#include "core/views.h"
#include "kernels/kernel_set.h"
#include "ops/rows.h"

namespace arenite {

// y = cap * tanh(x / cap); y may be x. NaN stays NaN, and infinities become the cap.
inline void soft_cap(const KernelSet& kernels, size_t bytes, float cap, const float* x, float* y) {
  const float shrink = 1.0f / cap;
  kernels.scale(bytes, x, &shrink, y);
  kernels.tanh(bytes, y, y);
  kernels.scale(bytes, y, &cap, y);
}

// output = f(input) (* factor). All [rows, columns], or factor a row for each sequence; it may have
// no data. The output may be the
// columns of the input, and overlaps the factor nowhere. `parameter` is that of core/op_kinds.h.
void activation(const KernelSet& kernels, Activation function, float parameter,
                const ConstMatrix& input, const OtherRows& factor, const Matrix& output,
                const ParallelFor& parallel);

// output = input + other. All [rows, columns], or other a row for each sequence; the output may be
// the columns of either where they have as many rows.
void add(const KernelSet& kernels, const ConstMatrix& input, const OtherRows& other,
         const Matrix& output, const ParallelFor& parallel);

// atanh(z) / z for small z, by so many terms of its series.
template <int kTerms>
inline float atanh_series(float z) {
  const float square = z * z;
  float series = 1.0f / (2 * kTerms - 1);
  for (int term = kTerms - 1; term > 0; --term) {
    series = 1.0f / static_cast<float>(2 * term - 1) + square * series;
  }
  return series;
}

// With x = m 2^e and m around 1, log(x) = e log(2) + 2 atanh((m - 1) / (m + 1)).
inline float logarithm(float x) {
  constexpr float kRootOfHalf = 0.70710678f;
  constexpr float kHigh = 0.693145751953125f, kLow = 1.42860677e-6f;  // of log(2)
  if (!(x > 0.0f)) return x == 0.0f ? -__builtin_inff() : __builtin_nanf("");
  if (x > FLT_MAX) return x;
  int32_t exponent = 0;
  if (x < FLT_MIN) {
    x *= 0x1p25f;
    exponent = -25;
  }
  uint32_t bits = 0;
  std::memcpy(&bits, &x, sizeof(bits));
  exponent += static_cast<int32_t>(bits >> 23) - 126;
  bits = (bits & 0x7fffff) | 0x3f000000;
  float part = 0.0f;  // in [0.5, 1)
  std::memcpy(&part, &bits, sizeof(part));
  if (part < kRootOfHalf) {
    part += part;
    --exponent;
  }
  const float z = (part - 1.0f) / (part + 1.0f);
  const auto e = static_cast<float>(exponent);
  return e * kHigh + (2.0f * z * atanh_series<6>(z) + e * kLow);
}

struct NormWeights {
  NormKind kind = NormKind::kLayer;
  float epsilon = 0.0f;
  const float* gain = nullptr;  // [columns / groups]; null without has_gain(kind)
  const float* bias = nullptr;  // the same, or null
};

// Each row and group x becomes f(x) * gain + bias.
// input and output [tokens, columns] may be the same.
// REQUIRES: groups divides columns.
void norm(const KernelSet& kernels, const NormWeights& weights, uint32_t groups,
          const ConstMatrix& input, const Matrix& output, const ParallelFor& parallel);

// input and output [rows, heads * head_dim] may be the same columns. For each head and i below
// rotary_dim / 2, the pair (x[i], x[i + rotary_dim / 2]) is multiplied, as a complex number, with
// that of the row's position in `angles` [positions, rotary_dim]: cosines, then sines; the rest of
// the head stays. Models that pair neighbours have their weights permuted at conversion.
// REQUIRES: rotary_dim is even and at most head_dim.
void rope(const KernelSet& kernels, const ConstMatrix& input, uint32_t heads, const float* angles,
          uint32_t rotary_dim, const StepRows& rows, const Matrix& output,
          const ParallelFor& parallel);

struct Embedding {
  WeightView tokens;  // of any type; packed, where it is also the output projection
  float scale = 1.0f;
  WeightView positions;  // plain rows; no data: none
  uint32_t position_offset = 0;
  WeightView types;                  // plain rows; no data: none
  uint32_t padding_id = UINT32_MAX;  // none
};

// What tokens are: ids, and the types that go with them where the caller gave any (else 0).
struct TokenIds {
  const uint32_t* ids = nullptr;
  const uint8_t* types = nullptr;
};

// output [rows, columns]: scale * tokens[id] (+ positions[position_offset + position])
// (+ types[type]); without a table of tokens the positions alone. With a padding id, a position is
// the number of the sequence's tokens before that have another id, those in gaps too, and tokens of
// that id have the row before position_offset.
// REQUIRES: ids are below the entries of the table, positions and types below those of theirs; with
// a padding id, the sequences begin with this step.
void embedding(const KernelSet& kernels, const Embedding& op, const TokenIds& tokens,
               const StepRows& rows, const Matrix& output, const ParallelFor& parallel);

// output: of each sequence the rows of `first`, then those of `second`. All have equally many
// columns; each has the rows of the sequences beside it, the output those of `to`.
void join(const ConstMatrix& first, std::span<const SequenceRows> first_rows,
          const ConstMatrix& second, std::span<const SequenceRows> second_rows,
          std::span<const SequenceRows> to, const Matrix& output, const ParallelFor& parallel);

// What `kind` takes of the rows of each sequence that has any in `to`: one row made of all, or a
// copy of the first or, also with kAsAsked, the last ones, as many as `to` says. The sequences have
// rows in `rows`, too. input [rows, columns], output [rows of `to`, columns]. With kTurns either is
// k times as wide as the other, which has k times its rows.
void select(const KernelSet& kernels, SelectKind kind, const ConstMatrix& input,
            const StepRows& rows, std::span<const SequenceRows> to, const Matrix& output,
            const ParallelFor& parallel);

}  // namespace arenite
