// SPDX-License-Identifier: Apache-2.0
// The byte layouts of weights. The one place that says how large they are and where an element
// lies: used by kernels, verifier, planner and converter.
#pragma once

#include <cstddef>
#include <cstdint>

#include "arenite/checked_math.h"
#include "arenite/target.h"
#include "arenite/tensor_type.h"
#include "core/needs.h"

namespace arenite {

// Family of kernels that read a packing. Ids are part of the file format.
enum class Family : uint8_t { kF32Gemm, kF32Qc8wGemm, kQd8F32Qc8wGemm, kQd8F32Qb4wGemm };

// A GEMM tile: `nr` weight columns lie side by side, `kr` inputs of each of them follow each other,
// `mr` rows of activations are computed at once. Weights [n, k] with a bias [n] are panels of nr
// outputs (zero beyond n), k rounded up to groups of kr; each is, by its family,
//   f32-gemm            bias [nr], then for each input the nr weights, all float32
//   f32-qc8w-gemm       bias / scale [nr], for each input nr weights in int8, scales [nr]
//   qd8-f32-qc8w-gemm   -sum of the weights [nr] in int32, for each group of kr inputs
//                       [nr][kr] weights in int8, scales [nr], bias [nr]
//   qd8-f32-qb4w-gemm   -sum of scale * weight [nr]; for each block of kQ4Block inputs: for each
//   two
//                       groups of kr inputs [nr][kr] bytes, the first group's weights in the low
//                       half, then scales / 16 [nr] in bfloat16; at last bias [nr]
struct Packing {
  Family family = Family::kF32Gemm;
  uint8_t nr = 0;
  uint8_t kr = 0;
  uint8_t mr = 0;

  friend constexpr bool operator==(const Packing&, const Packing&) = default;
};

// The tiles of the kernel sets, in the order of Target; a list for each kind of product, as builds
// have those that they use. AVX-512 without VNNI has no kernels of its own for q4, and takes those
// of AVX2.
struct Tile {
  uint8_t nr, kr, mr;
};
inline constexpr Tile kFloatTiles[kTargets] = {{4, 1, 4},  {8, 1, 4}, {16, 1, 4},
                                               {32, 1, 8}, {8, 1, 6}, {8, 1, 4},
                                               {32, 1, 8}, {8, 1, 6}, {8, 1, 6}};
inline constexpr Tile kQ8Tiles[kTargets] = {{4, 1, 4},  {4, 8, 4},  {8, 8, 4},
                                            {16, 8, 8}, {16, 1, 6}, {8, 1, 4},
                                            {16, 8, 8}, {16, 4, 6}, {16, 8, 8}};
inline constexpr Tile kQ4Tiles[kTargets] = {{4, 1, 4},  {4, 8, 4},  {8, 8, 4},
                                            {8, 8, 4},  {16, 1, 6}, {16, 1, 4},
                                            {16, 8, 8}, {16, 4, 6}, {16, 8, 8}};

// How weights and caches of a type lie in files for a target. All zero for a type without kernels.
// Part of the file format.
constexpr Packing packing_of(Target target, TensorType type) {
  const uint32_t index = static_cast<uint32_t>(target);
  if (index >= kTargets) return {};
  const auto packing = [](Family family, const Tile& tile) {
    return Packing{family, tile.nr, tile.kr, tile.mr};
  };
  switch (type) {
    case TensorType::kF32:
      return packing(Family::kF32Gemm, kFloatTiles[index]);
    case TensorType::kW8:
    case TensorType::kInt8:
      return packing(Family::kF32Qc8wGemm, kFloatTiles[index]);
    case TensorType::kQ8:
      return packing(Family::kQd8F32Qc8wGemm, kQ8Tiles[index]);
    case TensorType::kQ4:
      return packing(Family::kQd8F32Qb4wGemm, kQ4Tiles[index]);
  }
  return {};
}

// A session's positions come in panels of as many, whatever its caches hold, and a panel of
// float32 has as many inputs as the matrix.
constexpr bool floats_have_equal_panels() {
  for (uint32_t i = 0; i < kTargets; ++i) {
    const Packing f32 = packing_of(static_cast<Target>(i), TensorType::kF32);
    const Packing int8 = packing_of(static_cast<Target>(i), TensorType::kInt8);
    if (f32.nr != int8.nr || f32.mr > int8.mr || f32.kr != 1 || int8.kr != 1) return false;
  }
  return true;
}
static_assert(floats_have_equal_panels());

// The family, which the compiler knows where no model of the build has anything in few bits.
constexpr Family linked_family(Packing packing) {
  return kFewBitsLinked || linked(Need::kInt8Cache) ? packing.family : Family::kF32Gemm;
}

constexpr uint32_t panels_of(Packing packing, uint32_t outputs) {
  return div_up(outputs, packing.nr);
}

// Inputs of a panel, those included that only fill its last group of kr. No overflow.
constexpr uint64_t padded_inputs(Packing packing, uint32_t inputs) {
  return uint64_t{div_up(inputs, packing.kr)} * packing.kr;
}

// Bytes of one output's share of a block of kQ4Block inputs in a panel: the weights, the scale.
inline constexpr uint32_t kQ4BlockBytes = kQ4Block / 2 + sizeof(uint16_t);

// Of one panel. No overflow.
constexpr uint64_t panel_bytes(Packing packing, uint32_t inputs) {
  const Family family = linked_family(packing);
  if (family == Family::kF32Gemm) return (uint64_t{inputs} + 1) * sizeof(float) * packing.nr;
  const uint64_t padded = padded_inputs(packing, inputs);
  switch (family) {
    case Family::kF32Gemm:
      break;
    case Family::kF32Qc8wGemm:
      return (padded + 2 * sizeof(float)) * packing.nr;
    case Family::kQd8F32Qc8wGemm:
      return (padded + 3 * sizeof(float)) * packing.nr;
    case Family::kQd8F32Qb4wGemm:
      return (padded / kQ4Block * kQ4BlockBytes + 2 * sizeof(float)) * packing.nr;
  }
  return 0;
}

// Where in its panel the weight lies that multiplies input `input` into the panel's output `lane`:
// the byte, and of q4 the half of the byte.
struct PanelPlace {
  size_t byte = 0;
  bool high_half = false;
};
constexpr PanelPlace panel_place(Packing packing, uint32_t input, uint32_t lane) {
  const size_t nr = packing.nr;
  const size_t kr = packing.kr;
  const size_t head = nr * sizeof(float);  // of every family
  if (linked_family(packing) == Family::kF32Gemm) {
    return {head + (input * nr + lane) * sizeof(float)};
  }
  if (packing.family != Family::kQd8F32Qb4wGemm) {
    return {head + input / kr * nr * kr + lane * kr + input % kr};
  }
  const size_t in_block = input % kQ4Block;
  return {head + input / kQ4Block * kQ4BlockBytes * nr + in_block / (2 * kr) * nr * kr + lane * kr +
              in_block % kr,
          in_block / kr % 2 != 0};
}

// Where in its panel the scale of a weight lies: a float, or of q4 a bfloat16, which is a 16th of
// the scale. REQUIRES: not f32-gemm.
constexpr size_t panel_scale(Packing packing, uint32_t inputs, uint32_t input, uint32_t lane) {
  const size_t nr = packing.nr;
  if (packing.family != Family::kQd8F32Qb4wGemm) {
    return nr * (sizeof(float) + static_cast<size_t>(padded_inputs(packing, inputs))) +
           lane * sizeof(float);
  }
  return nr * sizeof(float) + input / kQ4Block * kQ4BlockBytes * nr + nr * kQ4Block / 2 +
         lane * sizeof(uint16_t);
}

// Where in its panel the bias of an output lies, a float.
constexpr size_t panel_bias(Packing packing, uint32_t inputs, uint32_t lane) {
  const bool is_first =
      packing.family == Family::kF32Gemm || packing.family == Family::kF32Qc8wGemm;
  const size_t rows_before =
      is_first ? 0 : static_cast<size_t>(panel_bytes(packing, inputs)) - packing.nr * sizeof(float);
  return rows_before + lane * sizeof(float);
}

// Index within its panel, of float32, of what multiplies input `input` into the panel's output
// `lane`; of that output's bias with input = kBiasRow. The next input is nr floats further.
inline constexpr uint32_t kBiasRow = UINT32_MAX;
constexpr size_t panel_index(Packing packing, uint32_t input, uint32_t lane) {
  return (input == kBiasRow ? 0 : size_t{input} + 1) * packing.nr + lane;
}

// Bytes of packed weights of `outputs` x `inputs`.
constexpr Checked packed_weight_bytes(Packing packing, uint32_t outputs, uint32_t inputs) {
  return Checked(panels_of(packing, outputs)) * panel_bytes(packing, inputs);
}

// Index in all panels of float32 of the weight from `input` to `output`, or of the bias with input
// kBiasRow. REQUIRES: within the shape.
constexpr uint64_t packed_weight_index(Packing packing, uint32_t inputs, uint32_t output,
                                       uint32_t input) {
  return output / packing.nr * (panel_bytes(packing, inputs) / sizeof(float)) +
         panel_index(packing, input, output % packing.nr);
}

// Of one plain row of a type: float32; or the scale, then the numbers in int8, padded to whole
// floats; or of q4 for each block the scale as bfloat16 and 16 bytes, whose low halves are the
// first 16 numbers. No overflow.
constexpr uint64_t plain_row_bytes(TensorType type, uint32_t columns) {
  switch (type) {
    case TensorType::kF32:
      return uint64_t{columns} * sizeof(float);
    case TensorType::kW8:
    case TensorType::kQ8:
      return (uint64_t{columns} + 2 * sizeof(float) - 1) / sizeof(float) * sizeof(float);
    case TensorType::kQ4:
      return uint64_t{columns} / kQ4Block * kQ4BlockBytes;
    case TensorType::kInt8:
      break;
  }
  return 0;
}

}  // namespace arenite
