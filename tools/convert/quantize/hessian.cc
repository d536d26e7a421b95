// SPDX-License-Identifier: Apache-2.0
// Sums are float32, as the products are: what rounding adds to them is far below the dampening.
#include "convert/quantize/hessian.h"

#include <algorithm>
#include <cassert>

namespace arenite::convert {
namespace {

constexpr uint32_t kRowsPending = 256;
constexpr uint32_t kColumnsAtOnce = 256;

}  // namespace

Hessian::Hessian(uint32_t columns)
    : columns_(columns), rows_pending_(kRowsPending, columns), sums_(columns, columns) {}

uint64_t Hessian::bytes(uint32_t columns) {
  const uint64_t rows = uint64_t{columns} + 3 * kRowsPending;  // the last ones in working memory
  return rows * columns * sizeof(float);
}

void Hessian::add(const ConstMatrix& inputs) {
  assert(inputs.columns == columns_);
  for (uint32_t row = 0; row < inputs.rows; ++row) {
    std::copy_n(inputs.row(row), columns_, rows_pending_.row(pending_));
    if (++pending_ == kRowsPending) flush();
  }
  rows_ += inputs.rows;
}

// A strip of columns at a time, transposed, with all columns from its own on.
void Hessian::flush() const {
  for (uint32_t begin = 0; begin < columns_ && pending_ != 0; begin += kColumnsAtOnce) {
    const uint32_t columns = std::min(kColumnsAtOnce, columns_ - begin);
    DenseMatrix transposed(columns, pending_);
    for (uint32_t row = 0; row < pending_; ++row) {
      const float* const from = rows_pending_.row(row) + begin;
      for (uint32_t i = 0; i < columns; ++i) transposed.row(i)[row] = from[i];
    }
    product_.add(1.0f, transposed.part(0, 0, columns, pending_),
                 rows_pending_.part(0, begin, pending_, columns_ - begin),
                 sums_.writable_part(begin, begin, columns, columns_ - begin));
  }
  pending_ = 0;
}

const DenseMatrix& Hessian::upper() const {
  flush();
  return sums_;
}

std::vector<double> Hessian::mean_squares() const {
  flush();
  std::vector<double> means(columns_);
  for (uint32_t i = 0; i < columns_ && rows_ != 0; ++i) {
    means[i] = double{sums_.row(i)[i]} / static_cast<double>(rows_);
  }
  return means;
}

}  // namespace arenite::convert
