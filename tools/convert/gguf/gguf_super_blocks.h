// SPDX-License-Identifier: Apache-2.0
// GGUF's blocks of 256 elements, whose parts of 16 or 32 have small scales of their own, multiplied
// by one or two floats of the whole block. ggml's k-quants are of this kind.
#pragma once

#include <cstdint>

namespace arenite::convert {

inline constexpr uint32_t kSuperBlockElements = 256;

// Each writes the 256 elements of one block, in the order in which ggml computes them: first the
// scale of a part, then its product with an integer, then the minimum subtracted.
void expand_q2_k(const uint8_t* block, float* values);
void expand_q3_k(const uint8_t* block, float* values);
void expand_q4_k(const uint8_t* block, float* values);
void expand_q5_k(const uint8_t* block, float* values);
void expand_q6_k(const uint8_t* block, float* values);
void expand_q8_k(const uint8_t* block, float* values);
void expand_iq4_xs(const uint8_t* block, float* values);
void expand_tq1_0(const uint8_t* block, float* values);
void expand_tq2_0(const uint8_t* block, float* values);

// What the 4 bits of an element stand for in types that store no multiples.
inline constexpr int8_t kIq4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                          1,    13,   25,  38,  53,  69,  89,  113};

}  // namespace arenite::convert
