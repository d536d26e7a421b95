// SPDX-License-Identifier: Apache-2.0
#include "support/stand_in_kernels.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "core/packing.h"

// The names that the linker gives to arenite::kernel_set and, at the end, to what is in its place.
extern "C" const arenite::KernelSet* __real__ZN7arenite10kernel_setENS_6TargetE(arenite::Target);

namespace arenite::test {
namespace {

const KernelSet* forced = nullptr;
bool are_stand_ins = false;

template <typename T>
T read(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

// A panel of weights of k inputs, and an output's numbers in it.
template <Packing kPacking>
struct Lane {
  const std::byte* panel;
  uint32_t inputs;
  uint32_t lane;

  Lane(const void* w, size_t column, size_t k)
      : panel(static_cast<const std::byte*>(w) +
              column / kPacking.nr * panel_bytes(kPacking, static_cast<uint32_t>(k)).value()),
        inputs(static_cast<uint32_t>(k)),
        lane(static_cast<uint32_t>(column % kPacking.nr)) {}

  template <typename T = float>
  T head() const {
    return read<T>(panel + lane * sizeof(T));
  }
  float bias() const { return read<float>(panel + panel_bias(kPacking, inputs, lane)); }
  float scale(uint32_t input = 0) const {
    const std::byte* const at = panel + panel_scale(kPacking, inputs, input, lane);
    if (kPacking.type != TensorType::kQ4) return read<float>(at);
    return 16 * std::bit_cast<float>(uint32_t{read<uint16_t>(at)} << 16);
  }
  int32_t number(uint32_t input) const {
    const PanelPlace place = panel_place(kPacking, input, lane);
    const auto byte = read<int8_t>(panel + place.byte);
    if (kPacking.type != TensorType::kQ4) return byte;
    return place.high_half ? byte >> 4 : static_cast<int8_t>(byte << 4) >> 4;
  }
  // Adds the products of a row of floats to `sum`.
  float plus_products(float sum, const float* a, uint32_t first, uint32_t count) const {
    for (uint32_t i = 0; i < count; ++i) {
      const PanelPlace place = panel_place(kPacking, first + i, lane);
      sum += a[i] * (kPacking.type == TensorType::kF32 ? read<float>(panel + place.byte)
                                                       : static_cast<float>(number(first + i)));
    }
    return sum;
  }
  float ended(float sum) const { return kPacking.type == TensorType::kF32 ? sum : sum * scale(); }
};

// Stores product(row, column) for all rows of a tile, as kernels do.
template <typename Product>
void for_tile(size_t rows, size_t tile, size_t columns, float* c, size_t c_stride_bytes,
              Product product) {
  for (size_t column = 0; column < columns; ++column) {
    float results[kRowsMax];
    for (size_t r = 0; r < tile; ++r) results[r] = product(r, column);
    for (size_t r = 0; r < tile; ++r) {
      c[std::min(r, rows - 1) * (c_stride_bytes / sizeof(float)) + column] = results[r];
    }
  }
}

template <Packing kPacking>
void float_gemm(size_t rows, size_t columns, size_t k_bytes, const float* a, size_t a_stride_bytes,
                const void* w, float* c, size_t c_stride_bytes) {
  const size_t k = k_bytes / sizeof(float);
  for_tile(rows, kRowsMax, columns, c, c_stride_bytes, [&](size_t r, size_t column) {
    const Lane<kPacking> lane(w, column, k);
    const float* const row = a + std::min(r, rows - 1) * (a_stride_bytes / sizeof(float));
    return lane.ended(lane.plus_products(lane.head(), row, 0, lane.inputs));
  });
}

template <Packing kPacking>
void list_gemm(size_t rows, size_t columns, size_t pieces, size_t piece_bytes, const float** list,
               const void* w, float* c, size_t c_stride_bytes) {
  const auto piece = static_cast<uint32_t>(piece_bytes / sizeof(float));
  for_tile(rows, kPacking.mr, columns, c, c_stride_bytes, [&](size_t r, size_t column) {
    const Lane<kPacking> lane(w, column, pieces * piece);
    float sum = lane.head();
    for (uint32_t i = 0; i < pieces; ++i) {
      sum = lane.plus_products(sum, list[i * kPacking.mr + r], i * piece, piece);
    }
    return sum;
  });
}

template <Packing kPacking>
void rounded_gemm(size_t rows, size_t columns, size_t k, const int8_t* a, size_t a_stride_bytes,
                  const void* w, float* c, size_t c_stride_bytes,
                  const QuantizedRow (&a_rows)[kRowsMax], std::byte*) {
  for_tile(rows, kRowsMax, columns, c, c_stride_bytes, [&](size_t r, size_t column) {
    const Lane<kPacking> lane(w, column, k);
    const int8_t* const row = a + std::min(r, rows - 1) * a_stride_bytes;
    if constexpr (kPacking.type == TensorType::kQ8) {
      auto sum = static_cast<uint32_t>(a_rows[r].zero_point) * lane.template head<uint32_t>();
      for (uint32_t i = 0; i < padded_inputs(kPacking, lane.inputs).value(); ++i) {
        sum += static_cast<uint32_t>(row[i] * lane.number(i));
      }
      return static_cast<float>(static_cast<int32_t>(sum)) * a_rows[r].scale * lane.scale() +
             lane.bias();
    } else {
      float sum = lane.head() * static_cast<float>(a_rows[r].zero_point);
      for (uint32_t first = 0; first < k; first += kQ4Block) {
        int32_t of_block = 0;
        for (uint32_t i = first; i < first + kQ4Block; ++i) of_block += row[i] * lane.number(i);
        sum += static_cast<float>(of_block) * lane.scale(first);
      }
      return sum * a_rows[r].scale + lane.bias();
    }
  });
}

template <Target kTarget>
const KernelSet& set_of() {
  static constexpr Packing kF32 = packing_of(kTarget, TensorType::kF32);
  static constexpr Packing kW8 = packing_of(kTarget, TensorType::kW8);
  static constexpr Packing kQ8 = packing_of(kTarget, TensorType::kQ8);
  static constexpr Packing kQ4 = packing_of(kTarget, TensorType::kQ4);
  static const KernelSet& portable = *__real__ZN7arenite10kernel_setENS_6TargetE(Target::kPortable);
  static FloatKernels w8 = {kW8, {}};
  static QuantizedKernels q8 = {kQ8, portable.q8->quantize, {}}, q4 = {kQ4, q8.quantize, {}};
  static IndirectKernels indirect = {};
  static const KernelSet set = [] {
    KernelSet made = portable;
    made.target = kTarget;
    made.name = name(kTarget);
    made.f32.packing = kF32;
    std::ranges::fill(made.f32.gemm, float_gemm<kF32>);
    std::ranges::fill(w8.gemm, float_gemm<kW8>);
    std::ranges::fill(q8.gemm, rounded_gemm<kQ8>);
    std::ranges::fill(q4.gemm, rounded_gemm<kQ4>);
    std::ranges::fill(indirect.gemm, list_gemm<kF32>);
    std::ranges::fill(indirect.list_rows, kF32.mr);
    made.w8 = &w8, made.q8 = &q8, made.q4 = &q4, made.indirect = &indirect;
    if (kF32 != portable.f32.packing) made.integers = nullptr;
    return made;
  }();
  return set;
}

}  // namespace

const KernelSet& stand_in_kernels(Target target) {
  return []<size_t... kIndices>(Target of, std::index_sequence<kIndices...>)->const KernelSet& {
    constexpr std::array kSets = {set_of<static_cast<Target>(kIndices)>...};
    return kSets[static_cast<size_t>(of)]();
  }
  (target, std::make_index_sequence<kTargets>());
}

void force_kernels(const KernelSet* kernels) { forced = kernels; }
void force_stand_ins(bool are_forced) { are_stand_ins = are_forced; }

}  // namespace arenite::test

extern "C" const arenite::KernelSet* __wrap__ZN7arenite10kernel_setENS_6TargetE(
    arenite::Target target) {
  if (arenite::test::are_stand_ins) return &arenite::test::stand_in_kernels(target);
  const arenite::KernelSet* const kernels = arenite::test::forced;
  if (kernels != nullptr && kernels->target == target) return kernels;
  return __real__ZN7arenite10kernel_setENS_6TargetE(target);
}
