// SPDX-License-Identifier: Apache-2.0
// Our own products by RISC-V's vectors. They are for whatever length a vector has: panels have as
// many outputs as a register has bytes, so a file is for one length.
#pragma once

#include "kernels/kernel_set.h"

namespace arenite {

void rvv_f32_gemm(size_t rows, size_t columns, size_t k_bytes, const float* a,
                  size_t a_stride_bytes, const void* w, float* c, size_t c_stride_bytes);
void rvv_w8_gemm(size_t rows, size_t columns, size_t k_bytes, const float* a, size_t a_stride_bytes,
                 const void* w, float* c, size_t c_stride_bytes);
void rvv_f32_indirect_gemm(size_t rows, size_t columns, size_t pieces, size_t piece_bytes,
                           const float** list, const void* w, float* c, size_t c_stride_bytes);
// With the bits of `portable`, as those of q4, which are for two rows at most.
void rvv_q8_gemm(size_t rows, size_t columns, size_t k, const int8_t* a, size_t a_stride_bytes,
                 const void* w, float* c, size_t c_stride_bytes, const QuantizedRow* a_rows,
                 std::byte* scratch);
void rvv_q4_gemm(size_t rows, size_t columns, size_t k, const int8_t* a, size_t a_stride_bytes,
                 const void* w, float* c, size_t c_stride_bytes, const QuantizedRow* a_rows,
                 std::byte* scratch);

}  // namespace arenite
