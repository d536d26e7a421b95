// SPDX-License-Identifier: Apache-2.0
// Tests folders of Hugging Face models: shards, indexes, and tensors that do not fit the config.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "convert/families/other_formats.h"
#include "convert/families/tiny_models.h"
#include "support/recognised.h"
#include "support/refusal.h"

namespace arenite::convert {
namespace {

using namespace testing;

class HfFolder : public ::testing::Test {
 protected:
  ::testing::AssertionResult refuses_tensors(const TensorMap& tensors,
                                             std::initializer_list<std::string_view> parts) {
    const auto folder = write_hf(folder_, "hf", llama_config(), tensors);
    return testing::refuses([&] { decoder_at(folder); }, parts);
  }

  // The tiny Llama in two shards with their index.
  std::filesystem::path write_shards() {
    const auto folder = write_hf(folder_, "shards", llama_config(), {});
    std::filesystem::remove(folder / "model.safetensors");
    TensorMap shards[2];
    size_t i = 0;
    for (const auto& [name, tensor] : llama_tensors()) {
      index_["weight_map"][name] = shard_names_[i % 2];
      shards[i++ % 2][name] = tensor;
    }
    index_["metadata"]["total_size"] = 1234;
    for (size_t shard = 0; shard < 2; ++shard) {
      folder_.write("shards/" + shard_names_[shard], safetensors_of(shards[shard]));
    }
    write_index();
    return folder;
  }
  void write_index() { folder_.write("shards/model.safetensors.index.json", index_.dump()); }

  TempFolder folder_;
  nlohmann::json index_;
  const std::string shard_names_[2] = {"model-00001-of-00002.safetensors",
                                       "model-00002-of-00002.safetensors"};
};

TEST_F(HfFolder, ShardsHoldTheSameModelAsOneFile) {
  const auto expected =
      logits_of(decoder_at(write_hf(folder_, "hf", llama_config(), llama_tensors())));
  const auto folder = write_shards();
  EXPECT_EQ(logits_of(decoder_at(folder)), expected);
  EXPECT_EQ(logits_of(decoder_at(folder / "model.safetensors.index.json")), expected);
}

TEST_F(HfFolder, AWeightFileInsideTheFolderNamesTheModel) {
  const auto folder = write_hf(folder_, "hf", llama_config(), llama_tensors());
  const auto expected = logits_of(decoder_at(folder));
  EXPECT_EQ(logits_of(decoder_at(folder / "model.safetensors")), expected);
  EXPECT_EQ(logits_of(decoder_at(folder / "config.json")), expected);
}

#ifdef ARENITE_HAVE_LIBZIP
TEST_F(HfFolder, ReadsFilesOfTorchSave) {
  const auto folder = write_hf(folder_, "hf", llama_config(), llama_tensors());
  const auto expected = logits_of(decoder_at(folder));
  std::filesystem::remove(folder / "model.safetensors");
  folder_.write("hf/pytorch_model.bin", torch_archive(llama_tensors()));
  EXPECT_EQ(logits_of(decoder_at(folder)), expected);
}
#endif

TEST_F(HfFolder, RefusesAFolderWithoutItsFiles) {
  EXPECT_TRUE(refuses([&] { decoder_at(folder_.path()); }, {"has no config.json"}));
  const auto folder = write_hf(folder_, "hf", llama_config(), {});
  std::filesystem::remove(folder / "model.safetensors");
  EXPECT_TRUE(refuses([&] { decoder_at(folder); },
                      {"has no weights", "model.safetensors.index.json", "pytorch_model.bin"}));
  EXPECT_TRUE(refuses([&] { decoder_at(folder_.path() / "none"); }, {"No such file"}));
}

TEST_F(HfFolder, AModelOfTheHubIsToBeDownloaded) {
  for (const char* id : {"nobody-here/tiny-llama_1.1B", "tiny-llama-2"}) {
    EXPECT_TRUE(
        refuses([&] { decoder_at(id); },
                {"No such file", id,
                 (std::string_view(id).find('/') == std::string_view::npos ? "hf download OWNER/"
                                                                           : "hf download ") +
                     std::string(id) + " --local-dir "}));
  }
  for (const char* file : {"nobody-here/model.pt2", "a/b/c", "./tiny", "/none/x", "../x"}) {
    try {
      decoder_at(file);
      FAIL();
    } catch (const InputError& error) {
      EXPECT_EQ(std::string(error.what()).find("hf download"), std::string::npos) << file;
    }
  }
}

TEST_F(HfFolder, AnAdapterIsToBeMergedFirst) {
  const TensorMap tensors = {{"base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight",
                              {{1, 8}, {1, 1, 1, 1, 1, 1, 1, 1}}},
                             {"base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight",
                              {{8, 1}, {1, 1, 1, 1, 1, 1, 1, 1}}}};
  const std::string weights = safetensors_of(tensors);
  std::filesystem::create_directories(folder_.path() / "adapter");
  folder_.write("adapter/adapter_model.safetensors", weights);
  folder_.write("adapter/adapter_config.json",
                R"({"base_model_name_or_path": "some/base", "task_type": "CAUSAL_LM"})");
  for (const char* path : {"adapter", "adapter/adapter_model.safetensors"}) {
    EXPECT_TRUE(refuses([&] { decoder_at(folder_.path() / path); },
                        {"is an adapter of 'some/base'", "AutoPeftModelForCausalLM",
                         "merge_and_unload()", "arenite convert merged"}));
  }
  const auto whole = write_hf(folder_, "hf", llama_config(), llama_tensors());
  EXPECT_TRUE(decoder_at(whole).account.assumed.empty());
  folder_.write("hf/adapter_model.safetensors", weights);
  folder_.write("hf/adapter_config.json", "{}");
  ASSERT_EQ(decoder_at(whole).account.assumed.size(), 1u);
  EXPECT_NE(decoder_at(whole).account.assumed[0].find("merge_and_unload"), std::string::npos);
}

// The class says what comes out, whether the output matrix is the embedding or not.
TEST_F(HfFolder, AClassWithoutAHeadGivesHiddenStates) {
  const auto spec_of = [&](const char* architecture, bool is_tied) {
    nlohmann::json config = llama_config();
    config["architectures"] = {architecture};
    config["tie_word_embeddings"] = is_tied;
    TensorMap tensors = llama_tensors();
    tensors.erase("lm_head.weight");
    return decoder_at(write_hf(folder_, "hf", config, tensors));
  };
  EXPECT_TRUE(spec_of("LlamaModel", true).is_headless);
  EXPECT_TRUE(spec_of("LlamaModel", false).is_headless);
  EXPECT_FALSE(spec_of("LlamaForCausalLM", true).is_headless);
  EXPECT_TRUE(refuses([&] { spec_of("LlamaForCausalLM", false); }, {"missing", "lm_head.weight"}));
  for (const char* other : {"LlamaForQuestionAnswering", "LlamaForRewardModel"}) {
    EXPECT_TRUE(refuses([&] { spec_of(other, true); },
                        {"'architectures'", other, "...ForCausalLM", "arenite_export.py"}));
  }
  EXPECT_TRUE(refuses([&] { spec_of("LlamaForSequenceClassification", true); },
                      {"'classifier.weight' is missing"}));
  EXPECT_TRUE(refuses([&] { spec_of("LlamaDoubleHeadsModel", true); },
                      {"'architectures'", "two outputs", "...LMHeadModel"}));
}

TEST_F(HfFolder, RefusesShardsThatDisagreeWithTheirIndex) {
  const auto folder = write_shards();
  const auto refuses_shards = [&](std::initializer_list<std::string_view> parts) {
    return testing::refuses([&] { decoder_at(folder); }, parts);
  };
  nlohmann::json& map = index_["weight_map"];
  const nlohmann::json honest = map;

  map["model.norm.weight"] = "model-00003-of-00002.safetensors";
  write_index();
  EXPECT_TRUE(refuses_shards({"model.norm.weight", "for this file"}));
  map = honest;
  map["extra.weight"] = "model-00003-of-00002.safetensors";
  write_index();
  EXPECT_TRUE(refuses_shards({"model-00003-of-00002.safetensors' is missing", "1 tensors"}));
  map = honest;
  map["extra.weight"] = shard_names_[0];
  write_index();
  EXPECT_TRUE(refuses_shards({"'extra.weight' is missing", "index.json' lists"}));
  for (const char* name : {"../model.safetensors", "/etc/passwd", "a/b", "..", ""}) {
    map = honest;
    map["lm_head.weight"] = name;
    write_index();
    EXPECT_TRUE(refuses_shards({"'lm_head.weight' is in", "a file beside the index"})) << name;
  }
  map = honest;
  map["extra.weight"] = std::string(300, 'x');  // longer than systems allow
  write_index();
  EXPECT_TRUE(refuses_shards({"xxx' is missing", "index.json' expects 1 tensors"}));
  index_.erase("weight_map");
  write_index();
  EXPECT_TRUE(refuses_shards({"'weight_map' is missing"}));
}

TEST_F(HfFolder, RefusesAShardCutShort) {
  const auto folder = write_shards();
  const std::string bytes = read_bytes(folder / shard_names_[1]);
  folder_.write("shards/" + shard_names_[1], std::string_view(bytes).substr(0, bytes.size() - 1));
  EXPECT_TRUE(refuses([&] { decoder_at(folder); }, {shard_names_[1], "cut short"}));
}

TEST_F(HfFolder, ListsAllMissingAndAllForeignTensorsAtOnce) {
  TensorMap tensors = llama_tensors();
  tensors.erase("model.layers.0.self_attn.k_proj.weight");
  tensors.erase("model.norm.weight");
  tensors["score.weight"] = random_tensor("score.weight", {2, kDim});
  EXPECT_TRUE(refuses_tensors(
      tensors,
      {"2 tensors are missing", "'model.layers.0.self_attn.k_proj.weight' [16, 32]",
       "'model.norm.weight' [32]", "1 tensors have no place", "'score.weight' [2, 32] F32"}));
}

TEST_F(HfFolder, RefusesTensorsOfAnotherShape) {
  TensorMap tensors = llama_tensors();
  tensors["model.layers.1.mlp.down_proj.weight"].shape = {kFfn, kDim};
  EXPECT_TRUE(refuses_tensors(
      tensors, {"'model.layers.1.mlp.down_proj.weight' has shape [64, 32]: expected [32, 64]"}));
  tensors = llama_tensors();
  tensors["model.embed_tokens.weight"] = random_tensor("", {kVocab + 1, kDim});
  EXPECT_TRUE(refuses_tensors(tensors, {"[12, 32]: expected [11, 32]"}));
}

TEST_F(HfFolder, RefusesBiasesThatTheConfigDoesNotAskFor) {
  EXPECT_TRUE(refuses_tensors(llama_tensors({.qkv_bias = true}),
                              {"6 tensors have no place", "self_attn.q_proj.bias"}));
}

TEST_F(HfFolder, RefusesWeightsThatAreNotFiniteWhenTheyAreLoaded) {
  TensorMap tensors = llama_tensors();
  tensors["model.layers.0.mlp.up_proj.weight"].values[3] = NAN;
  const TransformerSpec spec = decoder_at(write_hf(folder_, "hf", llama_config(), tensors));
  EXPECT_TRUE(refuses([&] { spec.layers[0].up.weight.load(); },
                      {"'model.layers.0.mlp.up_proj.weight' has the value nan at index 3"}));
}

TEST_F(HfFolder, TiedModelsMayStoreEitherTensorOrBothAlike) {
  nlohmann::json config = llama_config();
  config["tie_word_embeddings"] = true;
  TensorMap tensors = llama_tensors({.is_tied = true});
  const auto expected = logits_of(decoder_at(write_hf(folder_, "a", config, tensors)));
  tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"];
  EXPECT_EQ(logits_of(decoder_at(write_hf(folder_, "b", config, tensors))), expected);
  tensors.erase("model.embed_tokens.weight");
  EXPECT_EQ(logits_of(decoder_at(write_hf(folder_, "c", config, tensors))), expected);
  EXPECT_TRUE(refuses([&] { decoder_at(write_hf(folder_, "d", config, llama_tensors())); },
                      {"'model.embed_tokens.weight' and 'lm_head.weight' differ"}));
}

TEST_F(HfFolder, PassesOverBuffersOnceCausalMasksAreChecked) {
  TensorMap tensors = gpt2_tensors();
  Tensor mask{{1, 1, 3, 3}, {1, 0, 0, 1, 1, 0, 1, 1, 1}};
  tensors["transformer.h.0.attn.bias"] = mask;
  tensors["transformer.h.0.attn.masked_bias"] = {{}, {-1e4f}};
  EXPECT_NO_THROW(decoder_at(write_hf(folder_, "hf", gpt2_config(), tensors)));
  mask.values[5] = 1.0f;
  tensors["transformer.h.0.attn.bias"] = mask;
  EXPECT_TRUE(refuses([&] { decoder_at(write_hf(folder_, "hf", gpt2_config(), tensors)); },
                      {"mask 'transformer.h.0.attn.bias' is", "expected a causal mask"}));
  mask.shape = {9};
  tensors["transformer.h.0.attn.bias"] = mask;
  EXPECT_TRUE(refuses([&] { decoder_at(write_hf(folder_, "hf", gpt2_config(), tensors)); },
                      {"has shape [9]: expected [T, T]"}));
}

TEST_F(HfFolder, ReadsGpt2SavedWithoutItsHead) {
  const auto expected =
      logits_of(decoder_at(write_hf(folder_, "hf", gpt2_config(), gpt2_tensors())));
  TensorMap bare;
  for (const auto& [name, tensor] : gpt2_tensors()) {
    bare[name.substr(std::string_view("transformer.").size())] = tensor;
  }
  EXPECT_EQ(logits_of(decoder_at(write_hf(folder_, "bare", gpt2_config(), bare))), expected);
}

TEST_F(HfFolder, RefusesOptionsThatContradictTheConfig) {
  const auto folder = write_hf(folder_, "hf", llama_config(), llama_tensors());
  EXPECT_NO_THROW(decoder_at(folder, {.heads = kHeads, .activation = Activation::kSilu}));
  EXPECT_TRUE(
      refuses([&] { decoder_at(folder, {.heads = 8}); }, {"8 heads were requested", "has 4"}));
  EXPECT_TRUE(
      refuses([&] { decoder_at(folder, {.activation = Activation::kRelu}); }, {"activation"}));
}

}  // namespace
}  // namespace arenite::convert
