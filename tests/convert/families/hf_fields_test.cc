// SPDX-License-Identifier: Apache-2.0
// Tests config fields without effect on the computation: the reader ignores some, and refuses those
// that request a feature or switch one off.
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "convert/families/tiny_models.h"
#include "support/recognised.h"
#include "support/refusal.h"

namespace arenite::convert {
namespace {

using namespace testing;
using Json = nlohmann::json;

class HfFields : public ::testing::Test {
 protected:
  TransformerSpec read(const std::string& model_type, const Json& fields = Json::object()) {
    const bool is_gpt2 = model_type == "gpt2";
    const bool is_phi = model_type == "phi";
    Json config = is_gpt2 ? gpt2_config() : is_phi ? phi_config() : llama_config(model_type);
    config.update(fields);
    const TensorMap tensors = is_gpt2                 ? gpt2_tensors()
                              : is_phi                ? phi_tensors()
                              : model_type == "qwen2" ? llama_tensors({.qkv_bias = true})
                              : model_type == "qwen3" ? llama_tensors({.head_norms = true})
                                                      : llama_tensors();
    return decoder_at(write_hf(folder_, "hf", config, tensors));
  }
  ::testing::AssertionResult refuses_field(const char* model_type, const char* field,
                                           const Json& value) {
    return refuses(
        [&] {
          read(model_type, {{field, value}});
        },
        {"hf/config.json", fmt::format("'{}'", field), value.dump()});
  }

  TempFolder folder_;
};

TEST_F(HfFields, IgnoresHarmlessFieldsOfPublicConfigs) {
  const std::pair<const char*, Json> fields[] = {
      {"transformers.js_config", {{"dtype", "q8"}}},
      {"auto_map", {{"AutoModel", "modeling.Model"}}},
      {"_num_labels", 3},
      {"_flash_attn_2_enabled", true},
      {"_attn_implementation_autoset", true},
      {"attn_implementation", "flash_attention_2"},
      {"use_flash_attn", true},
      {"is_llama_config", true},
      {"matryoshka_dimensions", {128, 256}},
      {"sentence_transformers", {{"version", "5.0"}}},
      {"max_window_layers", 24},
      {"model_max_length", 2048},
      {"max_sequence_length", 2048},
      {"max_length", 20},
      {"eos_token", "</s>"},
      {"bos_token", "<s>"},
      {"torch_dtype", "float16"},
      {"attention_probs_dropout_prob", 0.1},
      {"hidden_dropout_prob", 0.1},
      {"resid_pdrop", 0.1},
      {"num_labels", 2},
      {"id2label", {{"0", "A"}}},
      {"pad_token_id", -1},
      {"tensor_parallel_degree", 2},
      {"router_aux_loss_coef", 0.001},
      {"vocab_size_or_config_json_file", 50257},
      {"layer_types", {"full_attention", "full_attention"}},
      {"is_causal", true},
      {"use_rope", true},
  };
  for (const auto& [field, value] : fields) {
    EXPECT_NO_THROW(read("llama", {{field, value}})) << field;
  }
}

TEST_F(HfFields, IgnoresAndNamesFieldsThatAreFalseOrEmpty) {
  const TransformerSpec spec = read("llama", {{"use_mrope", false},
                                              {"rope_interleaved", false},
                                              {"use_sliding_window", false},
                                              {"never_heard_of", false},
                                              {"model_args", Json::object()},
                                              {"a_list", Json::array()},
                                              {"a_text", ""},
                                              {"sliding_window", nullptr},
                                              {"rope_scaling", nullptr},
                                              {"quantization_config", Json::object()},
                                              {"head_dim", nullptr}});
  ASSERT_EQ(spec.notes.size(), 1u);
  EXPECT_EQ(spec.notes[0],
            "ignored, as they are false or empty: a_list, a_text, model_args, never_heard_of, "
            "use_mrope");
  EXPECT_TRUE(read("llama").notes.empty());
  EXPECT_NO_THROW(read("llama", {{"use_sliding_window", false}, {"sliding_window", 4096}}));
}

TEST_F(HfFields, RefusesFalseWhereTheDefaultIsTrue) {
  for (const char* field :
       {"use_rope", "rope", "use_rotary", "is_causal", "causal", "normalize_before",
        "do_layer_norm_before", "pre_norm", "scale_attn_weights", "use_rms_norm", "final_norm"}) {
    EXPECT_TRUE(refuses_field("llama", field, false)) << field;
  }
  EXPECT_TRUE(refuses_field("gpt2", "scale_attn_weights", false));
  EXPECT_TRUE(refuses_field("phi", "use_parallel_residual", false));
  EXPECT_TRUE(refuses_field("qwen3", "use_qk_norm", false));
  EXPECT_NO_THROW(read("llama", {{"use_qk_norm", false}, {"use_parallel_residual", false}}));
}

TEST_F(HfFields, RefusesUnknownFieldsThatAreSet) {
  const std::pair<const char*, Json> fields[] = {
      {"use_mrope", true},
      {"rope_interleaved", true},
      {"logit_softcapping", 30.0},
      {"final_logit_softcapping", 30.0},
      {"embedding_multiplier", 12.0},
      {"residual_multiplier", 0.22},
      {"attention_multiplier", 0.1},
      {"logits_scaling", 8.0},
      {"scale_emb", 12},
      {"num_local_experts", 8},
      {"use_qk_norm", true},
      {"qk_layernorm", true},
      {"use_parallel_residual", true},
      {"alibi", true},
      {"clip_qkv", 8.0},
      {"partial_rotary_factor", 0.5},
      {"sliding_window", 12},
      {"use_bidirectional_attention", true},
      {"is_causal", false},
      {"quantization_config", {{"bits", 4}}},
      {"layer_types", {"full_attention", "sliding_attention"}},
  };
  for (const auto& [field, value] : fields) {
    EXPECT_TRUE(refuses_field("llama", field, value)) << field;
  }
  EXPECT_TRUE(refuses_field("phi", "qk_layernorm", true));
}

TEST_F(HfFields, LeavesBiasesToTheTensors) {
  EXPECT_NO_THROW(read("qwen2", {{"attention_bias", true}}));
  EXPECT_NO_THROW(read("qwen2", {{"attention_bias", false}}));
  EXPECT_TRUE(refuses(
      [&] {
        read("llama", {{"attention_bias", true}});
      },
      {"8 tensors are missing", "'model.layers.0.self_attn.q_proj.bias' [32]"}));
}

TEST_F(HfFields, ReadsSizesOfGpt2UnderTheNamesOfOthers) {
  Json config = gpt2_config();
  config["hidden_size"] = config["n_embd"];
  config["num_hidden_layers"] = config["n_layer"];
  config["num_attention_heads"] = config["n_head"];
  config["max_position_embeddings"] = config["n_positions"];
  const std::vector<double> expected = logits_of(read("gpt2"));
  EXPECT_EQ(logits_of(decoder_at(write_hf(folder_, "hf", config, gpt2_tensors()))), expected);
  for (const char* name : {"n_embd", "n_layer", "n_head", "n_positions"}) config.erase(name);
  EXPECT_EQ(logits_of(decoder_at(write_hf(folder_, "hf", config, gpt2_tensors()))), expected);
  EXPECT_TRUE(refuses_field("gpt2", "num_hidden_layers", 3));
}

}  // namespace
}  // namespace arenite::convert
