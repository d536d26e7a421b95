// SPDX-License-Identifier: Apache-2.0
// Included before XNNPACK's SSE4.1 kernels. Min and max keep NaN, as in the SSE kernels. A panel of
// four int4 or eight int8 outputs need not begin at a multiple of 16 bytes, so loads are unaligned
// ones, which are as fast at aligned addresses.
#pragma once

#include <smmintrin.h>

#include "sse_keeps_nan.h"

#define _mm_load_ps(from) _mm_loadu_ps(from)
#define _mm_load_si128(from) _mm_loadu_si128(from)
