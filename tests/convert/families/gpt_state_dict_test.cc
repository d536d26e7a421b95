// SPDX-License-Identifier: Apache-2.0
// Tests the facts that the shapes in state dicts of nanoGPT and minGPT determine, and those that
// options must supply.
#include "convert/families/families.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "convert/families/other_formats.h"
#include "support/recognised.h"
#include "support/refusal.h"

namespace arenite::convert {
namespace {

using namespace testing;

class GptStateDict : public ::testing::Test {
 protected:
  TransformerSpec read(const TensorMap& tensors, const ModelOptions& options = kGptOptions) {
    return decoder_at(folder_.write("ckpt.pt", safetensors_of(tensors)), options);
  }
  ::testing::AssertionResult refuses(const TensorMap& tensors,
                                     std::initializer_list<std::string_view> parts,
                                     const ModelOptions& options = kGptOptions) {
    return testing::refuses([&] { read(tensors, options); }, parts);
  }
  static TensorMap nano_gpt() { return nano_gpt_of_gpt2(gpt2_tensors()); }

  TempFolder folder_;
};

TEST_F(GptStateDict, ReadsSizesOffTheShapes) {
  const TransformerSpec spec = read(nano_gpt());
  EXPECT_EQ(spec.architecture, "nanogpt");
  EXPECT_EQ(spec.vocab_size, kVocab);
  EXPECT_EQ(spec.model_dim, kDim);
  EXPECT_EQ(spec.ffn_dim, kFfn);
  EXPECT_EQ(spec.positions_max, kPositions);
  EXPECT_EQ(spec.layers.size(), kLayers);
  EXPECT_EQ(spec.head_dim, kHeadDim);
  EXPECT_EQ(spec.activation, Activation::kGeluErf);
  EXPECT_FALSE(spec.output.has_value());
}

TEST_F(GptStateDict, AcceptsATiedHeadStoredOrOmitted) {
  TensorMap tensors = nano_gpt();
  tensors["lm_head.weight"] = tensors["transformer.wte.weight"];
  EXPECT_FALSE(read(tensors).output.has_value());
  tensors["lm_head.weight"].values[0] += 1.0f;
  const TransformerSpec spec = read(tensors);
  EXPECT_TRUE(spec.output.has_value());
  EXPECT_EQ(spec.architecture, "nanogpt");
  EXPECT_EQ(spec.activation, Activation::kGeluErf);  // as it was said: no head tells it
}

TEST_F(GptStateDict, NamesAllMissingOptionsAtOnce) {
  const std::initializer_list<std::string_view> all = {
      "Missing",    "--heads N",    "32 features", "--activation NAME",
      "gelu_tanh",  "--norm-first", "--norm-last", "'num_heads', 'activation', 'norm_first'",
      "config.json"};
  EXPECT_TRUE(refuses(nano_gpt(), all, {}));
  EXPECT_TRUE(refuses(nano_gpt(), {"nanoGPT as published: --activation gelu --norm-first"}, {}));
  EXPECT_TRUE(refuses(min_gpt_of_gpt2(gpt2_tensors()), all, {}));
  EXPECT_TRUE(refuses(gpt_model_of_gpt2(gpt2_tensors()), all, {}));
  // Options are not required for facts that are known already.
  const auto message =
      testing::refusal_of([&] { read(nano_gpt(), {.heads = kHeads, .norm_first = true}); });
  EXPECT_NE(message.find("--activation NAME"), std::string::npos) << message;
  EXPECT_EQ(message.find("--heads N"), std::string::npos) << message;
  EXPECT_EQ(message.find("  --norm-first or"), std::string::npos) << message;
}

TEST_F(GptStateDict, UsesTheGivenActivation) {
  for (const Activation activation :
       {Activation::kGeluErf, Activation::kGeluTanh, Activation::kRelu, Activation::kSilu}) {
    ModelOptions options = kGptOptions;
    options.activation = activation;
    EXPECT_EQ(read(nano_gpt(), options).activation, activation);
  }
}

TEST_F(GptStateDict, SaysWhatItAssumes) {
  EXPECT_EQ(read(nano_gpt()).account.assumed,
            (std::vector<std::string>{"causal mask, since the file has no mask buffer",
                                      "scores times 1/sqrt(head_dim)", "norms' epsilon 1e-05",
                                      "embeddings times 1",
                                      "the token embedding as output matrix, since there is no "
                                      "'lm_head'"}));
  TensorMap tensors = nano_gpt();
  tensors["lm_head.weight"] = tensors["transformer.wte.weight"];
  tensors["transformer.h.0.attn.bias"] = {{1, 1, 2, 2}, {1, 0, 1, 1}};
  ModelOptions options = kGptOptions;
  options.score_scale = 0.5;
  options.epsilon = 1e-6;
  options.embedding_scale = EmbeddingScale{.is_sqrt = true};
  const TransformerSpec spec = read(tensors, options);
  EXPECT_TRUE(spec.account.assumed.empty());
  EXPECT_EQ(spec.account.given,
            (std::vector<std::string>{"--heads 4", "--activation gelu", "--norm-first",
                                      "--scale 0.5", "--epsilon 1e-06", "--embedding-scale sqrt"}));
  EXPECT_EQ(spec.score_scale, 0.5);
  EXPECT_EQ(spec.layers[1].mlp_norm->epsilon, 1e-6);
  EXPECT_EQ(spec.embedding_scale, std::sqrt(32.0));
}

TEST_F(GptStateDict, UsesTheGivenMask) {
  ModelOptions options = kGptOptions;
  options.mask = MaskChoice::kBidirectional;
  EXPECT_FALSE(read(nano_gpt(), options).causal);
  options.mask = MaskChoice::kWindow;
  options.window = 3;
  const TransformerSpec windowed = read(nano_gpt(), options);
  EXPECT_TRUE(windowed.causal);
  EXPECT_EQ(windowed.layers[1].window, 3u);
  TensorMap tensors = nano_gpt();
  tensors["transformer.h.0.attn.bias"] = {{1, 1, 2, 2}, {1, 0, 1, 1}};
  EXPECT_TRUE(refuses(tensors,
                      {"the mask in buffer 'transformer.h.0.attn.bias' is causal", "--window 3"},
                      options));
  options.mask = MaskChoice::kCausal;
  EXPECT_TRUE(read(tensors, options).causal);
}

TEST_F(GptStateDict, NormsMayComeLast) {
  ModelOptions options = kGptOptions;
  options.norm_first = false;
  TensorMap tensors = nano_gpt();
  const TransformerSpec kept = read(tensors, options);
  EXPECT_FALSE(kept.norm_first);
  EXPECT_TRUE(kept.final_norm.has_value());
  EXPECT_FALSE(near(logits_of(kept), logits_of(read(tensors)), 0.1));
  tensors.erase("transformer.ln_f.weight");
  tensors.erase("transformer.ln_f.bias");
  EXPECT_FALSE(read(tensors, options).final_norm.has_value());
  EXPECT_EQ(read(tensors).account.assumed.back(),
            "the token embedding as output matrix, since there is no 'lm_head'");
  const auto assumed = read(tensors).account.assumed;
  EXPECT_NE(std::ranges::find(assumed, "no norm after the last layer, since the file has none"),
            assumed.end());
}

TEST_F(GptStateDict, ReadsTheModelOfTheBook) {
  const TensorMap tensors = gpt_model_of_gpt2(gpt2_tensors());
  const TransformerSpec spec = read(tensors);
  EXPECT_EQ(spec.architecture, "gptmodel");
  EXPECT_TRUE(spec.output.has_value());
  TensorMap nano = nano_gpt();
  nano["lm_head.weight"] = tensors.at("out_head.weight");
  EXPECT_EQ(logits_of(spec), logits_of(read(nano)));
  TensorMap masked = tensors;
  masked["trf_blocks.1.att.mask"] = {{3, 3}, {0, 1, 1, 0, 0, 1, 0, 0, 0}};
  EXPECT_EQ(logits_of(read(masked)), logits_of(spec));
  masked["trf_blocks.1.att.mask"].values[1] = 0;
  EXPECT_TRUE(refuses(masked, {"mask 'trf_blocks.1.att.mask' is tiles", "expected a causal mask"}));
}

TEST_F(GptStateDict, TheModelOfTheBookMayHaveNoBiasOfQueriesAndFewerKeys) {
  TensorMap tensors = gpt_model_of_gpt2(gpt2_tensors());
  std::erase_if(tensors, [](const auto& item) {
    return item.first.find(".W_") != std::string::npos && item.first.ends_with(".bias");
  });
  EXPECT_TRUE(read(tensors).layers[0].query.bias.empty());
  EXPECT_FALSE(read(tensors).layers[0].output.bias.empty());
  for (const char* part : {"trf_blocks.0.att.W_key", "trf_blocks.0.att.W_value",
                           "trf_blocks.1.att.W_key", "trf_blocks.1.att.W_value"}) {
    tensors[std::string(part) + ".weight"] = random_tensor(part, {2 * kHeadDim, kDim});
  }
  EXPECT_EQ(read(tensors).kv_heads, 2u);
  tensors["trf_blocks.0.att.W_key.weight"] = random_tensor("", {3 * kHeadDim, kDim});
  EXPECT_TRUE(refuses(tensors, {"'trf_blocks.0.att.W_key.weight' has 24 rows", "the 4 heads"}));
}

TEST_F(GptStateDict, ReadsModelsWithoutBiases) {
  TensorMap tensors = nano_gpt();
  std::erase_if(tensors, [](const auto& item) { return item.first.ends_with(".bias"); });
  const TransformerSpec spec = read(tensors);
  EXPECT_TRUE(spec.layers[0].query.bias.empty());
  EXPECT_TRUE(spec.final_norm->bias.empty());
  tensors["transformer.h.0.ln_1.bias"] = random_tensor("", {kDim});
  EXPECT_TRUE(refuses(tensors, {"missing", "'transformer.h.1.ln_1.bias' [32]"}));
}

TEST_F(GptStateDict, StripsThePrefixesOfWrappers) {
  const std::vector<double> expected = logits_of(read(nano_gpt()));
  for (const std::string prefix : {"_orig_mod.", "module."}) {
    TensorMap wrapped;
    for (const auto& [name, tensor] : nano_gpt()) wrapped[prefix + name] = tensor;
    EXPECT_EQ(logits_of(read(wrapped)), expected);
  }
}

TEST_F(GptStateDict, ChecksAndPassesOverMaskBuffers) {
  TensorMap tensors = nano_gpt();
  tensors["transformer.h.1.attn.bias"] = {{1, 1, 2, 2}, {1, 0, 1, 1}};
  EXPECT_NO_THROW(read(tensors));
  tensors["transformer.h.0.attn.bias"] = tensors["transformer.h.1.attn.bias"];
  tensors["transformer.h.1.attn.bias"].values[1] = 1;
  EXPECT_TRUE(
      refuses(tensors, {"'transformer.h.1.attn.bias' is", "expected that of the other layers"}));
  TensorMap min_gpt = min_gpt_of_gpt2(gpt2_tensors());
  min_gpt["blocks.0.attn.mask"] = {{1, 1, 2, 2}, {1, 0, 1, 1}};
  EXPECT_EQ(read(min_gpt).architecture, "mingpt");
}

TEST_F(GptStateDict, RefusesHeadsThatDoNotDivide) {
  ModelOptions options = kGptOptions;
  options.heads = 5;
  EXPECT_TRUE(refuses(nano_gpt(), {"5 heads do not divide a width of 32"}, options));
}

TEST_F(GptStateDict, OtherTensorsAreRefusedWithTheKnownProgramsAndALineOfPython) {
  const TensorMap unknown = {{"a.weight", random_tensor("a", {kDim, kDim})}};
  EXPECT_TRUE(refuses(unknown, {"no attention module found", "nanoGPT and minGPT", "minGPT of 2020",
                                "trf_blocks.0.ff.layers.0.weight", "config.json",
                                "torch.export.export(model.eval(), (example,), dynamic_shapes=",
                                "torch.export.save(program, \"model.pt2\")"}));
  TensorMap tensors = nano_gpt();
  tensors.erase("transformer.h.1.mlp.c_proj.weight");
  tensors["value_head.weight"] = random_tensor("", {1, kDim});
  EXPECT_TRUE(refuses(
      tensors, {"'transformer.h.1.mlp.c_proj.weight' [32, 64]", "'value_head.weight' [1, 32]"}));
}

TEST_F(GptStateDict, WeightsOfTransformersNeedTheirConfig) {
  EXPECT_TRUE(refuses(gpt2_tensors(), {"c_attn.weight' has shape [32, 96]", "transformers' GPT-2",
                                       "put that config.json beside the file"}));
  TensorMap bare;
  for (const auto& [name, tensor] : gpt2_tensors()) {
    if (name.starts_with("transformer.")) bare[name.substr(12)] = tensor;
  }
  EXPECT_TRUE(refuses(bare, {"'h.0.attn.c_attn.weight'", "config.json"}));
}

TEST_F(GptStateDict, FollowsTheConfigOfTheTrainingProgram) {
  folder_.write("config.json", R"({"n_heads": 4, "dropout": 0.1, "activation": "relu",
      "norm_first": true, "causal": false, "embedding_scale": "sqrt", "layer_norm_eps": 1e-6})");
  const TransformerSpec spec = read(nano_gpt(), {});
  EXPECT_EQ(spec.heads, 4u);
  EXPECT_EQ(spec.activation, Activation::kRelu);
  EXPECT_FALSE(spec.causal);
  EXPECT_EQ(spec.embedding_scale, std::sqrt(32.0));
  EXPECT_EQ(spec.final_norm->epsilon, 1e-6);
  ASSERT_FALSE(spec.account.given.empty());
  EXPECT_NE(spec.account.given[0].find("config.json"), std::string::npos);
  EXPECT_TRUE(refuses(nano_gpt(), {"--activation gelu", "config.json", "relu", "drop the option"},
                      {.activation = Activation::kGeluErf}));
}

#ifdef ARENITE_HAVE_LIBZIP

TEST_F(GptStateDict, TakesTheHeadsFromATrainingCheckpoint) {
  const std::vector<double> expected = logits_of(read(nano_gpt()));
  const std::vector<std::pair<std::string, int32_t>> honest = {
      {"n_layer", kLayers}, {"n_head", kHeads}, {"n_embd", kDim}, {"block_size", kPositions}};
  const auto file = folder_.write("ckpt.pt", torch_archive(nano_gpt(), honest));
  ModelOptions options = kGptOptions;
  options.heads = 0;
  EXPECT_EQ(logits_of(decoder_at(file, options)), expected);
  options.heads = 8;
  EXPECT_TRUE(testing::refuses([&] { decoder_at(file, options); },
                               {"--heads 8", "'model_args', which is 4"}));
}

TEST_F(GptStateDict, RefusesArgumentsThatContradictTheTensors) {
  const auto refuses_argument = [&](const char* name, int32_t value, std::string_view why) {
    const auto file =
        folder_.write("ckpt.pt", torch_archive(nano_gpt(), {{"n_head", kHeads}, {name, value}}));
    return testing::refuses([&] { decoder_at(file, kGptOptions); }, {"'model_args'", why});
  };
  EXPECT_TRUE(refuses_argument("n_layer", 3, "field 'n_layer' is 3"));
  EXPECT_TRUE(refuses_argument("block_size", 8, "field 'block_size' is 8"));
  EXPECT_TRUE(refuses_argument("n_embd", -32, "field 'n_embd' is -32"));
}

#endif

}  // namespace
}  // namespace arenite::convert
