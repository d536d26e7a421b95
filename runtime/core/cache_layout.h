// SPDX-License-Identifier: Apache-2.0
// The byte layout of the packed key/value cache: how large it is and where an element lies.
#pragma once

#include <cstddef>
#include <cstdint>

#include "arenite/arena_formula.h"
#include "core/needs.h"
#include "core/packing.h"

namespace arenite {

// Positions whose values in a column follow each other, and those that integers sum up before the
// sum becomes a float.
inline constexpr uint32_t kIntegerGroup = 8;
inline constexpr uint32_t kIntegerRows = 4;  // of queries, at most, that integers take at once
inline constexpr uint32_t kIntegerBlock = 32;

// Bytes from one key that integers read to the next.
constexpr size_t integer_key_bytes(size_t dims) { return (dims + 3) / 4 * 4; }

struct CacheShape {
  uint32_t kv_heads = 0;
  uint32_t head_dim = 0;  // 0: no keys are kept (the mask alone gives the scores)
  uint32_t value_dim = 0;

  friend bool operator==(const CacheShape&, const CacheShape&) = default;
};

// The cache of one attention op, for one sequence; of each key/value head
//   keys    panels of nr positions: what a GEMM kernel reads as weights, with a bias of zeros;
//   scales  of int8: what the values of each position were divided by, in float32;
//   values  pages of kPagePositions positions, each a list of panels of nr value columns: a row of
//           zeros [nr] in float32, the positions [positions in the page][nr], and of int8 kOneRows
//           more rows.
// A panel of values is weights, too. A page starts with its own row of zeros so that a product
// over the cache can start at any page: a window does not pay for earlier pages.
//
// A kernel for int8 reads the columns' scales after the last row that it multiplies with. Those of
// keys have their place, as head_dim never changes; with values, kOneRows rows after the last
// position held are ones in float32, and each new position moves them on.
//
// For kernels that multiply in integers (kernel_set.h) numbers lie in another order, in the same
// bytes: the keys of all positions, each padded to whole words, then their scales; and a page of
// values has, for each kIntegerGroup positions, of each column their numbers. There are no rows of
// zeros and ones.
//
// Offsets are in bytes from the start of a head. No overflow if the arena formula has none.
class CacheLayout {
 public:
  // How many rows of int8 take the place of one of float32.
  static constexpr uint32_t kOneRows = sizeof(float);

  // `packing` is that of the cache's type.
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
  // In 32 bits: GCC copies what it knows to be below 256 floats by slow string instructions.
  constexpr uint32_t nr() const { return nr_; }
  constexpr const CacheShape& shape() const { return shape_; }

  // The compiler knows the answer in builds without caches in int8.
  constexpr bool is_int8() const {
    return linked(Need::kInt8Cache) && packing_.type == TensorType::kW8;
  }
  constexpr bool for_integers() const { return is_int8() && for_integers_; }
  // Of one number of a key or a value.
  constexpr uint32_t number_bytes() const { return is_int8() ? 1 : sizeof(float); }

  // Bytes of all heads.
  constexpr size_t bytes() const { return head_bytes() * shape_.kv_heads; }
  constexpr size_t head_bytes() const {
    return value_begin() +
           size_t{value_panels()} * row_bytes() * (size_t{positions_} + extra_rows() * pages_);
  }
  constexpr uint32_t value_panels() const { return value_panels_; }

  // Positions beyond those that it holds take the place of the oldest: then it is a ring.
  constexpr uint32_t positions() const { return positions_; }  // a multiple of nr
  constexpr uint32_t pages() const { return pages_; }

  // The panel of keys that begins at `position`. REQUIRES: a multiple of nr.
  constexpr size_t key_panel(uint32_t position) const {
    return size_t{position % positions_} * key_bytes();
  }
  // Within a panel of keys, a number of the one at `lane`, and of int8 its scale.
  constexpr size_t key_number(uint32_t dimension, uint32_t lane) const {
    return nr_ * sizeof(float) + (size_t{dimension} * nr_ + lane) * number_bytes();
  }
  constexpr size_t key_scale(uint32_t lane) const {
    return key_number(shape_.head_dim, 0) + lane * sizeof(float);
  }
  // The scale of the values of a position, of int8; those of later positions follow, to the end of
  // the cache.
  constexpr size_t value_scale(uint32_t position) const {
    return size_t{positions_} * key_bytes() + position % positions_ * sizeof(float);
  }
  // One panel of value columns of one page.
  constexpr size_t value_panel(uint32_t page, uint32_t panel) const {
    const uint32_t place = page % pages_;
    const size_t rows_before = size_t{place} * value_panels() * (kPagePositions + extra_rows());
    return value_begin() + rows_before * row_bytes() + panel * value_panel_bytes(place);
  }
  // From one panel of a page to the next.
  constexpr size_t value_panel_bytes(uint32_t page) const {
    return size_t{page_positions(page) + extra_rows()} * row_bytes();
  }
  // The same for integers.
  constexpr size_t integer_key(uint32_t position) const {
    return position % positions_ * integer_key_bytes(shape_.head_dim);
  }
  constexpr size_t integer_key_scale(uint32_t position) const {
    return positions_ * integer_key_bytes(shape_.head_dim) + position % positions_ * sizeof(float);
  }
  // The number of a position of a page in column 0; that in the next column is kIntegerGroup bytes
  // further.
  constexpr size_t integer_value(uint32_t page, uint32_t place) const {
    return value_panel(page, 0) + size_t{place - place % kIntegerGroup} * shape_.value_dim +
           place % kIntegerGroup;
  }
  // A row of such a panel.
  constexpr size_t value_row(uint32_t row) const { return nr_ * sizeof(float) + row * row_bytes(); }
  constexpr uint32_t page_positions(uint32_t page) const {
    const uint32_t left = positions_ - page % pages_ * kPagePositions;
    return left < kPagePositions ? left : kPagePositions;
  }

 private:
  // Of one position.
  constexpr size_t key_bytes() const {
    return shape_.head_dim == 0 ? 0 : size_t{shape_.head_dim} * number_bytes() + framing_bytes();
  }
  // Its bias, and of int8 its scale.
  constexpr uint32_t framing_bytes() const { return is_int8() ? 2 * sizeof(float) : sizeof(float); }
  constexpr size_t value_begin() const {
    return size_t{positions_} * (key_bytes() + (is_int8() ? sizeof(float) : 0));
  }
  constexpr size_t row_bytes() const { return size_t{nr_} * number_bytes(); }
  // Rows of a panel of values beyond those of its positions, at both ends.
  constexpr uint32_t extra_rows() const { return is_int8() ? 2 * kOneRows : 1; }

  Packing packing_;
  bool for_integers_;
  uint32_t nr_;
  CacheShape shape_;
  uint32_t positions_;
  uint32_t pages_;
  uint32_t value_panels_;
};

// Of a cache of a target whose caches in float32 have this packing.
constexpr Packing packing_of_cache(Packing f32, bool is_int8) {
  if (linked(Need::kInt8Cache) && is_int8) f32.type = TensorType::kW8;
  return f32;
}

// Bytes that each panel of nr positions adds to a cache, keys and values of all heads.
inline Checked cache_bytes_per_panel(Packing packing, const CacheShape& shape) {
  const bool is_int8 = linked(Need::kInt8Cache) && packing.type == TensorType::kW8;
  const Checked keys = shape.head_dim == 0 ? 0 : panel_bytes(packing, shape.head_dim);
  const uint64_t scales = is_int8 ? packing.nr * sizeof(float) : 0;
  const Checked values = Checked(panels_of(packing, shape.value_dim)) * packing.nr * packing.nr *
                         (is_int8 ? 1 : sizeof(float));
  return Checked(shape.kv_heads) * (keys + scales + values);
}

// Bytes that each page adds to a cache: rows of zeros and of ones.
constexpr Checked cache_bytes_per_page(Packing packing, const CacheShape& shape) {
  const uint32_t rows = linked(Need::kInt8Cache) && packing.type == TensorType::kW8 ? 2 : 1;
  return Checked(shape.kv_heads) * panels_of(packing, shape.value_dim) * packing.nr * rows *
         sizeof(float);
}

}  // namespace arenite
