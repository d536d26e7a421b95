// SPDX-License-Identifier: Apache-2.0
// The table of GGUF's types, and the expansion of floats and of blocks of 32.
#include "convert/gguf/gguf_blocks.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>

#include "convert/files/half_floats.h"
#include "convert/gguf/gguf_super_blocks.h"

namespace arenite::convert {
namespace {

constexpr uint32_t kSmall = 32;  // elements of a small block
constexpr uint32_t kSuper = kSuperBlockElements;

template <typename Number>
Number load(const uint8_t* from) {
  Number number;
  std::memcpy(&number, from, sizeof number);
  return number;
}

float half(const uint8_t* from) { return float_of_f16(load<uint16_t>(from)); }

void expand_f32(const uint8_t* block, float* values) { *values = load<float>(block); }
void expand_f64(const uint8_t* block, float* values) {
  *values = static_cast<float>(load<double>(block));
}
void expand_f16(const uint8_t* block, float* values) { *values = half(block); }
void expand_bf16(const uint8_t* block, float* values) {
  *values = float_of_bf16(load<uint16_t>(block));
}

// Element `i` of 32 with 4 bits each: the first half of a block lies in the low halves of 16 bytes.
int nibble(const uint8_t* quants, uint32_t i) {
  return i < kSmall / 2 ? quants[i] & 15 : quants[i - kSmall / 2] >> 4;
}

// The fifth bit of each element, 32 of them in one number.
int fifth_bit(const uint8_t* bits, uint32_t i) {
  return static_cast<int>(load<uint32_t>(bits) >> i & 1u) << 4;
}

// Scale; 8 stands for zero.
void expand_q4_0(const uint8_t* block, float* values) {
  const float scale = half(block);
  for (uint32_t i = 0; i < kSmall; ++i) {
    values[i] = scale * static_cast<float>(nibble(block + 2, i) - 8);
  }
}

// Scale, then what zero stands for.
void expand_q4_1(const uint8_t* block, float* values) {
  const float scale = half(block);
  const float least = half(block + 2);
  for (uint32_t i = 0; i < kSmall; ++i) {
    values[i] = scale * static_cast<float>(nibble(block + 4, i)) + least;
  }
}

// Scale, fifth bits; 16 stands for zero.
void expand_q5_0(const uint8_t* block, float* values) {
  const float scale = half(block);
  for (uint32_t i = 0; i < kSmall; ++i) {
    const int quant = nibble(block + 6, i) | fifth_bit(block + 2, i);
    values[i] = scale * static_cast<float>(quant - 16);
  }
}

// Scale, then what zero stands for, fifth bits.
void expand_q5_1(const uint8_t* block, float* values) {
  const float scale = half(block);
  const float least = half(block + 2);
  for (uint32_t i = 0; i < kSmall; ++i) {
    const int quant = nibble(block + 8, i) | fifth_bit(block + 4, i);
    values[i] = scale * static_cast<float>(quant) + least;
  }
}

// Scale, and an int8 for each element.
void expand_q8_0(const uint8_t* block, float* values) {
  const float scale = half(block);
  for (uint32_t i = 0; i < kSmall; ++i) {
    values[i] = scale * static_cast<float>(static_cast<int8_t>(block[2 + i]));
  }
}

// Scale, and the place of each element in a table.
void expand_iq4_nl(const uint8_t* block, float* values) {
  const float scale = half(block);
  for (uint32_t i = 0; i < kSmall; ++i) {
    values[i] = scale * static_cast<float>(kIq4Values[nibble(block + 2, i)]);
  }
}

// The scale is a power of two, given by its exponent; elements are floats of 4 bits, here doubled,
// so the scale is halved.
void expand_mxfp4(const uint8_t* block, float* values) {
  constexpr int8_t kDoubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
  const uint32_t exponent = block[0];
  const float scale =
      std::bit_cast<float>(exponent < 2 ? 0x00200000u << exponent : (exponent - 1) << 23);
  for (uint32_t i = 0; i < kSmall; ++i) {
    values[i] = scale * static_cast<float>(kDoubled[nibble(block + 1, i)]);
  }
}

constexpr GgufBlock kBlocks[] = {
    {0, "F32", 1, 4, expand_f32},
    {1, "F16", 1, 2, expand_f16},
    {2, "Q4_0", kSmall, 2 + 16, expand_q4_0},
    {3, "Q4_1", kSmall, 2 + 2 + 16, expand_q4_1},
    {6, "Q5_0", kSmall, 2 + 4 + 16, expand_q5_0},
    {7, "Q5_1", kSmall, 2 + 2 + 4 + 16, expand_q5_1},
    {8, "Q8_0", kSmall, 2 + 32, expand_q8_0},
    {9, "Q8_1"},
    {10, "Q2_K", kSuper, 16 + 64 + 2 + 2, expand_q2_k},
    {11, "Q3_K", kSuper, 32 + 64 + 12 + 2, expand_q3_k},
    {12, "Q4_K", kSuper, 2 + 2 + 12 + 128, expand_q4_k},
    {13, "Q5_K", kSuper, 2 + 2 + 12 + 32 + 128, expand_q5_k},
    {14, "Q6_K", kSuper, 128 + 64 + 16 + 2, expand_q6_k},
    {15, "Q8_K", kSuper, 4 + 256 + 32, expand_q8_k},
    {16, "IQ2_XXS"},
    {17, "IQ2_XS"},
    {18, "IQ3_XXS"},
    {19, "IQ1_S"},
    {20, "IQ4_NL", kSmall, 2 + 16, expand_iq4_nl},
    {21, "IQ3_S"},
    {22, "IQ2_S"},
    {23, "IQ4_XS", kSuper, 2 + 2 + 4 + 128, expand_iq4_xs},
    {24, "I8"},
    {25, "I16"},
    {26, "I32"},
    {27, "I64"},
    {28, "F64", 1, 8, expand_f64},
    {29, "IQ1_M"},
    {30, "BF16", 1, 2, expand_bf16},
    {34, "TQ1_0", kSuper, 48 + 4 + 2, expand_tq1_0},
    {35, "TQ2_0", kSuper, 64 + 2, expand_tq2_0},
    {39, "MXFP4", kSmall, 1 + 16, expand_mxfp4},
    {40, "NVFP4"},
    {41, "Q1_0"},
};

}  // namespace

const GgufBlock* find_gguf_block(uint32_t type) {
  const auto found = std::find_if(std::begin(kBlocks), std::end(kBlocks),
                                  [&](const GgufBlock& block) { return block.type == type; });
  return found == std::end(kBlocks) ? nullptr : found;
}

std::string readable_gguf_types() {
  std::string names;
  for (const GgufBlock& block : kBlocks) {
    if (block.expand != nullptr) names += (names.empty() ? "" : ", ") + std::string(block.name);
  }
  return names;
}

std::vector<float> read_gguf_blocks(const GgufBlock& block, std::span<const std::byte> data) {
  const size_t blocks = data.size() / block.bytes;
  std::vector<float> values(blocks * block.elements);
  const auto* bytes = reinterpret_cast<const uint8_t*>(data.data());
  for (size_t i = 0; i < blocks; ++i) {
    block.expand(bytes + i * block.bytes, values.data() + i * block.elements);
  }
  return values;
}

}  // namespace arenite::convert
