// SPDX-License-Identifier: Apache-2.0
// Appends to a packed cache in int8: each key and each row of values with a scale of its own.
#include <algorithm>
#include <cmath>

#include "core/bit_cast.h"
#include "ops/kv_cache.h"

namespace arenite {

// Bits of positive numbers are ordered as the numbers are, with infinity and NaN above all; and
// compilers turn the largest of integers into vector instructions, but not that of floats.
Int8Row::Int8Row(std::span<const float> row) {
  constexpr float kMost = 127.0f;
  constexpr float kSmallest = 1e-35f;  // below, a scale would lose digits, or be none
  uint32_t largest = 0;
  for (const float x : row) largest = std::max(largest, bit_cast<uint32_t>(x) & 0x7FFFFFFFu);
  if (largest < bit_cast<uint32_t>(kSmallest)) return;
  if (largest >= bit_cast<uint32_t>(INFINITY)) {
    scale_ = NAN;
    return;
  }
  scale_ = bit_cast<float>(largest) / kMost;
  per_unit_ = kMost / bit_cast<float>(largest);
}

int8_t Int8Row::number(float x) const {
  constexpr float kMagic = 12582912.0f;  // 1.5 * 2^23: the sum is rounded to a whole number
  return static_cast<int8_t>(bit_cast<int32_t>(x * per_unit_ + kMagic) - bit_cast<int32_t>(kMagic));
}

void KvCache::append_int8_keys(uint32_t kv_head, uint32_t position, const ConstMatrix& keys) {
  const CacheLayout layout = layout_;
  const Packing packing = layout.packing();
  const uint32_t inputs = layout.shape().head_dim;
  const uint32_t nr = packing.nr;
  for (uint32_t row = 0; row < keys.rows; ++row) {
    const uint32_t lane = (position + row) % nr;
    std::byte* const panel = head(kv_head) + layout.key_panel(position + row - lane);
    if (lane == 0) std::fill_n(reinterpret_cast<float*>(panel), nr, 0.0f);
    const float* const key = keys.row(row);
    const Int8Row numbers({key, inputs});
    auto* to = reinterpret_cast<int8_t*>(panel + panel_place(packing, 0, lane).byte);
    for (uint32_t i = 0; i < inputs; ++i, to += nr) *to = numbers.number(key[i]);
    *reinterpret_cast<float*>(panel + panel_scale(packing, inputs, 0, lane)) = numbers.scale();
  }
}

void KvCache::append_int8_values(uint32_t kv_head, uint32_t position, const ConstMatrix& values) {
  const CacheLayout layout = layout_;
  const uint32_t nr = layout.nr();
  std::byte* const head_begin = head(kv_head);
  for (uint32_t row = 0; row < values.rows; ++row) {
    const uint32_t page = (position + row) / kPagePositions;
    const uint32_t place = (position + row) % kPagePositions;
    const bool is_last = row + 1 == values.rows || place + 1 == kPagePositions;
    const float* const value = values.row(row);
    const Int8Row numbers({value, layout.shape().value_dim});
    *reinterpret_cast<float*>(head_begin + layout.value_scale(position + row)) = numbers.scale();
    for (uint32_t panel = 0; panel < layout.value_panels(); ++panel) {
      const uint32_t column = panel * nr;
      const uint32_t columns = std::min(layout.shape().value_dim - column, nr);
      std::byte* const begin = head_begin + layout.value_panel(page, panel);
      if (place == 0) std::fill_n(reinterpret_cast<float*>(begin), nr, 0.0f);
      auto* const to = reinterpret_cast<int8_t*>(begin + layout.value_row(place));
      for (uint32_t i = 0; i < columns; ++i) to[i] = numbers.number(value[column + i]);
      if (is_last) {
        std::fill_n(reinterpret_cast<float*>(begin + layout.value_row(place + 1)), nr, 1.0f);
      }
    }
  }
}

}  // namespace arenite
