// SPDX-License-Identifier: Apache-2.0
// Exported programs with several inputs: encoder-decoders, cross-attention, two modalities.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "convert/exported/exported_model.h"
#include "convert/files/npy.h"
#include "convert/graph/interpreter.h"
#include "support/refusal.h"
#include "support/test_data.h"

namespace arenite::convert {
namespace {

using arenite::testing::convert_fixture;
using arenite::testing::refuses;

struct Model {
  const char* name;
  int examples;
  std::vector<std::string> functions;
  bool causal;
  std::vector<uint32_t> positions_max, tokens_min;
  uint32_t context = 0;
};

void PrintTo(const Model& model, std::ostream* out) { *out << model.name; }

// An array of the folder.
NpyArray array_of(const std::string& name) {
  return NpyArray::read(convert_fixture("several_inputs") / (name + ".npy"));
}

// Reads [1, columns, tokens] and [1, samples] as rows of tokens, too.
SequenceInput sequence(const NpyArray& array, bool has_columns_first, EvaluatedInput& kept) {
  if (array.dtype() == DType::kI64) {
    for (const int64_t id : array.to_i64()) kept.tokens.push_back(static_cast<uint32_t>(id));
    return {.tokens = kept.tokens};
  }
  const std::vector<float> values = array.to_f32();
  const bool is_turned = has_columns_first && array.shape().size() == 3;
  const size_t columns = is_turned ? array.shape()[1] : 1;
  for (size_t i = 0; i < values.size(); ++i) {
    kept.features.push_back(values[i % columns * (values.size() / columns) + i / columns]);
  }
  if (!is_turned) kept.features = values;
  return {.features = kept.features};
}

// Compares with what PyTorch gives for each example.
void expect_numbers(const ExportedModel& read, const std::string& name, int examples) {
  for (int i = 0; i < examples; ++i) {
    const std::string example = std::to_string(i);
    EvaluatedInput kept[2];
    std::vector<SequenceInput> inputs;
    for (int j = 0; j < 2; ++j) {
      inputs.push_back(sequence(array_of(name + "_i" + example + "_" + std::to_string(j)),
                                (read.graph.array_flags & kTakesColumnsFirst) != 0, kept[j]));
    }
    const std::vector<double> found = evaluate(read.graph, inputs).values;
    const std::vector<double> expected = array_of(name + "_e" + example).to_f64();
    ASSERT_EQ(found.size(), expected.size());
    // T5 computes its norms in float32 in any case.
    const std::vector<double> rounded = array_of(name + "_f" + example).to_f64();
    double largest = 0.0, error = 0.0, error_of_torch = 0.0;
    for (size_t e = 0; e < expected.size(); ++e) {
      largest = std::max(largest, std::fabs(expected[e]));
      error = std::max(error, std::fabs(expected[e] - found[e]));
      error_of_torch = std::max(error_of_torch, std::fabs(expected[e] - rounded[e]));
    }
    EXPECT_LE(error, std::max(1e-6 * largest, error_of_torch)) << "example " << i;
  }
}

class SeveralInputs : public ::testing::TestWithParam<Model> {};

TEST_P(SeveralInputs, AgreeWithTheProgram) {
  const Model& model = GetParam();
  const std::string name = model.name;
  ModelOptions options;
  options.context = model.context;
  const ExportedModel read =
      read_exported_model(convert_fixture("several_inputs") / (name + ".pt2"), options);
  EXPECT_EQ(read.causal, model.causal);
  std::vector<std::string> functions;
  for (const GraphFunction& function : functions_of(read.graph)) {
    functions.push_back(function.name);
  }
  EXPECT_EQ(functions, model.functions);
  for (size_t i = 0; i < read.graph.inputs.size(); ++i) {
    EXPECT_EQ(read.graph.inputs[i].positions_max, model.positions_max[i]) << read.length;
    EXPECT_EQ(read.graph.inputs[i].tokens_min, model.tokens_min[i]) << read.length;
  }
  expect_numbers(read, name, model.examples);
}

ExportedModel read_model(const char* name) {
  return read_exported_model(convert_fixture("several_inputs") / name, {});
}

TEST(InputsSideBySide, WholeNumbersBecomeColumns) {
  const ExportedModel read = read_model("marks.pt2");
  ASSERT_EQ(read.graph.inputs.size(), 1u);
  EXPECT_EQ(read.account.assumed.size(), 2u);
  const std::string marks = convert_fixture("several_inputs").string() + "/marks_i";
  for (const std::string example : {"0", "1"}) {
    const NpyArray rows = NpyArray::read(marks + example + "_0.npy," + marks + example + "_1.npy");
    const std::vector<float> features = rows.to_f32();
    const std::vector<SequenceInput> inputs = {{.features = features}};
    const std::vector<double> found = evaluate(read.graph, inputs).values;
    const std::vector<double> expected = array_of("marks_e" + example).to_f64();
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-6);
  }
}

TEST(JoinedPrograms, AreOneModel) {
  const ExportedModel joined = joined_programs(read_model("translation_encoder.pt2"),
                                               read_model("translation_decoder.pt2"), "");
  ASSERT_EQ(joined.graph.inputs.size(), 2u);
  EXPECT_EQ(joined.graph.inputs[0].name, "source");
  EXPECT_EQ(joined.graph.inputs[1].name, "target");
  EXPECT_EQ(joined.graph.inputs[0].positions_max, 24u);
  const std::vector<GraphFunction> functions = functions_of(joined.graph);
  ASSERT_EQ(functions.size(), 2u);
  // Keys and values of all layers are made once.
  const auto is_key = [&](ValueId value) {
    return joined.graph.node(value).name.find("multihead_attn") != std::string::npos;
  };
  EXPECT_TRUE(std::ranges::any_of(functions[0].values, is_key));
  expect_numbers(joined, "translation", 2);
}

TEST(JoinedPrograms, AreRefusedWhereTheyDoNotFit) {
  EXPECT_TRUE(refuses(
      [] {
        joined_programs(read_model("translation_decoder.pt2"),
                        read_model("translation_decoder.pt2"), "");
      },
      {"no input with 17 features"}));
  EXPECT_TRUE(refuses(
      [] {
        joined_programs(read_model("translation_encoder.pt2"),
                        read_model("translation_decoder.pt2"), "target");
      },
      {"no input 'target'"}));
}

const std::vector<std::string> kTwo = {"encode", "step"}, kOne = {"run"};

INSTANTIATE_TEST_SUITE_P(
    , SeveralInputs,
    ::testing::Values(Model{"t5", 3, kTwo, true, {24, 24}, {0, 0}, 24},
                      Model{"t5_fixed", 1, kTwo, false, {11, 5}, {11, 5}},
                      Model{"bart", 2, kTwo, true, {24, 24}, {0, 0}},
                      Model{"marian", 2, kTwo, true, {24, 24}, {0, 0}},
                      Model{"whisper", 2, kTwo, true, {20, 14}, {20, 0}, 14},
                      Model{"moonshine", 2, kTwo, true, {2440, 2440}, {1279, 0}, 2440},
                      Model{"translation", 2, kTwo, true, {24, 24}, {0, 0}},
                      Model{"image_text", 2, kTwo, true, {0, 0}, {0, 0}},
                      Model{"hidden_ids", 2, kTwo, false, {0, 0}, {0, 0}},
                      Model{"latents", 2, kTwo, true, {0, 0}, {0, 0}},
                      Model{"joined", 2, kOne, false, {0, 0}, {0, 0}},
                      Model{"pooled", 2, kOne, false, {0, 0}, {0, 0}},
                      Model{"similarity", 2, kOne, false, {0, 0}, {0, 0}},
                      Model{"user", 2, kOne, false, {0, 1}, {0, 1}}),
    [](const ::testing::TestParamInfo<Model>& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace arenite::convert
