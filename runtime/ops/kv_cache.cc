// SPDX-License-Identifier: Apache-2.0
// Appends to the packed cache. Keys are transposed into panels as they come; values keep rows.
#include "ops/kv_cache.h"

#include <cstring>

namespace arenite {

size_t KvCache::floats(Packing packing, const CacheShape& shape, uint32_t positions_max) {
  const KvCache cache(nullptr, packing, shape, positions_max);
  return cache.head_floats() * shape.kv_heads;
}

void KvCache::clear() {
  const size_t row_bytes = nr_ * sizeof(float);
  for (uint32_t h = 0; h < shape_.kv_heads; ++h) {
    if (shape_.head_dim != 0) {
      for (uint32_t position = 0; position < rows_; position += nr_) {
        std::memset(head(h) + position * key_rows(), 0, row_bytes);
      }
    }
    for (uint32_t page = 0; page < pages_; ++page) {
      for (uint32_t panel = 0; panel < value_panels(); ++panel) {
        std::memset(head(h) + value_offset(page, panel), 0, row_bytes);
      }
    }
  }
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
    float* panel = head(kv_head) + size_t{position + row - lane} * key_rows();
    kernels.transpose(lanes, shape_.head_dim, keys.row(row), keys.stride * sizeof(float),
                      panel + nr_ + lane, nr_ * sizeof(float));
    row += lanes;
  }
}

void KvCache::append_values(uint32_t kv_head, uint32_t position, ConstMatrix values) {
  for (uint32_t row = 0; row < values.rows; ++row) {
    const uint32_t page = (position + row) / kPagePositions;
    const uint32_t place = (position + row) % kPagePositions;
    for (uint32_t panel = 0; panel < value_panels(); ++panel) {
      const uint32_t column = panel * nr_;
      const uint32_t left = shape_.value_dim - column;
      float* to = head(kv_head) + value_offset(page, panel) + (size_t{place} + 1) * nr_;
      std::memcpy(to, values.row(row) + column, (left < nr_ ? left : nr_) * sizeof(float));
    }
  }
}

}  // namespace arenite
