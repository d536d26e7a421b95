// SPDX-License-Identifier: Apache-2.0
// Numbers in the order of their author's rows become the bytes that kernels read: runtime/core/
// packing.h says where each lies.
#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>
#include <stdexcept>

#include "convert/program/writer.h"

namespace arenite::convert {
namespace {

template <typename T>
void put(std::byte* place, T value) {
  std::memcpy(place, &value, sizeof(T));
}

// REQUIRES: a bfloat16 number.
uint16_t bfloat16_bits(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  assert((bits & 0xFFFFu) == 0);
  return static_cast<uint16_t>(bits >> 16);
}

std::byte half_byte(int8_t value, bool high_half) {
  const unsigned bits = static_cast<unsigned>(value) & 0xFu;
  return static_cast<std::byte>(high_half ? bits << 4 : bits);
}

// Row by row, so that a matrix much larger than the cache is read in order.
void pack_floats(const ProgramTensor& tensor, std::span<const float> weights, Packing packing,
                 std::span<std::byte> packed) {
  float* const floats = reinterpret_cast<float*>(packed.data());
  const auto index = [&](uint32_t output, uint32_t input) {
    return static_cast<size_t>(packed_weight_index(packing, tensor.inputs, output, input));
  };
  for (uint32_t output = 0; output < tensor.outputs; ++output) {
    if (!tensor.bias.empty()) {
      floats[index(output, kBiasRow)] = tensor.bias[output];
    }
    const float* row = weights.data() + size_t{output} * tensor.inputs;
    float* to = floats + index(output, 0);
    for (uint32_t input = 0; input < tensor.inputs; ++input) {
      to[size_t{input} * packing.nr] = row[input];
    }
  }
}

// One output of a panel: its weights, their scales, its bias and what the kernels correct a zero
// point with.
void pack_row(const QuantizedMatrix& matrix, uint32_t row, float bias, Packing packing,
              std::byte* panel) {
  const uint32_t lane = row % packing.nr;
  const uint32_t columns = matrix.columns;
  const int8_t* const values = matrix.values.data() + size_t{row} * columns;
  const bool has_blocks = weight_type(matrix.type).block != 0;
  for (uint32_t i = 0; i < columns; ++i) {
    const PanelPlace place = panel_place(packing, i, lane);
    std::byte& byte = panel[place.byte];
    byte = has_blocks ? byte | half_byte(values[i], place.high_half)
                      : static_cast<std::byte>(values[i]);
  }
  std::byte* const bias_place = panel + panel_bias(packing, columns, lane);
  if (!has_blocks) {
    const float scale = matrix.scales[row];
    put(panel + panel_scale(packing, columns, 0, lane), scale);
    const bool is_scaled = !weight_type(matrix.type).rounds_inputs;  // the bias, by the kernel
    put(bias_place, is_scaled ? bias / scale : bias);
    if (is_scaled) return;
    int32_t sum = 0;
    for (uint32_t i = 0; i < columns; ++i) sum -= values[i];
    put(panel + lane * sizeof(int32_t), sum);
    return;
  }
  const uint32_t blocks = columns / kQ4Block;
  double sum = 0.0;
  for (uint32_t block = 0; block < blocks; ++block) {
    const float scale = matrix.scales[size_t{row} * blocks + block];
    // Kernels read a number in the high half of a byte, as 16 times what it is.
    put(panel + panel_scale(packing, columns, block * kQ4Block, lane),
        bfloat16_bits(scale / 16.0f));
    int32_t sum_of_block = 0;
    for (uint32_t i = 0; i < kQ4Block; ++i) sum_of_block -= values[block * kQ4Block + i];
    sum += double{scale} * sum_of_block;
  }
  put(panel + lane * sizeof(float), static_cast<float>(sum));
  put(bias_place, bias);
}

void pack_panels(const ProgramTensor& tensor, const QuantizedMatrix& matrix, Packing packing,
                 std::span<std::byte> packed) {
  const size_t bytes_of_panel = panel_bytes(packing, tensor.inputs).value();
  for (uint32_t row = 0; row < tensor.outputs; ++row) {
    pack_row(matrix, row, tensor.bias.empty() ? 0.0f : tensor.bias[row], packing,
             packed.data() + row / packing.nr * bytes_of_panel);
  }
}

void pack_rows(const QuantizedMatrix& matrix, std::span<std::byte> packed) {
  const size_t bytes = plain_row_bytes(matrix.type, matrix.columns).value();
  for (uint32_t row = 0; row < matrix.rows; ++row) {
    std::byte* to = packed.data() + row * bytes;
    const int8_t* values = matrix.values.data() + size_t{row} * matrix.columns;
    if (weight_type(matrix.type).block == 0) {
      put(to, matrix.scales[row]);
      std::memcpy(to + sizeof(float), values, matrix.columns);
      continue;
    }
    const float* scale = matrix.scales.data() + size_t{row} * matrix.columns / kQ4Block;
    for (uint32_t i = 0; i < matrix.columns; i += kQ4Block, to += kQ4BlockBytes, ++scale) {
      put(to, bfloat16_bits(*scale));
      for (uint32_t j = 0; j < kQ4Block / 2; ++j) {
        to[sizeof(uint16_t) + j] =
            half_byte(values[i + j], false) | half_byte(values[i + kQ4Block / 2 + j], true);
      }
    }
  }
}

// ---- from one packing to another ----

// One output, wherever in its panel: what stands first for it, its numbers, their scales, its bias.
void repack_row(const WeightView& weights, uint32_t row, Packing packing, std::byte* panel) {
  const Packing source = weights.packing;
  const uint32_t columns = weights.columns;
  const uint32_t lane = row % packing.nr;
  const uint32_t source_lane = row % source.nr;
  const std::byte* const from =
      weights.data + row / source.nr * panel_bytes(source, columns).value();
  const auto copy = [&](size_t from_place, size_t to_place, size_t bytes) {
    std::memcpy(panel + to_place, from + from_place, bytes);
  };
  copy(source_lane * sizeof(float), lane * sizeof(float), sizeof(float));
  copy(panel_bias(source, columns, source_lane), panel_bias(packing, columns, lane), sizeof(float));
  const WeightType& type = weight_type(weights.type);
  const bool has_blocks = type.block != 0;
  const uint32_t scales_apart = has_blocks ? type.block : columns;
  for (uint32_t i = 0; type.scale_bytes != 0 && i < columns; i += scales_apart) {
    copy(panel_scale(source, columns, i, source_lane), panel_scale(packing, columns, i, lane),
         type.scale_bytes);
  }
  for (uint32_t i = 0; i < columns; ++i) {
    const PanelPlace at = panel_place(source, i, source_lane);
    const PanelPlace place = panel_place(packing, i, lane);
    if (has_blocks) {
      const std::byte half = at.high_half ? from[at.byte] >> 4 : from[at.byte] & std::byte{0xF};
      panel[place.byte] |= place.high_half ? half << 4 : half;
    } else {
      copy(at.byte, place.byte, type.bits / 8u);
    }
  }
}

void repack(const WeightView& weights, Packing packing, std::span<std::byte> packed) {
  if (!weights.is_packed()) {
    std::memcpy(packed.data(), weights.data, packed.size());
    return;
  }
  assert(weights.packing.type == packing.type);
  const size_t bytes_of_panel = panel_bytes(packing, weights.columns).value();
  for (uint32_t row = 0; row < weights.rows; ++row) {
    repack_row(weights, row, packing, packed.data() + row / packing.nr * bytes_of_panel);
  }
}

// What is read below is as long as the tensor says.
void require_size(const ProgramTensor& tensor, uint64_t numbers) {
  if (numbers == uint64_t{tensor.outputs} * tensor.inputs) return;
  throw std::logic_error("the weights of " + tensor.name + " are of another size: this is a bug");
}

}  // namespace

Numbers load_numbers(const ProgramTensor& tensor) {
  if (tensor.packed) return *tensor.packed;
  if (tensor.type != TensorType::kF32) return tensor.load_quantized();
  return tensor.weights.empty() ? tensor.load() : tensor.weights;
}

void pack_weights(const ProgramTensor& tensor, const Numbers& numbers, Packing packing,
                  std::span<std::byte> packed) {
  assert(packed.size() == format::stored_bytes(tensor.shape(), packing).value());
  const bool is_rows = tensor.layout == format::Layout::kPlain;
  std::ranges::fill(packed, std::byte{0});
  if (const auto* matrix = std::get_if<QuantizedMatrix>(&numbers)) {
    require_size(tensor, uint64_t{matrix->rows} * matrix->columns);
    is_rows ? pack_rows(*matrix, packed) : pack_panels(tensor, *matrix, packing, packed);
    return;
  }
  if (const auto* view = std::get_if<WeightView>(&numbers)) return repack(*view, packing, packed);
  const auto& weights = std::get<std::vector<float>>(numbers);
  require_size(tensor, weights.size());
  if (is_rows) {
    std::ranges::copy(std::as_bytes(std::span(weights)), packed.begin());
  } else {
    pack_floats(tensor, weights, packing, packed);
  }
}

}  // namespace arenite::convert
