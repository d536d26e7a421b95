// SPDX-License-Identifier: Apache-2.0
// Products of large matrices, on the float32 kernels that the runtime has for this CPU. The last
// bits of a result depend on the kernels, and so on the CPU.
#pragma once

#include <cstddef>
#include <vector>

#include "core/views.h"
#include "kernels/kernel_set.h"

namespace arenite::convert {

// The fastest that this CPU has: those of the last target that it runs.
const KernelSet& best_kernels();

// A dense matrix of zeros, where kernels may read: some floats more follow it.
class DenseMatrix {
 public:
  DenseMatrix() = default;
  DenseMatrix(uint32_t rows, uint32_t columns);

  uint32_t rows() const { return rows_; }
  uint32_t columns() const { return columns_; }
  float* row(size_t index) { return floats_.data() + index * columns_; }
  const float* row(size_t index) const { return floats_.data() + index * columns_; }

  // Rows [row, row + rows) and columns [column, column + columns) of it.
  ConstMatrix part(size_t row, size_t column, size_t rows, size_t columns) const;
  Matrix writable_part(size_t row, size_t column, size_t rows, size_t columns);

 private:
  uint32_t rows_ = 0;
  uint32_t columns_ = 0;
  std::vector<float> floats_;
};

class MatrixProduct {
 public:
  MatrixProduct();

  // c += factor * a b, for a [m, k], b [k, n] and c [m, n].
  // REQUIRES: `a` is part of a DenseMatrix; c overlaps neither.
  void add(float factor, const ConstMatrix& a, const ConstMatrix& b, const Matrix& c);

 private:
  void pack(const ConstMatrix& b);

  struct alignas(64) Line {
    float floats[16];
  };

  const KernelSet& kernels_;
  std::vector<Line> packed_;  // b, as the kernels read weights
  std::vector<float> rows_;   // of the product
};

}  // namespace arenite::convert
