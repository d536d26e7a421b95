// SPDX-License-Identifier: Apache-2.0
// Included before XNNPACK's SSE kernels. Swaps the operands of min and max from (value, limit) to
// (limit, value), since the instructions return their second operand if either is NaN.
#pragma once

#include <xmmintrin.h>

#define _mm_min_ps(value, limit) _mm_min_ps((limit), (value))
#define _mm_max_ps(value, limit) _mm_max_ps((limit), (value))
