// SPDX-License-Identifier: Apache-2.0
// Included before XNNPACK's VNNI kernels. Activations are stored as unsigned bytes (128 added), as
// the instructions need them, so that the inner loop need not flip sign bits. Kernels that prefetch
// weights reach 2 KB further: 15 cache lines are too few for weights that come from memory, above
// all where the next page of a mapped file must be found first.
#pragma once

#include <immintrin.h>

#include "xnnpack/prefetch.h"

#define _mm256_xor_si256(activations, sign_bits) (activations)
#define _mm512_xor_epi64(activations, sign_bits) (activations)
#define xnn_prefetch_to_l1(address) xnn_prefetch_to_l1((const char*)(address) + 2048)
