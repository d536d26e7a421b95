// SPDX-License-Identifier: Apache-2.0
// The packed keys and values of one attention op and one sequence, in the arena. packing.h
// describes the layout; this file walks it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/matrix.h"
#include "core/packing.h"
#include "kernels/kernel_set.h"

namespace arenite {

class KvCache {
 public:
  // `data` holds floats(packing, shape, positions) floats, and is not owned. Positions beyond
  // `positions` take the place of the oldest: then the cache is a ring, and `positions` a
  // multiple of kPagePositions.
  KvCache(float* data, Packing packing, const CacheShape& shape, uint32_t positions)
      : data_(data),
        nr_(packing.nr),
        shape_(shape),
        rows_(key_panels(packing, positions) * packing.nr),
        pages_(value_pages(positions)) {}

  // Floats of a cache for one sequence. No overflow if the arena formula has none.
  static size_t floats(Packing packing, const CacheShape& shape, uint32_t positions);

  // Writes the keys and values of one head for positions [position, position + keys.rows), and a
  // row of zeros in front of each panel or page that begins among them.
  // keys [rows, head_dim] and values [rows, value_dim]; keys are ignored where head_dim is 0.
  void append(const KernelSet& kernels, uint32_t kv_head, uint32_t position, ConstMatrix keys,
              ConstMatrix values);

  // The panel of keys that begins at `position`. REQUIRES: a multiple of nr.
  const float* keys(uint32_t kv_head, uint32_t position) const {
    return head(kv_head) + size_t{position % rows_} * key_rows();
  }

  // Positions from `position` on whose panels of keys follow each other in memory.
  uint32_t keys_in_a_row(uint32_t position) const { return rows_ - position % rows_; }

  // One panel of nr value columns of one page, beginning with its row of zeros.
  const float* values(uint32_t kv_head, uint32_t page, uint32_t panel) const {
    return head(kv_head) + value_offset(page % pages_, panel);
  }

  // Positions of a page. A kernel that multiplies with a whole page passes from panel to panel by
  // itself; with part of a page, it is called for each panel.
  uint32_t page_rows(uint32_t page) const {
    const uint32_t left = rows_ - page % pages_ * kPagePositions;
    return left < kPagePositions ? left : kPagePositions;
  }

  uint32_t value_panels() const { return div_up(shape_.value_dim, nr_); }

 private:
  size_t key_rows() const { return shape_.head_dim == 0 ? 0 : size_t{shape_.head_dim} + 1; }
  size_t head_floats() const {
    return rows_ * key_rows() + size_t{value_panels()} * nr_ * (size_t{rows_} + pages_);
  }
  float* head(uint32_t kv_head) const { return data_ + kv_head * head_floats(); }
  size_t value_offset(uint32_t page, uint32_t panel) const {
    const size_t pages_before = size_t{page} * value_panels() * (kPagePositions + 1);
    return rows_ * key_rows() + (pages_before + size_t{panel} * (page_rows(page) + 1)) * nr_;
  }

  void append_keys(const KernelSet& kernels, uint32_t kv_head, uint32_t position, ConstMatrix keys);
  void append_values(uint32_t kv_head, uint32_t position, ConstMatrix values);

  float* data_;
  uint32_t nr_;
  CacheShape shape_;
  uint32_t rows_;  // positions, rounded up to nr
  uint32_t pages_;
};

}  // namespace arenite
