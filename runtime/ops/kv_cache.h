// SPDX-License-Identifier: Apache-2.0
// The packed keys and values of one attention op and one sequence, in the arena. packing.h
// says where everything lies.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/matrix.h"
#include "core/packing.h"
#include "kernels/kernel_set.h"

namespace arenite {

class KvCache {
 public:
  // `data` holds layout.floats() floats, and is not owned. Where the layout holds fewer positions
  // than the sequence has, these are a multiple of kPagePositions.
  KvCache(float* data, const CacheLayout& layout) : data_(data), layout_(layout) {}

  // Writes the keys and values of one head for positions [position, position + keys.rows), and a
  // row of zeros in front of each panel or page that begins among them.
  // keys [rows, head_dim] and values [rows, value_dim]; keys are ignored where head_dim is 0.
  void append(const KernelSet& kernels, uint32_t kv_head, uint32_t position,
              const ConstMatrix& keys, const ConstMatrix& values);

  // The panel of keys that begins at `position`. REQUIRES: a multiple of nr.
  const float* keys(uint32_t kv_head, uint32_t position) const {
    return head(kv_head) + layout_.key_panel(position);
  }

  // Positions from `position` on whose panels of keys follow each other in memory.
  uint32_t keys_in_a_row(uint32_t position) const {
    return layout_.positions() - position % layout_.positions();
  }

  // One panel of nr value columns of one page, beginning with its row of zeros.
  const float* values(uint32_t kv_head, uint32_t page, uint32_t panel) const {
    return head(kv_head) + layout_.value_panel(page, panel);
  }

  // Positions of a page. A kernel that multiplies with a whole page passes from panel to panel by
  // itself; with part of a page, it is called for each panel.
  uint32_t page_positions(uint32_t page) const { return layout_.page_positions(page); }

  uint32_t value_panels() const { return layout_.value_panels(); }

 private:
  float* head(uint32_t kv_head) const { return data_ + kv_head * layout_.head_floats(); }
  void append_keys(const KernelSet& kernels, uint32_t kv_head, uint32_t position,
                   const ConstMatrix& keys);
  void append_values(uint32_t kv_head, uint32_t position, const ConstMatrix& values);

  float* data_;
  CacheLayout layout_;
};

}  // namespace arenite
