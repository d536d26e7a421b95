// SPDX-License-Identifier: Apache-2.0
// Comes before XNNPACK's VNNI kernels. Activations are stored as unsigned bytes (128 more), as the
// instructions want them, so that their sign bits need not be turned inside the loop. And kernels
// that prefetch weights reach 2 KB further: 15 lines are too few for weights that come from memory,
// above all where the next page of a mapped file must be found first.
#pragma once

#include <immintrin.h>

#include "xnnpack/prefetch.h"

#define _mm256_xor_si256(activations, sign_bits) (activations)
#define _mm512_xor_epi64(activations, sign_bits) (activations)
#define xnn_prefetch_to_l1(address) xnn_prefetch_to_l1((const char*)(address) + 2048)
