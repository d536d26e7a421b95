// SPDX-License-Identifier: Apache-2.0
// With rows and columns in reverse order, H = L L^T with a lower triangular L, and L^-1 is U in
// reverse.
#include "convert/quantize/inverse_factor.h"

#include <Eigen/Cholesky>
#include <algorithm>

namespace arenite::convert {
namespace {

constexpr Eigen::Index kBlock = 64;  // columns of the inverse that are solved for at once

}  // namespace

std::optional<DenseMatrix> inverse_factor(const DenseMatrix& upper, double dampening) {
  const Eigen::Index size = upper.rows();
  Eigen::MatrixXd matrix(size, size);
  for (Eigen::Index i = 0; i < size; ++i) {
    for (Eigen::Index j = 0; j <= i; ++j) {
      matrix(i, j) = upper.row(static_cast<size_t>(size - 1 - i))[size - 1 - j];
    }
    matrix(i, i) += dampening;
  }
  const Eigen::LLT<Eigen::Ref<Eigen::MatrixXd>> cholesky(matrix);
  if (cholesky.info() != Eigen::Success || !matrix.diagonal().allFinite()) return std::nullopt;
  // A column of a lower triangular inverse begins on the diagonal.
  Eigen::MatrixXd inverse = Eigen::MatrixXd::Identity(size, size);
  for (Eigen::Index first = 0; first < size; first += kBlock) {
    const Eigen::Index rows = size - first;
    auto columns = inverse.block(first, first, rows, std::min(kBlock, rows));
    matrix.bottomRightCorner(rows, rows).triangularView<Eigen::Lower>().solveInPlace(columns);
  }
  DenseMatrix factor(upper.rows(), upper.rows());
  for (Eigen::Index i = 0; i < size; ++i) {
    for (Eigen::Index j = i; j < size; ++j) {
      factor.row(static_cast<size_t>(i))[j] =
          static_cast<float>(inverse(size - 1 - i, size - 1 - j));
    }
  }
  return factor;
}

}  // namespace arenite::convert
