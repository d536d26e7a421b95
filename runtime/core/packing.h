// SPDX-License-Identifier: Apache-2.0
// Byte layouts of packed weights: sizes, and the offset of each element. Kernels, verifier, planner
// and converter all use these functions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "arenite/arena_formula.h"
#include "arenite/checked_math.h"
#include "arenite/target.h"
#include "arenite/tensor_type.h"
#include "core/targets.h"
#include "core/weight_types.h"

namespace arenite {

// Weights [n, k] with a bias [n] are packed for GEMM as panels of nr outputs (zero beyond n), with
// k rounded up to groups of kr. By type a panel holds
//   f32   bias [nr], then for each input the nr weights, all float32
//   w8    bias / scale [nr], for each input nr int8 weights, scales [nr]
//   q8    -sum of the weights [nr] in int32, for each group of kr inputs [nr][kr] int8 weights,
//         scales [nr], bias [nr]
//   q4    -sum of scale * weight [nr]; for each block of kQ4Block inputs: for each two groups of kr
//         inputs [nr][kr] bytes, the first group's weights in the low half, then scales / 16 [nr]
//         in bfloat16; finally bias [nr]
// They are the layouts of XNNPACK's kernels f32-gemm, f32-qc8w-gemm, qd8-f32-qc8w-gemm and
// qd8-f32-qb4w-gemm.
struct Packing {
  TensorType type = TensorType::kF32;  // of the weights; of int8 caches as_weights(kInt8)
  uint8_t nr = 0;
  uint8_t kr = 0;
  uint8_t mr = 0;
  bool widens = false;  // the kernels need product_scratch_bytes

  friend constexpr bool operator==(const Packing&, const Packing&) = default;
};

// Returns how files for a target pack weights and caches of a type; all zero if there is no such
// packing. This is part of the file format.
constexpr Packing packing_of(Target target, TensorType type) {
  const uint32_t index = static_cast<uint32_t>(target);
  if (index >= kTargets || (!holds_weights(type) && !holds_cache(type))) return {};
  Tile tile = kTargetColumn<&TargetRow::floats>[index];
  if (type == TensorType::kQ8) tile = kTargetColumn<&TargetRow::q8>[index];
  if (type == TensorType::kQ4) tile = kTargetColumn<&TargetRow::q4>[index];
  return {as_weights(type), tile.nr, tile.kr, tile.mr, tile.widens};
}

// Checks that nr is the same for float32 and int8 caches, since the positions of a session come in
// panels of nr for any cache type, and that float panels have no padded inputs (kr = 1).
constexpr bool floats_have_equal_panels() {
  for (uint32_t i = 0; i < kTargets; ++i) {
    const Packing f32 = packing_of(static_cast<Target>(i), TensorType::kF32);
    const Packing int8 = packing_of(static_cast<Target>(i), TensorType::kInt8);
    if (f32.nr != int8.nr || f32.mr > int8.mr || f32.kr != 1 || int8.kr != 1) return false;
  }
  return true;
}
static_assert(floats_have_equal_panels());

constexpr uint32_t panels_of(Packing packing, uint32_t outputs) {
  return div_up(outputs, packing.nr);
}

// Returns the inputs of a panel, padded to a multiple of kr.
constexpr Checked padded_inputs(Packing packing, uint32_t inputs) {
  return Checked(div_up(inputs, packing.kr)) * packing.kr;
}

// Bytes per thread for a block of mr rows widened to int16.
constexpr Checked product_scratch_bytes(Packing packing, uint32_t inputs) {
  if (!packing.widens) return 0;
  return padded_inputs(packing, inputs) * (packing.mr * sizeof(int16_t));
}

// Bytes of one output in a block of a panel, or of a block of a plain row: the weights and the
// scale.
constexpr uint32_t block_bytes(const WeightType& type) {
  return uint32_t{type.block} * type.bits / 8 + type.scale_bytes;
}
inline constexpr uint32_t kQ4BlockBytes = block_bytes(kWeightTypeRows[3]);

// Bytes of one panel. [[gnu::const]] lets the compiler drop a call whose result is unused.
[[gnu::const]] Checked panel_bytes(Packing packing, uint32_t inputs);

// Scratch of the op `experts`: bytes for each of its rows, and for each thread (ops/experts.h).
struct ExpertsScratch {
  Checked row = 0;     // inputs in int8, if the weights are q8 or q4; the order of the pairs
  Checked sums = 0;    // of a thread: where the sums begin, after the gathered inputs
  Checked thread = 0;  // also holds a number for each expert
};
constexpr ExpertsScratch experts_scratch(Packing packing, uint32_t experts, uint32_t chosen,
                                         uint32_t inputs, uint32_t outputs) {
  const bool rounds_inputs = weight_type(packing.type).rounds_inputs;
  const uint64_t quantized = rounds_inputs ? quantized_scratch_bytes(inputs) : 0;
  const Checked gathered = rounds_inputs
                               ? product_scratch_bytes(packing, inputs)
                               : Checked(inputs) * (packing.mr * sizeof(float)) + kReadAheadBytes;
  ExpertsScratch scratch = {(Checked(quantized) + sizeof(uint32_t)) * chosen,
                            round_up(gathered, 16)};
  scratch.thread = scratch.sums + (Checked(outputs) + packing.nr) * (packing.mr * sizeof(float));
  const Checked ends = Checked(experts) * sizeof(uint32_t);
  if (scratch.thread.value() < ends.value()) scratch.thread = ends;
  return scratch;
}

// The byte within the panel and, for q4, the half of the byte, of the weight that multiplies input
// `input` for the output at `lane`.
struct PanelPlace {
  size_t byte = 0;
  bool high_half = false;
};
constexpr PanelPlace panel_place(Packing packing, uint32_t input, uint32_t lane) {
  const WeightType& type = weight_type(packing.type);
  const size_t nr = packing.nr;
  const size_t kr = packing.kr;
  const size_t head = nr * sizeof(float);  // for all types
  if (type.block == 0) {
    return {head + (input / kr * nr * kr + lane * kr + input % kr) * (type.bits / 8u)};
  }
  const size_t in_block = input % type.block;
  return {head + input / type.block * block_bytes(type) * nr + in_block / (2 * kr) * nr * kr +
              lane * kr + in_block % kr,
          in_block / kr % 2 != 0};
}

// Offset within a panel of the scale of a weight: a float or, for q4, a bfloat16 that holds scale /
// 16. REQUIRES: a type with scales.
constexpr size_t panel_scale(Packing packing, uint32_t inputs, uint32_t input, uint32_t lane) {
  const WeightType& type = weight_type(packing.type);
  const size_t nr = packing.nr;
  const size_t numbers = type.block == 0
                             ? padded_inputs(packing, inputs).value()
                             : input / type.block * block_bytes(type) + type.block * type.bits / 8u;
  return nr * (sizeof(float) + numbers) + lane * type.scale_bytes;
}

// Offset within a panel of the bias of an output, a float.
inline size_t panel_bias(Packing packing, uint32_t inputs, uint32_t lane) {
  const size_t before = weight_type(packing.type).rounds_inputs
                            ? panel_bytes(packing, inputs).value() - packing.nr * sizeof(float)
                            : 0;
  return before + lane * sizeof(float);
}

// Index, in floats, within a float32 panel of the weight that multiplies input `input` for the
// output at `lane`, or of its bias if input is kBiasRow. The next input is nr floats further.
inline constexpr uint32_t kBiasRow = UINT32_MAX;
constexpr size_t panel_index(Packing packing, uint32_t input, uint32_t lane) {
  return (input == kBiasRow ? 0 : size_t{input} + 1) * packing.nr + lane;
}

// Bytes of the packed weights [outputs, inputs].
inline Checked packed_weight_bytes(Packing packing, uint32_t outputs, uint32_t inputs) {
  return Checked(panels_of(packing, outputs)) * panel_bytes(packing, inputs);
}

// Index, in floats, within all float32 panels of the weight from `input` to `output`, or of the
// bias if input is kBiasRow. REQUIRES: within the shape.
inline uint64_t packed_weight_index(Packing packing, uint32_t inputs, uint32_t output,
                                    uint32_t input) {
  return output / packing.nr * (panel_bytes(packing, inputs).value() / sizeof(float)) +
         panel_index(packing, input, output % packing.nr);
}

// Bytes of one plain row of a type. w8 and q8: scale, then int8 elements, padded to whole floats.
// q4: for each block a scale and 16 bytes, whose low halves are the first 16 elements.
constexpr Checked plain_row_bytes(TensorType of, uint32_t columns) {
  const WeightType& type = weight_type(of);
  if (type.block != 0) return Checked(columns / type.block) * block_bytes(type);
  return round_up(Checked(columns) * (type.bits / 8u) + type.scale_bytes, sizeof(float));
}

}  // namespace arenite
