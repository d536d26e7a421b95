// SPDX-License-Identifier: Apache-2.0
// The right factor is packed like the weights of a linear layer.
#include "convert/quantize/matrix_product.h"

#include <algorithm>
#include <cassert>

#include "arenite/target.h"
#include "core/packing.h"
#include "core/views.h"
#include "ops/linear.h"

namespace arenite::convert {
namespace {

constexpr uint32_t kRowsAtOnce = 64;  // of a product, before they are added to the sum

Packing packing_for(const KernelSet& kernels) { return kernels.f32.packing; }

}  // namespace

const KernelSet& best_kernels() {
  uint32_t index = kTargets - 1;
  while ((cpu_targets() & 1u << index) == 0) --index;
  return *kernel_set(static_cast<Target>(index));
}

DenseMatrix::DenseMatrix(uint32_t rows, uint32_t columns)
    : rows_(rows),
      columns_(columns),
      floats_(size_t{rows} * columns + kReadAheadBytes / sizeof(float)) {}

Matrix DenseMatrix::writable_part(size_t first_row, size_t column, size_t rows, size_t columns) {
  assert(first_row + rows <= rows_ && column + columns <= columns_);
  return {row(first_row) + column, static_cast<uint32_t>(rows), static_cast<uint32_t>(columns),
          columns_};
}

ConstMatrix DenseMatrix::part(size_t first_row, size_t column, size_t rows, size_t columns) const {
  assert(first_row + rows <= rows_ && column + columns <= columns_);
  return {row(first_row) + column, static_cast<uint32_t>(rows), static_cast<uint32_t>(columns),
          columns_};
}

MatrixProduct::MatrixProduct() : kernels_(best_kernels()) {}

void MatrixProduct::pack(const ConstMatrix& b) {
  const Packing packing = packing_for(kernels_);
  const uint32_t panels = panels_of(packing, b.columns);
  const size_t panel = panel_bytes(packing, b.rows).value() / sizeof(float);
  packed_.resize((panels * panel + kReadAheadBytes / sizeof(float)) / 16 + 1);
  float* const packed = packed_.front().floats;
  for (uint32_t p = 0; p < panels; ++p) {
    const uint32_t column = p * packing.nr;
    const uint32_t lanes = std::min<uint32_t>(packing.nr, b.columns - column);
    float* const start = packed + p * panel;
    std::fill_n(start + panel_index(packing, kBiasRow, 0), packing.nr, 0.0f);
    for (uint32_t k = 0; k < b.rows; ++k) {
      float* const to = start + panel_index(packing, k, 0);
      std::copy_n(b.row(k) + column, lanes, to);
      std::fill(to + lanes, to + packing.nr, 0.0f);
    }
  }
}

void MatrixProduct::add(float factor, const ConstMatrix& a, const ConstMatrix& b, const Matrix& c) {
  assert(a.columns == b.rows && a.rows == c.rows && b.columns == c.columns);
  if (a.rows == 0 || a.columns == 0 || b.columns == 0) return;
  pack(b);
  const WeightView weights = {reinterpret_cast<const std::byte*>(packed_.data()), TensorType::kF32,
                              packing_for(kernels_), b.columns, b.rows};
  rows_.resize(size_t{kRowsAtOnce} * b.columns);
  for (uint32_t begin = 0; begin < a.rows; begin += kRowsAtOnce) {
    const uint32_t rows = std::min(kRowsAtOnce, a.rows - begin);
    const Matrix product = {rows_.data(), rows, b.columns, b.columns};
    linear(kernels_, {a.row(begin), rows, a.columns, a.stride}, weights, product, {}, {});
    for (uint32_t row = 0; row < rows; ++row) {
      const float* const from = product.row(row);
      float* const to = c.row(begin + row);
      for (uint32_t i = 0; i < b.columns; ++i) to[i] += factor * from[i];
    }
  }
}

}  // namespace arenite::convert
