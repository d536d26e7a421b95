// SPDX-License-Identifier: Apache-2.0
// Updates are lazy: a strip of columns is rounded row by row in cache, and then all later columns
// are updated at once, by a matrix product.
#include "convert/quantize/gptq.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <optional>
#include <vector>

#include "convert/files/thread_pool.h"

namespace arenite::convert {

// ---- the Hessian: its sums are float32, whose rounding errors are far below the dampening ----

namespace {

constexpr uint32_t kRowsPending = 128;
constexpr uint32_t kStripRows = 256;  // of the sums; each strip is a task

uint32_t strips_of(uint32_t columns) { return (columns + kStripRows - 1) / kStripRows; }

DenseMatrix transposed(const ConstMatrix& from) {
  DenseMatrix to(from.columns, from.rows);
  for (uint32_t row = 0; row < from.rows; ++row) {
    for (uint32_t i = 0; i < from.columns; ++i) to.row(i)[row] = from.row(row)[i];
  }
  return to;
}

}  // namespace

Hessian::Hessian(uint32_t columns) : columns_(columns), rows_pending_(kRowsPending, columns) {
  for (uint32_t begin = 0; begin < columns; begin += kStripRows) {
    strips_.emplace_back(std::min(kStripRows, columns - begin), columns - begin);
  }
}

Hessian::Hessian(const DenseMatrix& upper) : Hessian(upper.columns()) {
  for (uint32_t i = 0; i < columns_; ++i) {
    const uint32_t begin = i / kStripRows * kStripRows;
    std::copy_n(upper.row(i) + i, columns_ - i, strips_[i / kStripRows].row(i - begin) + i - begin);
  }
}

uint64_t Hessian::bytes(uint32_t columns) {
  uint64_t floats = uint64_t{kRowsPending} * columns;
  for (uint32_t begin = 0; begin < columns; begin += kStripRows) {
    floats += uint64_t{std::min(kStripRows, columns - begin)} * (columns - begin);
  }
  return floats * sizeof(float);
}

void Hessian::add(const ConstMatrix& inputs) {
  assert(inputs.columns == columns_);
  for (uint32_t row = 0; row < inputs.rows; ++row) {
    std::copy_n(inputs.row(row), columns_, rows_pending_.row(pending_));
    if (++pending_ == kRowsPending) flush();
  }
  rows_ += inputs.rows;
}

// Multiplies the transpose of each strip of columns by that strip and all later columns.
void Hessian::flush() const {
  if (pending_ == 0) return;
  on_all_cores(strips_of(columns_), [&](uint32_t strip) {
    const uint32_t begin = strip * kStripRows;
    const uint32_t rows = strips_[strip].rows();
    const DenseMatrix left = transposed(rows_pending_.part(0, begin, pending_, rows));
    MatrixProduct().add(1.0f, left.part(0, 0, rows, pending_),
                        rows_pending_.part(0, begin, pending_, columns_ - begin),
                        strips_[strip].writable_part(0, 0, rows, columns_ - begin));
  });
  pending_ = 0;
}

DenseMatrix Hessian::upper() const {
  flush();
  DenseMatrix sums(columns_, columns_);
  for (uint32_t i = 0; i < columns_; ++i) {
    const uint32_t begin = i / kStripRows * kStripRows;
    std::copy_n(strips_[i / kStripRows].row(i - begin) + i - begin, columns_ - i, sums.row(i) + i);
  }
  return sums;
}

std::vector<double> Hessian::mean_squares() const {
  flush();
  std::vector<double> means(columns_);
  for (uint32_t i = 0; i < columns_ && rows_ != 0; ++i) {
    const uint32_t own = i % kStripRows;
    means[i] = double{strips_[i / kStripRows].row(own)[own]} / static_cast<double>(rows_);
  }
  return means;
}

// ---- its inverse: with rows and columns in reverse order, H = L L^T, and L^-1 is U in reverse.
// Blocks on the diagonal are factored in double precision; the rest are products of matrices ----

namespace {

constexpr uint32_t kBlock = 128;

// Replaces the lower triangle of a block on the diagonal by its Cholesky factor L, and sets
// `inverse` to L^-1. Returns false if the block is not positive definite.
bool factor_block(DenseMatrix& matrix, uint32_t begin, DenseMatrix& inverse) {
  const uint32_t size = inverse.rows();
  std::vector<double> l(size_t{size} * size), x(l.size());
  for (uint32_t i = 0; i < size; ++i) {
    for (uint32_t j = 0; j <= i; ++j) {
      double sum = matrix.row(begin + i)[begin + j];
      for (uint32_t k = 0; k < j; ++k) sum -= l[i * size + k] * l[j * size + k];
      if (i == j && !(sum > 0.0 && std::isfinite(sum))) return false;
      l[i * size + j] = i == j ? std::sqrt(sum) : sum / l[j * size + j];
      matrix.row(begin + i)[begin + j] = static_cast<float>(l[i * size + j]);
    }
  }
  for (uint32_t column = 0; column < size; ++column) {
    for (uint32_t i = column; i < size; ++i) {
      double sum = i == column ? 1.0 : 0.0;
      for (uint32_t k = column; k < i; ++k) sum -= l[i * size + k] * x[k * size + column];
      x[i * size + column] = sum / l[i * size + i];
      inverse.row(i)[column] = static_cast<float>(x[i * size + column]);
    }
  }
  return true;
}

// Cholesky factorization of the lower triangle, block by block: with A11 = L11 L11^T,
//   L21 = A21 L11^-T,  A22 -= L21 L21^T
// Returns the inverses of the factors of the blocks on the diagonal; nothing if the matrix is not
// positive definite.
std::vector<DenseMatrix> factor_in_place(DenseMatrix& matrix) {
  const uint32_t size = matrix.rows();
  std::vector<DenseMatrix> inverses;
  for (uint32_t begin = 0; begin < size; begin += kBlock) {
    const uint32_t columns = std::min(kBlock, size - begin);
    inverses.emplace_back(columns, columns);
    if (!factor_block(matrix, begin, inverses.back())) return {};
    const uint32_t below = begin + columns;
    const DenseMatrix across = transposed(inverses.back().part(0, 0, columns, columns));
    DenseMatrix panel(size - below, columns);
    on_all_cores(strips_of(size - below), [&](uint32_t strip) {
      const uint32_t first = strip * kStripRows;
      const uint32_t rows = std::min(kStripRows, size - below - first);
      MatrixProduct().add(1.0f, matrix.part(below + first, begin, rows, columns),
                          across.part(0, 0, columns, columns),
                          panel.writable_part(first, 0, rows, columns));
      for (uint32_t row = first; row < first + rows; ++row) {
        std::copy_n(panel.row(row), columns, matrix.row(below + row) + begin);
      }
    });
    on_all_cores(strips_of(size - below), [&](uint32_t strip) {
      const uint32_t first = strip * kStripRows;
      const uint32_t width = std::min(kStripRows, size - below - first);
      const DenseMatrix right = transposed(panel.part(first, 0, width, columns));
      MatrixProduct().add(
          -1.0f, panel.part(first, 0, size - below - first, columns),
          right.part(0, 0, columns, width),
          matrix.writable_part(below + first, below + first, size - below - first, width));
    });
  }
  return inverses;
}

// Returns L^-1, given L and the inverses of its blocks on the diagonal, by rows of blocks:
//   X[i, j] = -L[i, i]^-1 (sum over k from j to i - 1 of L[i, k] X[k, j])
DenseMatrix inverse_of_lower(const DenseMatrix& lower, const std::vector<DenseMatrix>& inverses) {
  const uint32_t size = lower.rows();
  DenseMatrix inverse(size, size);
  for (uint32_t begin = 0; begin < size; begin += kBlock) {
    const DenseMatrix& own = inverses[begin / kBlock];
    const uint32_t rows = own.rows();
    for (uint32_t row = 0; row < rows; ++row) {
      std::copy_n(own.row(row), rows, inverse.row(begin + row) + begin);
    }
    on_all_cores(strips_of(begin), [&](uint32_t strip) {
      const uint32_t first = strip * kStripRows;
      const uint32_t width = std::min(kStripRows, begin - first);
      DenseMatrix sums(rows, width);
      MatrixProduct product;
      product.add(1.0f, lower.part(begin, first, rows, begin - first),
                  inverse.part(first, first, begin - first, width),
                  sums.writable_part(0, 0, rows, width));
      product.add(-1.0f, own.part(0, 0, rows, rows), sums.part(0, 0, rows, width),
                  inverse.writable_part(begin, first, rows, width));
    });
  }
  return inverse;
}

}  // namespace

std::optional<DenseMatrix> inverse_factor(const DenseMatrix& upper, double dampening) {
  const uint32_t size = upper.rows();
  DenseMatrix matrix(size, size);
  for (uint32_t i = 0; i < size; ++i) {
    for (uint32_t j = 0; j <= i; ++j) matrix.row(i)[j] = upper.row(size - 1 - i)[size - 1 - j];
    matrix.row(i)[i] = static_cast<float>(matrix.row(i)[i] + dampening);
  }
  const std::vector<DenseMatrix> inverses = factor_in_place(matrix);
  if (inverses.empty()) return std::nullopt;
  const DenseMatrix inverse = inverse_of_lower(matrix, inverses);
  DenseMatrix factor(size, size);
  for (uint32_t i = 0; i < size; ++i) {
    for (uint32_t j = i; j < size; ++j) factor.row(i)[j] = inverse.row(size - 1 - i)[size - 1 - j];
  }
  return factor;
}

// ---- rounding ----

namespace {

constexpr double kDampening = 0.01;
constexpr double kDampeningMax = 1e4;
constexpr uint32_t kStrip = 128;       // columns; whole blocks of q4
constexpr uint32_t kRowsAtOnce = 256;  // of a task
static_assert(kStrip % kQ4Block == 0);

// Returns U of the dampened Hessian, if it exists.
std::optional<DenseMatrix> factor_of(const DenseMatrix& upper, GptqReport& report) {
  double sum = 0.0;
  for (uint32_t i = 0; i < upper.columns(); ++i) {
    const double square = upper.row(i)[i];
    if (square == 0.0) ++report.unused_inputs;
    sum += square;
  }
  if (!(sum > 0.0) || !std::isfinite(sum)) return std::nullopt;
  const double mean = sum / upper.columns();
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
// smaller error. Returns the errors and the number of rows that stay.
GptqReport compensate(std::span<const float> weights, uint32_t first_row, const DenseMatrix& upper,
                      Rounding& rounding, QuantizedMatrix& result) {
  const size_t columns = result.columns;
  const uint32_t rows = static_cast<uint32_t>(weights.size() / columns);
  const QuantizedMatrix rounded = result.part(first_row, rows);
  const QuantizedMatrix compensated = rounding.run(weights, rows, rounded.scales);
  const std::vector<double> before = rounding.output_errors(weights, rounded, upper);
  const std::vector<double> after = rounding.output_errors(weights, compensated, upper);
  std::vector<bool> is_better(rows);
  GptqReport report;
  for (uint32_t row = 0; row < rows; ++row) {
    is_better[row] = after[row] < before[row];
    report.rounding_error += before[row];
    report.error += is_better[row] ? after[row] : before[row];
    if (!is_better[row]) ++report.rounded_rows;
  }
  copy_rows(compensated, is_better, first_row, result);
  return report;
}

}  // namespace

QuantizedMatrix quantize_gptq(std::span<const float> weights, uint32_t rows, uint32_t columns,
                              TensorType type, const Hessian& hessian, GptqReport* report) {
  assert(weights.size() == size_t{rows} * columns && hessian.columns() == columns);
  GptqReport local;
  GptqReport& done = report != nullptr ? *report : local;
  done = {};
  const DenseMatrix upper = hessian.upper();
  const std::optional<DenseMatrix> factor = factor_of(upper, done);
  std::vector<double> squares;
  if (factor) squares = hessian.mean_squares();
  QuantizedMatrix result = quantize(weights, rows, columns, type, squares, &done.scales);
  done.compensated = factor.has_value();
  if (!factor) {
    done.rounded_rows = rows;
    return result;
  }
  std::vector<GptqReport> parts((rows + kRowsAtOnce - 1) / kRowsAtOnce);
  on_all_cores(static_cast<uint32_t>(parts.size()), [&](uint32_t index) {
    const uint32_t begin = index * kRowsAtOnce;
    const size_t count = std::min(kRowsAtOnce, rows - begin);
    Rounding rounding(type, *factor);
    parts[index] = compensate(weights.subspan(size_t{begin} * columns, count * columns), begin,
                              upper, rounding, result);
  });
  for (const GptqReport& part : parts) {
    done.rounding_error += part.rounding_error;
    done.error += part.error;
    done.rounded_rows += part.rounded_rows;
  }
  return result;
}

}  // namespace arenite::convert
