// SPDX-License-Identifier: Apache-2.0
// Tests the reference forward pass where its result can be computed by hand, and its refusals.
#include "support/reference_models.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "support/refusal.h"

namespace arenite::convert {
namespace {

WeightRef weight(uint32_t rows, uint32_t columns, std::vector<float> values) {
  return {.name = "w", .rows = rows, .columns = columns, .load = [values] { return values; }};
}

NormSpec rms(std::vector<double> gain) {
  return {.name = "n", .kind = NormKind::kRms, .gain = std::move(gain), .bias = {}, .epsilon = 0.0};
}

const std::vector<float> kIdentity = {1, 0, 0, 1};
const std::vector<float> kNothing = {0, 0, 0, 0};

// Two tokens, [3, 4] and [0, 2], one layer whose attention and MLP add nothing.
TransformerSpec small_spec() {
  TransformerSpec spec = decoder_spec();
  spec.vocab_size = spec.model_dim = spec.head_dim = spec.ffn_dim = 2;
  spec.heads = spec.kv_heads = 1;
  spec.positions_max = 3;
  spec.activation = Activation::kRelu;
  spec.token_embedding = weight(2, 2, {3, 4, 0, 2});
  LayerSpec layer;
  layer.attention_norm = rms({1, 1});
  layer.mlp_norm = rms({1, 1});
  layer.query.weight = layer.key.weight = layer.value.weight = weight(2, 2, kIdentity);
  layer.up.weight = weight(2, 2, kIdentity);
  layer.output.weight = layer.down.weight = weight(2, 2, kNothing);
  spec.layers.push_back(layer);
  return spec;
}

TEST(DecoderReference, EmbedsAndTiesTheHead) {
  const Evaluation outputs = reference_decoder(small_spec(), std::vector<uint32_t>{1, 0});
  EXPECT_EQ(outputs.hidden_states[0], (std::vector<double>{0, 2, 3, 4}));
  EXPECT_EQ(outputs.hidden_states[1], (std::vector<double>{0, 2, 3, 4}));
  EXPECT_EQ(outputs.values, (std::vector<double>{8, 4, 25, 8}));
}

TEST(DecoderReference, ScalesEmbeddingsBeforePositionsAreAdded) {
  TransformerSpec spec = small_spec();
  spec.embedding_scale = 2.0;
  spec.position_embedding = weight(3, 2, {1, 1, 10, 10, 100, 100});
  const Evaluation outputs = reference_decoder(spec, std::vector<uint32_t>{1, 0});
  EXPECT_EQ(outputs.hidden_states[0], (std::vector<double>{1, 5, 16, 18}));
}

TEST(DecoderReference, CapsLogitsSoftly) {
  TransformerSpec spec = small_spec();
  spec.logits_soft_cap = 8.0;
  const Evaluation outputs = reference_decoder(spec, std::vector<uint32_t>{1});
  EXPECT_DOUBLE_EQ(outputs.values[0], 8.0 * std::tanh(1.0));
  EXPECT_DOUBLE_EQ(outputs.values[1], 8.0 * std::tanh(0.5));
}

TEST(DecoderReference, AppliesTheFinalNormToTheLastStateOnly) {
  TransformerSpec spec = small_spec();
  spec.final_norm = rms({1, 0});
  spec.final_norm->gain_plus_one = true;
  const Evaluation outputs = reference_decoder(spec, std::vector<uint32_t>{1});
  EXPECT_EQ(outputs.hidden_states[0], (std::vector<double>{0, 2}));
  EXPECT_DOUBLE_EQ(outputs.hidden_states[1][1], 2.0 / std::sqrt(2.0));
  spec.final_norm = {.name = "n", .kind = NormKind::kLayer, .gain = {2, 2}, .bias = {0, 1}};
  const Evaluation layer = reference_decoder(spec, std::vector<uint32_t>{1});
  EXPECT_DOUBLE_EQ(layer.hidden_states[1][0], -2.0);
  EXPECT_DOUBLE_EQ(layer.hidden_states[1][1], 3.0);
}

TEST(DecoderReference, AttentionMixesTheTokensSoFar) {
  TransformerSpec spec = small_spec();
  spec.layers[0].query.weight = weight(2, 2, kNothing);  // equal scores: the mean of all values
  spec.layers[0].output.weight = weight(2, 2, kIdentity);
  const std::vector<uint32_t> tokens = {1, 0, 1};
  const std::vector<double> mixed = reference_decoder(spec, tokens).hidden_states[1];
  const double root = std::sqrt(2.0);
  EXPECT_NEAR(mixed[1], 2.0 + root, 1e-12);                         // [0, 2] normed
  EXPECT_NEAR(mixed[2], 3.0 + 3.0 / std::sqrt(12.5) / 2.0, 1e-12);  // and [3, 4]
  EXPECT_NEAR(mixed[4], 0.0 + 3.0 / std::sqrt(12.5) / 3.0, 1e-12);
  spec.layers[0].window = 1;
  EXPECT_NEAR(reference_decoder(spec, tokens).hidden_states[1][4], 0.0, 1e-12);
}

TEST(DecoderReference, RefusesTokensAndLengthsBeyondTheModel) {
  const TransformerSpec spec = small_spec();
  EXPECT_TRUE(testing::refuses([&] { reference_decoder(spec, std::vector<uint32_t>{2}); },
                               {"token 2", "less than 2"}));
  EXPECT_TRUE(testing::refuses([&] { reference_decoder(spec, std::vector<uint32_t>(4, 0)); },
                               {"4 tokens", "at most 3"}));
}

}  // namespace
}  // namespace arenite::convert
