// SPDX-License-Identifier: Apache-2.0
// Ops that compute each output row from one row or token: activations, norms, sums, rotary
// embedding and look-ups; and concatenation and selection of rows.
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

// y = cap * tanh(x / cap); y may be x. NaN stays NaN, and infinities become +-cap.
inline void soft_cap(const KernelSet& kernels, size_t bytes, float cap, const float* x, float* y) {
  const float shrink = 1.0f / cap;
  kernels.scale(bytes, x, &shrink, y);
  kernels.tanh(bytes, y, y);
  kernels.scale(bytes, y, &cap, y);
}

// output = f(input), times `factor` unless that has no data. Input and output are [rows, columns],
// the factor [rows, n], where n divides columns: element g is the factor of columns / n columns in
// a row, from column g columns / n on. The factor may have one row for each sequence. The output
// may be the columns of the input and must not overlap the factor. `parameter` is that of
// core/op_kinds.h.
void activation(const KernelSet& kernels, Activation function, float parameter,
                const ConstMatrix& input, const OtherRows& factor, const Matrix& output,
                const ParallelFor& parallel);

// output = input + other. All are [rows, columns]; other may have one row for each sequence. The
// output may be the columns of either operand that has as many rows.
void add(const KernelSet& kernels, const ConstMatrix& input, const OtherRows& other,
         const Matrix& output, const ParallelFor& parallel);

// Returns atanh(z) / z = 1 + z^2 / 3 + z^4 / 5 + ... for small z, by kTerms terms.
template <int kTerms>
inline float atanh_series(float z) {
  const float square = z * z;
  float series = 1.0f / (2 * kTerms - 1);
  for (int term = kTerms - 1; term > 0; --term) {
    series = 1.0f / static_cast<float>(2 * term - 1) + square * series;
  }
  return series;
}

// log(x) = e log(2) + 2 atanh((m - 1) / (m + 1)) for x = m 2^e with m around 1.
inline float logarithm(float x) {
  constexpr float kRootOfHalf = 0.70710678f;
  constexpr float kHigh = 0.693145751953125f, kLow = 1.42860677e-6f;  // their sum is log(2)
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

// Normalizes each group of columns of each row: y = f(x) * gain + bias, with the f of
// core/op_kinds.h. input and output [tokens, columns] may be the same.
// REQUIRES: groups divides columns.
void norm(const KernelSet& kernels, const NormWeights& weights, uint32_t groups,
          const ConstMatrix& input, const Matrix& output, const ParallelFor& parallel);

// Rotary position embedding. For each head and i < rotary_dim / 2 it multiplies two complex
// numbers,
//   (x[i], x[i + rotary_dim / 2]) * (cosine[i], sine[i]),
// and leaves the other features of the head. `angles` [positions, rotary_dim] has for each position
// the cosines, then the sines. input and output [rows, heads * head_dim] may be the same columns.
// The converter permutes the weights of models that pair neighbouring features.
// REQUIRES: rotary_dim is even and at most head_dim.
void rope(const KernelSet& kernels, const ConstMatrix& input, uint32_t heads, const float* angles,
          uint32_t rotary_dim, const StepRows& rows, const Matrix& output,
          const ParallelFor& parallel);

struct Embedding {
  WeightView tokens;  // of any type; packed where it is the output projection, too
  float scale = 1.0f;
  WeightView positions;  // plain rows; no data: none
  uint32_t position_offset = 0;
  WeightView types;                  // plain rows; no data: none
  uint32_t padding_id = UINT32_MAX;  // UINT32_MAX: none
};

// Token ids and their types; without types, all are of type 0.
struct TokenIds {
  const uint32_t* ids = nullptr;
  const uint8_t* types = nullptr;
};

// output [rows, columns] = scale * tokens[id] + positions[position_offset + position] +
// types[type]. Positions and types are optional; without a token table the row is that of the
// position. With a padding id (RoBERTa) the position is the number of earlier tokens of the
// sequence with another id, those in gaps included, and a padding token has the row before
// position_offset.
// REQUIRES: ids, positions and types are below the rows of their tables; with a padding id, the
// sequences begin with this step.
void embedding(const KernelSet& kernels, const Embedding& op, const TokenIds& tokens,
               const StepRows& rows, const Matrix& output, const ParallelFor& parallel);

// Concatenates rows: for each sequence the rows of `first`, then those of `second`. All have the
// same number of columns. The span next to each operand gives the sequences' rows in it, `to` those
// in the output.
void join(const ConstMatrix& first, std::span<const SequenceRows> first_rows,
          const ConstMatrix& second, std::span<const SequenceRows> second_rows,
          std::span<const SequenceRows> to, const Matrix& output, const ParallelFor& parallel);

// Selects or pools rows of each sequence that has any in `to`; such a sequence has rows in `rows`,
// too. Pooling kinds reduce all rows of the sequence to one. kFirst copies its first rows and kLast
// its last ones, as many as `to` says. kAsAsked copies the rows that rows.outputs marks; null: the
// last ones. kTurns splits or joins rows: either side is k times as wide as the other, which has k
// times its rows. kTransposed makes a row of each column: then `to` has input.columns rows of each
// sequence, as wide as the sequence has rows. kTaken copies rows by a list: row i of a sequence in
// `to` is row taken[i] of it in `rows`. input [rows, columns], output [rows of `to`, columns].
void select(const KernelSet& kernels, SelectKind kind, const ConstMatrix& input,
            const StepRows& rows, std::span<const SequenceRows> to, const Matrix& output,
            const ParallelFor& parallel, const uint32_t* taken = nullptr);

}  // namespace arenite
