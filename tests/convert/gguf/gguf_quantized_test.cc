// SPDX-License-Identifier: Apache-2.0
// Q4_0 weights are taken over without requantization, also through the passes that reorder rows; no
// other type keeps its integers.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "convert/families/families.h"
#include "convert/files/json_file.h"
#include "convert/gguf/gguf_builder.h"
#include "convert/passes/passes.h"
#include "convert/spec/model_tensors.h"
#include "convert/spec/quantized_weights.h"
#include "support/recognised.h"
#include "support/refusal.h"
#include "support/test_data.h"

namespace arenite::convert {
namespace {

using namespace testing;

constexpr double kHalfStep = 0x1p-8 / (1 + 0x1p-8);  // the most that a scale changes, as a share

// |found - expected| <= kHalfStep * |expected| everywhere.
void expect_same_but_for_scales(const QuantizedMatrix& matrix, std::span<const float> expected) {
  ASSERT_EQ(matrix.type, TensorType::kQ4);
  ASSERT_EQ(matrix.values.size(), expected.size());
  ASSERT_EQ(matrix.scales.size() * kQ4Block, expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    const double found = double{matrix.scales[i / kQ4Block]} * matrix.values[i];
    ASSERT_LE(std::fabs(found - double{expected[i]}), kHalfStep * std::fabs(expected[i])) << i;
    uint32_t bits = 0;
    std::memcpy(&bits, &matrix.scales[i / kQ4Block], sizeof bits);
    ASSERT_EQ(bits & 0xffffu, 0u) << "no bfloat16";
  }
}

class GgufQuantized : public ::testing::Test {
 protected:
  TensorStore open(const GgufBuilder& builder) {
    return tensors_of(GgufFile::read(folder_.write("m.gguf", builder.bytes())));
  }

  TempFolder folder_;
};

// The fixture's scales are ordinary and extreme ones: the largest, subnormal ones, zeros.
TEST_F(GgufQuantized, OnlyBlocksOfQ4KeepTheirIntegers) {
  size_t offered = 0;
  for (const nlohmann::json& kind : read_json_value(convert_fixture("gguf_blocks.json"))) {
    const GgufBlock& block = *find_gguf_block(kind["type"]);
    const std::string data = bytes_of_hex(kind["blocks"]);
    const uint64_t columns = 2ull * block.elements;
    const uint64_t rows = data.size() / block.bytes / 2;
    const TensorStore store = open(GgufBuilder().tensor("w", {columns, rows}, block.type, data));
    const StoredTensor& tensor = store.tensors()[0];
    const bool is_q4 = kind["name"] == "Q4_0";
    EXPECT_EQ(static_cast<bool>(tensor.load_quantized), is_q4) << kind["name"];
    EXPECT_EQ(tensor.quantized.scheme, is_q4 ? "Q4_0" : "");
    if (!is_q4) continue;
    ++offered;
    const QuantizedMatrix matrix = tensor.load_quantized();
    EXPECT_EQ(matrix.rows, rows);
    EXPECT_EQ(matrix.columns, columns);
    expect_same_but_for_scales(matrix, tensor.load());
  }
  EXPECT_EQ(offered, 1u);
}

TEST_F(GgufQuantized, AScaleThatIsNotFiniteIsRefusedInBothForms) {
  std::string blocks(2 * 18, '\x11');
  blocks[18] = '\x01';
  blocks[19] = '\x7e';  // NaN
  const TensorStore store = open(GgufBuilder().tensor("w", {32, 2}, kGgufQ4, blocks));
  EXPECT_TRUE(refuses([&] { store.tensors()[0].load_quantized(); },
                      {"m.gguf", "'w'", "row 1, columns 0 to 31", "nan"}));
  ModelTensors tensors(store);
  const WeightRef weight = tensors.matrix("w", 2, 32);
  EXPECT_TRUE(refuses([&] { weight.load(); }, {"'w'", "nan at index 32"}));
}

// Queries and keys of llama files are in another order of rows than the runtime's.
TEST_F(GgufQuantized, RowsOfALlamaKeepTheirIntegersThroughAllPasses) {
  TensorMap tensors = llama_tensors();
  const GgufBuilder builder = gguf_of_llama("llama", tensors, kGgufFormats[4]);
  const TransformerSpec spec = decoder_at(folder_.write("m.gguf", builder.bytes()));
  ASSERT_TRUE(spec.rope->turns_neighbours);
  Graph graph = build_graph(spec);
  for (const ValueId value : graph.order()) {
    auto* linear = graph.as<LinearNode>(value);
    if (linear == nullptr) continue;
    LinearPart& part = linear->parts[0];
    ASSERT_TRUE(offers(part.linear.weight, TensorType::kQ4)) << part.linear.weight.name;
    part.storage.is_taken_over = true;
  }
  graph = rewrite(std::move(graph));
  size_t weights = 0;
  for (const ValueId value : graph.order()) {
    EXPECT_EQ(graph.as<PermuteNode>(value), nullptr);
    const auto* linear = graph.as<LinearNode>(value);
    if (linear == nullptr) continue;
    for (const LinearPart& part : linear->parts) {
      ASSERT_TRUE(offers(part.linear.weight, TensorType::kQ4)) << part.linear.weight.name;
      expect_same_but_for_scales(part.linear.weight.load_quantized(), part.linear.weight.load());
      EXPECT_LE(change_of_scales(part.linear.weight).largest, kHalfStep);
      ++weights;
    }
  }
  EXPECT_EQ(weights, 7u * kLayers + 1);
}

}  // namespace
}  // namespace arenite::convert
