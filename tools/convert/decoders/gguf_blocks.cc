// SPDX-License-Identifier: Apache-2.0
// Expands the blocks of GGUF tensors to floats.
#include "convert/decoders/gguf_blocks.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "convert/checkpoint.h"

namespace arenite::convert {
namespace {

constexpr uint32_t kF32 = 0;
constexpr uint32_t kF16 = 1;
constexpr uint32_t kQ40 = 2;
constexpr uint32_t kQ80 = 8;
constexpr uint32_t kBF16 = 30;
constexpr uint32_t kBlockElements = 32;

constexpr GgufBlock kBlocks[] = {
    {kF32, "F32", 1, 4},
    {kF16, "F16", 1, 2},
    {kQ40, "Q4_0", kBlockElements, 2 + kBlockElements / 2},
    {3, "Q4_1"},
    {6, "Q5_0"},
    {7, "Q5_1"},
    {kQ80, "Q8_0", kBlockElements, 2 + kBlockElements},
    {9, "Q8_1"},
    {10, "Q2_K"},
    {11, "Q3_K"},
    {12, "Q4_K"},
    {13, "Q5_K"},
    {14, "Q6_K"},
    {15, "Q8_K"},
    {16, "IQ2_XXS"},
    {17, "IQ2_XS"},
    {18, "IQ3_XXS"},
    {19, "IQ1_S"},
    {20, "IQ4_NL"},
    {21, "IQ3_S"},
    {22, "IQ2_S"},
    {23, "IQ4_XS"},
    {24, "I8"},
    {25, "I16"},
    {26, "I32"},
    {27, "I64"},
    {28, "F64"},
    {29, "IQ1_M"},
    {kBF16, "BF16", 1, 2},
    {34, "TQ1_0"},
    {35, "TQ2_0"},
    {39, "MXFP4"},
};

std::vector<float> read_floats(DType dtype, std::span<const std::byte> data) {
  CheckpointTensor tensor;
  tensor.dtype = dtype;
  tensor.shape = {data.size() / bytes(dtype)};
  tensor.strides = {1};
  tensor.data = data;
  return tensor.to_f32();
}

// Scale as F16, then the quants: one int8 each, or two elements in a byte, of which the low half
// belongs to the first half of the block; 8 stands for zero there.
std::vector<float> read_quants(const GgufBlock& block, std::span<const std::byte> data) {
  std::vector<float> values;
  values.reserve(data.size() / block.bytes * block.elements);
  for (size_t start = 0; start < data.size(); start += block.bytes) {
    const float scale = read_floats(DType::kF16, data.subspan(start, 2))[0];
    const std::span<const std::byte> quants = data.subspan(start + 2, block.bytes - 2);
    if (block.type == kQ80) {
      for (const std::byte quant : quants) {
        values.push_back(scale * static_cast<float>(static_cast<int8_t>(quant)));
      }
      continue;
    }
    for (const std::byte pair : quants) {
      values.push_back(scale * static_cast<float>(std::to_integer<int>(pair & std::byte{15}) - 8));
    }
    for (const std::byte pair : quants) {
      values.push_back(scale * static_cast<float>(std::to_integer<int>(pair >> 4) - 8));
    }
  }
  return values;
}

}  // namespace

const GgufBlock* find_gguf_block(uint32_t type) {
  const auto found = std::find_if(std::begin(kBlocks), std::end(kBlocks),
                                  [&](const GgufBlock& block) { return block.type == type; });
  return found == std::end(kBlocks) ? nullptr : found;
}

std::vector<float> read_gguf_blocks(const GgufBlock& block, std::span<const std::byte> data) {
  switch (block.type) {
    case kF32:
      return read_floats(DType::kF32, data);
    case kF16:
      return read_floats(DType::kF16, data);
    case kBF16:
      return read_floats(DType::kBF16, data);
    default:
      return read_quants(block, data);
  }
}

}  // namespace arenite::convert
