// SPDX-License-Identifier: Apache-2.0
#include "cli/counting_kernels.h"

#include <array>
#include <utility>

#include "kernels/kernel_set.h"

namespace arenite::test {
namespace {

uint64_t multiply_adds = 0;
const KernelSet* original = nullptr;  // of the set that was asked for last

// Which products a kernel belongs to.
enum class Products { kF32, kW8, kQ8, kQ4 };

template <Products kProducts, size_t kRows>
void counting_gemm(size_t rows, size_t columns, size_t k_bytes, const float* a, size_t a_stride,
                   const void* w, float* c, size_t c_stride) {
  multiply_adds += rows * columns * (k_bytes / sizeof(float));
  const FloatKernels& kernels = kProducts == Products::kF32 ? original->f32 : *original->w8;
  kernels.gemm[kRows](rows, columns, k_bytes, a, a_stride, w, c, c_stride);
}

template <Products kProducts, size_t kRows>
void counting_quantized(size_t rows, size_t columns, size_t k, const int8_t* a, size_t a_stride,
                        const void* w, float* c, size_t c_stride,
                        const QuantizedRow (&a_rows)[kRowsMax], std::byte* scratch) {
  multiply_adds += rows * columns * k;
  const QuantizedKernels& kernels = kProducts == Products::kQ8 ? *original->q8 : *original->q4;
  kernels.gemm[kRows](rows, columns, k, a, a_stride, w, c, c_stride, a_rows, scratch);
}

template <Products kProducts, size_t... kRows>
FloatKernels counting(FloatKernels kernels, std::index_sequence<kRows...>) {
  ((kernels.gemm[kRows + 1] = counting_gemm<kProducts, kRows + 1>), ...);
  return kernels;
}

template <Products kProducts, size_t... kRows>
QuantizedKernels counting(QuantizedKernels kernels, std::index_sequence<kRows...>) {
  ((kernels.gemm[kRows + 1] = counting_quantized<kProducts, kRows + 1>), ...);
  return kernels;
}

void counting_scores(size_t rows, size_t keys, size_t dims, const float* query, size_t query_stride,
                     const RowSteps* query_rows, const int8_t* key, const float* key_scales,
                     float* scores, size_t scores_stride) {
  multiply_adds += rows * keys * dims;
  original->integers->scores(rows, keys, dims, query, query_stride, query_rows, key, key_scales,
                             scores, scores_stride);
}

void counting_values(size_t rows, size_t columns, size_t positions, float* weights,
                     size_t weights_stride, const float* scales, const std::byte* values,
                     float* output, size_t output_stride, bool adds) {
  multiply_adds += rows * columns * positions;
  original->integers->values(rows, columns, positions, weights, weights_stride, scales, values,
                             output, output_stride, adds);
}

// Room for the counting set of each target: sessions keep pointers.
struct Counting {
  KernelSet set;
  FloatKernels w8;
  QuantizedKernels q8, q4;
  IntegerAttention integers;
};

const KernelSet* counting_set(Target target, const KernelSet& kernels) {
  static std::array<Counting*, kTargets> made = {};
  original = &kernels;
  Counting*& counting_of = made[static_cast<size_t>(target)];
  if (counting_of != nullptr) return &counting_of->set;
  constexpr auto kRows = std::make_index_sequence<kRowsMax>();
  counting_of = new Counting{kernels,
                             counting<Products::kW8>(*kernels.w8, kRows),
                             counting<Products::kQ8>(*kernels.q8, kRows),
                             counting<Products::kQ4>(*kernels.q4, kRows),
                             {}};
  counting_of->set.f32 = counting<Products::kF32>(kernels.f32, kRows);
  counting_of->set.w8 = &counting_of->w8;
  if (kernels.integers != nullptr) {
    counting_of->integers = {kernels.integers->quantize, kernels.integers->exp_sum, counting_scores,
                             counting_values};
    counting_of->set.integers = &counting_of->integers;
  }
  counting_of->set.q8 = &counting_of->q8;
  counting_of->set.q4 = &counting_of->q4;
  return &counting_of->set;
}

}  // namespace

uint64_t counted_multiply_adds() { return std::exchange(multiply_adds, 0); }

}  // namespace arenite::test

// The names that the linker gives to arenite::kernel_set and to what is in its place.
extern "C" const arenite::KernelSet* __real__ZN7arenite10kernel_setENS_6TargetE(arenite::Target);
extern "C" const arenite::KernelSet* __wrap__ZN7arenite10kernel_setENS_6TargetE(
    arenite::Target target) {
  const arenite::KernelSet* const kernels = __real__ZN7arenite10kernel_setENS_6TargetE(target);
  return kernels == nullptr ? nullptr : arenite::test::counting_set(target, *kernels);
}
