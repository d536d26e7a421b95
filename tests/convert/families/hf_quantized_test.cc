// SPDX-License-Identifier: Apache-2.0
// Decoders quantized by GPTQ, compressed-tensors and bitsandbytes
// (tests/convert/data/make_quantized.py): dequantized weights give the results of transformers, and
// the integers can be taken over as they are.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "convert/convert.h"
#include "convert/families/quantized_model.h"
#include "convert/families/tiny_models.h"
#include "convert/files/json_file.h"
#include "convert/spec/quantized_weights.h"
#include "support/recognised.h"
#include "support/reference_models.h"

namespace arenite::convert {
namespace {

using namespace testing;
namespace fs = std::filesystem;
using nlohmann::json;

constexpr double kQuantizedError = 2e-6;  // transformers computes norms and angles in float32
constexpr double kHalfStep = 0x1p-8;      // the most that a scale changes, as a share

struct QuantizedCase {
  const char* folder;
  TensorType type;
  const char* scheme;
};

class HfQuantized : public ::testing::TestWithParam<QuantizedCase> {
 protected:
  const fs::path folder_ = quantized_fixture(GetParam().folder);
  const json expected_ = read_json_value(folder_ / "expected.json");
  const std::vector<uint32_t> ids_ = expected_["ids"];
};

TEST_P(HfQuantized, GivesTheResultsOfTransformers) {
  std::vector<double> expected;
  for (const json& row : expected_["results"]) {
    for (const json& value : row) expected.push_back(value);
  }
  const TransformerSpec spec = decoder_at(folder_);
  EXPECT_TRUE(near(reference_decoder(spec, ids_).values, expected, kQuantizedError));
}

// The conversion itself compares the runtime with the reference.
TEST_P(HfQuantized, RunsAsTheReferenceSays) {
  const Conversion conversion = convert_model(folder_, "tiny", {}, {Target::kPortable});
  ASSERT_EQ(conversion.checks.size(), 1u);
  EXPECT_TRUE(conversion.checks[0].ran);
}

TEST_P(HfQuantized, AllLayersOfferIntegersThatGiveTheirWeights) {
  const TransformerSpec spec = decoder_at(folder_);
  for (const LinearSpec& linear : layers_of(spec)) {
    const WeightRef& weight = linear.weight;
    SCOPED_TRACE(weight.name);
    ASSERT_TRUE(offers(weight, GetParam().type));
    EXPECT_EQ(weight.quantized.scheme, GetParam().scheme);
    const QuantizedMatrix matrix = weight.load_quantized();
    EXPECT_EQ(matrix.type, GetParam().type);
    EXPECT_EQ(matrix.rows, weight.rows);
    EXPECT_EQ(matrix.columns, weight.columns);
    const Floats numbers = weight.load();
    ASSERT_EQ(matrix.values.size(), numbers.size());
    const size_t block = numbers.size() / matrix.scales.size();
    EXPECT_EQ(block, matrix.type == TensorType::kQ4 ? kQ4Block : weight.columns);
    const double change = matrix.type == TensorType::kQ4 ? kHalfStep : 1e-7;
    for (size_t i = 0; i < numbers.size(); ++i) {
      const double found = double{matrix.scales[i / block]} * matrix.values[i];
      ASSERT_LE(std::fabs(found - double{numbers[i]}), change * std::fabs(numbers[i])) << i;
    }
    EXPECT_LE(change_of_scales(weight).largest, change);
  }
  EXPECT_FALSE(spec.token_embedding->load_quantized);
}

INSTANTIATE_TEST_SUITE_P(
    Schemes, HfQuantized,
    ::testing::Values(QuantizedCase{"gptq", TensorType::kQ4, "GPTQ, groups of 64"},
                      QuantizedCase{"gptq-v2-rows", TensorType::kQ4, "GPTQ, a scale for each row"},
                      QuantizedCase{"gptq-8-rows", TensorType::kQ8, "GPTQ, a scale for each row"},
                      QuantizedCase{"gptq-conv1d", TensorType::kQ4, "GPTQ, groups of 32"},
                      QuantizedCase{"int-quantized", TensorType::kQ8,
                                    "compressed-tensors, int8 by row"},
                      QuantizedCase{"pack-quantized", TensorType::kQ4,
                                    "compressed-tensors, int4 in groups of 32"},
                      QuantizedCase{"bitsandbytes", TensorType::kQ8, "bitsandbytes, int8 by row"}),
    [](const ::testing::TestParamInfo<QuantizedCase>& info) {
      std::string name = info.param.folder;
      std::erase(name, '-');
      return name;
    });

// Groups of any columns, each with its own zero point, fit no type: only their products are given.
TEST(HfQuantizedFiles, ActOrderWithZerosGivesTheResultsOfTransformers) {
  const fs::path folder = quantized_fixture("gptq-act-order");
  const json expected = read_json_value(folder / "expected.json");
  std::vector<double> results;
  for (const json& row : expected["results"]) {
    for (const json& value : row) results.push_back(value);
  }
  const TransformerSpec spec = decoder_at(folder);
  const auto ids = expected["ids"].get<std::vector<uint32_t>>();
  EXPECT_TRUE(near(reference_decoder(spec, ids).values, results, kQuantizedError));
  const WeightRef& down = spec.layers[0].down.weight;
  EXPECT_FALSE(down.load_quantized);
}

// Both folders hold equal integers relative to their zeros, except at the ends of the range.
TEST(HfQuantizedFiles, AwqEqualsGptqRelativeToItsZeros) {
  QuantizedModel model("gptq");
  const TransformerSpec gptq = model.open();
  std::vector<std::vector<float>> expected;
  for (const LinearSpec& linear : layers_of(gptq)) expected.push_back(linear.weight.load().copy());
  to_awq(model);
  const std::vector<LinearSpec> layers = layers_of(model.open());
  size_t same = 0, numbers = 0;
  for (size_t layer = 0; layer < expected.size(); ++layer) {
    const WeightRef& weight = layers[layer].weight;
    EXPECT_FALSE(offers(weight, TensorType::kQ4));  // which has no zeros
    const Floats found = weight.load();
    ASSERT_EQ(found.size(), expected[layer].size());
    for (size_t i = 0; i < found.size(); ++i) same += found[i] == expected[layer][i] ? 1 : 0;
    numbers += found.size();
  }
  EXPECT_GT(same, numbers * 9 / 10);
}

// Older programs leave a bias of zeros with each layer, and their settings in a file of their own.
TEST(HfQuantizedFiles, FoldersOfOlderProgramsAreRead) {
  QuantizedModel model("gptq");
  json own = model.quantization();
  own.erase("quant_method");
  own["model_file_base_name"] = "model";
  model.config.erase("quantization_config");
  EXPECT_TRUE(model.refuses({"no place"}));
  model.folder.write("quantize_config.json", own.dump());
  EXPECT_NO_THROW(model.open());
  model.set("bias", 4, uint16_t{0x3c00});
  EXPECT_TRUE(model.refuses({"no place", "o_proj.bias"}));
}

// Rows of 120 inputs are not whole blocks of q4: they fall back, with unchanged values.
TEST(HfQuantizedFiles, RowsOfPartialBlocksGiveFloatsOnly) {
  QuantizedModel model("gptq-v2-rows");
  for (auto& [name, tensor] : model.tensors) {
    if (!name.starts_with("model.layers.") || !name.ends_with("mlp.down_proj.qweight")) continue;
    tensor.shape = {15, 64};
    tensor.bytes.resize(15 * 64 * 4);
    const std::string layer = name.substr(0, name.size() - std::string("down_proj.qweight").size());
    model.tensors.at(layer + "down_proj.g_idx") = {"I32", {120}, std::string(120 * 4, '\0')};
    for (const char* part : {"gate_proj", "up_proj"}) {
      QuantizedModel::Tensor& words = model.tensors.at(layer + part + ".qweight");
      std::string kept;
      for (size_t row = 0; row < 8; ++row) kept += words.bytes.substr(row * 128 * 4, 120 * 4);
      words = {"I32", {8, 120}, kept};
      QuantizedModel::Tensor& scales = model.tensors.at(layer + part + ".scales");
      scales = {"F16", {1, 120}, scales.bytes.substr(0, 240)};
      QuantizedModel::Tensor& zeros = model.tensors.at(layer + part + ".qzeros");
      zeros = {"I32", {1, 15}, zeros.bytes.substr(0, 60)};
    }
  }
  model.config["intermediate_size"] = 120;
  const TransformerSpec spec = model.open();
  const WeightRef& down = spec.layers[0].down.weight;
  EXPECT_FALSE(down.load_quantized);
  EXPECT_FALSE(offers(down, TensorType::kQ4));
  EXPECT_TRUE(offers(spec.layers[0].up.weight, TensorType::kQ4));
  const Floats whole = decoder_at(quantized_fixture("gptq-v2-rows")).layers[0].down.weight.load();
  const Floats cut = down.load();
  for (size_t i = 0; i < cut.size(); ++i) ASSERT_EQ(cut[i], whole[i / 120 * 128 + i % 120]);
}

}  // namespace
}  // namespace arenite::convert
