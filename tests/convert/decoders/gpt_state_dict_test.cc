// SPDX-License-Identifier: Apache-2.0
// State dicts of nanoGPT and minGPT: what their shapes say, and what they cannot.
#include "convert/decoders/gpt_state_dict.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "convert/decoders/decoder_source.h"
#include "convert/decoders/other_formats.h"
#include "support/refusal.h"

namespace arenite::convert {
namespace {

using namespace testing;

class GptStateDict : public ::testing::Test {
 protected:
  DecoderSpec read(const TensorMap& tensors, uint32_t heads = kHeads) {
    return open_decoder(folder_.write("ckpt.pt", safetensors_of(tensors)),
                        {.heads = heads, .activation = {}})
        .spec;
  }
  ::testing::AssertionResult refuses(const TensorMap& tensors, uint32_t heads,
                                     std::initializer_list<std::string_view> parts) {
    return testing::refuses([&] { read(tensors, heads); }, parts);
  }
  static TensorMap nano_gpt() { return nano_gpt_of_gpt2(gpt2_tensors()); }

  TempFolder folder_;
};

TEST_F(GptStateDict, ReadsSizesOffTheShapes) {
  const DecoderSpec spec = read(nano_gpt());
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

TEST_F(GptStateDict, TakesTheTiedHeadOrLeavesItAway) {
  TensorMap tensors = nano_gpt();
  tensors["lm_head.weight"] = tensors["transformer.wte.weight"];
  EXPECT_FALSE(read(tensors).output.has_value());
  tensors["lm_head.weight"].values[0] += 1.0f;
  const DecoderSpec spec = read(tensors);
  EXPECT_TRUE(spec.output.has_value());
  EXPECT_EQ(spec.architecture, "mingpt");
  EXPECT_EQ(spec.activation, Activation::kGeluTanh);
}

TEST_F(GptStateDict, TheActivationCanBeSaid) {
  const auto file = folder_.write("ckpt.pt", safetensors_of(nano_gpt()));
  const DecoderOptions options{.heads = kHeads, .activation = Activation::kGeluTanh};
  EXPECT_EQ(open_decoder(file, options).spec.activation, Activation::kGeluTanh);
}

TEST_F(GptStateDict, ReadsModelsWithoutBiases) {
  TensorMap tensors = nano_gpt();
  std::erase_if(tensors, [](const auto& item) { return item.first.ends_with(".bias"); });
  const DecoderSpec spec = read(tensors);
  EXPECT_TRUE(spec.layers[0].query.bias.empty());
  EXPECT_TRUE(spec.final_norm->bias.empty());
  tensors["transformer.h.0.ln_1.bias"] = random_tensor("", {kDim});
  EXPECT_TRUE(refuses(tensors, kHeads, {"missing", "'transformer.h.1.ln_1.bias' [32]"}));
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
  tensors["transformer.h.1.attn.bias"].values[1] = 1;
  EXPECT_TRUE(refuses(tensors, kHeads, {"'transformer.h.1.attn.bias' is 1 for query 0 and key 1"}));
  TensorMap min_gpt = min_gpt_of_gpt2(gpt2_tensors());
  min_gpt["blocks.0.attn.mask"] = {{1, 1, 2, 2}, {1, 0, 1, 1}};
  EXPECT_EQ(read(min_gpt).activation, Activation::kGeluErf);
}

TEST_F(GptStateDict, AsksForTheNumberOfHeads) {
  EXPECT_TRUE(refuses(nano_gpt(), 0, {"how many heads the 32 features", "give the number"}));
  EXPECT_TRUE(refuses(nano_gpt(), 5, {"5 heads do not divide a width of 32"}));
}

TEST_F(GptStateDict, RefusesWhatIsNoGpt) {
  EXPECT_TRUE(refuses(llama_tensors(), kHeads,
                      {"neither 'transformer.wte.weight' nor 'tok_emb.weight'", "config.json"}));
  TensorMap tensors = nano_gpt();
  tensors.erase("transformer.h.1.mlp.c_proj.weight");
  tensors["value_head.weight"] = random_tensor("", {1, kDim});
  EXPECT_TRUE(
      refuses(tensors, kHeads,
              {"'transformer.h.1.mlp.c_proj.weight' [32, 64]", "'value_head.weight' [1, 32]"}));
  // GPT-2's own layout needs its config.
  EXPECT_TRUE(refuses(gpt2_tensors(), kHeads, {"c_attn.weight' has shape [32, 96]: expected"}));
}

TEST_F(GptStateDict, IgnoresAConfigThatIsNotOfTransformers) {
  folder_.write("config.json", R"({"n_heads": 4, "dropout": 0.1})");
  EXPECT_EQ(read(nano_gpt()).layers.size(), kLayers);
}

#ifdef ARENITE_HAVE_LIBZIP

TEST_F(GptStateDict, TakesTheHeadsFromATrainingCheckpoint) {
  const std::vector<double> expected = logits_of(read(nano_gpt()));
  const std::vector<std::pair<std::string, int32_t>> honest = {
      {"n_layer", kLayers}, {"n_head", kHeads}, {"n_embd", kDim}, {"block_size", kPositions}};
  const auto file = folder_.write("ckpt.pt", torch_archive(nano_gpt(), honest));
  EXPECT_EQ(logits_of(open_decoder(file).spec), expected);
  EXPECT_TRUE(testing::refuses([&] { open_decoder(file, {.heads = 8, .activation = {}}); },
                               {"model_args.n_head is 4: expected 8"}));
}

TEST_F(GptStateDict, RefusesArgumentsThatContradictTheTensors) {
  const auto refuses_argument = [&](const char* name, int32_t value, std::string_view why) {
    const auto file =
        folder_.write("ckpt.pt", torch_archive(nano_gpt(), {{"n_head", kHeads}, {name, value}}));
    return testing::refuses([&] { open_decoder(file); }, {why});
  };
  EXPECT_TRUE(refuses_argument("n_layer", 3, "model_args.n_layer is 3: expected 2"));
  EXPECT_TRUE(refuses_argument("block_size", 8, "model_args.block_size is 8: expected 24"));
  EXPECT_TRUE(refuses_argument("n_embd", -32, "model_args.n_embd is '-32'"));
}

#endif

}  // namespace
}  // namespace arenite::convert
