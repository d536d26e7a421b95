// SPDX-License-Identifier: Apache-2.0
// Each refusal of a module has a message with the remedy.
#include <gtest/gtest.h>

#include <cmath>

#include "convert/modules/conversion_case.h"
#include "support/random.h"

namespace arenite::test {
namespace {

using convert::DType;
using convert::ModelOptions;

CheckpointBuilder split_weights(uint32_t outputs = 4, uint32_t inputs = 3) {
  CheckpointBuilder weights;
  for (const char* name : {"W_query", "W_key", "W_value"}) {
    weights.add_linear(name, outputs, inputs);
  }
  return weights;
}

CheckpointBuilder torch_weights() {
  CheckpointBuilder weights;
  weights.add("q_proj_weight", {4, 4}).add("k_proj_weight", {4, 5}).add("v_proj_weight", {4, 7});
  return weights.add("in_proj_bias", {12}).add_linear("out_proj", 4, 4);
}

ModelOptions with_heads(uint32_t heads) {
  ModelOptions options;
  options.heads = heads;
  return options;
}

::testing::AssertionResult is_refused(const CheckpointBuilder& weights,
                                      std::initializer_list<std::string_view> parts,
                                      const ModelOptions& options = {}) {
  return test::is_refused(weights.safetensors(), options, parts);
}

TEST(RecognitionErrors, ListTheTensorsAndTheKnownModulesWhereNoneIsFound) {
  CheckpointBuilder weights;
  weights.add("conv1.weight", {4, 3, 3, 3}).add("steps", {}, {7}, DType::kI64);
  EXPECT_TRUE(is_refused(weights, {"no attention module found", "'conv1.weight' [4, 3, 3, 3] F32",
                                   "'steps' [] I64", "c_attn c_proj", "W_query W_key W_value"}));
  EXPECT_TRUE(is_refused(CheckpointBuilder(), {"no attention module found", "(no tensors)"}));
}

TEST(RecognitionErrors, ListAtMostThirtyTensors) {
  CheckpointBuilder weights;
  for (int i = 0; i < 50; ++i) weights.add("t" + std::to_string(i), {1});
  EXPECT_TRUE(is_refused(weights, {"'t29'", "... and 20 more"}));
}

TEST(RecognitionErrors, DoNotTakeAnUnknownModuleForItsMask) {
  CheckpointBuilder weights;
  weights.add("heads.0.tril", {4, 4}, std::vector<double>(16, 1)).add("heads.0.key.weight", {2, 3});
  EXPECT_TRUE(is_refused(weights, {"no attention module found", "'heads.0.key.weight'"}));
}

TEST(RecognitionErrors, ListThePrefixesOfSeveralModules) {
  CheckpointBuilder weights;
  for (const char* prefix : {"h.0.", "h.1."}) {
    for (const char* name : {"W_query", "W_key", "W_value"}) {
      weights.add_linear(std::string(prefix) + name, 2, 2);
    }
  }
  EXPECT_TRUE(is_refused(weights, {"there are 2 modules", "--module PREFIX", "'h.0.'", "'h.1.'"}));
  ModelOptions options;
  options.module = "h.2";
  EXPECT_TRUE(is_refused(weights, {"there is no module 'h.2'", "'h.0.'", "'h.1.'"}, options));
}

TEST(RecognitionErrors, ListTensorsThatAreLeftOver) {
  EXPECT_TRUE(is_refused(split_weights().add("W_gate.weight", {4, 3}).add("norm.weight", {3}),
                         {"not part of it", "'W_gate.weight'", "'norm.weight'", "--module"}));
  CheckpointBuilder elsewhere;
  for (const char* name : {"a.W_query", "a.W_key", "a.W_value"}) elsewhere.add_linear(name, 2, 2);
  elsewhere.add("ab.weight", {1});
  EXPECT_TRUE(is_refused(elsewhere, {"not part of it", "'ab.weight'"}));
  ModelOptions options;
  options.module = "a";
  EXPECT_NO_THROW(convert_bytes(elsewhere.safetensors(), options));
}

TEST(RecognitionErrors, NameTheMissingTensor) {
  EXPECT_TRUE(is_refused(split_weights().remove("W_key.weight"),
                         {"'W_key.weight' is missing", "'W_value.weight' [4, 3] F32"}));
  CheckpointBuilder bert;
  bert.add_linear("x.fc_out", 4, 4).add_linear("x.query", 4, 4).add_linear("x.key", 4, 4);
  EXPECT_TRUE(is_refused(bert, {"'x.value.weight' is missing"}));
  CheckpointBuilder gpt;
  EXPECT_TRUE(
      is_refused(gpt.add_linear("c_attn", 12, 4), {"'c_proj.weight' is missing"}, with_heads(2)));
}

TEST(RecognitionErrors, AskForHeadsAndListTheDivisors) {
  EXPECT_TRUE(is_refused(split_weights(12).add_linear("out_proj", 5, 12),
                         {"--heads N", "12 wide", "1, 2, 3, 4, 6, 12"}));
}

TEST(RecognitionErrors, ListTheDivisorsWhereHeadsDoNotDivide) {
  const CheckpointBuilder weights = split_weights(12);
  EXPECT_TRUE(is_refused(weights, {"'W_query.weight'", "12 values", "5 heads", "1, 2, 3, 4, 6, 12"},
                         with_heads(5)));
  EXPECT_TRUE(is_refused(weights, {"24 heads"}, with_heads(24)));
  EXPECT_TRUE(is_refused(weights, {"4294967295 heads"}, with_heads(UINT32_MAX)));
  EXPECT_TRUE(is_refused(split_weights(12).add_linear("W_value", 10, 3),
                         {"'W_value.weight'", "10 values", "4 heads", "1, 2, 5, 10"},
                         with_heads(4)));
}

TEST(RecognitionErrors, ContradictHeadsThatTheNamesCount) {
  CheckpointBuilder weights;
  for (const char* head : {"heads.0.", "heads.1."}) {
    for (const char* name : {"W_query", "W_key", "W_value"}) {
      weights.add_linear(std::string(head) + name, 2, 3);
    }
  }
  EXPECT_TRUE(is_refused(weights, {"has 2 heads", "--heads is 3"}, with_heads(3)));
  EXPECT_TRUE(
      is_refused(weights.add("heads.0.mask", {2, 2}, {0, 1, 0, 0}), {"1 of 2 heads have a mask"}));
}

TEST(RecognitionErrors, CompareTheShapesOfProjections) {
  EXPECT_TRUE(is_refused(split_weights().add_linear("W_key", 5, 3),
                         {"'W_key.weight'", "5 outputs", "expected 4"}));
  EXPECT_TRUE(is_refused(split_weights().add_linear("W_value", 4, 9),
                         {"'W_value.weight'", "9 inputs", "expected 3"}));
  EXPECT_TRUE(is_refused(split_weights().add_linear("out_proj", 4, 5),
                         {"'out_proj.weight'", "5 inputs", "expected 4"}, with_heads(2)));
  EXPECT_TRUE(
      is_refused(split_weights().add("W_key.bias", {3}), {"'W_key.bias'", "[3]", "expected [4]"}));
  EXPECT_TRUE(is_refused(split_weights().add("W_key.weight", {4, 3, 1}),
                         {"'W_key.weight'", "[4, 3, 1]", "expected a matrix"}));
  EXPECT_TRUE(
      is_refused(split_weights().add("W_key.weight", {0, 3}), {"'W_key.weight'", "[0, 3]"}));
}

TEST(RecognitionErrors, CompareTheShapesOfFusedProjections) {
  CheckpointBuilder gpt;
  gpt.add_linear("c_attn", 12, 5).add_linear("c_proj", 4, 4);
  EXPECT_TRUE(is_refused(gpt, {"'c_attn.weight'", "[12, 5]", "[3 C, C]"}, with_heads(2)));
  CheckpointBuilder conv1d;
  conv1d.add("c_attn.weight", {4, 12}).add("c_attn.bias", {4}).add_linear("c_proj", 4, 4);
  EXPECT_TRUE(is_refused(conv1d, {"'c_attn.bias'", "[4]", "expected [12]"}, with_heads(2)));
  CheckpointBuilder torch;
  torch.add("in_proj_weight", {13, 4}).add_linear("out_proj", 4, 4);
  EXPECT_TRUE(is_refused(torch, {"'in_proj_weight'", "13 rows", "3 x embed_dim"}, with_heads(2)));
}

TEST(RecognitionErrors, CompareTheShapesOfSeparateProjections) {
  EXPECT_NO_THROW(convert_bytes(torch_weights().safetensors(), with_heads(2)));
  EXPECT_TRUE(is_refused(torch_weights().add("v_proj_weight", {6, 7}),
                         {"'v_proj_weight'", "6 outputs", "expected 4"}, with_heads(2)));
  EXPECT_TRUE(is_refused(torch_weights().add("k_proj_weight", {6, 5}),
                         {"'k_proj_weight'", "6 outputs", "expected 4"}, with_heads(2)));
  EXPECT_TRUE(is_refused(torch_weights().add("in_proj_bias", {8}),
                         {"'in_proj_bias'", "[8]", "expected [12]"}, with_heads(2)));
  EXPECT_TRUE(is_refused(torch_weights().add("bias_k", {1, 1, 4}),
                         {"'bias_k'", "add_bias_kv", "not supported"}, with_heads(2)));
}

TEST(RecognitionErrors, NameTheIndexOfAWeightThatIsNotFinite) {
  std::vector<double> values(12, 0.5);
  values[7] = std::nan("");
  EXPECT_TRUE(is_refused(split_weights().add("W_key.weight", {4, 3}, values),
                         {"'W_key.weight'", "nan", "index 7", "expected finite"}));
  values[7] = -INFINITY;
  EXPECT_TRUE(is_refused(split_weights().add("W_key.weight", {4, 3}, values, DType::kF16),
                         {"'W_key.weight'", "-inf", "index 7"}));
  values[7] = 1e300;
  EXPECT_TRUE(is_refused(split_weights().add("W_key.weight", {4, 3}, values, DType::kF64),
                         {"'W_key.weight'", "inf", "index 7"}));
  EXPECT_TRUE(is_refused(split_weights().add("W_query.bias", {4}, {0, 0, INFINITY, 0}),
                         {"'W_query.bias'", "inf", "index 2"}));
}

TEST(RecognitionErrors, RefuseWeightsThatAreWholeNumbers) {
  EXPECT_TRUE(is_refused(split_weights().add("W_key.weight", {4, 3}, {}, DType::kI8),
                         {"'W_key.weight'", "I8", "F64, F32, F16 or BF16"}));
}

TEST(RecognitionErrors, RefuseWeightsThatOverflowFloats) {
  CheckpointBuilder weights;
  const std::vector<double> huge(12, 3e37);
  for (const char* name : {"W_query.weight", "W_key.weight", "W_value.weight"}) {
    weights.add(name, {4, 3}, huge);
  }
  EXPECT_TRUE(is_refused(weights, {"too large for float32", "expected finite results"}));
}

TEST(RecognitionErrors, AskForTheWidthOfAMaskAlone) {
  CheckpointBuilder weights;
  weights.add("tril", {2, 2}, {1, 0, 1, 1});
  EXPECT_TRUE(is_refused(weights, {"--features N"}));
  ModelOptions options = with_heads(2);
  options.features = 3;
  EXPECT_TRUE(is_refused(weights, {"one head", "--heads is 2"}, options));
}

TEST(RecognitionErrors, RefuseMoreMasksThanAFileHolds) {
  CheckpointBuilder weights;
  for (uint32_t head = 0; head < 300; ++head) {
    const std::string prefix = "heads." + std::to_string(head) + ".";
    for (const char* name : {"W_query", "W_key", "W_value"}) {
      weights.add_linear(prefix + name, 1, 1, false);
    }
    Random random(head);
    std::vector<double> visible(24 * 24);
    for (uint32_t i = 0; i < visible.size(); ++i) visible[i] = i % 25 == 0 || random.below(2) == 0;
    weights.add(prefix + "tril", {24, 24}, visible);
  }
  EXPECT_TRUE(is_refused(weights, {"at most 256"}));
}

}  // namespace
}  // namespace arenite::test
