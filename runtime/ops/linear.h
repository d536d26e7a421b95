// SPDX-License-Identifier: Apache-2.0
// output = input * weights^T + bias.
#pragma once

#include <cstddef>
#include <cstdint>

#include "arenite/parallel.h"
#include "core/views.h"
#include "kernels/kernel_set.h"
#include "ops/rows.h"

namespace arenite {

// Rows of activations in int8, as products with q8 and q4 weights read them: each row on its own,
// by its least and largest number, in memory that all threads of a call share.

class QuantizedRows {
 public:
  // In `scratch`, which is not owned: quantized_scratch_bytes(columns) for each row, and
  // kReadAheadBytes (arena_formula.h).
  QuantizedRows(std::byte* scratch, uint32_t rows, uint32_t columns);

  // Quantizes all rows of `input`. Numbers are at most half a step, (most - least) / 510, from what
  // they stand for; 0 is exact. A row whose numbers are all within 1e-35 of each other and of 0
  // stands for zeros; the scale of one that holds NaN or infinity is NaN, and its numbers are of no
  // meaning. What lies between the numbers of other rows is zero.
  void quantize(const KernelSet& kernels, const QuantizedKernels& type, const ConstMatrix& input,
                const ParallelFor& parallel);

  const int8_t* row(uint32_t index) const { return numbers_ + index * stride_; }
  size_t stride() const { return stride_; }  // bytes
  const QuantizedRow& scale(uint32_t index) const { return rows_[index]; }

 private:
  int8_t* numbers_;
  size_t stride_;
  QuantizedRow* rows_;
};

// input [tokens, k], output [tokens, n]; `weights` are [n, k] with a bias [n], packed as the
// kernels of their type read them. With q8 and q4 weights the rows of input are rounded to int8
// first (QuantizedRows), in the scratch of rows. REQUIRES: tokens, n, k >= 1; input and output
// do not overlap.
void linear(const KernelSet& kernels, const ConstMatrix& input, const WeightView& weights,
            const Matrix& output, const ScratchArea& scratch, const ParallelFor& parallel);

}  // namespace arenite
