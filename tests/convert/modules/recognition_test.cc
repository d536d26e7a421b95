// SPDX-License-Identifier: Apache-2.0
// Every known module is recognised by its parameter names, and gives its author's results.
#include <gtest/gtest.h>

#include <algorithm>

#include "convert/modules/conversion_case.h"

namespace arenite::test {
namespace {

using convert::Conversion;
using convert::DType;
using convert::ModelOptions;

// A checkpoint, the options that its conversion needs, and the oracle of the recognised module.
struct Idiom {
  std::string architecture;
  CheckpointBuilder weights;
  ModelOptions options;
  AttentionOracle oracle;
};

// Returns 1 above the diagonal, where keys are hidden.
std::vector<double> upper_ones(uint32_t positions) {
  std::vector<double> ones;
  for (uint32_t i = 0; i < positions * positions; ++i) {
    ones.push_back(i % positions > i / positions ? 1.0 : 0.0);
  }
  return ones;
}

std::vector<double> lower_ones(uint32_t positions) {
  std::vector<double> ones = upper_ones(positions);
  for (double& one : ones) one = 1.0 - one;
  return ones;
}

// query, key and value by these names, `features` wide.
Idiom split_idiom(const char* architecture, const std::vector<std::string>& names,
                  uint32_t features, uint32_t key_width, uint32_t value_width, bool bias) {
  Idiom idiom;
  idiom.architecture = architecture;
  const uint32_t widths[] = {key_width, key_width, value_width};
  OracleLinear* const parts[] = {&idiom.oracle.query, &idiom.oracle.key, &idiom.oracle.value};
  for (size_t i = 0; i < 3; ++i) {
    idiom.weights.add_linear(names[i], widths[i], features, bias);
    *parts[i] = oracle_linear(idiom.weights, names[i], widths[i], features, bias);
  }
  idiom.oracle.sees = sees_causal;
  return idiom;
}

void add_output(Idiom& idiom, const std::string& name, uint32_t outputs, bool bias = true) {
  const uint32_t inputs = idiom.oracle.value.outputs;
  idiom.weights.add_linear(name, outputs, inputs, bias);
  idiom.oracle.output = oracle_linear(idiom.weights, name, outputs, inputs, bias);
}

void set_heads(Idiom& idiom, uint32_t heads) { idiom.options.heads = idiom.oracle.heads = heads; }

const std::vector<std::string> kSplit = {"W_query", "W_key", "W_value"};

Idiom causal_attention() {
  Idiom idiom = split_idiom("CausalAttention", kSplit, 3, 2, 2, false);
  idiom.weights.add("mask", {6, 6}, upper_ones(6));
  return idiom;
}

Idiom causal_attention_with_bias() { return split_idiom("CausalAttention", kSplit, 5, 4, 7, true); }

Idiom multi_head_attention() {
  Idiom idiom = split_idiom("MultiHeadAttention", kSplit, 6, 12, 9, false);
  add_output(idiom, "out_proj", 5);
  idiom.weights.add("mask", {33, 33}, upper_ones(33), DType::kBool);
  set_heads(idiom, 3);
  return idiom;
}

Idiom heads_in_modules_of_their_own() {
  Idiom idiom;
  idiom.architecture = "MultiHeadAttention, one module per head";
  OracleLinear* const parts[] = {&idiom.oracle.query, &idiom.oracle.key, &idiom.oracle.value};
  for (uint32_t head = 0; head < 11; ++head) {  // so that heads.10 comes before heads.2 by name
    const std::string prefix = "heads." + std::to_string(head) + ".";
    for (size_t i = 0; i < 3; ++i) {
      const uint32_t outputs = i == 2 ? 3 : 2;
      idiom.weights.add_linear(prefix + kSplit[i], outputs, 4);
      const OracleLinear part = oracle_linear(idiom.weights, prefix + kSplit[i], outputs, 4);
      parts[i]->inputs = 4;
      parts[i]->outputs += outputs;
      for (const double w : part.weights) parts[i]->weights.push_back(w);
      for (const double b : part.bias) parts[i]->bias.push_back(b);
    }
    idiom.weights.add(prefix + "mask", {6, 6}, upper_ones(6));
  }
  idiom.oracle.heads = 11;
  idiom.oracle.sees = sees_causal;
  return idiom;
}

Idiom bert_style() {
  Idiom idiom = split_idiom("BERT-style attention", {"query", "key", "value"}, 8, 8, 8, true);
  add_output(idiom, "fc_out", 8);
  idiom.oracle.sees = sees_all;
  set_heads(idiom, 4);
  return idiom;
}

Idiom self_attention(uint32_t heads) {
  Idiom idiom = split_idiom(heads == 1 ? "SelfAttention" : "MultiHeadSelfAttention",
                            {"linear_q", "linear_k", "linear_v"}, 6, 8, 20, heads > 1);
  idiom.oracle.sees = sees_all;
  if (heads > 1) set_heads(idiom, heads);
  return idiom;
}

Idiom gpt() {
  Idiom idiom;
  idiom.architecture = "GPT CausalSelfAttention";
  idiom.weights.add_linear("c_attn", 24, 8);
  idiom.oracle.query = oracle_linear(idiom.weights, "c_attn", 8, 8, true, 0);
  idiom.oracle.key = oracle_linear(idiom.weights, "c_attn", 8, 8, true, 8);
  idiom.oracle.value = oracle_linear(idiom.weights, "c_attn", 8, 8, true, 16);
  add_output(idiom, "c_proj", 8, false);
  idiom.weights.add("bias", {1, 1, 17, 17}, lower_ones(17));
  idiom.oracle.sees = sees_causal;
  set_heads(idiom, 2);
  return idiom;
}

// Has only a mask: each row is the mean of the rows that it sees.
Idiom causal_mean() {
  Idiom idiom;
  idiom.architecture = "causal mean";
  idiom.weights.add("tril", {8, 8}, lower_ones(8));
  idiom.options.features = 3;
  idiom.oracle.query = {1, 3, {0, 0, 0}, {}};
  idiom.oracle.key = {1, 3, {0, 0, 0}, {}};
  idiom.oracle.value = {3, 3, {1, 0, 0, 0, 1, 0, 0, 0, 1}, {}};
  idiom.oracle.sees = sees_causal;
  return idiom;
}

std::vector<Idiom> all_idioms() {
  return {causal_attention(),     causal_attention_with_bias(),
          multi_head_attention(), heads_in_modules_of_their_own(),
          bert_style(),           self_attention(1),
          self_attention(4),      gpt(),
          causal_mean()};
}

TEST(Recognition, AgreesWithEveryKnownModule) {
  for (const Idiom& idiom : all_idioms()) {
    const Conversion conversion = convert_bytes(idiom.weights.safetensors(), idiom.options);
    EXPECT_EQ(conversion.module()->architecture, idiom.architecture);
    EXPECT_TRUE(runs_as(conversion, idiom.oracle)) << idiom.architecture;
  }
}

TEST(Recognition, DoesNotCareAboutThePrefix) {
  for (const Idiom& idiom : all_idioms()) {
    const Conversion plain = convert_bytes(idiom.weights.safetensors(), idiom.options);
    for (const char* prefix : {"attn.", "model.layer.0.attn.", "multi_heads.", "heads.attn."}) {
      const Conversion found = convert_bytes(idiom.weights.safetensors(prefix), idiom.options);
      EXPECT_TRUE(std::ranges::equal(found.file.span(), plain.file.span()))
          << idiom.architecture << " " << prefix;
    }
  }
}

TEST(Recognition, GivesTheSameModelForEveryTypeThatHoldsTheSameWeights) {
  for (const Idiom& idiom : all_idioms()) {
    const Conversion plain = convert_bytes(idiom.weights.safetensors(), idiom.options);
    for (const DType dtype : {DType::kF16, DType::kBF16, DType::kF64}) {
      const Conversion found = convert_bytes(idiom.weights.safetensors("", dtype), idiom.options);
      EXPECT_TRUE(std::ranges::equal(found.file.span(), plain.file.span()))
          << idiom.architecture << " " << name(dtype);
    }
  }
}

TEST(Recognition, TakesOneOfSeveralModulesByItsPrefix) {
  CheckpointBuilder two;
  for (const char* layer : {"h.0.attn.", "h.1.attn."}) {
    for (const std::string& name : kSplit) two.add_linear(layer + name, 4, 3);
  }
  two.add("wte.weight", {7, 3});
  for (const char* prefix : {"h.1.attn", "h.1.attn."}) {
    ModelOptions options;
    options.module = prefix;
    AttentionOracle oracle;
    oracle.query = oracle_linear(two, "h.1.attn.W_query", 4, 3);
    oracle.key = oracle_linear(two, "h.1.attn.W_key", 4, 3);
    oracle.value = oracle_linear(two, "h.1.attn.W_value", 4, 3);
    oracle.sees = sees_causal;
    EXPECT_TRUE(runs_as(convert_bytes(two.safetensors(), options), oracle)) << prefix;
  }
}

TEST(Recognition, TakesAModuleWithoutPrefixFromALargerCheckpoint) {
  CheckpointBuilder weights = causal_attention().weights;
  weights.add_linear("h.W_query", 2, 3).add_linear("h.W_key", 2, 3).add_linear("h.W_value", 2, 3);
  ModelOptions options;
  options.module = "h";
  EXPECT_EQ(convert_bytes(weights.safetensors(), options).module()->positions_max, 0u);
}

TEST(Recognition, SplitsHeadsOfModulesThatMayHaveOne) {
  Idiom idiom = causal_attention_with_bias();  // 4 and 7 wide
  idiom.options.heads = 1;
  EXPECT_EQ(convert_bytes(idiom.weights.safetensors(), idiom.options).module()->heads, 1u);
  Idiom even = split_idiom("MultiHeadAttention", kSplit, 5, 4, 6, true);
  set_heads(even, 2);
  const Conversion conversion = convert_bytes(even.weights.safetensors(), even.options);
  EXPECT_EQ(conversion.module()->architecture, even.architecture);
  EXPECT_TRUE(runs_as(conversion, even.oracle));
}

TEST(Recognition, AcceptsASayOnHeadsThatAgreesWithTheNames) {
  Idiom idiom = heads_in_modules_of_their_own();
  idiom.options.heads = 11;
  EXPECT_EQ(convert_bytes(idiom.weights.safetensors(), idiom.options).module()->heads, 11u);
}

TEST(Recognition, IgnoresTheFillValueOfHiddenScores) {
  Idiom idiom = gpt();
  idiom.weights.add("masked_bias", {}, {-1e4});
  EXPECT_TRUE(runs_as(convert_bytes(idiom.weights.safetensors(), idiom.options), idiom.oracle));
}

TEST(Recognition, TellsConv1dFromLinearByTheShape) {
  const Idiom idiom = gpt();
  const auto transposed = [](const std::vector<double>& values, size_t rows) {
    std::vector<double> result(values.size());
    const size_t columns = values.size() / rows;
    for (size_t i = 0; i < values.size(); ++i) {
      result[i % columns * rows + i / columns] = values[i];
    }
    return result;
  };
  CheckpointBuilder conv1d = idiom.weights;
  conv1d.add("c_attn.weight", {8, 24}, transposed(idiom.weights.values("c_attn.weight"), 24));
  conv1d.add("c_proj.weight", {8, 8}, transposed(idiom.weights.values("c_proj.weight"), 8));
  const Conversion expected = convert_bytes(idiom.weights.safetensors(), idiom.options);
  const Conversion found = convert_bytes(conv1d.safetensors(), idiom.options);
  EXPECT_TRUE(std::ranges::equal(found.file.span(), expected.file.span()));
}

}  // namespace
}  // namespace arenite::test
