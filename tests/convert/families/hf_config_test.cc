// SPDX-License-Identifier: Apache-2.0
// Tests configs of Hugging Face models: accepted fields, and refusals of all others.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>

#include "convert/families/tiny_models.h"
#include "support/recognised.h"
#include "support/refusal.h"

namespace arenite::convert {
namespace {

using namespace testing;
using Json = nlohmann::json;
using Change = std::function<void(Json&)>;

class HfConfig : public ::testing::Test {
 protected:
  TransformerSpec read(const std::string& model_type, const Change& change) {
    Json config = model_type == "gpt2"       ? gpt2_config()
                  : model_type == "phi"      ? phi_config()
                  : model_type == "gpt_neox" ? neox_config()
                                             : llama_config(model_type);
    const TensorMap tensors = model_type == "gpt2"       ? gpt2_tensors()
                              : model_type == "phi"      ? phi_tensors()
                              : model_type == "gpt_neox" ? neox_of_phi(phi_tensors())
                              : model_type == "qwen2"    ? llama_tensors({.qkv_bias = true})
                              : model_type == "qwen3"    ? llama_tensors({.head_norms = true})
                                                         : llama_tensors();
    change(config);
    return decoder_at(write_hf(folder_, "hf", config, tensors));
  }

  ::testing::AssertionResult refuses_config(const std::string& model_type, const Change& change,
                                            std::initializer_list<std::string_view> parts) {
    const auto names_file = testing::refuses([&] { read(model_type, change); }, {"hf/config.json"});
    return names_file ? testing::refuses([&] { read(model_type, change); }, parts) : names_file;
  }

  // Sets one field of a Llama config.
  ::testing::AssertionResult refuses_field(const char* field, const Json& value,
                                           std::initializer_list<std::string_view> parts) {
    return refuses_config(
        "llama", [&](Json& config) { config[field] = value; }, parts);
  }

  ::testing::AssertionResult refuses_text(const std::string& json,
                                          std::initializer_list<std::string_view> parts) {
    const auto folder = write_hf(folder_, "hf", {}, llama_tensors());
    folder_.write("hf/config.json", json);
    return testing::refuses([&] { decoder_at(folder); }, parts);
  }

  TempFolder folder_;
};

TEST_F(HfConfig, GivesTheSizesOfTheModel) {
  const TransformerSpec spec = read("llama", [](Json&) {});
  EXPECT_EQ(spec.architecture, "llama");
  EXPECT_EQ(spec.vocab_size, kVocab);
  EXPECT_EQ(spec.model_dim, kDim);
  EXPECT_EQ(spec.ffn_dim, kFfn);
  EXPECT_EQ(spec.heads, kHeads);
  EXPECT_EQ(spec.kv_heads, kKvHeads);
  EXPECT_EQ(spec.head_dim, kHeadDim);
  EXPECT_EQ(spec.positions_max, kPositions);
  EXPECT_EQ(spec.layers.size(), kLayers);
  EXPECT_EQ(spec.bos_id, 1u);
  EXPECT_EQ(spec.eos_ids, (std::vector<uint32_t>{2, 3}));
  EXPECT_EQ(spec.rope->rotary_dim, kHeadDim);
  EXPECT_DOUBLE_EQ(spec.rope->inverse_frequencies[1], 0.1);
  EXPECT_EQ(spec.layers[1].query.weight.name, "model.layers.1.self_attn.q_proj.weight");
}

TEST_F(HfConfig, DropsTokenIdsBeyondTheVocabulary) {
  const TransformerSpec spec = read("llama", [](Json& config) {
    config["bos_token_id"] = 50256;
    config["eos_token_id"] = {-1, 10, 11};
  });
  EXPECT_FALSE(spec.bos_id.has_value());
  EXPECT_EQ(spec.eos_ids, std::vector<uint32_t>{10});
}

TEST_F(HfConfig, IgnoresHarmlessFieldsOfAnyValue) {
  EXPECT_NO_THROW(read("llama", [](Json& config) {
    config["initializer_range"] = 0.02;
    config["attention_dropout"] = 0.1;
    config["torch_dtype"] = "bfloat16";
    config["architectures"] = {"LlamaForCausalLM"};
    config["pretraining_tp"] = 1;
    config["never_heard_of"] = nullptr;  // unset
  }));
}

TEST_F(HfConfig, RefusesUnknownFields) {
  EXPECT_TRUE(refuses_field("residual_multiplier", 0.22, {"'residual_multiplier': 0.22"}));
  EXPECT_TRUE(
      refuses_config("llama",
                     [](Json& config) {
                       config["a_switch"] = true;
                       config["b_switch"] = {{"deep", "value"}};
                     },
                     {"'a_switch': true", "'b_switch': {\"deep\":\"value\"}", "remove those"}));
}

TEST_F(HfConfig, RefusesSettingsThatChangeTheComputation) {
  const auto refuses_setting = [&](const char* type, const char* field, const Json& value,
                                   std::string_view why) {
    return refuses_config(type, [&](Json& config) { config[field] = value; },
                          {fmt::format("field '{}' is {}", field, value.dump()), why});
  };
  EXPECT_TRUE(refuses_setting("gpt2", "scale_attn_by_inverse_layer_idx", true, "expected false"));
  EXPECT_TRUE(refuses_setting("gpt2", "scale_attn_weights", false, "expected true"));
  EXPECT_TRUE(refuses_setting("gpt2", "add_cross_attention", true, "cross-attention"));
  EXPECT_TRUE(refuses_setting("gpt2", "n_ctx", 12, "expected 24"));
  EXPECT_TRUE(refuses_setting("llama", "is_encoder_decoder", true, "only decoders"));
  EXPECT_TRUE(refuses_setting("llama", "hidden_act", "quick_gelu", "expected one of 'gelu'"));
  EXPECT_TRUE(refuses_setting("llama", "pruned_heads", {{"0", {1}}}, "pruned"));
  EXPECT_TRUE(refuses_setting("phi", "qk_layernorm", true, "layer norms of queries"));
  EXPECT_TRUE(refuses_setting("gemma", "use_bidirectional_attention", true, "causal"));
  EXPECT_TRUE(refuses_setting("llama", "quantization_config", {{"bits", 4}}, "original weights"));
  EXPECT_TRUE(refuses_setting("gpt_neox", "num_key_value_heads", 2,
                              "as many key/value heads as query heads"));
  EXPECT_NO_THROW(read("gpt_neox", [](Json& config) { config["num_key_value_heads"] = kHeads; }));
  EXPECT_TRUE(refuses_setting("mistral", "layer_types",
                              Json({"full_attention", "sliding_attention"}), "sliding_attention"));
  // A field of another family is no field of this one.
  EXPECT_TRUE(refuses_field("sliding_window", 12, {"'sliding_window': 12"}));
}

TEST_F(HfConfig, RefusesModelTypesItDoesNotKnow) {
  EXPECT_TRUE(refuses_field(
      "model_type", "mamba",
      {"\"mamba\"", "a decoder (gpt2, gpt_neox", "nemotron)", "an encoder (bert, distilbert"}));
  EXPECT_TRUE(refuses_field("model_type", 7, {"is 7", "expected a string"}));
  EXPECT_TRUE(refuses_field("model_type", nullptr, {"'model_type' is missing"}));
}

TEST_F(HfConfig, RefusesSizesThatCannotBe) {
  for (const Json& value : {Json(0), Json(-1), Json(2.5), Json("32"), Json(1u << 25), Json(true),
                            Json(18446744073709551615u), Json::array()}) {
    EXPECT_TRUE(refuses_field("hidden_size", value, {"'hidden_size'", "from 1 to 16777216"}));
  }
  EXPECT_TRUE(refuses_field("hidden_size", nullptr, {"'hidden_size' is missing"}));
  EXPECT_TRUE(refuses_field("num_hidden_layers", 1'000'000, {"1000000 layers", "at most 1024"}));
  EXPECT_TRUE(refuses_field("num_key_value_heads", 3, {"4 query heads cannot share 3"}));
  EXPECT_TRUE(refuses_field("head_dim", 1 << 23, {"4 heads of 8388608", "16777216"}));
  EXPECT_TRUE(refuses_field("head_dim", 7, {"7 of the 7 elements", "even number"}));
  EXPECT_TRUE(refuses_field("rms_norm_eps", 0.0, {"'rms_norm_eps' is 0.0", "above 0"}));
  EXPECT_TRUE(refuses_config("gpt2", [](Json& config) { config["n_head"] = 5; },
                             {"5 heads do not divide a width of 32"}));
}

// The defaults are those of transformers 5. Sizes must still fit the tensors, so most defaults show
// in the refusal.
TEST_F(HfConfig, TakesTheDefaultsOfTheFamily) {
  const auto erased = [](std::initializer_list<const char*> fields) {
    return [fields = std::vector<const char*>(fields)](Json& config) {
      for (const char* field : fields) config.erase(field);
    };
  };
  const TransformerSpec mistral =
      read("mistral", erased({"max_position_embeddings", "rms_norm_eps", "rope_theta", "head_dim",
                              "hidden_act", "tie_word_embeddings", "bos_token_id"}));
  EXPECT_EQ(mistral.positions_max, 131072u);
  EXPECT_EQ(mistral.layers[0].window, 4096u);  // there is no sliding_window, either
  EXPECT_EQ(mistral.final_norm->epsilon, 1e-6);
  EXPECT_EQ(mistral.head_dim, kHeadDim);
  EXPECT_EQ(mistral.activation, Activation::kSilu);
  EXPECT_EQ(mistral.bos_id, 1u);
  EXPECT_EQ(read("llama", erased({"max_position_embeddings"})).positions_max, 2048u);
  EXPECT_EQ(read("qwen2", erased({"max_position_embeddings"})).positions_max, 32768u);
  EXPECT_EQ(read("phi", erased({"max_position_embeddings"})).positions_max, 2048u);
  const auto refuses_tensors = [&](const char* type, const char* erased_field,
                                   std::string_view shapes) {
    return testing::refuses([&] { read(type, erased({erased_field})); }, {shapes});
  };
  EXPECT_TRUE(refuses_tensors("gpt2", "n_positions", "[24, 32]: expected [1024, 32]"));
  EXPECT_TRUE(refuses_tensors("qwen3", "head_dim", "[32, 32]: expected [512, 32]"));
  EXPECT_TRUE(refuses_tensors("gemma", "head_dim", "[32, 32]: expected [1024, 32]"));
  EXPECT_TRUE(refuses_tensors("llama", "intermediate_size", "expected [11008, 32]"));
  EXPECT_TRUE(refuses_config("qwen2", erased({"num_key_value_heads"}),
                             {"4 query heads cannot share 32 key/value heads"}));
  EXPECT_TRUE(refuses_config("mistral", erased({"num_key_value_heads"}), {"cannot share 8"}));
  EXPECT_TRUE(refuses_config("gemma", erased({"num_key_value_heads"}), {"cannot share 16"}));
}

TEST_F(HfConfig, DistinguishesANullEndFromAnAbsentOne) {
  const auto ends = [&](const char* type, const Change& change) {
    return read(type, change).eos_ids;
  };
  const Change erase = [](Json& config) { config.erase("eos_token_id"); };
  EXPECT_EQ(ends("llama", erase), std::vector<uint32_t>{2});
  EXPECT_EQ(ends("phi", erase), std::vector<uint32_t>{2});
  EXPECT_TRUE(ends("qwen2", erase).empty());
  EXPECT_TRUE(ends("gpt2", erase).empty());  // 50256, beyond this vocabulary
  EXPECT_TRUE(ends("llama", [](Json& config) { config["eos_token_id"] = nullptr; }).empty());
}

TEST_F(HfConfig, ReadsPartialRotationUnderAllItsNames) {
  EXPECT_EQ(read("phi", [](Json&) {}).rope->rotary_dim, 4u);
  const TransformerSpec neox = read("gpt_neox", [](Json& config) {
    config["partial_rotary_factor"] = 0.5;  // beside rotary_pct, as newer programs save it
    config["rope_theta"] = 10000;
  });
  EXPECT_EQ(neox.rope->inverse_frequencies, (std::vector<double>{1.0, 0.01}));
  const TransformerSpec newest = read("gpt_neox", [](Json& config) {
    for (const char* name : {"rotary_pct", "rotary_emb_base", "rope_theta"}) config.erase(name);
    config["rope_parameters"] = {
        {"rope_type", "default"}, {"rope_theta", 100.0}, {"partial_rotary_factor", 0.5}};
  });
  EXPECT_EQ(newest.rope->inverse_frequencies, (std::vector<double>{1.0, 0.1}));
  EXPECT_TRUE(refuses_config("gpt_neox", [](Json& config) { config["rope_theta"] = 500.0; },
                             {"'rope_theta' is 500.0", "says 10000"}));
}

TEST_F(HfConfig, RefusesRopeScalingItDoesNotKnow) {
  for (const char* type : {"proportional", "su", "longrope", "mrope"}) {
    EXPECT_TRUE(refuses_field("rope_scaling", {{"type", type}, {"factor", 2.0}},
                              {type, "'default', 'linear', 'dynamic', 'llama3' or 'yarn'"}));
  }
  EXPECT_TRUE(refuses_field("rope_scaling", {{"type", "linear"}}, {"'factor' is missing"}));
  EXPECT_TRUE(refuses_field("rope_scaling", {{"type", "default"}, {"factor", 2.0}}, {"has none"}));
  EXPECT_TRUE(refuses_field("rope_scaling",
                            {{"type", "linear"}, {"factor", 2.0}, {"beta_fast", 32}},
                            {"'rope_scaling'", "'beta_fast': 32"}));
  EXPECT_TRUE(refuses_field("rope_scaling", {{"type", "linear"}, {"rope_type", "llama3"}},
                            {"'type' is \"linear\"", "'llama3'"}));
  EXPECT_TRUE(refuses_field("rope_scaling", "linear", {"expected an object"}));
  EXPECT_TRUE(refuses_field("rope_scaling",
                            {{"rope_type", "llama3"},
                             {"factor", 8.0},
                             {"low_freq_factor", 4.0},
                             {"high_freq_factor", 4.0},
                             {"original_max_position_embeddings", 8192}},
                            {"'high_freq_factor' is 4.0", "more than low_freq_factor"}));
  EXPECT_TRUE(refuses_field("rope_parameters", {{"rope_theta", 500.0}},
                            {"'rope_theta' is 10000.0", "says 500"}));
  EXPECT_TRUE(refuses_field("rope_parameters", {{"full_attention", {{"rope_type", "default"}}}},
                            {"'full_attention'"}));
}

TEST_F(HfConfig, RefusesLayerTypesThatDoNotFit) {
  const auto refuses_layers = [&](const Json& types, std::string_view why) {
    return refuses_config("qwen2", [&](Json& config) { config["layer_types"] = types; },
                          {"'layer_types'", why});
  };
  EXPECT_TRUE(refuses_layers({"full_attention"}, "expected 2 entries"));
  EXPECT_TRUE(refuses_layers({"full_attention", "linear_attention"}, "or sliding_attention"));
  EXPECT_TRUE(refuses_layers({"full_attention", "sliding_attention"}, "use_sliding_window"));
  EXPECT_TRUE(refuses_layers({1, 2}, "a list of strings"));
}

TEST_F(HfConfig, RefusesBrokenJson) {
  EXPECT_TRUE(refuses_text("", {"config.json", "not valid JSON"}));
  EXPECT_TRUE(refuses_text("[1]", {"expected a JSON object"}));
  EXPECT_TRUE(refuses_text("{\"a\":1} x", {"not valid JSON at its byte 9"}));
  EXPECT_TRUE(refuses_text(R"({"vocab_size":1,"vocab_size":2})", {"'vocab_size' occurs twice"}));
  EXPECT_TRUE(refuses_text(R"({"a":{"b":1,"b":1}})", {"'b' occurs twice"}));
  EXPECT_TRUE(refuses_text(std::string("{}\0{}", 5), {"zero byte"}));
  EXPECT_TRUE(refuses_text("{\"a\":" + std::string(1'000'000, '['), {"nested more than 32"}));
  EXPECT_TRUE(refuses_text(R"({"rms_norm_eps":1e999})", {"out of range"}));
  EXPECT_TRUE(refuses_text("version https://git-lfs.github.com/spec/v1\n", {"not valid JSON"}));
}

}  // namespace
}  // namespace arenite::convert
