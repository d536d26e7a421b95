// SPDX-License-Identifier: Apache-2.0
// Tests whether a file or folder is recognised as an encoder, a decoder or a module.

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>
#include <variant>

#include "convert/families/encoder_fixture.h"
#include "convert/files/npy.h"
#include "support/recognised.h"
#include "support/refusal.h"
#include "support/test_data.h"

namespace arenite::convert {
namespace {

using namespace testing;

TEST(Recognise, KnowsEncodersByTheirFolders) {
  const std::pair<const char*, const char*> forms[] = {{"bert_sequence", "Hugging Face"},
                                                       {"sentence", "sentence-transformers"},
                                                       {"torch_features", "a state dict"}};
  for (const auto& [fixture, form] : forms) {
    const Recognised model = model_at(encoder_fixture(fixture));
    EXPECT_TRUE(is_encoder(model)) << fixture;
    EXPECT_STREQ(model.form, form);
  }
}

TEST(Recognise, KnowsEncodersByFilesInThem) {
  for (const char* fixture : {"bert_sequence", "torch_tokens"}) {
    const auto file = encoder_fixture(fixture) / "model.safetensors";
    EXPECT_EQ(run_row(encoder_at(file), fixture, 0).values,
              run_row(encoder_at(encoder_fixture(fixture)), fixture, 0).values);
  }
  EXPECT_TRUE(is_encoder(model_at(encoder_fixture("bert_sequence") / "config.json")));
}

TEST(Recognise, BigBirdIsAnEncoderToBeRefused) {
  EditedEncoder encoder("bert_sequence");
  encoder.config["model_type"] = "big_bird";
  EXPECT_TRUE(refuses([&] { model_at(encoder.write()); }, {"big_bird", "arenite_export.py"}));
}

template <typename Spec>
bool is(const std::filesystem::path& path, const ModelOptions& options) {
  return std::holds_alternative<Spec>(model_at(path, options).facts);
}

TEST(Recognise, KnowsDecodersByTheirFiles) {
  const TempFolder folder;
  const auto llama = write_hf(folder, "llama", llama_config(), llama_tensors());
  for (const auto& path : {llama, llama / "model.safetensors", llama / "config.json"}) {
    EXPECT_TRUE(is<TransformerSpec>(path, {}));
  }
  EXPECT_TRUE(refuses([&] { model_at(folder.path()); }, {"has no config.json"}));
  EXPECT_TRUE(refuses([&] { model_at(folder.write("some.gguf", "GGUF and more")); }, {"version"}));
  EXPECT_TRUE(
      refuses([&] { model_at(folder.write("gpt.safetensors", safetensors_of(gpt2_tensors()))); },
              {"as transformers' GPT-2 keeps its layers"}));
}

TEST(Recognise, KnowsModulesByTheirParameters) {
  EXPECT_TRUE(is<AttentionModule>(convert_fixture("torch") / "mha.safetensors", {.heads = 3}));
  const auto layer_file = convert_fixture("torch") / "encoder_layer.safetensors";
  EXPECT_TRUE(is<AttentionModule>(layer_file, {.heads = 6, .module = "self_attn"}));
  const TempFolder folder;
  TensorMap layer;
  EditedEncoder encoder("torch_tokens");
  for (const auto& [name, tensor] : encoder.tensors) {
    if (name.starts_with("encoder.layers.0.")) layer[name] = tensor;
  }
  const auto bare = folder.write("layer.safetensors", safetensors_of(layer));
  EXPECT_TRUE(refuses([&] { model_at(bare, {.heads = 3}); }, {"torch.nn.MultiheadAttention"}));
  layer["position.weight"] = random_tensor("position", {9, 12});
  const auto whole = folder.write("model.safetensors", safetensors_of(layer));
  EXPECT_TRUE(refuses([&] { model_at(whole); }, {"a state dict does not define the whole"}));
}

// A folder of arrays, a tensor each, as numpy.save writes them.
TEST(Recognise, TakesArraysForTensors) {
  const TempFolder folder;
  for (const char* name : {"W_query", "W_key", "W_value"}) {
    const Tensor tensor = random_tensor(name, {4, 3});
    write_npy(folder.path() / (std::string(name) + ".weight.npy"), tensor.shape, tensor.values);
  }
  const Recognised model = model_at(folder.path());
  const auto& module = std::get<AttentionModule>(model.facts);
  EXPECT_EQ(module.key.weight.load(), random_tensor("W_key", {4, 3}).values);
  EXPECT_EQ(module.features, 3u);
}

TEST(Recognise, RefusesPoolingOfADecoder) {
  const TempFolder folder;
  const auto llama = write_hf(folder, "llama", llama_config(), llama_tensors());
  EXPECT_TRUE(refuses([&] { model_at(llama, {.pooling = PoolingChoice::kMean}); },
                      {"--pooling is for encoders"}));
}

}  // namespace
}  // namespace arenite::convert
