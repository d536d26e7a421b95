// SPDX-License-Identifier: Apache-2.0
// Kernels for a Cortex-M without an FPU, where a float operation takes as long as ten integer
// products. They give the same bits as the kernels of the scalar set.
#include "kernels/cortex_m.h"

#if defined(ARENITE_SOFT_FLOATS)
#include <cmath>

#include "core/float_bits.h"
#include "kernels/microkernels.h"
#include "kernels/soft_float_bits.h"

#if !defined(__clang__)
#pragma GCC optimize("O2")  // regardless of the firmware's own level
#endif

namespace arenite {
namespace {

uint32_t bits(float x) { return bit_cast<uint32_t>(x); }

// sums[c] += the sum over i < k of a[i] * w[i][c], for the four columns of a panel.
void add_products(const int8_t* a, const int8_t* w, size_t k, int32_t* sums) {
#if defined(ARENITE_THUMB_1)
  // Extracting a weight takes one or two instructions. Sums are in high registers, which can only
  // be added to.
  const int8_t* const end = a + k;
  auto left = -static_cast<int32_t>(k);
  uint32_t number, word, product;
  asm volatile(
      ".syntax unified\n"
      "ldr %[word], [%[sums], #0]\n"
      "mov r8, %[word]\n"
      "ldr %[word], [%[sums], #4]\n"
      "mov r9, %[word]\n"
      "ldr %[word], [%[sums], #8]\n"
      "mov r10, %[word]\n"
      "ldr %[word], [%[sums], #12]\n"
      "mov r11, %[word]\n"
      "1: ldrsb %[number], [%[end], %[left]]\n"
      "ldmia %[w]!, {%[word]}\n"
      "sxtb %[product], %[word]\n"
      "muls %[product], %[number]\n"
      "add r8, %[product]\n"
      "lsls %[product], %[word], #16\n"
      "asrs %[product], %[product], #24\n"
      "muls %[product], %[number]\n"
      "add r9, %[product]\n"
      "lsls %[product], %[word], #8\n"
      "asrs %[product], %[product], #24\n"
      "muls %[product], %[number]\n"
      "add r10, %[product]\n"
      "asrs %[word], %[word], #24\n"
      "muls %[word], %[number]\n"
      "add r11, %[word]\n"
      "adds %[left], #1\n"
      "bne 1b\n"
      "mov %[word], r8\n"
      "str %[word], [%[sums], #0]\n"
      "mov %[word], r9\n"
      "str %[word], [%[sums], #4]\n"
      "mov %[word], r10\n"
      "str %[word], [%[sums], #8]\n"
      "mov %[word], r11\n"
      "str %[word], [%[sums], #12]\n"
      : [left] "+l"(left), [w] "+l"(w), [number] "=&l"(number), [word] "=&l"(word),
        [product] "=&l"(product)
      : [end] "l"(end), [sums] "l"(sums)
      : "r8", "r9", "r10", "r11", "cc", "memory");
#else
  int32_t sum0 = sums[0], sum1 = sums[1], sum2 = sums[2], sum3 = sums[3];
  for (size_t i = 0; i < k; ++i, w += kLanes) {
    const int32_t number = a[i];
    sum0 += number * w[0], sum1 += number * w[1], sum2 += number * w[2], sum3 += number * w[3];
  }
  sums[0] = sum0, sums[1] = sum1, sums[2] = sum2, sums[3] = sum3;
#endif
}

}  // namespace

void soft_q8_gemm(size_t rows, size_t columns, size_t k, const int8_t* a, size_t a_stride_bytes,
                  const void* w, float* c, size_t c_stride_bytes,
                  const QuantizedRow (&a_rows)[kRowsMax], std::byte*) {
  const auto* at = static_cast<const std::byte*>(w);
  for (size_t column = 0; column < columns; column += kLanes) {
    const Q8Panel panel(at, k);
    const size_t lanes = columns - column < kLanes ? columns - column : kLanes;
    for (size_t r = 0; r < rows; ++r) {
      int32_t sums[kLanes];
      for (size_t i = 0; i < kLanes; ++i) {
        sums[i] = correction(panel.head[i], a_rows[r].zero_point);
      }
      add_products(a + r * a_stride_bytes, panel.weights, k, sums);
      float* const y = c + r * (c_stride_bytes / sizeof(float)) + column;
      for (size_t i = 0; i < lanes; ++i) {
        const uint32_t product =
            soft::scaled(sums[i], bits(a_rows[r].scale), bits(panel.scales[i]));
        y[i] = bit_cast<float>(soft::sum(product, bits(panel.scales[kLanes + i])));
      }
    }
    at = panel.end();
  }
}

void soft_quantize(size_t bytes, const float* x, float inverse_scale, int32_t zero_point,
                   int8_t* y) {
  for (size_t i = 0; i < bytes / sizeof(float); ++i) {
    const int32_t number = soft::rounded_product_of(bits(x[i]), bits(inverse_scale)) + zero_point;
    y[i] = static_cast<int8_t>(number < -128 ? -128 : number > 127 ? 127 : number);
  }
}

void soft_row_extremes(size_t bytes, const float* x, float* extremes) {
  float sum = 0.0f;
  soft_row_range(bytes, x, extremes, &sum);
}

void soft_row_range(size_t bytes, const float* x, float* extremes, float* sum) {
  int32_t least = INT32_MAX, most = INT32_MIN;
  uint32_t carried = 0;
  for (size_t i = 0; i < bytes / sizeof(float); ++i) {
    const int32_t order = soft::order(bits(x[i]));
    least = order < least ? order : least;
    most = order > most ? order : most;
    carried |= carry_of_not_finite(x[i]);
  }
  extremes[0] = bit_cast<float>(soft::of_order(least));
  extremes[1] = bit_cast<float>(soft::of_order(most));
  if (carried >> 31 != 0) *sum = NAN;
}

void soft_exp_sum(size_t bytes, const float* x, const float* max, float* y, float* sum) {
  constexpr float kZeroBelow = -0x1.5D589Ep6f;
  constexpr auto kOfSet = exp_sum<xnn_f32_raddstoreexpminusmax_ukernel__scalar_rr2_p5_u4_acc2>;
  const size_t count = bytes / sizeof(float);
  const auto weight = [&](size_t i) {
    const float below = x[i] - *max;
    const uint32_t number = bits(below);
    if (number >> 31 != 0 && soft::has_decay(number)) {
      y[i] = bit_cast<float>(soft::decay(number));
    } else if (below < kZeroBelow) {
      y[i] = 0.0f;
    } else {
      float unused;
      kOfSet(sizeof(float), x + i, max, y + i, &unused);
    }
    return y[i];
  };
  float even = 0.0f, odd = 0.0f;
  size_t i = 0;
  for (; i < count / 4 * 4; i += 2) {
    even += weight(i);
    odd += weight(i + 1);
  }
  even += odd;
  for (; i < count; ++i) even += weight(i);
  *sum = even;
}

namespace {

// The set's kernels that the functions below fall back on; null where no model needs them.
consteval KernelSet set_of_models() {
  KernelSet set = {};
  set.gelu = unary<xnn_f32_vgelu_ukernel__scalar_rational_12_10_div_u1>;
  set.sigmoid = unary<xnn_f32_vsigmoid_ukernel__scalar_rr2_p5_div_u2>;
  return linked_kernels(set);
}

// y = kValue(x) where kHas(x); other elements go to the set's kernel.
template <bool kHas(uint32_t), uint32_t kValue(uint32_t), UnaryKernel kOfSet>
void function(size_t bytes, const float* x, float* y) {
  for (size_t i = 0; i < bytes / sizeof(float); ++i) {
    const uint32_t number = bits(x[i]);
    if (kHas(number)) {
      y[i] = bit_cast<float>(kValue(number));
    } else {
      if constexpr (kOfSet != nullptr) kOfSet(sizeof(float), x + i, y + i);
    }
  }
}

}  // namespace

void soft_gelu(size_t bytes, const float* x, float* y) {
  function<soft::has_gelu, soft::gelu, set_of_models().gelu>(bytes, x, y);
}

void soft_sigmoid(size_t bytes, const float* x, float* y) {
  function<soft::has_decay, soft::sigmoid, set_of_models().sigmoid>(bytes, x, y);
}

}  // namespace arenite
#endif
