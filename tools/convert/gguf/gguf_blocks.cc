// SPDX-License-Identifier: Apache-2.0
// Expands blocks to float32, with one function for each type.
#include "convert/gguf/gguf_file.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>

#include "convert/files/checkpoint.h"

namespace arenite::convert {
namespace {

constexpr uint32_t kSmall = 32;   // elements of a small block
constexpr uint32_t kSuper = 256;  // and of a large one

template <typename Number>
Number load(const uint8_t* from) {
  Number number;
  std::memcpy(&number, from, sizeof number);
  return number;
}

float half(const uint8_t* from) { return float_of_f16(load<uint16_t>(from)); }

// Codebook of the IQ4 types: maps 4-bit indices to values.
constexpr int8_t kIq4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                   1,    13,   25,  38,  53,  69,  89,  113};

void expand_f32(const uint8_t* block, float* values) { *values = load<float>(block); }
void expand_f64(const uint8_t* block, float* values) {
  *values = static_cast<float>(load<double>(block));
}
void expand_f16(const uint8_t* block, float* values) { *values = half(block); }
void expand_bf16(const uint8_t* block, float* values) {
  *values = float_of_bf16(load<uint16_t>(block));
}

// Returns element `i` of 32 elements of 4 bits: the first half of a block is in the low halves of
// 16 bytes.
int nibble(const uint8_t* quants, uint32_t i) {
  return i < kSmall / 2 ? quants[i] & 15 : quants[i - kSmall / 2] >> 4;
}

// Returns the fifth bit of element `i`, from 32 of them in one number.
int fifth_bit(const uint8_t* bits, uint32_t i) {
  return static_cast<int>(load<uint32_t>(bits) >> i & 1u) << 4;
}

// Block: scale, elements; 8 stands for zero.
int integer_q4_0(const uint8_t* block, uint32_t i) { return nibble(block + 2, i) - 8; }
void expand_q4_0(const uint8_t* block, float* values) {
  const float scale = half(block);
  for (uint32_t i = 0; i < kSmall; ++i) {
    values[i] = scale * static_cast<float>(integer_q4_0(block, i));
  }
}

// Block: scale, minimum, elements.
void expand_q4_1(const uint8_t* block, float* values) {
  const float scale = half(block);
  const float least = half(block + 2);
  for (uint32_t i = 0; i < kSmall; ++i) {
    values[i] = scale * static_cast<float>(nibble(block + 4, i)) + least;
  }
}

// Block: scale, fifth bits, elements; 16 stands for zero.
void expand_q5_0(const uint8_t* block, float* values) {
  const float scale = half(block);
  for (uint32_t i = 0; i < kSmall; ++i) {
    const int quant = nibble(block + 6, i) | fifth_bit(block + 2, i);
    values[i] = scale * static_cast<float>(quant - 16);
  }
}

// Block: scale, minimum, fifth bits, elements.
void expand_q5_1(const uint8_t* block, float* values) {
  const float scale = half(block);
  const float least = half(block + 2);
  for (uint32_t i = 0; i < kSmall; ++i) {
    const int quant = nibble(block + 8, i) | fifth_bit(block + 4, i);
    values[i] = scale * static_cast<float>(quant) + least;
  }
}

// Block: scale, and an int8 for each element.
void expand_q8_0(const uint8_t* block, float* values) {
  const float scale = half(block);
  for (uint32_t i = 0; i < kSmall; ++i) {
    values[i] = scale * static_cast<float>(static_cast<int8_t>(block[2 + i]));
  }
}

// Block: scale, and a table index for each element.
void expand_iq4_nl(const uint8_t* block, float* values) {
  const float scale = half(block);
  for (uint32_t i = 0; i < kSmall; ++i) {
    values[i] = scale * static_cast<float>(kIq4Values[nibble(block + 2, i)]);
  }
}

// The scale is a power of two, given by its exponent. Elements are 4-bit floats; the table has them
// doubled, so the scale is halved.
void expand_mxfp4(const uint8_t* block, float* values) {
  constexpr int8_t kDoubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
  const uint32_t exponent = block[0];
  const float scale =
      std::bit_cast<float>(exponent < 2 ? 0x00200000u << exponent : (exponent - 1) << 23);
  for (uint32_t i = 0; i < kSmall; ++i) {
    values[i] = scale * static_cast<float>(kDoubled[nibble(block + 1, i)]);
  }
}

// Returns two bits of element `i`: 32 bytes hold 128 elements, the first 32 in their lowest bits.
int two_bits(const uint8_t* quants, uint32_t i) {
  return quants[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
}

// Returns four bits of element `i`: `bytes` bytes hold as many elements in their low halves, and
// then as many in their high halves.
int four_bits(const uint8_t* quants, uint32_t i, uint32_t bytes) {
  const int both = quants[i / (2 * bytes) * bytes + i % bytes];
  return i / bytes % 2 == 0 ? both & 15 : both >> 4;
}

// Returns one bit of element `i`: 32 bytes hold all, the first 32 elements in their lowest bits.
int one_bit(const uint8_t* bits, uint32_t i) { return bits[i % 32] >> (i / 32) & 1; }

// Scale and minimum of 32 elements in Q4_K and Q5_K, 6 bits each. Of 8 scales and 8 minima, the
// first four have their own bytes, whose two upper bits belong to the last four.
struct ScaleAndMinimum {
  int scale, minimum;
};
ScaleAndMinimum scale_and_minimum(const uint8_t* packed, uint32_t part) {
  if (part < 4) return {packed[part] & 63, packed[part + 4] & 63};
  return {(packed[part + 4] & 15) | (packed[part - 4] >> 6 << 4),
          (packed[part + 4] >> 4) | (packed[part] >> 6 << 4)};
}

// Returns the scale of 16 elements in Q3_K, 6 bits: the lower four in 8 bytes, the upper two in 4.
int q3_scale(const uint8_t* packed, uint32_t part) {
  const int low = part < 8 ? packed[part] & 15 : packed[part - 8] >> 4;
  const int high = packed[8 + part % 4] >> (part / 4 * 2) & 3;
  return (low | high << 4) - 32;
}

// Large blocks compute in ggml's order: the scale of a part, times an integer, minus the minimum.
// Block: scales and minima [16], two bits per element [64], scale, minimum.
void expand_q2_k(const uint8_t* block, float* values) {
  const float scale = half(block + 80);
  const float minimum = half(block + 82);
  for (uint32_t i = 0; i < kSuper; ++i) {
    const int packed = block[i / 16];
    const float part_scale = scale * static_cast<float>(packed & 15);
    const float part_minimum = minimum * static_cast<float>(packed >> 4);
    values[i] = part_scale * static_cast<float>(two_bits(block + 16, i)) - part_minimum;
  }
}

// Block: third bits [32], the lower two bits [64], scales [12], scale. An element whose third bit
// is 0 is negative.
void expand_q3_k(const uint8_t* block, float* values) {
  const float scale = half(block + 108);
  for (uint32_t i = 0; i < kSuper; ++i) {
    const float part_scale = scale * static_cast<float>(q3_scale(block + 96, i / 16));
    const int quant = two_bits(block + 32, i) - (one_bit(block, i) != 0 ? 0 : 4);
    values[i] = part_scale * static_cast<float>(quant);
  }
}

// Block: scale, minimum, scales and minima [12], and elements, which `quant_of` reads.
void expand_with_minima(const uint8_t* block, float* values,
                        int (*quant_of)(const uint8_t* block, uint32_t i)) {
  const float scale = half(block);
  const float minimum = half(block + 2);
  for (uint32_t i = 0; i < kSuper; ++i) {
    const ScaleAndMinimum part = scale_and_minimum(block + 4, i / 32);
    const float part_scale = scale * static_cast<float>(part.scale);
    const float part_minimum = minimum * static_cast<float>(part.minimum);
    values[i] = part_scale * static_cast<float>(quant_of(block, i)) - part_minimum;
  }
}

// Elements: four bits each [128].
void expand_q4_k(const uint8_t* block, float* values) {
  expand_with_minima(block, values,
                     [](const uint8_t* q, uint32_t i) { return four_bits(q + 16, i, 32); });
}

// Elements: fifth bits [32], then the lower four bits of each.
void expand_q5_k(const uint8_t* block, float* values) {
  expand_with_minima(block, values, [](const uint8_t* q, uint32_t i) {
    return four_bits(q + 48, i, 32) | one_bit(q + 16, i) << 4;
  });
}

// Block: the lower four bits [128], the upper two [64], scales [16] as int8, scale.
void expand_q6_k(const uint8_t* block, float* values) {
  const float scale = half(block + 208);
  for (uint32_t i = 0; i < kSuper; ++i) {
    const float part_scale = scale * static_cast<float>(static_cast<int8_t>(block[192 + i / 16]));
    const int quant = four_bits(block, i, 64) | two_bits(block + 128, i) << 4;
    values[i] = part_scale * static_cast<float>(quant - 32);
  }
}

// Block: float scale, int8 elements [256], and sums [16] that only products of two such blocks
// need.
void expand_q8_k(const uint8_t* block, float* values) {
  float scale;
  std::memcpy(&scale, block, sizeof scale);
  for (uint32_t i = 0; i < kSuper; ++i) {
    values[i] = scale * static_cast<float>(static_cast<int8_t>(block[4 + i]));
  }
}

// Block: scale, the upper two bits of 8 scales [2], their lower four [4], table indices [128].
void expand_iq4_xs(const uint8_t* block, float* values) {
  const float scale = half(block);
  for (uint32_t i = 0; i < kSuper; ++i) {
    const uint32_t part = i / 32;
    const int low = block[4 + part / 2] >> (part % 2 * 4) & 15;
    const int high = block[2 + part / 4] >> (part % 4 * 2) & 3;
    const float part_scale = scale * static_cast<float>((low | high << 4) - 32);
    values[i] = part_scale * static_cast<float>(kIq4Values[four_bits(block + 8, i, 16)]);
  }
}

// A byte holds five elements of -1, 0 or 1 as digits of a base-3 fraction, scaled to 256. 32 bytes
// hold the first 160 elements, 16 bytes the next 80, and 4 bytes four each. The scale follows.
void expand_tq1_0(const uint8_t* block, float* values) {
  constexpr uint8_t kPowers[] = {1, 3, 9, 27, 81};
  const float scale = half(block + 52);
  for (uint32_t i = 0; i < kSuper; ++i) {
    const uint32_t run = i < 160 ? 32 : i < 240 ? 16 : 4;      // bytes that lie side by side
    const uint32_t first = i < 160 ? 0 : i < 240 ? 160 : 240;  // element of the first of them
    const uint8_t* const bytes = block + first / 5;
    const auto shifted =
        static_cast<uint8_t>(bytes[(i - first) % run] * kPowers[(i - first) / run]);
    values[i] = scale * static_cast<float>((shifted * 3 >> 8) - 1);
  }
}

// Block: two bits per element [64], where 1 stands for zero; scale.
void expand_tq2_0(const uint8_t* block, float* values) {
  const float scale = half(block + 64);
  for (uint32_t i = 0; i < kSuper; ++i) {
    values[i] = scale * static_cast<float>(two_bits(block, i) - 1);
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
    {kGgufF64, "F64", 1, 8, expand_f64},
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

std::vector<double> read_gguf_f64(std::span<const std::byte> data) {
  std::vector<double> values(data.size() / sizeof(double));
  std::memcpy(values.data(), data.data(), values.size() * sizeof(double));
  return values;
}

ScaledIntegers read_gguf_q4(std::span<const std::byte> data, uint32_t columns) {
  const size_t block_bytes = find_gguf_block(kGgufQ4)->bytes;
  const size_t blocks = data.size() / block_bytes;
  ScaledIntegers integers{.rows = static_cast<uint32_t>(blocks * kSmall / columns),
                          .columns = columns,
                          .group = kSmall};
  integers.values.reserve(blocks * kSmall);
  integers.scales.reserve(blocks);
  const auto* bytes = reinterpret_cast<const uint8_t*>(data.data());
  for (size_t i = 0; i < blocks; ++i) {
    const uint8_t* const block = bytes + i * block_bytes;
    integers.scales.push_back(half(block));
    for (uint32_t j = 0; j < kSmall; ++j) {
      integers.values.push_back(static_cast<int8_t>(integer_q4_0(block, j)));
    }
  }
  return integers;
}

}  // namespace arenite::convert
