// SPDX-License-Identifier: Apache-2.0
// Comes before XNNPACK's SSE kernels: min and max of (value, limit) become those of (limit, value),
// since the instructions give their second operand where either is NaN.
#pragma once

#include <xmmintrin.h>

#define _mm_min_ps(value, limit) _mm_min_ps((limit), (value))
#define _mm_max_ps(value, limit) _mm_max_ps((limit), (value))
