// SPDX-License-Identifier: Apache-2.0
// Ops that make a row of each row, or of a token: functions of numbers and of rows, sums,
// rotations, look-ups, and what begins and ends a program.
#pragma once

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

// output = f(input) (* factor). All [rows, columns]; factor may have no data. The output may be the
// columns of the input, and overlaps the factor nowhere. `parameter` is that of core/op_kinds.h.
void activation(const KernelSet& kernels, Activation function, float parameter,
                const ConstMatrix& input, const ConstMatrix& factor, const Matrix& output,
                const ParallelFor& parallel);

// output = input + other. All [rows, columns]; the output may be the columns of either.
void add(const KernelSet& kernels, const ConstMatrix& input, const ConstMatrix& other,
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
// that id have the row before position_offset. Rows of a prefix are zeros, or positions alone.
// REQUIRES: ids are below the entries of the table, positions and types below those of theirs; with
// a padding id, the sequences begin with this step.
void embedding(const KernelSet& kernels, const Embedding& op, const TokenIds& tokens,
               const StepRows& rows, const Matrix& output, const ParallelFor& parallel);

// output: in each sequence that begins in this step the rows of `constants`, plain rows
// [count, columns], as its rows from `first_row` on, and elsewhere the rows of input [rows of the
// step, columns], which may be the same columns as the output.
// REQUIRES: first_row + count <= rows.prefix.
void put_prefix(const WeightView& constants, uint32_t first_row, const ConstMatrix& input,
                const StepRows& rows, const Matrix& output, const ParallelFor& parallel);

// Row p of each sequence, rows of a prefix apart, is patch p of the sequence's image:
// output[p][c, y, x] = image[c][p / columns * patch_height + y][p % columns * patch_width + x].
// Rows of a prefix are zeros. `images` is dense [sequences, channels, height, width]; output [rows
// of the step, channels * patch_height * patch_width]. REQUIRES: each sequence has all its patches.
void cut_patches(const ImagePatches& patches, const float* images, const StepRows& rows,
                 const Matrix& output);

// Writes to `output`, from its first row on, what `kind` takes of each sequence that has rows in
// this step; kAsAsked is the last row of each, or with `all` every row. Of each sequence the rows
// before `first_row` are passed over. REQUIRES: no sequence ends before it.
// input [rows of the step, columns], output [rows to give out, columns].
void select(const KernelSet& kernels, SelectKind kind, bool all, const ConstMatrix& input,
            const StepRows& rows, const Matrix& output, PrefixRows first_row = {});

}  // namespace arenite
