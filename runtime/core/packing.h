// SPDX-License-Identifier: Apache-2.0
// The byte layouts of packed weights and of the packed key/value cache. The one place that says
// how large they are and where an element lies: used by kernels, verifier, planner and converter.
#pragma once

#include <cstdint>

#include "arenite/target.h"
#include "core/checked_math.h"

namespace arenite {

// Kernels may read this many bytes past the end of a row: slots and segments are padded by it.
inline constexpr uint32_t kReadAheadBytes = 16;

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

// nr and mr of each target, as its kernel set has them. Part of the file format.
constexpr Packing packing_of(Target target) {
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

// Bytes of packed weights of `outputs` x `inputs`.
constexpr Checked packed_weight_bytes(Packing packing, uint32_t outputs, uint32_t inputs) {
  return Checked(div_up(outputs, packing.nr)) * packing.nr * (Checked(inputs) + 1) * sizeof(float);
}

// Index of the float that multiplies input `input` into output `output`; of its bias with
// input = kBiasRow. REQUIRES: within the shape.
inline constexpr uint32_t kBiasRow = UINT32_MAX;
constexpr uint64_t packed_weight_index(Packing packing, uint32_t inputs, uint32_t output,
                                       uint32_t input) {
  const uint64_t panel = output / packing.nr;
  const uint64_t row = input == kBiasRow ? 0 : uint64_t{input} + 1;
  return (panel * (uint64_t{inputs} + 1) + row) * packing.nr + output % packing.nr;
}

// The cache of one attention op, for one sequence and one key/value head:
//   keys    panels of nr positions, each [1 + head_dim][nr]: a bias row, then the dimensions;
//   values  pages of kPagePositions positions, each a list of panels of nr value columns, each
//           [1 + positions in the page][nr]: a row of zeros, then the positions.
// Both are what a GEMM kernel reads as weights. A page starts with its own row of zeros so that a
// product over the cache can start at any page: a window does not pay for what it left behind.
inline constexpr uint32_t kPagePositions = 512;

struct CacheShape {
  uint32_t kv_heads = 0;
  uint32_t head_dim = 0;  // 0: no keys are kept (the mask alone gives the scores)
  uint32_t value_dim = 0;
};

constexpr uint32_t key_panels(Packing packing, uint32_t positions) {
  return div_up(positions, packing.nr);
}
constexpr uint32_t value_pages(uint32_t positions) { return div_up(positions, kPagePositions); }

// Bytes that each panel of nr positions adds to a cache, keys and values of all heads.
constexpr Checked cache_bytes_per_panel(Packing packing, const CacheShape& shape) {
  const Checked key_rows = shape.head_dim == 0 ? Checked(0) : Checked(shape.head_dim) + 1;
  const Checked value_rows = Checked(div_up(shape.value_dim, packing.nr)) * packing.nr;
  return Checked(shape.kv_heads) * (key_rows + value_rows) * packing.nr * sizeof(float);
}

// Bytes that each page adds to a cache: the rows of zeros.
constexpr Checked cache_bytes_per_page(Packing packing, const CacheShape& shape) {
  return Checked(shape.kv_heads) * div_up(shape.value_dim, packing.nr) * packing.nr * sizeof(float);
}

}  // namespace arenite
