// SPDX-License-Identifier: Apache-2.0
// One set of weights gives the same logits through different file formats and families.
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <string>

#include "convert/families/other_formats.h"
#include "convert/families/tiny_models.h"
#include "convert/gguf/gguf_builder.h"
#include "support/recognised.h"
#include "support/reference_models.h"

namespace arenite::convert {
namespace {

using namespace testing;

// Both files sum equal products in equal order, from equal floats.
constexpr double kSame = 1e-12;
// Norms whose epsilon went through float32.
constexpr double kSameButEpsilon = 1e-7;

class SameModel : public ::testing::Test {
 protected:
  std::vector<double> hf_logits(const nlohmann::json& config, const TensorMap& tensors) {
    return logits_of(decoder_at(write_hf(folder_, "hf", config, tensors)));
  }
  std::vector<double> file_logits(const std::string& bytes, const ModelOptions& options = {}) {
    return logits_of(decoder_at(folder_.write("model.bin", bytes), options));
  }

  TempFolder folder_;
};

TEST_F(SameModel, LlamaAsGgufInEveryNumberFormat) {
  for (const GgufFormat& format : kGgufFormats) {
    SCOPED_TRACE(format.name);
    TensorMap tensors = llama_tensors();
    const std::string gguf = gguf_of_llama("llama", tensors, format).bytes();
    EXPECT_TRUE(near(file_logits(gguf), hf_logits(llama_config(), tensors), kSame));
  }
}

TEST_F(SameModel, TiedLlamaAsGguf) {
  TensorMap tensors = llama_tensors({.is_tied = true});
  nlohmann::json config = llama_config();
  config["tie_word_embeddings"] = true;
  const std::string gguf = gguf_of_llama("llama", tensors).bytes();
  EXPECT_TRUE(near(file_logits(gguf), hf_logits(config, tensors), kSame));
}

TEST_F(SameModel, LlamaWithBiasesAsGguf) {
  TensorMap tensors = llama_tensors({.qkv_bias = true});
  for (uint32_t i = 0; i < kLayers; ++i) {
    const std::string name = "model.layers." + std::to_string(i) + ".self_attn.o_proj.bias";
    tensors[name] = random_tensor(name, {kDim});
  }
  nlohmann::json config = llama_config();
  config["attention_bias"] = true;
  config["mlp_bias"] = false;
  const std::string gguf = gguf_of_llama("llama", tensors).bytes();
  EXPECT_TRUE(near(file_logits(gguf), hf_logits(config, tensors), kSame));
}

TEST_F(SameModel, Qwen2AsGguf) {
  TensorMap tensors = llama_tensors({.qkv_bias = true});
  const std::string gguf = gguf_of_llama("qwen2", tensors).bytes();
  EXPECT_TRUE(near(file_logits(gguf), hf_logits(llama_config("qwen2"), tensors), kSame));
}

TEST_F(SameModel, Qwen3AsGguf) {
  TensorMap tensors = llama_tensors({.head_norms = true});
  const std::string gguf = gguf_of_llama("qwen3", tensors).bytes();
  EXPECT_TRUE(near(file_logits(gguf), hf_logits(llama_config("qwen3"), tensors), kSame));
}

TEST_F(SameModel, Gpt2AsGguf) {
  const TensorMap tensors = gpt2_tensors();
  EXPECT_TRUE(near(file_logits(gguf_of_gpt2(tensors).bytes()), hf_logits(gpt2_config(), tensors),
                   kSameButEpsilon));
}

TEST_F(SameModel, LinearScalingAsGguf) {
  TensorMap tensors = llama_tensors();
  nlohmann::json config = llama_config();
  const std::vector<double> unscaled = hf_logits(config, tensors);
  config["rope_scaling"] = {{"type", "linear"}, {"factor", 4.0}};
  const std::string gguf = gguf_of_llama("llama", tensors)
                               .text("llama.rope.scaling.type", "linear")
                               .real("llama.rope.scaling.factor", 4.0f)
                               .bytes();
  const std::vector<double> scaled = hf_logits(config, tensors);
  EXPECT_TRUE(near(file_logits(gguf), scaled, kSame));
  EXPECT_FALSE(near(scaled, unscaled, 1e-3));
}

TEST_F(SameModel, Llama3ScalingAsGguf) {
  TensorMap tensors = llama_tensors();
  nlohmann::json config = llama_config();
  config["rope_scaling"] = {{"rope_type", "llama3"},
                            {"factor", 8.0},
                            {"low_freq_factor", 1.0},
                            {"high_freq_factor", 4.0},
                            {"original_max_position_embeddings", 64}};
  // Waves of 6.28, 62.8, 628 and 6283 positions: below 64 / 4, between, and two beyond 64.
  const double smooth = (64.0 / (20.0 * std::numbers::pi) - 1.0) / 3.0;
  const auto blended = static_cast<float>(1.0 / ((1.0 - smooth) / 8.0 + smooth));
  const std::string gguf = gguf_of_llama("llama", tensors)
                               .tensor("rope_freqs.weight", {kHeadDim / 2}, 0,
                                       bytes_of<float>({1.0f, blended, 8.0f, 8.0f}))
                               .bytes();
  EXPECT_TRUE(near(file_logits(gguf), hf_logits(config, tensors), 1e-6));
}

TEST_F(SameModel, LlamaAsLlama2c) {
  for (const bool is_tied : {false, true}) {
    for (const int version : {0, 1, 2}) {
      SCOPED_TRACE(version);
      TensorMap tensors = llama_tensors({.is_tied = is_tied});
      const std::string file = llama2c_of_llama(tensors, version);
      nlohmann::json config = llama_config();
      config["tie_word_embeddings"] = is_tied;
      config["rms_norm_eps"] = 1e-5;
      EXPECT_TRUE(near(file_logits(file), hf_logits(config, tensors), kSame));
    }
  }
}

TEST_F(SameModel, MistralWithoutAWindowIsLlama) {
  const TensorMap tensors = llama_tensors();
  nlohmann::json config = llama_config("mistral");
  for (const nlohmann::json& window : {nlohmann::json(nullptr), nlohmann::json(100)}) {
    config["sliding_window"] = window;
    EXPECT_TRUE(near(hf_logits(config, tensors), hf_logits(llama_config(), tensors), kSame));
  }
}

TEST_F(SameModel, QwenWindowsEqualThoseOfMistral) {
  TensorMap tensors = llama_tensors();
  nlohmann::json mistral = llama_config("mistral");
  mistral["sliding_window"] = 3;
  const std::vector<double> expected = hf_logits(mistral, tensors);
  EXPECT_FALSE(near(expected, hf_logits(llama_config(), tensors), 1e-3));

  for (uint32_t i = 0; i < kLayers; ++i) {
    const std::string layer = "model.layers." + std::to_string(i) + ".self_attn.";
    for (const char* part : {"q_proj.bias", "k_proj.bias", "v_proj.bias"}) {
      const uint32_t rows = part[0] == 'q' ? kDim : kKvHeads * kHeadDim;
      tensors[layer + part] = {{rows}, std::vector<float>(rows, 0.0f)};
    }
  }
  nlohmann::json qwen = llama_config("qwen2");
  qwen["use_sliding_window"] = true;
  qwen["sliding_window"] = 3;
  qwen["max_window_layers"] = 0;
  EXPECT_TRUE(near(hf_logits(qwen, tensors), expected, kSame));
  qwen["layer_types"] = {"sliding_attention", "sliding_attention"};
  EXPECT_TRUE(near(hf_logits(qwen, tensors), expected, kSame));
  qwen["layer_types"] = {"sliding_attention", "full_attention"};
  EXPECT_FALSE(near(hf_logits(qwen, tensors), expected, 1e-3));
}

// With one layer, a window equals a text truncated to it, since RoPE depends on distances only.
TEST_F(SameModel, AWindowHidesWhatLiesBeforeIt) {
  nlohmann::json config = llama_config("mistral");
  config["num_hidden_layers"] = 1;
  config["sliding_window"] = 3;
  TensorMap tensors = llama_tensors();
  std::erase_if(tensors,
                [](const auto& item) { return item.first.find("layers.1.") != std::string::npos; });
  const TransformerSpec spec = decoder_at(write_hf(folder_, "hf", config, tensors));
  EXPECT_EQ(spec.layers[0].window, 3u);
  const std::vector<uint32_t> tokens = {1, 5, 0, 10, 7};
  const std::vector<double> all = reference_decoder(spec, tokens).values;
  const std::vector<double> last = reference_decoder(spec, std::span(tokens).last(3)).values;
  EXPECT_TRUE(near(std::span(all).last(kVocab), std::span(last).last(kVocab), 1e-9));
}

TEST_F(SameModel, GemmaIsALlamaWithScaledEmbeddingsAndShiftedGains) {
  TensorMap gemma = llama_tensors({.is_tied = true});
  TensorMap llama = gemma;
  llama["lm_head.weight"] = gemma["model.embed_tokens.weight"];
  for (float& value : llama["model.embed_tokens.weight"].values) value *= 8.0f;
  for (auto& [name, tensor] : gemma) {
    if (name.find("norm.weight") == std::string::npos) continue;
    for (size_t i = 0; i < tensor.values.size(); ++i) {
      tensor.values[i] = std::round(tensor.values[i] * 256.0f) / 256.0f - 1.0f;
      llama[name].values[i] = 1.0f + tensor.values[i];
    }
  }
  nlohmann::json config = llama_config("gemma");
  config.erase("tie_word_embeddings");
  config["hidden_act"] = "gelu";  // as early configs call it
  config["hidden_activation"] = nullptr;
  config["transformers_version"] = "4.40.0";  // a version that reads hidden_activation
  nlohmann::json same = llama_config();
  same["hidden_act"] = "gelu_pytorch_tanh";
  TransformerSpec spec = decoder_at(write_hf(folder_, "gemma", config, gemma));
  EXPECT_DOUBLE_EQ(spec.embedding_scale, std::sqrt(32.0));
  spec.embedding_scale = 8.0;
  EXPECT_TRUE(near(logits_of(spec), hf_logits(same, llama), kSame));
}

TEST_F(SameModel, GptNeoxIsPhiWithTwoNormsAndAFusedProjection) {
  TensorMap phi = phi_tensors();
  phi["lm_head.bias"] = {{kVocab}, std::vector<float>(kVocab, 0.0f)};
  nlohmann::json neox = neox_config();
  neox["hidden_act"] = "gelu_new";
  const std::vector<double> parallel = hf_logits(neox, neox_of_phi(phi));
  EXPECT_TRUE(near(parallel, hf_logits(phi_config(), phi), kSame));
  neox["use_parallel_residual"] = false;
  EXPECT_FALSE(near(hf_logits(neox, neox_of_phi(phi)), parallel, 1e-3));
}

// The order of attention and MLP does not matter if the attention adds nothing.
TEST_F(SameModel, SequentialAndParallelAgreeWithoutAttention) {
  TensorMap neox = neox_of_phi(phi_tensors());
  for (auto& [name, tensor] : neox) {
    if (name.find("attention.dense") == std::string::npos) continue;
    tensor.values.assign(tensor.values.size(), 0.0f);
  }
  nlohmann::json config = neox_config();
  const std::vector<double> parallel = hf_logits(config, neox);
  config["use_parallel_residual"] = false;
  EXPECT_TRUE(near(hf_logits(config, neox), parallel, kSame));
}

TEST_F(SameModel, Qwen3NormsMakeTheScaleOfQueriesMeaningless) {
  TensorMap tensors = llama_tensors({.head_norms = true});
  const std::vector<double> expected = hf_logits(llama_config("qwen3"), tensors);
  for (float& value : tensors["model.layers.0.self_attn.q_proj.weight"].values) value *= 64.0f;
  EXPECT_TRUE(near(hf_logits(llama_config("qwen3"), tensors), expected, 1e-3));
}

TEST_F(SameModel, Gpt2AsNanoGptAndMinGpt) {
  const TensorMap tensors = gpt2_tensors();
  nlohmann::json config = gpt2_config();
  config["activation_function"] = "gelu";
  const std::vector<double> expected = hf_logits(config, tensors);
  const TensorMap nano = nano_gpt_of_gpt2(tensors);
  EXPECT_TRUE(near(file_logits(safetensors_of(nano), kGptOptions), expected, kSame));

  TensorMap untied = tensors;
  untied["lm_head.weight"] = random_tensor("lm_head.weight", {kVocab, kDim});
  config["tie_word_embeddings"] = false;
  EXPECT_TRUE(near(file_logits(safetensors_of(min_gpt_of_gpt2(tensors)), kGptOptions),
                   hf_logits(config, untied), kSame));
  // The later minGPT has nanoGPT's names, but an output matrix of its own and the tanh form.
  TensorMap later = nano;
  later["lm_head.weight"] = untied["lm_head.weight"];
  config["activation_function"] = "gelu_new";
  ModelOptions options = kGptOptions;
  options.activation = Activation::kGeluTanh;
  EXPECT_TRUE(near(file_logits(safetensors_of(later), options), hf_logits(config, untied), kSame));
}

}  // namespace
}  // namespace arenite::convert
