// SPDX-License-Identifier: Apache-2.0
// Our own products by WebAssembly's vectors of 128 bits, for panels of `portable`, with its bits.
#pragma once

#include <type_traits>

#include "kernels/kernel_set.h"

namespace arenite {

std::remove_pointer_t<GemmKernel> simd128_f32_gemm, simd128_w8_gemm;
std::remove_pointer_t<IndirectGemmKernel> simd128_f32_indirect_gemm;
std::remove_pointer_t<QuantizedGemmKernel> simd128_q8_gemm, simd128_q4_gemm;

}  // namespace arenite
