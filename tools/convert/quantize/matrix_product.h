// SPDX-License-Identifier: Apache-2.0
// Products of large matrices with the runtime's float32 kernels. The last bits of a result depend
// on the CPU's kernels.
//
//   DenseMatrix a(m, k), b(k, n), c(m, n);
//   MatrixProduct().add(1.0f, a.part(0, 0, m, k), b.part(0, 0, k, n), c.writable_part(0, 0, m, n));
#pragma once

#include <cstddef>
#include <vector>

#include "core/views.h"
#include "kernels/kernel_set.h"

namespace arenite::convert {

// Returns the fastest kernel set that this CPU runs.
const KernelSet& best_kernels();

// A zeroed dense matrix, padded at its end because kernels may read beyond it.
class DenseMatrix {
 public:
  DenseMatrix() = default;
  DenseMatrix(uint32_t rows, uint32_t columns);

  uint32_t rows() const { return rows_; }
  uint32_t columns() const { return columns_; }
  float* row(size_t index) { return floats_.data() + index * columns_; }
  const float* row(size_t index) const { return floats_.data() + index * columns_; }

  // Views of rows [row, row + rows) and columns [column, column + columns).
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
  std::vector<Line> packed_;  // b, packed as the kernels read weights
  std::vector<float> rows_;   // rows of the product
};

}  // namespace arenite::convert
