// SPDX-License-Identifier: Apache-2.0
// With rows and columns in reverse order, H = L L^T with a lower triangular L, and M = L^-1 is U in
// reverse. Both are computed in tiles: L where H was, M transposed in the other half, and M's tiles
// on the diagonal apart. All that takes time is one product of tiles.
#include "convert/quantize/inverse_factor.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace arenite::convert {
namespace {

constexpr size_t kTile = 64;
constexpr size_t kStep = 8;        // columns that are added up at once,
constexpr size_t kRowsAtOnce = 2;  // for as many rows

using Tile = std::vector<double>;  // [kTile, kTile]

// c += factor * a b^T
void add_product(double factor, const double* a, size_t a_stride, const double* b, size_t b_stride,
                 double* c, size_t c_stride) {
  double columns[kTile][kTile];  // b transposed
  for (size_t j = 0; j < kTile; ++j) {
    for (size_t k = 0; k < kTile; ++k) columns[k][j] = factor * b[j * b_stride + k];
  }
  for (size_t i = 0; i < kTile; i += kRowsAtOnce) {
    for (size_t j = 0; j < kTile; j += kStep) {
      double sums[kRowsAtOnce][kStep] = {};
      for (size_t k = 0; k < kTile; ++k) {
        for (size_t row = 0; row < kRowsAtOnce; ++row) {
          const double value = a[(i + row) * a_stride + k];
          for (size_t s = 0; s < kStep; ++s) sums[row][s] += value * columns[k][j + s];
        }
      }
      for (size_t row = 0; row < kRowsAtOnce; ++row) {
        for (size_t s = 0; s < kStep; ++s) c[(i + row) * c_stride + j + s] += sums[row][s];
      }
    }
  }
}

class Factorization {
 public:
  Factorization(const DenseMatrix& upper, double dampening)
      : size_(upper.rows()),
        tiles_((size_ + kTile - 1) / kTile),
        padded_(tiles_ * kTile),
        values_(padded_ * padded_) {
    for (size_t i = 0; i < padded_; ++i) {
      double* const row = values_.data() + i * padded_;
      if (i >= size_) {
        row[i] = 1.0;
        continue;
      }
      for (size_t j = 0; j <= i; ++j) row[j] = upper.row(size_ - 1 - i)[size_ - 1 - j];
      row[i] += dampening;
    }
  }

  // False where H is not positive definite.
  bool factorize() {
    for (size_t column = 0; column < tiles_; ++column) {
      for (size_t row = column; row < tiles_; ++row) {
        for (size_t k = 0; k < column; ++k) {
          add_product(-1.0, tile(row, k), padded_, tile(column, k), padded_, tile(row, column),
                      padded_);
        }
        if (row == column) {
          if (!factorize_diagonal(column)) return false;
        } else {
          replace_by_product(tile(row, column), inverses_[column]);
        }
      }
    }
    return true;
  }

  // M^T of each tile is made of those to its left in the same row.
  void invert() {
    for (size_t row = 0; row < tiles_; ++row) {
      for (size_t column = row + 1; column < tiles_; ++column) {
        Tile sum(kTile * kTile);
        const Tile first = transposed(inverses_[row]);
        add_product(-1.0, first.data(), kTile, tile(column, row), padded_, sum.data(), kTile);
        for (size_t k = row + 1; k < column; ++k) {
          add_product(-1.0, tile(row, k), padded_, tile(column, k), padded_, sum.data(), kTile);
        }
        double* const result = tile(row, column);
        for (size_t i = 0; i < kTile; ++i) std::fill_n(result + i * padded_, kTile, 0.0);
        add_product(1.0, sum.data(), kTile, inverses_[column].data(), kTile, result, padded_);
      }
    }
  }

  DenseMatrix factor() const {
    const uint32_t size = static_cast<uint32_t>(size_);
    DenseMatrix result(size, size);
    for (size_t i = 0; i < size_; ++i) {
      const size_t row = size_ - 1 - i;  // of M, where i is a column of U's transpose
      for (size_t j = 0; j <= row; ++j) {
        const bool is_diagonal = row / kTile == j / kTile;
        const double value = is_diagonal ? inverses_[row / kTile][row % kTile * kTile + j % kTile]
                                         : values_[j * padded_ + row];
        result.row(i)[size_ - 1 - j] = static_cast<float>(value);
      }
    }
    return result;
  }

 private:
  double* tile(size_t row, size_t column) {
    return values_.data() + row * kTile * padded_ + column * kTile;
  }

  static Tile transposed(const Tile& tile) {
    Tile result(tile.size());
    for (size_t i = 0; i < kTile; ++i) {
      for (size_t j = 0; j < kTile; ++j) result[j * kTile + i] = tile[i * kTile + j];
    }
    return result;
  }

  // tile := tile * factor^T
  void replace_by_product(double* tile, const Tile& factor) {
    Tile product(kTile * kTile);
    add_product(1.0, tile, padded_, factor.data(), kTile, product.data(), kTile);
    for (size_t i = 0; i < kTile; ++i) {
      std::copy_n(product.data() + i * kTile, kTile, tile + i * padded_);
    }
  }

  // L of the tile, and its inverse.
  bool factorize_diagonal(size_t index) {
    double* const l = tile(index, index);
    for (size_t i = 0; i < kTile; ++i) {
      for (size_t j = 0; j <= i; ++j) {
        double sum = l[i * padded_ + j];
        for (size_t k = 0; k < j; ++k) sum -= l[i * padded_ + k] * l[j * padded_ + k];
        if (i == j && !(sum > 0.0 && std::isfinite(sum))) return false;
        l[i * padded_ + j] = i == j ? std::sqrt(sum) : sum / l[j * padded_ + j];
      }
    }
    Tile inverse(kTile * kTile);
    for (size_t j = 0; j < kTile; ++j) {
      for (size_t i = j; i < kTile; ++i) {
        double sum = i == j ? 1.0 : 0.0;
        for (size_t k = j; k < i; ++k) sum -= l[i * padded_ + k] * inverse[k * kTile + j];
        inverse[i * kTile + j] = sum / l[i * padded_ + i];
      }
    }
    inverses_.push_back(std::move(inverse));
    return true;
  }

  size_t size_;
  size_t tiles_;   // each way
  size_t padded_;  // rows and columns of whole tiles
  std::vector<double> values_;
  std::vector<Tile> inverses_;  // of the tiles on L's diagonal
};

}  // namespace

std::optional<DenseMatrix> inverse_factor(const DenseMatrix& upper, double dampening) {
  Factorization work(upper, dampening);
  if (!work.factorize()) return std::nullopt;
  work.invert();
  return work.factor();
}

}  // namespace arenite::convert
