// SPDX-License-Identifier: Apache-2.0
// The packed keys and values of one attention op and one sequence, in the arena. cache_layout.h
// says where everything lies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/cache_layout.h"
#include "core/packing.h"
#include "core/views.h"
#include "kernels/kernel_set.h"

namespace arenite {

// Numbers in int8 that stand for a row of float32: those of the row are within half a scale of
// number * scale. Rows that hold NaN or infinity have the scale NaN, and rows whose numbers are all
// below 1e-35 stand for zeros. The same bits on every CPU.
class Int8Row {
 public:
  explicit Int8Row(std::span<const float> row);
  Int8Row(const KernelSet& kernels, std::span<const float> row);

  float scale() const { return steps_.step; }
  float per_unit() const { return steps_.per_unit; }  // 1 / scale
  int8_t number(float x) const;
  // Those of `count` numbers of the row, which lie apart from `to`.
  void write(const float* from, uint32_t count, int8_t* to) const;

 private:
  explicit Int8Row(float largest);

  RowSteps steps_;
};

// What a row of a query is rounded to for products in integers.
RowSteps integer_steps(const KernelSet& kernels, std::span<const float> row);

class KvCache {
 public:
  // `data` holds layout.bytes(), and is not owned. Where the layout holds fewer positions than the
  // sequence has, these are a multiple of kPagePositions.
  KvCache(std::byte* data, const CacheLayout& layout) : data_(data), layout_(layout) {}

  const CacheLayout& layout() const { return layout_; }
  bool is_int8() const { return layout_.is_int8(); }
  bool for_integers() const { return layout_.for_integers(); }

  // Writes the keys and values of one head for positions [position, position + values.rows), and
  // what frames each panel or page that begins or ends among them. Values in int8 need their end,
  // too, before they are read.
  // keys [rows, head_dim] and values [rows, value_dim]; keys are ignored where head_dim is 0.
  void append(const KernelSet& kernels, uint32_t kv_head, uint32_t position,
              const ConstMatrix& keys, const ConstMatrix& values);

  // Writes the ones that kernels for int8 read after the last of so many positions.
  void end_int8_values(uint32_t kv_head, uint32_t positions);

  // The panel of keys that begins at `position`. REQUIRES: a multiple of nr.
  const std::byte* keys(uint32_t kv_head, uint32_t position) const {
    return head(kv_head) + layout_.key_panel(position);
  }

  // Positions from `position` on whose panels of keys, and scales of values, follow each other in
  // memory.
  uint32_t positions_in_a_row(uint32_t position) const {
    return layout_.positions() - position % layout_.positions();
  }

  // The scale of the values of a position, of int8, and those of the positions after it.
  const float* value_scales(uint32_t kv_head, uint32_t position) const {
    return reinterpret_cast<const float*>(head(kv_head) + layout_.value_scale(position));
  }

  // One panel of nr value columns of one page, beginning with its row of zeros.
  const std::byte* values(uint32_t kv_head, uint32_t page, uint32_t panel) const {
    return head(kv_head) + layout_.value_panel(page, panel);
  }
  // From one to the next.
  size_t value_panel_bytes(uint32_t page) const { return layout_.value_panel_bytes(page); }
  // The same for integers: keys and their scales; and all columns of values from a position on.
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
  // A number of a key.
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
