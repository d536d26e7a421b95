// SPDX-License-Identifier: Apache-2.0
// Compares products, sums of products and the factor of an inverse with loops in double precision.
#include "convert/quantize/gptq.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "support/random.h"

namespace arenite::convert {
namespace {

using test::Random;

DenseMatrix random_matrix(uint32_t rows, uint32_t columns, uint64_t seed) {
  Random random(seed);
  DenseMatrix matrix(rows, columns);
  for (uint32_t i = 0; i < rows; ++i) random.fill({matrix.row(i), columns}, 1.0f);
  return matrix;
}

TEST(MatrixProduct, AddsToPartsOfAMatrixAsALoopDoes) {
  for (const uint32_t rows : {1u, 7u, 65u, 130u}) {
    for (const uint32_t columns : {1u, 31u, 33u, 100u}) {
      const uint32_t inner = rows % 2 == 0 ? 5 : 67;
      const DenseMatrix a = random_matrix(rows + 3, inner + 2, 1);
      const DenseMatrix b = random_matrix(inner + 1, columns + 5, 2);
      DenseMatrix c = random_matrix(rows + 2, columns + 4, 3);
      const DenseMatrix before = c;
      MatrixProduct product;
      product.add(-2.0f, a.part(3, 2, rows, inner), b.part(1, 5, inner, columns),
                  c.writable_part(1, 3, rows, columns));
      for (uint32_t i = 0; i < c.rows(); ++i) {
        for (uint32_t j = 0; j < c.columns(); ++j) {
          double expected = before.row(i)[j];
          const bool is_part = i >= 1 && i < 1 + rows && j >= 3 && j < 3 + columns;
          for (uint32_t k = 0; k < inner && is_part; ++k) {
            expected -= 2.0 * a.row(i + 2)[2 + k] * b.row(1 + k)[j + 2];
          }
          // Roundings of as many sums as there are.
          ASSERT_NEAR(c.row(i)[j], expected, is_part ? 1e-5 : 0.0) << i << "," << j;
        }
      }
    }
  }
}

TEST(Hessian, IsTheSameForRowsInAnyChunks) {
  const uint32_t columns = 300;  // more than one strip
  const DenseMatrix inputs = random_matrix(600, columns, 4);
  Hessian at_once(columns);
  at_once.add(inputs.part(0, 0, 600, columns));
  Hessian in_pieces(columns);
  for (uint32_t row = 0; row < 600;) {
    const uint32_t rows = std::min(600 - row, 1 + row % 97);
    in_pieces.add(inputs.part(row, 0, rows, columns));
    row += rows;
    if (row % 5 == 0) (void)in_pieces.mean_squares();  // may be asked at any time
  }
  EXPECT_EQ(at_once.rows(), 600u);
  EXPECT_EQ(in_pieces.rows(), 600u);
  const DenseMatrix upper = at_once.upper();
  const DenseMatrix other_upper = in_pieces.upper();
  for (uint32_t i = 0; i < columns; ++i) {
    for (uint32_t j = i; j < columns; ++j) {
      double expected = 0.0;
      for (uint32_t row = 0; row < 600; ++row) {
        expected += double{inputs.row(row)[i]} * inputs.row(row)[j];
      }
      ASSERT_NEAR(upper.row(i)[j], expected, 1e-3);
      ASSERT_NEAR(other_upper.row(i)[j], expected, 1e-3);
    }
    EXPECT_NEAR(at_once.mean_squares()[i], double{upper.row(i)[i]} / 600, 1e-9);
  }
  EXPECT_GE(Hessian::bytes(columns), uint64_t{columns} * columns / 2 * sizeof(float));
}

TEST(Hessian, WithoutRowsIsZero) {
  const Hessian hessian(3);
  EXPECT_EQ(hessian.rows(), 0u);
  EXPECT_EQ(hessian.mean_squares(), std::vector<double>(3, 0.0));
}

TEST(InverseFactor, GivesTheInverse) {
  for (const uint32_t size : {1u, 2u, 127u, 128u, 129u, 200u, 300u}) {
    const DenseMatrix inputs = random_matrix(2 * size, size, size);
    Hessian hessian(size);
    hessian.add(inputs.part(0, 0, 2 * size, size));
    const DenseMatrix upper = hessian.upper();
    const double dampening = 0.1;
    const std::optional<DenseMatrix> factor = inverse_factor(upper, dampening);
    ASSERT_TRUE(factor.has_value());
    // U (H + dampening) U^T = 1, since U^T U is the inverse.
    std::vector<double> product(size_t{size} * size);
    for (uint32_t i = 0; i < size; ++i) {
      for (uint32_t j = 0; j < i; ++j) ASSERT_EQ(factor->row(i)[j], 0.0f);
      for (uint32_t k = 0; k < size; ++k) {
        for (uint32_t j = i; j < size; ++j) {
          const double h = upper.row(std::min(j, k))[std::max(j, k)] + (j == k ? dampening : 0.0);
          product[i * size + k] += factor->row(i)[j] * h;
        }
      }
    }
    for (uint32_t i = 0; i < size; ++i) {
      for (uint32_t j = 0; j < size; ++j) {
        double sum = 0.0;
        for (uint32_t k = 0; k < size; ++k) sum += product[i * size + k] * factor->row(j)[k];
        ASSERT_NEAR(sum, i == j ? 1.0 : 0.0, 1e-4) << size << ": " << i << "," << j;
      }
    }
  }
}

TEST(InverseFactor, IsEmptyUnlessTheMatrixIsPositiveDefinite) {
  for (const uint32_t size : {3u, 100u}) {
    DenseMatrix upper(size, size);
    for (uint32_t i = 0; i < size; ++i) upper.row(i)[i] = 1.0f;
    EXPECT_TRUE(inverse_factor(upper, 0.0).has_value());
    upper.row(0)[size - 1] = 1.5f;
    EXPECT_FALSE(inverse_factor(upper, 0.0).has_value());
    EXPECT_TRUE(inverse_factor(upper, 1.0).has_value());
    upper.row(1)[1] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_FALSE(inverse_factor(upper, 1.0).has_value());
    upper.row(1)[1] = std::numeric_limits<float>::infinity();
    EXPECT_FALSE(inverse_factor(upper, 1.0).has_value());
  }
}

}  // namespace
}  // namespace arenite::convert
