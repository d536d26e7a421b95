// SPDX-License-Identifier: Apache-2.0
// The SIMD kernels of one ISA level, behind our own signatures. Only kernels/ sees XNNPACK.
//
// Kernels allocate nothing and know nothing of the model. They may read kReadAheadBytes past the
// end of a row.
#pragma once

#include <cstddef>
#include <cstdint>

#include "arenite/target.h"
#include "core/packing.h"

namespace arenite {

// c [rows, columns] = a [rows, k] * w + bias, where w is panels of nr columns (packing.h).
// Strides are in bytes. A product's bits do not depend on `rows` or on the row's place among them.
// Products are added in the order of k, one after the other, to the bias; NaN stays NaN.
// REQUIRES: 1 <= rows <= mr, columns >= 1, k_bytes a positive multiple of 4; w at a multiple of nr
// floats or of 64 bytes, whichever is less (SIMD kernels load weights with aligned instructions).
using GemmKernel = void (*)(size_t rows, size_t columns, size_t k_bytes, const float* a,
                            size_t a_stride_bytes, const float* w, float* c, size_t c_stride_bytes);

// extremes = the least and the largest of x [bytes / 4]; any two numbers if one of x is NaN.
// REQUIRES: bytes > 0.
using RowExtremesKernel = void (*)(size_t bytes, const float* x, float* extremes);

// y = exp(x - *max), *sum = sum of y. Exactly 0 where x is -infinity; NaN where x or *max is, and
// where both are the same infinity. x and y may be the same.
using ExpSumKernel = void (*)(size_t bytes, const float* x, const float* max, float* y, float* sum);

// y = a + b; y may be a or b.
using AddKernel = void (*)(size_t bytes, const float* a, const float* b, float* y);

// *sum += the sum of x [bytes / 4]. REQUIRES: bytes > 0.
using SumKernel = void (*)(size_t bytes, const float* x, float* sum);

// y = a * b; y may be a or b.
using MultiplyKernel = AddKernel;

// y = a + *term; y may be a.
using AddConstantKernel = AddKernel;

// y = f(x); y may be x.
using UnaryKernel = void (*)(size_t bytes, const float* x, float* y);

// Complex product: x, angles and y are each `bytes` of real parts, then `bytes` of imaginary
// parts; y may be x.
using RotateKernel = void (*)(size_t bytes, const float* x, const float* angles, float* y);

// y = a * *factor; y may be a.
using ScaleKernel = void (*)(size_t bytes, const float* a, const float* factor, float* y);

// y [columns, rows] = x [rows, columns] transposed. Strides are in bytes.
using TransposeKernel = void (*)(size_t rows, size_t columns, const float* x, size_t x_stride_bytes,
                                 float* y, size_t y_stride_bytes);

inline constexpr uint32_t kRowsMax = 8;  // of any kernel set

struct KernelSet {
  Target target;
  const char* name;
  Packing packing;
  GemmKernel gemm[kRowsMax + 1];  // [rows]: the kernel that suits this many rows, up to mr
  RowExtremesKernel row_extremes;
  ExpSumKernel exp_sum;
  AddKernel add;
  ScaleKernel scale;
  TransposeKernel transpose;
  MultiplyKernel multiply;
  AddConstantKernel add_constant;
  RotateKernel rotate;
  UnaryKernel gelu;  // by the error function
  UnaryKernel sigmoid;
  UnaryKernel tanh;
  SumKernel sum;
};

// The kernels for a target; null where this build lacks them or this CPU cannot run them.
const KernelSet* kernel_set(Target target);

}  // namespace arenite
