// SPDX-License-Identifier: Apache-2.0
// Appends to the packed cache. Keys are transposed into panels as they come; values keep rows.
#include "ops/kv_cache.h"

#include <cstring>

namespace arenite {

size_t KvCache::floats(Packing packing, const CacheShape& shape, uint32_t positions) {
  const KvCache cache(nullptr, packing, shape, positions);
  return cache.head_floats() * shape.kv_heads;
}

void KvCache::append(const KernelSet& kernels, uint32_t kv_head, uint32_t position,
                     ConstMatrix keys, ConstMatrix values) {
  if (shape_.head_dim != 0) append_keys(kernels, kv_head, position, keys);
  append_values(kv_head, position, values);
}

void KvCache::append_keys(const KernelSet& kernels, uint32_t kv_head, uint32_t position,
                          ConstMatrix keys) {
  for (uint32_t row = 0; row < keys.rows;) {
    const uint32_t lane = (position + row) % nr_;
    const uint32_t left = keys.rows - row;
    const uint32_t lanes = left < nr_ - lane ? left : nr_ - lane;
    float* panel = head(kv_head) + size_t{(position + row - lane) % rows_} * key_rows();
    if (lane == 0) std::memset(panel, 0, nr_ * sizeof(float));
    kernels.transpose(lanes, shape_.head_dim, keys.row(row), keys.stride * sizeof(float),
                      panel + nr_ + lane, nr_ * sizeof(float));
    row += lanes;
  }
}

void KvCache::append_values(uint32_t kv_head, uint32_t position, ConstMatrix values) {
  for (uint32_t row = 0; row < values.rows; ++row) {
    const uint32_t page = (position + row) / kPagePositions % pages_;
    const uint32_t place = (position + row) % kPagePositions;
    for (uint32_t panel = 0; panel < value_panels(); ++panel) {
      const uint32_t column = panel * nr_;
      const uint32_t left = shape_.value_dim - column;
      float* const begin = head(kv_head) + value_offset(page, panel);
      if (place == 0) std::memset(begin, 0, nr_ * sizeof(float));
      std::memcpy(begin + (size_t{place} + 1) * nr_, values.row(row) + column,
                  (left < nr_ ? left : nr_) * sizeof(float));
    }
  }
}

}  // namespace arenite
