// SPDX-License-Identifier: Apache-2.0
// The byte layouts of packed weights and of the packed key/value cache. The one place that says
// how large they are and where an element lies: used by kernels, verifier, planner and converter.
#pragma once

#include <cstddef>
#include <cstdint>

#include "arenite/arena_formula.h"
#include "arenite/checked_math.h"
#include "arenite/target.h"
#include "arenite/tensor_type.h"

namespace arenite {

// Family of kernels that read a packing. Ids are part of the file format.
enum class Family : uint8_t { kF32Gemm = 0 };

// A GEMM tile: `nr` weight columns lie side by side, `mr` rows of activations are computed at
// once. f32-gemm weights [n, k] with a bias [n] are panels of nr outputs, each
// [1 + k][nr]: the bias row, then for each input the nr weights (zero beyond n).
struct Packing {
  Family family = Family::kF32Gemm;
  uint8_t nr = 0;
  uint8_t mr = 0;

  friend constexpr bool operator==(const Packing&, const Packing&) = default;
};

// How weights and caches of a type lie in files for a target: nr and mr are those of its kernel
// set. All zero for a type without kernels. Part of the file format.
constexpr Packing packing_of(Target target, TensorType type) {
  if (type != TensorType::kF32) return {};
  switch (target) {
    case Target::kPortable:
      return {Family::kF32Gemm, 4, 4};
    case Target::kX86_64_v2:
      return {Family::kF32Gemm, 8, 4};
    case Target::kX86_64_v3:
      return {Family::kF32Gemm, 16, 4};
    case Target::kX86_64_v4:
      return {Family::kF32Gemm, 32, 8};
    case Target::kArm64:
      return {Family::kF32Gemm, 8, 6};
    case Target::kArm32:
      return {Family::kF32Gemm, 8, 4};
  }
  return {};
}

constexpr uint32_t panels_of(Packing packing, uint32_t outputs) {
  return div_up(outputs, packing.nr);
}

// Of one panel. No overflow.
constexpr uint64_t panel_floats(Packing packing, uint32_t inputs) {
  return (uint64_t{inputs} + 1) * packing.nr;
}
constexpr uint64_t panel_bytes(Packing packing, uint32_t inputs) {
  return panel_floats(packing, inputs) * sizeof(float);
}

// Index within its panel of the float that multiplies input `input` into the panel's output `lane`;
// of that output's bias with input = kBiasRow. The next input is nr floats further.
inline constexpr uint32_t kBiasRow = UINT32_MAX;
constexpr size_t panel_index(Packing packing, uint32_t input, uint32_t lane) {
  return (input == kBiasRow ? 0 : size_t{input} + 1) * packing.nr + lane;
}

// Bytes of packed weights of `outputs` x `inputs`.
constexpr Checked packed_weight_bytes(Packing packing, uint32_t outputs, uint32_t inputs) {
  return Checked(panels_of(packing, outputs)) * panel_bytes(packing, inputs);
}

// The same index in all panels. REQUIRES: within the shape.
constexpr uint64_t packed_weight_index(Packing packing, uint32_t inputs, uint32_t output,
                                       uint32_t input) {
  return output / packing.nr * panel_floats(packing, inputs) +
         panel_index(packing, input, output % packing.nr);
}

struct CacheShape {
  uint32_t kv_heads = 0;
  uint32_t head_dim = 0;  // 0: no keys are kept (the mask alone gives the scores)
  uint32_t value_dim = 0;
};

// The cache of one attention op, for one sequence; of each key/value head
//   keys    panels of nr positions, each [1 + head_dim][nr]: a bias row, then the dimensions;
//   values  pages of kPagePositions positions, each a list of panels of nr value columns, each
//           [1 + positions in the page][nr]: a row of zeros, then the positions.
// Both are what a GEMM kernel reads as weights. A page starts with its own row of zeros so that a
// product over the cache can start at any page: a window does not pay for earlier pages.
//
// Offsets are in floats from the start of a head. No overflow if the arena formula has none.
class CacheLayout {
 public:
  constexpr CacheLayout(Packing packing, const CacheShape& shape, uint32_t positions)
      : packing_(packing),
        nr_(packing.nr),
        shape_(shape),
        positions_(panels_of(packing, positions) * packing.nr),
        pages_(value_pages(positions)),
        value_panels_(panels_of(packing, shape.value_dim)) {}

  constexpr Packing packing() const { return packing_; }
  // In 32 bits: GCC copies what it knows to be below 256 floats by slow string instructions.
  constexpr uint32_t nr() const { return nr_; }
  constexpr const CacheShape& shape() const { return shape_; }

  // Floats of all heads.
  constexpr size_t floats() const { return head_floats() * shape_.kv_heads; }
  constexpr size_t head_floats() const {
    return key_floats() + size_t{value_panels()} * packing_.nr * (size_t{positions_} + pages_);
  }
  constexpr uint32_t value_panels() const { return value_panels_; }

  // Positions beyond those that it holds take the place of the oldest: then it is a ring.
  constexpr uint32_t positions() const { return positions_; }  // a multiple of nr
  constexpr uint32_t pages() const { return pages_; }

  // The panel of keys that begins at `position`. REQUIRES: a multiple of nr.
  constexpr size_t key_panel(uint32_t position) const {
    return size_t{position % positions_} * key_rows();
  }
  // One panel of value columns of one page.
  constexpr size_t value_panel(uint32_t page, uint32_t panel) const {
    const uint32_t place = page % pages_;
    const size_t pages_before = size_t{place} * value_panels() * (kPagePositions + 1);
    return key_floats() +
           (pages_before + size_t{panel} * (page_positions(place) + 1)) * packing_.nr;
  }
  constexpr uint32_t page_positions(uint32_t page) const {
    const uint32_t left = positions_ - page % pages_ * kPagePositions;
    return left < kPagePositions ? left : kPagePositions;
  }

 private:
  constexpr size_t key_rows() const {
    return shape_.head_dim == 0 ? 0 : size_t{shape_.head_dim} + 1;
  }
  constexpr size_t key_floats() const { return positions_ * key_rows(); }

  Packing packing_;
  uint32_t nr_;
  CacheShape shape_;
  uint32_t positions_;
  uint32_t pages_;
  uint32_t value_panels_;
};

// Bytes that each panel of nr positions adds to a cache, keys and values of all heads.
constexpr Checked cache_bytes_per_panel(Packing packing, const CacheShape& shape) {
  const uint64_t keys = shape.head_dim == 0 ? 0 : panel_floats(packing, shape.head_dim);
  const Checked values = Checked(panels_of(packing, shape.value_dim)) * packing.nr * packing.nr;
  return Checked(shape.kv_heads) * (Checked(keys) + values) * sizeof(float);
}

// Bytes that each page adds to a cache: the rows of zeros.
constexpr Checked cache_bytes_per_page(Packing packing, const CacheShape& shape) {
  return Checked(shape.kv_heads) * panels_of(packing, shape.value_dim) * packing.nr * sizeof(float);
}

}  // namespace arenite
