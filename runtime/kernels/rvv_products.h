// SPDX-License-Identifier: Apache-2.0
// Our own products by RISC-V vectors, for any vector length. A panel has as many outputs as a
// register has bytes, so a file supports one length.
#pragma once

#include <type_traits>

#include "kernels/kernel_set.h"

namespace arenite {

std::remove_pointer_t<GemmKernel> rvv_f32_gemm, rvv_w8_gemm;
std::remove_pointer_t<IndirectGemmKernel> rvv_f32_indirect_gemm;
// These give the bits of `portable`. rvv_q4_gemm takes two rows at most.
std::remove_pointer_t<QuantizedGemmKernel> rvv_q8_gemm, rvv_q4_gemm;

}  // namespace arenite
