// SPDX-License-Identifier: Apache-2.0
// Updates are lazy: a strip of columns is rounded row by row in cache, and then all later columns
// are updated at once, by a matrix product.
#include "convert/quantize/gptq.h"

#include <Eigen/Cholesky>
#include <algorithm>
#include <cassert>
#include <cmath>
#include <optional>
#include <vector>

namespace arenite::convert {

// ---- the Hessian: its sums are float32, whose rounding errors are far below the dampening ----

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

// Multiplies the transpose of one strip of columns at a time by that strip and all later columns.
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

// ---- its inverse: with rows and columns in reverse order, H = L L^T, and L^-1 is U in reverse
// ----

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

// ---- rounding ----

namespace {

constexpr double kDampening = 0.01;
constexpr double kDampeningMax = 1e4;
constexpr uint32_t kStrip = 128;        // columns; whole blocks of q4
constexpr uint32_t kRowsAtOnce = 2048;  // bounds the memory of matrices with many rows
static_assert(kStrip % kQ4Block == 0);

// Returns U of the dampened Hessian, if it exists.
std::optional<DenseMatrix> factor_of(const Hessian& hessian, GptqReport& report) {
  const DenseMatrix& upper = hessian.upper();
  double sum = 0.0;
  for (uint32_t i = 0; i < hessian.columns(); ++i) {
    const double square = upper.row(i)[i];
    if (square == 0.0) ++report.unused_inputs;
    sum += square;
  }
  if (!(sum > 0.0) || !std::isfinite(sum)) return std::nullopt;
  const double mean = sum / hessian.columns();
  for (double share = kDampening; share <= kDampeningMax; share *= 10.0) {
    std::optional<DenseMatrix> factor = inverse_factor(upper, share * mean);
    report.dampening = share;
    if (factor) return factor;
  }
  return std::nullopt;
}

// Compensated rounding of some rows at a time.
class Rounding {
 public:
  Rounding(TensorType type, const DenseMatrix& factor)
      : type_(type),
        columns_(factor.columns()),
        group_(weights_per_scale(type, columns_)),
        factor_(factor),
        search_(type, group_) {
    for (uint32_t i = 0; i < columns_; ++i) {
      const double diagonal = factor.row(i)[i];
      losses_.push_back(1.0 / (diagonal * diagonal));
    }
  }

  // `scales` are per row; block scales are chosen here.
  QuantizedMatrix run(std::span<const float> weights, uint32_t rows,
                      std::span<const float> scales) {
    QuantizedMatrix result{type_, rows, columns_};
    result.values.resize(weights.size());
    result.scales.resize(weights.size() / group_);
    if (!has_blocks(type_)) std::copy(scales.begin(), scales.end(), result.scales.begin());
    DenseMatrix left(rows, columns_);  // to be rounded
    std::copy(weights.begin(), weights.end(), left.row(0));
    for (uint32_t begin = 0; begin < columns_; begin += kStrip) {
      const uint32_t end = std::min(begin + kStrip, columns_);
      DenseMatrix errors(rows, end - begin);
      for (uint32_t row = 0; row < rows; ++row) {
        round_strip(begin, end, row, left.row(row), errors.row(row), result);
      }
      product_.add(-1.0f, errors.part(0, 0, rows, end - begin),
                   factor_.part(begin, end, end - begin, columns_ - end),
                   left.writable_part(0, end, rows, columns_ - end));
    }
    return result;
  }

  // Returns the squared errors of the layer's outputs: d H d^T, where d is the rounding error of a
  // row.
  std::vector<double> output_errors(std::span<const float> weights, const QuantizedMatrix& matrix,
                                    const DenseMatrix& upper) {
    DenseMatrix lost(matrix.rows, columns_);
    const std::vector<float> kept = dequantize(matrix);
    for (size_t i = 0; i < weights.size(); ++i) lost.row(0)[i] = weights[i] - kept[i];
    std::vector<double> errors(matrix.rows);
    for (uint32_t begin = 0; begin < columns_; begin += kStrip) {
      const uint32_t end = std::min(begin + kStrip, columns_);
      const DenseMatrix strip = strip_of(upper, begin, end);
      DenseMatrix products(matrix.rows, columns_ - begin);
      product_.add(1.0f, lost.part(0, begin, matrix.rows, end - begin),
                   strip.part(0, 0, end - begin, columns_ - begin),
                   products.writable_part(0, 0, matrix.rows, columns_ - begin));
      for (uint32_t row = 0; row < matrix.rows; ++row) {
        const float* const one = products.row(row);
        const float* const other = lost.row(row) + begin;
        for (uint32_t j = 0; j < columns_ - begin; ++j) errors[row] += double{one[j]} * other[j];
      }
    }
    return errors;
  }

 private:
  // Returns rows [begin, end) of a symmetric matrix from the diagonal on. Elements above the
  // diagonal are doubled, as they also stand for those below it.
  static DenseMatrix strip_of(const DenseMatrix& upper, uint32_t begin, uint32_t end) {
    const uint32_t columns = upper.columns() - begin;
    DenseMatrix strip(end - begin, columns);
    for (uint32_t i = 0; i < end - begin; ++i) {
      const float* const from = upper.row(begin + i) + begin;
      strip.row(i)[i] = from[i];
      for (uint32_t j = i + 1; j < columns; ++j) strip.row(i)[j] = 2.0f * from[j];
    }
    return strip;
  }

  // Rounds columns [begin, end) of one row.
  void round_strip(uint32_t begin, uint32_t end, size_t row, float* left, float* errors,
                   QuantizedMatrix& result) {
    for (uint32_t i = begin; i < end; ++i) {
      float& scale = result.scales[(row * columns_ + i) / group_];
      if (has_blocks(type_) && i % group_ == 0) {
        scale = search_.scale_of({left + i, group_}, std::span(losses_).subspan(i, group_));
      }
      const int8_t value = quantize_weight(left[i], scale, type_);
      result.values[row * columns_ + i] = value;
      const float* const factor = factor_.row(i);
      const float error = (left[i] - static_cast<float>(value) * scale) / factor[i];
      errors[i - begin] = error;
      for (uint32_t j = i + 1; j < end; ++j) left[j] -= error * factor[j];
    }
  }

  TensorType type_;
  uint32_t columns_;
  uint32_t group_;
  const DenseMatrix& factor_;
  std::vector<double> losses_;  // cost of a column's error after later columns have compensated it
  ScaleSearch search_;
  MatrixProduct product_;
};

// Copies the rows of `from` that `wanted` selects into `to`, starting at its row `first_row`.
void copy_rows(const QuantizedMatrix& from, const std::vector<bool>& wanted, uint32_t first_row,
               QuantizedMatrix& to) {
  const size_t columns = from.columns;
  const size_t scales = columns / weights_per_scale(from.type, from.columns);
  for (size_t row = 0; row < from.rows; ++row) {
    if (!wanted[row]) continue;
    std::copy_n(from.values.data() + row * columns, columns,
                to.values.data() + (first_row + row) * columns);
    std::copy_n(from.scales.data() + row * scales, scales,
                to.scales.data() + (first_row + row) * scales);
  }
}

// Replaces the rows of `result`, starting at `first_row`, for which compensated rounding gives a
// smaller error.
void compensate(std::span<const float> weights, uint32_t first_row, const Hessian& hessian,
                Rounding& rounding, QuantizedMatrix& result, GptqReport& report) {
  const size_t columns = result.columns;
  const uint32_t rows = static_cast<uint32_t>(weights.size() / columns);
  const QuantizedMatrix rounded = result.part(first_row, rows);
  const QuantizedMatrix compensated = rounding.run(weights, rows, rounded.scales);
  const std::vector<double> before = rounding.output_errors(weights, rounded, hessian.upper());
  const std::vector<double> after = rounding.output_errors(weights, compensated, hessian.upper());
  std::vector<bool> is_better(rows);
  for (uint32_t row = 0; row < rows; ++row) {
    is_better[row] = after[row] < before[row];
    report.rounding_error += before[row];
    report.error += is_better[row] ? after[row] : before[row];
    if (!is_better[row]) ++report.rounded_rows;
  }
  copy_rows(compensated, is_better, first_row, result);
}

}  // namespace

QuantizedMatrix quantize_gptq(std::span<const float> weights, uint32_t rows, uint32_t columns,
                              TensorType type, const Hessian& hessian, GptqReport* report) {
  assert(weights.size() == size_t{rows} * columns && hessian.columns() == columns);
  GptqReport local;
  GptqReport& done = report != nullptr ? *report : local;
  done = {};
  const std::optional<DenseMatrix> factor = factor_of(hessian, done);
  std::vector<double> squares;
  if (factor) squares = hessian.mean_squares();
  QuantizedMatrix result = quantize(weights, rows, columns, type, squares, &done.scales);
  done.compensated = factor.has_value();
  if (!factor) {
    done.rounded_rows = rows;
    return result;
  }
  Rounding rounding(type, *factor);
  for (uint32_t begin = 0; begin < rows; begin += kRowsAtOnce) {
    const size_t part = std::min(kRowsAtOnce, rows - begin);
    compensate(weights.subspan(size_t{begin} * columns, part * columns), begin, hessian, rounding,
               result, done);
  }
  return result;
}

}  // namespace arenite::convert
