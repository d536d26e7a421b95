// SPDX-License-Identifier: Apache-2.0
// One function for each type, which says where in the block the bits of element `i` lie.
#include "convert/gguf/gguf_super_blocks.h"

#include <cstring>

#include "convert/files/half_floats.h"

namespace arenite::convert {
namespace {

constexpr uint32_t kElements = kSuperBlockElements;

float half(const uint8_t* from) {
  uint16_t bits;
  std::memcpy(&bits, from, sizeof bits);
  return float_of_f16(bits);
}

// Two bits of element `i`: 32 bytes hold 128 elements, the first 32 in their lowest bits.
int two_bits(const uint8_t* quants, uint32_t i) {
  return quants[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
}

// Four bits of element `i`: `bytes` of them hold first as many elements in their low halves, then
// as many in their high halves.
int four_bits(const uint8_t* quants, uint32_t i, uint32_t bytes) {
  const int both = quants[i / (2 * bytes) * bytes + i % bytes];
  return i / bytes % 2 == 0 ? both & 15 : both >> 4;
}

// One bit of element `i`: 32 bytes hold all, the first 32 elements in their lowest bits.
int one_bit(const uint8_t* bits, uint32_t i) { return bits[i % 32] >> (i / 32) & 1; }

// Scale and minimum of each 32 elements in Q4_K and Q5_K, 6 bits each. The first four of both lie
// in bytes of their own, whose two upper bits belong to the last four.
struct ScaleAndMinimum {
  int scale, minimum;
};
ScaleAndMinimum scale_and_minimum(const uint8_t* packed, uint32_t part) {
  if (part < 4) return {packed[part] & 63, packed[part + 4] & 63};
  return {(packed[part + 4] & 15) | (packed[part - 4] >> 6 << 4),
          (packed[part + 4] >> 4) | (packed[part] >> 6 << 4)};
}

// The scale of each 16 elements in Q3_K, 6 bits: the lower four in 8 bytes, the upper two in 4.
int q3_scale(const uint8_t* packed, uint32_t part) {
  const int low = part < 8 ? packed[part] & 15 : packed[part - 8] >> 4;
  const int high = packed[8 + part % 4] >> (part / 4 * 2) & 3;
  return (low | high << 4) - 32;
}

}  // namespace

// scales and minima [16], two bits an element [64], scale, minimum.
void expand_q2_k(const uint8_t* block, float* values) {
  const float scale = half(block + 80);
  const float minimum = half(block + 82);
  for (uint32_t i = 0; i < kElements; ++i) {
    const int packed = block[i / 16];
    const float part_scale = scale * static_cast<float>(packed & 15);
    const float part_minimum = minimum * static_cast<float>(packed >> 4);
    values[i] = part_scale * static_cast<float>(two_bits(block + 16, i)) - part_minimum;
  }
}

// Third bits [32], the lower two bits [64], scales [12], scale. An element without its third bit is
// below zero.
void expand_q3_k(const uint8_t* block, float* values) {
  const float scale = half(block + 108);
  for (uint32_t i = 0; i < kElements; ++i) {
    const float part_scale = scale * static_cast<float>(q3_scale(block + 96, i / 16));
    const int quant = two_bits(block + 32, i) - (one_bit(block, i) != 0 ? 0 : 4);
    values[i] = part_scale * static_cast<float>(quant);
  }
}

// Scale, minimum, scales and minima [12], four bits an element [128].
void expand_q4_k(const uint8_t* block, float* values) {
  const float scale = half(block);
  const float minimum = half(block + 2);
  for (uint32_t i = 0; i < kElements; ++i) {
    const ScaleAndMinimum part = scale_and_minimum(block + 4, i / 32);
    const float part_scale = scale * static_cast<float>(part.scale);
    const float part_minimum = minimum * static_cast<float>(part.minimum);
    values[i] = part_scale * static_cast<float>(four_bits(block + 16, i, 32)) - part_minimum;
  }
}

// As Q4_K, with the fifth bits [32] in front of the other four.
void expand_q5_k(const uint8_t* block, float* values) {
  const float scale = half(block);
  const float minimum = half(block + 2);
  for (uint32_t i = 0; i < kElements; ++i) {
    const ScaleAndMinimum part = scale_and_minimum(block + 4, i / 32);
    const float part_scale = scale * static_cast<float>(part.scale);
    const float part_minimum = minimum * static_cast<float>(part.minimum);
    const int quant = four_bits(block + 48, i, 32) | one_bit(block + 16, i) << 4;
    values[i] = part_scale * static_cast<float>(quant) - part_minimum;
  }
}

// The lower four bits [128], the upper two [64], scales [16] as int8, scale.
void expand_q6_k(const uint8_t* block, float* values) {
  const float scale = half(block + 208);
  for (uint32_t i = 0; i < kElements; ++i) {
    const float part_scale = scale * static_cast<float>(static_cast<int8_t>(block[192 + i / 16]));
    const int quant = four_bits(block, i, 64) | two_bits(block + 128, i) << 4;
    values[i] = part_scale * static_cast<float>(quant - 32);
  }
}

// Scale as float, an int8 an element [256], sums that only products of two such blocks need [16].
void expand_q8_k(const uint8_t* block, float* values) {
  float scale;
  std::memcpy(&scale, block, sizeof scale);
  for (uint32_t i = 0; i < kElements; ++i) {
    values[i] = scale * static_cast<float>(static_cast<int8_t>(block[4 + i]));
  }
}

// Scale, the upper two bits of 8 scales [2], their lower four [4], places in the table [128].
void expand_iq4_xs(const uint8_t* block, float* values) {
  const float scale = half(block);
  for (uint32_t i = 0; i < kElements; ++i) {
    const uint32_t part = i / 32;
    const int low = block[4 + part / 2] >> (part % 2 * 4) & 15;
    const int high = block[2 + part / 4] >> (part % 4 * 2) & 3;
    const float part_scale = scale * static_cast<float>((low | high << 4) - 32);
    values[i] = part_scale * static_cast<float>(kIq4Values[four_bits(block + 8, i, 16)]);
  }
}

// Five elements of -1, 0 or 1 in a byte, which is the fraction of 256 that they make as digits of
// base 3: 32 bytes hold the first 160, 16 bytes the next 80, and 4 bytes four each. Then the scale.
void expand_tq1_0(const uint8_t* block, float* values) {
  constexpr uint8_t kPowers[] = {1, 3, 9, 27, 81};
  const float scale = half(block + 52);
  for (uint32_t i = 0; i < kElements; ++i) {
    const uint32_t run = i < 160 ? 32 : i < 240 ? 16 : 4;      // bytes that lie side by side
    const uint32_t first = i < 160 ? 0 : i < 240 ? 160 : 240;  // element of the first of them
    const uint8_t* const bytes = block + first / 5;
    const auto shifted =
        static_cast<uint8_t>(bytes[(i - first) % run] * kPowers[(i - first) / run]);
    values[i] = scale * static_cast<float>((shifted * 3 >> 8) - 1);
  }
}

// Two bits an element [64], 1 stands for zero; scale.
void expand_tq2_0(const uint8_t* block, float* values) {
  const float scale = half(block + 64);
  for (uint32_t i = 0; i < kElements; ++i) {
    values[i] = scale * static_cast<float>(two_bits(block, i) - 1);
  }
}

}  // namespace arenite::convert
