// SPDX-License-Identifier: Apache-2.0
// The packed keys and values of one attention op and one sequence, in the arena. cache_layout.h
// defines where each element lies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/cache_layout.h"
#include "core/packing.h"
#include "core/views.h"
#include "kernels/kernel_set.h"

namespace arenite {

// Quantizes a row of float32 to int8: number * scale is within half a scale of the element, with
// scale = largest magnitude / 127. The scale is NaN if the row holds NaN or infinity; rows below
// 1e-35 become zeros. The bits are the same on every CPU.
class Int8Row {
 public:
  explicit Int8Row(std::span<const float> row);
  Int8Row(const KernelSet& kernels, std::span<const float> row);

  float scale() const { return steps_.step; }
  float per_unit() const { return steps_.per_unit; }  // 1 / scale
  int8_t number(float x) const;
  // Quantizes `count` elements of the row. `from` and `to` do not overlap.
  void write(const float* from, uint32_t count, int8_t* to) const;

 private:
  explicit Int8Row(float largest);

  RowSteps steps_;
};

// Returns the steps to which a row of a query is rounded for integer products.
RowSteps integer_steps(const KernelSet& kernels, std::span<const float> row);

class KvCache {
 public:
  // `data` holds layout.bytes() and is not owned. If the layout holds fewer positions than the
  // sequence has, it is a ring of a multiple of kPagePositions.
  KvCache(std::byte* data, const CacheLayout& layout) : data_(data), layout_(layout) {}

  const CacheLayout& layout() const { return layout_; }
  bool is_int8() const { return layout_.is_int8(); }
  bool for_integers() const { return layout_.for_integers(); }

  // Writes the keys [rows, head_dim] and values [rows, value_dim] of one head for positions
  // [position, position + rows), and the framing of each panel or page that begins or ends among
  // them. Keys are ignored if head_dim is 0. Values in int8 are complete only after
  // end_int8_values().
  void append(const KernelSet& kernels, uint32_t kv_head, uint32_t position,
              const ConstMatrix& keys, const ConstMatrix& values);

  // Writes the ones that int8 kernels read after the last of `positions` positions.
  void end_int8_values(uint32_t kv_head, uint32_t positions);

  // Returns the panel of keys that begins at `position`. REQUIRES: a multiple of nr.
  const std::byte* keys(uint32_t kv_head, uint32_t position) const {
    return head(kv_head) + layout_.key_panel(position);
  }

  // Returns how many positions from `position` on are contiguous in panels of keys and scales of
  // values.
  uint32_t positions_in_a_row(uint32_t position) const {
    return layout_.positions() - position % layout_.positions();
  }

  // Returns the scales of int8 values from `position` on.
  const float* value_scales(uint32_t kv_head, uint32_t position) const {
    return reinterpret_cast<const float*>(head(kv_head) + layout_.value_scale(position));
  }

  // Returns a panel of nr value columns of a page; its first row is zeros.
  const std::byte* values(uint32_t kv_head, uint32_t page, uint32_t panel) const {
    return head(kv_head) + layout_.value_panel(page, panel);
  }
  size_t value_panel_bytes(uint32_t page) const { return layout_.value_panel_bytes(page); }
  // For integer kernels: keys, their scales, and all columns of values, from a position on.
  const int8_t* integer_keys(uint32_t kv_head, uint32_t position) const {
    return reinterpret_cast<const int8_t*>(head(kv_head) + layout_.integer_key(position));
  }
  const float* integer_key_scales(uint32_t kv_head, uint32_t position) const {
    return reinterpret_cast<const float*>(head(kv_head) + layout_.integer_key_scale(position));
  }
  // REQUIRES: a multiple of kIntegerBlock.
  const std::byte* integer_values(uint32_t kv_head, uint32_t position) const {
    return head(kv_head) +
           layout_.integer_value(position / kPagePositions, position % kPagePositions);
  }
  // Returns an element of a key, dequantized.
  float key(uint32_t kv_head, uint32_t position, uint32_t dimension) const;

 private:
  std::byte* head(uint32_t kv_head) const { return data_ + kv_head * layout_.head_bytes(); }
  void append_keys(const KernelSet& kernels, uint32_t kv_head, uint32_t position,
                   const ConstMatrix& keys);
  void append_values(uint32_t kv_head, uint32_t position, const ConstMatrix& values);
  void append_int8_keys(uint32_t kv_head, uint32_t position, const ConstMatrix& keys);
  void append_int8_values(uint32_t kv_head, uint32_t position, const ConstMatrix& values);
  void append_for_integers(const KernelSet& kernels, uint32_t kv_head, uint32_t position,
                           const ConstMatrix& keys, const ConstMatrix& values);

  std::byte* data_;
  CacheLayout layout_;
};

}  // namespace arenite
