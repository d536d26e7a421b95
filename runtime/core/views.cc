// SPDX-License-Identifier: Apache-2.0
// Reads single rows of weights. A packed row is spread over a cache line for every few elements,
// which costs little if done once per token.
#include "core/views.h"

#include <cstring>

#include "core/float_bits.h"
#include "core/needs.h"

namespace arenite {

// Out of line, so that ops, verifier and caches share one copy.
Checked panel_bytes(Packing packing, uint32_t inputs) {
  const WeightType& type = weight_type(packing.type);
  const Checked numbers = type.block != 0 ? Checked(inputs / type.block) * block_bytes(type)
                                          : padded_inputs(packing, inputs) * (type.bits / 8u);
  const uint32_t floats = uint32_t{type.floats_before} + type.floats_after;
  return (numbers + floats * sizeof(float)) * packing.nr;
}

namespace {

template <typename T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

float bfloat16(const std::byte* from) {
  return bit_cast<float>(uint32_t{load<uint16_t>(from)} << 16);
}

// Returns the int4 in half a byte, -8 to 7.
int32_t int4(std::byte byte, bool high_half) {
  const uint32_t bits = static_cast<uint32_t>(byte) << (high_half ? 24 : 28);
  return static_cast<int32_t>(bits) >> 28;
}

void read_packed_row(const WeightView& weights, uint32_t row, float* to) {
  const Packing packing = weights.packing;
  const uint32_t lane = row % packing.nr;
  const std::byte* const panel =
      weights.data + row / packing.nr * panel_bytes(packing, weights.columns).value();
  if (!kQuantizedLinked || weights.type == TensorType::kF32) {
    const float* const from = reinterpret_cast<const float*>(panel) + panel_index(packing, 0, lane);
    for (uint32_t i = 0; i < weights.columns; ++i) to[i] = from[size_t{i} * packing.nr];
    return;
  }
  const bool is_q4 = linked(Need::kQ4) && weights.type == TensorType::kQ4;
  float scale = 0.0f;  // q4: of the current block
  for (uint32_t i = 0; i < weights.columns; ++i) {
    if (i % kQ4Block == 0) {
      const std::byte* const from = panel + panel_scale(packing, weights.columns, i, lane);
      scale = is_q4 ? bfloat16(from) : load<float>(from);
    }
    const PanelPlace place = panel_place(packing, i, lane);
    const std::byte number = panel[place.byte];
    const int32_t steps =
        is_q4 ? 16 * int4(number, place.high_half) : int32_t{static_cast<int8_t>(number)};
    to[i] = static_cast<float>(steps) * scale;
  }
}

void read_plain_row(const WeightView& weights, uint32_t row, float* to) {
  const size_t bytes = plain_row_bytes(weights.type, weights.columns).value();
  const std::byte* from = weights.data + row * bytes;
  if (!kQuantizedLinked || weights.type == TensorType::kF32) {
    std::memcpy(to, from, bytes);
  } else if (!linked(Need::kQ4) || weights.type != TensorType::kQ4) {
    const float scale = load<float>(from);
    const std::byte* const numbers = from + sizeof(float);
    for (uint32_t i = 0; i < weights.columns; ++i) {
      to[i] = static_cast<float>(static_cast<int8_t>(numbers[i])) * scale;
    }
  } else {
    for (uint32_t i = 0; i < weights.columns; i += kQ4Block, from += kQ4BlockBytes) {
      const float scale = bfloat16(from);
      const std::byte* const numbers = from + sizeof(uint16_t);
      for (uint32_t j = 0; j < kQ4Block / 2; ++j) {
        to[i + j] = static_cast<float>(int4(numbers[j], false)) * scale;
        to[i + kQ4Block / 2 + j] = static_cast<float>(int4(numbers[j], true)) * scale;
      }
    }
  }
}

}  // namespace

void read_row(const WeightView& weights, uint32_t row, float* to) {
  if (weights.is_packed()) {
    read_packed_row(weights, row, to);
  } else {
    read_plain_row(weights, row, to);
  }
}

}  // namespace arenite
