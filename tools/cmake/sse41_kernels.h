// SPDX-License-Identifier: Apache-2.0
// Comes before XNNPACK's SSE4.1 kernels. Min and max keep NaN, as in SSE ones. And a panel of four
// outputs in int4, or of eight in int8, need not begin at a multiple of 16 bytes; the instructions
// for any place are as fast where it is one.
#pragma once

#include <smmintrin.h>

#include "sse_keeps_nan.h"

#define _mm_load_ps(from) _mm_loadu_ps(from)
#define _mm_load_si128(from) _mm_loadu_si128(from)
