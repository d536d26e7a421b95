// SPDX-License-Identifier: Apache-2.0
// Tests state dicts of models around torch.nn.TransformerEncoder: names, facts from options,
// refusals.
#include "convert/families/families.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "convert/families/encoder_fixture.h"
#include "support/recognised.h"
#include "support/refusal.h"

namespace arenite::convert {
namespace {

using namespace testing;

constexpr const char* kTokens = "torch_tokens";
constexpr const char* kFeatures = "torch_features";

// The config fields of kFeatures, without the labels.
const ModelOptions kFeatureOptions{.heads = 3,
                                   .activation = Activation::kGeluErf,
                                   .norm_first = true,
                                   .pooling = PoolingChoice::kMean,
                                   .mask = MaskChoice::kBidirectional,
                                   .embedding_scale = EmbeddingScale{}};

TEST(TorchEncoder, ReadsSizesFromShapesAndTheRestFromTheConfig) {
  const Recognised read = model_at(encoder_fixture(kFeatures));
  EXPECT_STREQ(read.form, "a state dict");
  const TransformerSpec& spec = std::get<TransformerSpec>(read.facts);
  EXPECT_EQ(spec.vocab_size, 0u);
  EXPECT_EQ(spec.input_features, 5u);
  EXPECT_EQ(spec.model_dim, 12u);
  EXPECT_EQ(spec.head_dim, 4u);
  EXPECT_EQ(spec.ffn_dim, 20u);
  EXPECT_EQ(spec.positions_max, 9u);
  EXPECT_TRUE(spec.norm_first);
  EXPECT_TRUE(spec.final_norm.has_value());
  EXPECT_EQ(spec.labels, (std::vector<std::string>{"low", "middle", "high"}));
}

TEST(TorchEncoder, OptionsReplaceAConfig) {
  EditedEncoder encoder(kFeatures);
  const std::vector<double> expected = run_row(encoder.open(), kFeatures, 0).values;
  encoder.config = nullptr;
  const TransformerSpec spec = encoder.open(kFeatureOptions);
  EXPECT_EQ(run_row(spec, kFeatures, 0).values, expected);
  EXPECT_TRUE(spec.labels.empty());
}

TEST(TorchEncoder, NamesAllMissingOptionsAtOnce) {
  EditedEncoder encoder(kTokens);
  encoder.config = nullptr;
  EXPECT_TRUE(encoder.refuses(
      {"model.safetensors", "--heads N", "12 features", "--activation NAME", "relu",
       "--norm-first or --norm-last", "--causal, --bidirectional or --window N",
       "--embedding-scale X", "sqrt", "--pooling NAME", "'classifier'", "'num_heads', 'activation'",
       "--causal --embedding-scale sqrt"}));  // what the tutorial has
  const std::string message =
      refusal_of([&] { encoder.open({.heads = 3, .mask = MaskChoice::kCausal}); });
  EXPECT_NE(message.find("--embedding-scale X"), std::string::npos) << message;
  EXPECT_EQ(message.find("--heads N"), std::string::npos) << message;
  EXPECT_EQ(message.find("--bidirectional"), std::string::npos) << message;
}

TEST(TorchEncoder, SaysWhatItAssumes) {
  EditedEncoder encoder(kTokens);
  const auto assumed = [&](const ModelOptions& options) {
    return encoder_at(encoder.write(), options).account.assumed;
  };
  EXPECT_EQ(assumed({}),
            (std::vector<std::string>{"scores times 1/sqrt(head_dim)", "norms' epsilon 1e-05"}));
  EXPECT_TRUE(assumed({.score_scale = 2.0, .epsilon = 1e-6}).empty());
  encoder.tensors.erase("pos_encoder.pe");
  EXPECT_EQ(assumed({}).at(0), "no positions are added, since the file has no table of them");
}

TEST(TorchEncoder, UsesTheGivenScalesAndMasks) {
  EditedEncoder encoder(kTokens);
  const TransformerSpec plain = encoder.open();
  encoder.config.erase("causal");
  encoder.config.erase("embedding_scale");
  const TransformerSpec spec = encoder.open({.mask = MaskChoice::kWindow,
                                             .window = 3,
                                             .embedding_scale = EmbeddingScale{.is_sqrt = true},
                                             .score_scale = 0.25,
                                             .epsilon = 1e-3});
  EXPECT_TRUE(spec.causal);
  EXPECT_EQ(spec.layers[0].window, 3u);
  EXPECT_EQ(spec.embedding_scale, std::sqrt(12.0));
  EXPECT_EQ(spec.score_scale, 0.25);
  EXPECT_EQ(spec.layers[0].mlp_norm->epsilon, 1e-3);
  EXPECT_FALSE(near(run_row(spec, kTokens, 0).values, run_row(plain, kTokens, 0).values, 1e-4));
  encoder.config["mask"] = "causal";
  encoder.config["embedding_scale"] = "sqrt";
  encoder.config["epsilon"] = 1e-3;
  const TransformerSpec configured = encoder.open();
  EXPECT_TRUE(configured.causal);
  EXPECT_EQ(configured.embedding_scale, std::sqrt(12.0));
  EXPECT_EQ(configured.layers[0].mlp_norm->epsilon, 1e-3);
}

TEST(TorchEncoder, TheMaskMayBeABuffer) {
  EditedEncoder encoder(kTokens);
  encoder.config.erase("causal");
  EXPECT_TRUE(encoder.refuses({"--causal, --bidirectional or --window N"}));
  Tensor& mask = encoder.tensors["src_mask"];
  mask.shape = {9, 9};
  for (int i = 0; i < 81; ++i) mask.values.push_back(i % 9 > i / 9 ? -INFINITY : 0.0f);
  EXPECT_TRUE(encoder.open().causal);
  EXPECT_TRUE(encoder.open({.mask = MaskChoice::kCausal}).causal);
  EXPECT_TRUE(encoder.refuses({"the mask in buffer 'src_mask' is causal", "--bidirectional"},
                              {.mask = MaskChoice::kBidirectional}));
  for (int i = 0; i < 81; ++i) {
    if (i % 9 + 3 < i / 9) mask.values[static_cast<size_t>(i)] = -INFINITY;
  }
  EXPECT_EQ(encoder.open().layers[0].window, 4u);
  mask.values[8] = 0.0f;
  EXPECT_TRUE(encoder.refuses({"mask 'src_mask' is", "expected a causal mask"}));
}

TEST(TorchEncoder, AHeadAsWideAsTheVocabularyGivesLogitsOfEachToken) {
  EditedEncoder encoder(kTokens);
  encoder.config.erase("pooling");
  encoder.config.erase("id2label");
  encoder.config["causal"] = true;
  encoder.tensors["classifier.weight"] = random_tensor("logits", {13, 12});
  encoder.tensors["classifier.bias"] = random_tensor("logits bias", {13});
  const TransformerSpec spec = encoder_at(encoder.write());
  EXPECT_EQ(spec.pooling, SelectKind::kAsAsked);
  EXPECT_NE(spec.account.assumed[0].find("reads each token"), std::string::npos);
}

// The names around the layers are those of PyTorch's tutorial, old and new, and of the fixtures.
TEST(TorchEncoder, KnowsSeveralNamesOfTensorsOutsideTheLayers) {
  const std::vector<double> expected =
      run_row(encoder_at(encoder_fixture(kTokens)), kTokens, 1).values;
  const std::pair<const char*, std::vector<const char*>> parts[] = {
      {"classifier.", {"linear.", "decoder."}},
      {"embedding.", {"encoder.", "token_embedding."}},
      {"pos_encoder.pe", {"position_embedding.weight", "position.weight"}}};
  for (const auto& [part, names] : parts) {
    for (const char* name : names) {
      EditedEncoder encoder(kTokens);
      encoder.rename("encoder.", "transformer_encoder.");
      encoder.rename(part, name);
      EXPECT_EQ(run_row(encoder.open(), kTokens, 1).values, expected) << name;
    }
  }
  EditedEncoder other(kTokens);
  other.rename("classifier.", "to_numbers.");
  EXPECT_TRUE(other.refuses({"no place", "'to_numbers.weight' [3, 12]", "torch.export.save"}));
}

TEST(TorchEncoder, NamesMayHaveAnyPrefix) {
  const std::vector<double> expected =
      run_row(encoder_at(encoder_fixture(kTokens)), kTokens, 1).values;
  for (const char* prefix : {"model.", "_orig_mod.", "module.", "net.sub.", "_orig_mod.model."}) {
    EditedEncoder encoder(kTokens);
    encoder.rename("", prefix);
    EXPECT_EQ(run_row(encoder.open(), kTokens, 1).values, expected) << prefix;
  }
}

TEST(TorchEncoder, PositionsComeInAnyOfTheirShapes) {
  EditedEncoder encoder(kTokens);
  Tensor& positions = encoder.tensors["pos_encoder.pe"];
  ASSERT_EQ(positions.shape, (std::vector<uint64_t>{9, 1, 12}));
  const std::vector<double> expected = run_row(encoder.open(), kTokens, 0).values;
  for (const std::vector<uint64_t>& shape : {std::vector<uint64_t>{1, 9, 12}, {9, 12}}) {
    positions.shape = shape;
    EXPECT_EQ(run_row(encoder.open(), kTokens, 0).values, expected);
  }
}

TEST(TorchEncoder, AStackAloneTakesRowsAsTheyAre) {
  EditedEncoder encoder(kFeatures);
  TensorMap layers;
  for (const auto& [name, tensor] : encoder.tensors) {
    if (name.starts_with("encoder.")) layers[name.substr(8)] = tensor;
  }
  encoder.tensors = layers;
  encoder.config = nullptr;
  const ModelOptions options{.heads = 3,
                             .activation = Activation::kGeluErf,
                             .norm_first = true,
                             .mask = MaskChoice::kBidirectional};
  const TransformerSpec spec = encoder.open(options);
  EXPECT_EQ(spec.input_features, 12u);
  EXPECT_FALSE(spec.input.has_value());
  EXPECT_EQ(spec.positions_max, 0u);
  EXPECT_EQ(spec.pooling, SelectKind::kAsAsked);
  EXPECT_TRUE(spec.head.empty());
  const Evaluation outputs = reference_encoder(spec, std::vector<float>(20 * 12, 0.5f));
  EXPECT_EQ(outputs.values.size(), 20u * 12u);
  ModelOptions scaled = options;
  scaled.embedding_scale = EmbeddingScale{};
  EXPECT_TRUE(encoder.refuses({"--embedding-scale", "unscaled", "drop the option"}, scaled));
}

TEST(TorchEncoder, AddsTokenTypesAndNormsEmbeddings) {
  EditedEncoder encoder(kTokens);
  encoder.tensors["segment_embedding.weight"] = random_tensor("segments", {2, 12});
  encoder.tensors["embedding_norm.weight"] = random_tensor("gain", {12}, 1.0f);
  encoder.tensors["embedding_norm.bias"] = random_tensor("bias", {12});
  const TransformerSpec spec = encoder.open();
  EXPECT_EQ(spec.token_types, 2u);
  EXPECT_EQ(spec.type_embedding->name, "segment_embedding.weight");
  EXPECT_EQ(spec.embedding_norm->name, "embedding_norm.weight");
}

TEST(TorchEncoder, APoolerIsUsedWhereThereIsOne) {
  EditedEncoder encoder(kTokens);
  encoder.tensors["pooler.weight"] = random_tensor("pooler", {12, 12});
  encoder.tensors["pooler.bias"] = random_tensor("pooler bias", {12});
  EXPECT_TRUE(encoder.refuses({"no place in this model", "'pooler.weight'"}));  // mean, it says
  encoder.config.erase("pooling");
  const TransformerSpec spec = encoder.open();
  EXPECT_EQ(spec.pooling, SelectKind::kFirst);
  ASSERT_EQ(spec.head.size(), 2u);
  EXPECT_EQ(spec.head[0].activation, Activation::kTanh);
  EXPECT_FALSE(spec.head[1].activation.has_value());
}

TEST(TorchEncoder, LayersMayHaveNoBias) {
  EditedEncoder encoder(kTokens);
  std::erase_if(encoder.tensors, [](const auto& entry) {
    return entry.first.starts_with("encoder.") && entry.first.ends_with("bias");
  });
  const TransformerSpec spec = encoder.open();
  EXPECT_TRUE(spec.layers[1].query.bias.empty());
  EXPECT_TRUE(spec.layers[1].mlp_norm->bias.empty());
}

TEST(TorchEncoder, RefusesToGuessHeadsAndPooling) {
  EditedEncoder encoder(kTokens);
  encoder.config.erase("num_heads");
  EXPECT_TRUE(encoder.refuses({"model.safetensors", "12 features", "--heads"}));
  EXPECT_NO_THROW(encoder.open({.heads = 3}));
  EXPECT_TRUE(encoder.refuses({"5 heads", "12"}, {.heads = 5}));
  encoder.config.erase("pooling");
  EXPECT_TRUE(encoder.refuses({"'classifier'", "--pooling"}, {.heads = 3}));
}

TEST(TorchEncoder, RefusesAMissingPooler) {
  EditedEncoder encoder(kTokens);
  encoder.config["pooling"] = "pooler";
  EXPECT_TRUE(encoder.refuses({"missing", "'pooler.weight' [12, 12]"}));
}

TEST(TorchEncoder, RefusesOptionsThatContradictTheConfig) {
  const EditedEncoder encoder(kFeatures);
  EXPECT_NO_THROW(encoder.open(kFeatureOptions));
  EXPECT_TRUE(encoder.refuses({"number of heads"}, {.heads = 4}));
  EXPECT_TRUE(encoder.refuses({"activation"}, {.activation = Activation::kRelu}));
  EXPECT_TRUE(encoder.refuses({"norms"}, {.norm_first = false}));
  EXPECT_TRUE(encoder.refuses({"--causal", "bidirectional"}, {.mask = MaskChoice::kCausal}));
  EXPECT_TRUE(encoder.refuses({"--embedding-scale sqrt", "which is 1"},
                              {.embedding_scale = EmbeddingScale{.is_sqrt = true}}));
  EXPECT_TRUE(encoder.refuses({"pooling"}, {.pooling = PoolingChoice::kNone}));
}

TEST(TorchEncoder, RefusesAConfigThatTheTensorsContradict) {
  const struct {
    const char* field;
    nlohmann::json value;
    const char* expected;
  } cases[] = {
      {"d_model", 16, "expected 12"},         {"dim_feedforward", 16, "expected 20"},
      {"num_layers", 3, "expected 2"},        {"vocab_size", 14, "expected 13"},
      {"num_classes", 2, "expected 3"},       {"id2label", {{"0", "a"}}, "3 classes"},
      {"activation", "tanh", "expected one"}, {"pooling", "max", "'mean'"},
      {"norm_first", "yes", "true or false"}, {"nhead", 4, "another source"},
  };
  for (const auto& wrong : cases) {
    EditedEncoder encoder(kTokens);
    encoder.config["num_heads"] = 3;
    encoder.config[wrong.field] = wrong.value;
    EXPECT_TRUE(encoder.refuses({"config.json", wrong.field, wrong.expected})) << wrong.field;
  }
}

TEST(TorchEncoder, NamesTensorsThatAreMissingOrTooMany) {
  EditedEncoder encoder(kTokens);
  encoder.tensors.erase("encoder.layers.1.linear2.bias");
  encoder.tensors["cls_token"] = random_tensor("cls", {1, 1, 12});
  encoder.tensors["extra.weight"] = random_tensor("extra", {5});
  EXPECT_TRUE(encoder.refuses(
      {"'encoder.layers.1.linear2.bias' [12]", "'cls_token' [1, 1, 12]", "'extra.weight' [5]"}));
}

TEST(TorchEncoder, RefusesTokensAndFeaturesAtOnce) {
  EditedEncoder encoder(kFeatures);
  encoder.tensors["embedding.weight"] = random_tensor("tokens", {13, 12});
  EXPECT_TRUE(encoder.refuses({"'embedding'", "'input'"}));
}

TEST(TorchEncoder, RefusesSeveralStacks) {
  EditedEncoder encoder(kTokens);
  TensorMap both = encoder.tensors;
  encoder.rename("encoder.", "decoder.");
  both.merge(encoder.tensors);
  encoder.tensors = both;
  EXPECT_TRUE(encoder.refuses({"2 stacks", "decoders"}));
}

}  // namespace
}  // namespace arenite::convert
