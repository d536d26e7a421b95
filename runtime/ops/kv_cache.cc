// SPDX-License-Identifier: Apache-2.0
// Appends to the packed cache. Keys are transposed into panels as they come; values keep rows.
#include "ops/kv_cache.h"

#include <cstring>

namespace arenite {

void KvCache::append(const KernelSet& kernels, uint32_t kv_head, uint32_t position,
                     const ConstMatrix& keys, const ConstMatrix& values) {
  const bool has_keys = layout_.shape().head_dim != 0;
  if (is_int8()) {
    if (has_keys) append_int8_keys(kv_head, position, keys);
    append_int8_values(kv_head, position, values);
    return;
  }
  if (has_keys) append_keys(kernels, kv_head, position, keys);
  append_values(kv_head, position, values);
}

void KvCache::append_keys(const KernelSet& kernels, uint32_t kv_head, uint32_t position,
                          const ConstMatrix& keys) {
  const CacheLayout layout = layout_;  // which the compiler knows that no copy below writes to
  const Packing packing = layout.packing();
  const uint32_t nr = packing.nr;
  std::byte* const begin = head(kv_head);
  for (uint32_t row = 0; row < keys.rows;) {
    const uint32_t lane = (position + row) % nr;
    const uint32_t left = keys.rows - row;
    const uint32_t lanes = left < nr - lane ? left : nr - lane;
    float* panel = reinterpret_cast<float*>(begin + layout.key_panel(position + row - lane));
    if (lane == 0) std::memset(panel, 0, nr * sizeof(float));
    kernels.transpose(lanes, layout.shape().head_dim, keys.row(row), keys.stride * sizeof(float),
                      panel + panel_index(packing, 0, lane), nr * sizeof(float));
    row += lanes;
  }
}

void KvCache::append_values(uint32_t kv_head, uint32_t position, const ConstMatrix& values) {
  const CacheLayout layout = layout_;
  const uint32_t nr = layout.nr();
  std::byte* const head_begin = head(kv_head);
  for (uint32_t row = 0; row < values.rows;) {
    const uint32_t page = (position + row) / kPagePositions;
    const uint32_t place = (position + row) % kPagePositions;
    const uint32_t left = values.rows - row;
    const uint32_t rows = left < kPagePositions - place ? left : kPagePositions - place;
    for (uint32_t panel = 0; panel < layout.value_panels(); ++panel) {
      const uint32_t column = panel * nr;
      const uint32_t columns_left = layout.shape().value_dim - column;
      const size_t bytes = (columns_left < nr ? columns_left : nr) * sizeof(float);
      auto* const begin = reinterpret_cast<float*>(head_begin + layout.value_panel(page, panel));
      if (place == 0) std::memset(begin, 0, nr * sizeof(float));
      float* to = begin + panel_index(layout.packing(), place, 0);
      for (uint32_t i = 0; i < rows; ++i, to += nr) {
        std::memcpy(to, values.row(row + i) + column, bytes);
      }
    }
    row += rows;
  }
}

float KvCache::key(uint32_t kv_head, uint32_t position, uint32_t dimension) const {
  const Packing packing = layout_.packing();
  const uint32_t lane = position % packing.nr;
  const std::byte* const panel = keys(kv_head, position - lane);
  const std::byte* const number = panel + panel_place(packing, dimension, lane).byte;
  if (!is_int8()) return *reinterpret_cast<const float*>(number);
  const std::byte* const scale = panel + panel_scale(packing, layout_.shape().head_dim, 0, lane);
  return static_cast<float>(*reinterpret_cast<const int8_t*>(number)) *
         *reinterpret_cast<const float*>(scale);
}

}  // namespace arenite
