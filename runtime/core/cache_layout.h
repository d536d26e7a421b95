// SPDX-License-Identifier: Apache-2.0
// Byte layout of the KV cache: its size, and the offset of each element.
#pragma once

#include <cstddef>
#include <cstdint>

#include "arenite/arena_formula.h"
#include "core/needs.h"
#include "core/packing.h"

namespace arenite {

// For int8 kernels with integer arithmetic. kIntegerGroup: positions whose values in one column are
// adjacent. kIntegerRows: most queries per kernel call. kIntegerBlock: positions whose weighted
// values are summed in integers before the sum becomes a float.
inline constexpr uint32_t kIntegerGroup = 8;
inline constexpr uint32_t kIntegerRows = 4;
inline constexpr uint32_t kIntegerBlock = 32;

// Bytes from one key to the next for integer kernels: head_dim int8, padded to whole 32-bit words.
constexpr size_t integer_key_bytes(size_t dims) { return (dims + 3) / 4 * 4; }

// Whether a cache has this packing in int8. The result is a compile-time constant in builds without
// int8 caches.
constexpr bool holds_int8(Packing of_cache) {
  return linked(Need::kInt8Cache) && of_cache.type == as_weights(TensorType::kInt8);
}

struct CacheShape {
  uint32_t kv_heads = 0;
  uint32_t head_dim = 0;  // 0: no keys are kept; scores do not depend on keys
  uint32_t value_dim = 0;

  friend bool operator==(const CacheShape&, const CacheShape&) = default;
};

// The cache of one attention op for one sequence. Each key/value head holds, in this order:
//   keys    panels of nr positions, packed as GEMM weights with a zero bias;
//   scales  int8 only: the scale of the values of each position, float32;
//   values  pages of kPagePositions positions. A page is a list of panels of nr value columns, and
//           a panel is zeros float32 [nr], the positions [positions of the page][nr] and, int8
//           only, kOneRows more rows.
// A panel of values is packed as GEMM weights, too. Each page starts with its own row of zeros, so
// that a product over the cache can start at any page: a sliding window does not pay for earlier
// pages.
//
// An int8 kernel reads the scales of the columns after the last row that it multiplies. In panels
// of keys their place is fixed, since head_dim is constant. In panels of values the kOneRows rows
// after the last held position are float32 ones, and each new position moves these on.
//
// Kernels with integer arithmetic (kernel_set.h) use the same bytes in another order: first the
// keys of all positions, each padded to whole words, then their scales; a page of values holds, for
// each group of kIntegerGroup positions, [value_dim][kIntegerGroup]. There are no rows of zeros and
// ones.
//
// Offsets are in bytes from the start of a head. They do not overflow if the arena formula does
// not.
class CacheLayout {
 public:
  // Rows of nr int8 elements that have the size of one row of nr floats.
  static constexpr uint32_t kOneRows = sizeof(float);

  constexpr CacheLayout(Packing packing, const CacheShape& shape, uint32_t positions,
                        bool for_integers = false)
      : packing_(packing),
        for_integers_(for_integers),
        nr_(packing.nr),
        shape_(shape),
        positions_(panels_of(packing, positions) * packing.nr),
        pages_(value_pages(positions)),
        value_panels_(panels_of(packing, shape.value_dim)) {}

  constexpr Packing packing() const { return packing_; }
  // A uint32_t, because GCC copies fewer than 256 floats by slow string instructions if it knows
  // the bound.
  constexpr uint32_t nr() const { return nr_; }
  constexpr const CacheShape& shape() const { return shape_; }

  constexpr bool is_int8() const { return holds_int8(packing_); }
  constexpr bool for_integers() const { return is_int8() && for_integers_; }
  // Bytes of one element of a key or a value.
  constexpr uint32_t number_bytes() const { return is_int8() ? 1 : sizeof(float); }

  constexpr size_t bytes() const { return head_bytes() * shape_.kv_heads; }
  constexpr size_t head_bytes() const {
    return value_begin() +
           size_t{value_panels()} * row_bytes() * (size_t{positions_} + extra_rows() * pages_);
  }
  constexpr uint32_t value_panels() const { return value_panels_; }

  // Positions held, a multiple of nr. Later positions overwrite the oldest: the cache is a ring
  // buffer.
  constexpr uint32_t positions() const { return positions_; }
  constexpr uint32_t pages() const { return pages_; }

  // Offset of the panel of keys that starts at `position`. REQUIRES: a multiple of nr.
  constexpr size_t key_panel(uint32_t position) const {
    return size_t{position % positions_} * key_bytes();
  }
  // Offsets within a panel of keys, for the position at `lane`: an element of the key and, int8
  // only, its scale.
  constexpr size_t key_number(uint32_t dimension, uint32_t lane) const {
    return nr_ * sizeof(float) + (size_t{dimension} * nr_ + lane) * number_bytes();
  }
  constexpr size_t key_scale(uint32_t lane) const {
    return key_number(shape_.head_dim, 0) + lane * sizeof(float);
  }
  // Offset of the scale of the values of a position, int8 only. The scales of later positions
  // follow up to the end of the cache.
  constexpr size_t value_scale(uint32_t position) const {
    return size_t{positions_} * key_bytes() + position % positions_ * sizeof(float);
  }
  // Offset of one panel of value columns of one page.
  constexpr size_t value_panel(uint32_t page, uint32_t panel) const {
    const uint32_t place = page % pages_;
    const size_t rows_before = size_t{place} * value_panels() * (kPagePositions + extra_rows());
    return value_begin() + rows_before * row_bytes() + panel * value_panel_bytes(place);
  }
  // Distance in bytes from one panel of a page to the next.
  constexpr size_t value_panel_bytes(uint32_t page) const {
    return size_t{page_positions(page) + extra_rows()} * row_bytes();
  }
  // Offsets of a key and of its scale, for integer kernels.
  constexpr size_t integer_key(uint32_t position) const {
    return position % positions_ * integer_key_bytes(shape_.head_dim);
  }
  constexpr size_t integer_key_scale(uint32_t position) const {
    return positions_ * integer_key_bytes(shape_.head_dim) + position % positions_ * sizeof(float);
  }
  // Offset of the value in column 0 at index `place` of a page; the next column is kIntegerGroup
  // bytes further.
  constexpr size_t integer_value(uint32_t page, uint32_t place) const {
    return value_panel(page, 0) + size_t{place - place % kIntegerGroup} * shape_.value_dim +
           place % kIntegerGroup;
  }
  // Offset of a row within a panel of values.
  constexpr size_t value_row(uint32_t row) const { return nr_ * sizeof(float) + row * row_bytes(); }
  constexpr uint32_t page_positions(uint32_t page) const {
    const uint32_t left = positions_ - page % pages_ * kPagePositions;
    return left < kPagePositions ? left : kPagePositions;
  }

 private:
  // Bytes of the key of one position.
  constexpr size_t key_bytes() const {
    return shape_.head_dim == 0 ? 0 : size_t{shape_.head_dim} * number_bytes() + framing_bytes();
  }
  // Bytes of a key's bias and, int8 only, its scale.
  constexpr uint32_t framing_bytes() const { return is_int8() ? 2 * sizeof(float) : sizeof(float); }
  constexpr size_t value_begin() const {
    return size_t{positions_} * (key_bytes() + (is_int8() ? sizeof(float) : 0));
  }
  constexpr size_t row_bytes() const { return size_t{nr_} * number_bytes(); }
  // Rows of a values panel before and after the rows of its positions.
  constexpr uint32_t extra_rows() const { return is_int8() ? 2 * kOneRows : 1; }

  Packing packing_;
  bool for_integers_;
  uint32_t nr_;
  CacheShape shape_;
  uint32_t positions_;
  uint32_t pages_;
  uint32_t value_panels_;
};

// Returns the packing of a cache for a target whose float32 caches have the packing `f32`.
constexpr Packing packing_of_cache(Packing f32, bool is_int8) {
  if (linked(Need::kInt8Cache) && is_int8) f32.type = as_weights(TensorType::kInt8);
  return f32;
}

// Bytes that each panel of nr positions adds to a cache: keys, values and scales of all heads.
inline Checked cache_bytes_per_panel(Packing packing, const CacheShape& shape) {
  const bool is_int8 = holds_int8(packing);
  const Checked keys = shape.head_dim == 0 ? 0 : panel_bytes(packing, shape.head_dim);
  const uint64_t scales = is_int8 ? packing.nr * sizeof(float) : 0;
  const Checked values = Checked(panels_of(packing, shape.value_dim)) * packing.nr * packing.nr *
                         (is_int8 ? 1 : sizeof(float));
  return Checked(shape.kv_heads) * (keys + scales + values);
}

// Bytes that each page adds to a cache: the rows of zeros and of ones.
constexpr Checked cache_bytes_per_page(Packing packing, const CacheShape& shape) {
  const uint32_t rows = holds_int8(packing) ? 2 : 1;
  return Checked(shape.kv_heads) * panels_of(packing, shape.value_dim) * packing.nr * rows *
         sizeof(float);
}

}  // namespace arenite
