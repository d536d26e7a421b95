// SPDX-License-Identifier: Apache-2.0
// Integer attention in plain C++, for the scalar set; the Cortex-M kernels give the same bits.
#include "kernels/integer_attention.h"

#include <algorithm>
#include <cstring>

#include "kernels/thread_check.h"

#if !defined(__clang__) && !defined(__x86_64__)
#pragma GCC optimize("O2")  // regardless of the firmware's own level
#endif

namespace arenite {
namespace {

constexpr size_t kAtOnce = 4;  // keys or columns that are multiplied with a row at once

float as_float(uint32_t sum) { return static_cast<float>(static_cast<int32_t>(sum)); }
int16_t rounded(float x, float per_unit) { return static_cast<int16_t>(rounded_bits(x, per_unit)); }

// sums[c] += the sum over i < count of a[i] * b[c * apart + i], for four columns c. Sums are
// unsigned, since they wrap if an element was not finite.
void multiply(const int16_t* a, const int8_t* b, size_t apart, size_t count, uint32_t* sums) {
  const int8_t *b1 = b + apart, *b2 = b1 + apart, *b3 = b2 + apart;
  uint32_t sum0 = sums[0], sum1 = sums[1], sum2 = sums[2], sum3 = sums[3];
  for (size_t i = 0; i < count; ++i) {
    const int32_t number = a[i];
    sum0 += static_cast<uint32_t>(number * b[i]);
    sum1 += static_cast<uint32_t>(number * b1[i]);
    sum2 += static_cast<uint32_t>(number * b2[i]);
    sum3 += static_cast<uint32_t>(number * b3[i]);
  }
  sums[0] = sum0, sums[1] = sum1, sums[2] = sum2, sums[3] = sum3;
}

// Multiplies the weights by their scales, if any; returns the steps of their rounding. The bits of
// non-negative floats are ordered like the floats, with infinity and then NaN above all.
RowSteps scale_and_find_steps(float* weights, const float* scales, size_t count) {
  for (size_t i = 0; scales != nullptr && i < count; ++i) weights[i] *= scales[i];
  uint32_t largest = 0;
  for (size_t i = 0; i < count; ++i) largest = std::max(largest, bit_cast<uint32_t>(weights[i]));
  return steps_up_to(bit_cast<float>(largest), kLargestWeightStep);
}

}  // namespace

void integer_quantize(size_t bytes, const float* x, float per_unit, int32_t, int8_t* y) {
  for (size_t i = 0; i < bytes / sizeof(float); ++i) {
    y[i] = static_cast<int8_t>(rounded_bits(x[i], per_unit));
  }
}

void integer_exp_sum(size_t bytes, const float* x, const float* range, float* y, float* sum) {
  kernel_reads(x, bytes);
  kernel_writes(y, bytes);
  const size_t count = bytes / sizeof(float);
  const auto weight = [&](size_t i) {
    const float below = x[i] - range[1];
    return y[i] = below < kLeastExponent ? 0.0f : integer_exp(below);
  };
  float even = 0.0f, odd = 0.0f;
  size_t i = 0;
  for (; i + 1 < count; i += 2) {
    even += weight(i);
    odd += weight(i + 1);
  }
  *sum = even + odd + (i < count ? weight(i) : 0.0f);
}

void integer_scores(size_t rows, size_t keys, size_t dims, const float* query,
                    size_t query_stride_bytes, const RowSteps* query_rows, const int8_t* key,
                    const float* key_scales, float* scores, size_t scores_stride_bytes) {
  kernel_reads_rows(query, rows, dims * sizeof(float), query_stride_bytes);
  kernel_reads(key, keys * integer_key_bytes(dims));
  kernel_reads(key_scales, keys * sizeof(float));
  kernel_writes_rows(scores, rows, keys * sizeof(float), scores_stride_bytes);
  for (size_t r = 0; r < rows; ++r) {
    const RowSteps steps = query_rows[r];
    for (size_t begin = 0; begin < dims; begin += kIntegerDims) {
      const size_t count = std::min(dims - begin, kIntegerDims);
      const bool is_last = begin + count == dims;
      int16_t numbers[kIntegerDims];
      for (size_t i = 0; i < count; ++i) numbers[i] = rounded(query[begin + i], steps.per_unit);
      const int8_t* from = key + begin;
      for (size_t i = 0; i < keys; i += kAtOnce, from += kAtOnce * integer_key_bytes(dims)) {
        const size_t lanes = std::min(keys - i, kAtOnce);
        uint32_t sums[kAtOnce] = {};
        if (begin != 0) std::memcpy(sums, scores + i, lanes * sizeof(float));
        multiply(numbers, from, integer_key_bytes(dims), count, sums);
        for (size_t k = 0; k < lanes; ++k) {
          const auto sum = static_cast<int32_t>(sums[k]);
          scores[i + k] =
              is_last ? scaled(sum, key_scales[i + k], steps.step) : bit_cast<float>(sum);
        }
      }
    }
    query += query_stride_bytes / sizeof(float);
    scores += scores_stride_bytes / sizeof(float);
  }
}

void integer_values(size_t rows, size_t columns, size_t positions, float* weights,
                    size_t weights_stride_bytes, const float* scales, const std::byte* values,
                    float* output, size_t output_stride_bytes, bool adds) {
  kernel_writes_rows(weights, rows, positions * sizeof(float), weights_stride_bytes);
  kernel_reads(values, (positions + kIntegerGroup - 1) / kIntegerGroup * kIntegerGroup * columns);
  kernel_writes_rows(output, rows, columns * sizeof(float), output_stride_bytes);
  for (size_t r = 0; r < rows; ++r) {
    const RowSteps steps = scale_and_find_steps(weights, scales, positions);
    int16_t numbers[kIntegerBlock] = {};
    for (size_t i = 0; i < positions; ++i) numbers[i] = rounded(weights[i], steps.per_unit);
    const auto* from = reinterpret_cast<const int8_t*>(values);
    for (size_t column = 0; column < columns; column += kAtOnce, from += kAtOnce * kIntegerGroup) {
      uint32_t sums[kAtOnce] = {};
      for (size_t i = 0; i < positions; i += kIntegerGroup) {
        multiply(numbers + i, from + i * columns, kIntegerGroup, kIntegerGroup, sums);
      }
      for (size_t i = 0; i < std::min(columns - column, kAtOnce); ++i) {
        const float y = as_float(sums[i]) * steps.step;
        output[column + i] = adds ? output[column + i] + y : y;
      }
    }
    weights += weights_stride_bytes / sizeof(float);
    output += output_stride_bytes / sizeof(float);
  }
}

}  // namespace arenite
