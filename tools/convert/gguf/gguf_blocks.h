// SPDX-License-Identifier: Apache-2.0
// The blocks in which GGUF stores numbers: plain floats, and 32 or 256 quantized numbers with their
// scales.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace arenite::convert {

// A block of `elements` consecutive numbers of a row takes `bytes`.
struct GgufBlock {
  uint32_t type = 0;  // as files number it
  const char* name = "";
  uint32_t elements = 1;
  uint32_t bytes = 0;
  // Writes the elements of one block; nullptr: the type is known by name only, and not read.
  void (*expand)(const uint8_t* block, float* values) = nullptr;
};

// nullptr for a number that no format description gives a name to.
const GgufBlock* find_gguf_block(uint32_t type);

// The names of all types that are read, for messages: "F32, F16, ...".
std::string readable_gguf_types();

// All numbers of `data`, whole blocks of a type that is read. The same bits as ggml's own functions
// give. Floats and scales may be NaN or infinite.
std::vector<float> read_gguf_blocks(const GgufBlock& block, std::span<const std::byte> data);

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
