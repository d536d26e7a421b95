// SPDX-License-Identifier: Apache-2.0
// Tests config fields of single families: older names give the same results, and settings that the
// family's reader does not compute are refused by name. The models are those of transformers_test.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "convert/convert.h"
#include "convert/files/json_file.h"
#include "support/recognised.h"
#include "support/reference_models.h"
#include "support/refusal.h"
#include "support/temp_folder.h"
#include "support/test_data.h"

namespace arenite::convert {
namespace {

using namespace testing;
namespace fs = std::filesystem;
using nlohmann::json;

class HfFamilies : public ::testing::Test {
 protected:
  // Reads a fixture with other fields; null removes one.
  TransformerSpec read(const std::string& fixture, const json& fields = json::object()) {
    const fs::path source = convert_fixture(fixture.c_str());
    json config = read_json_object(source / "config.json");
    config.merge_patch(fields);
    fs::copy_file(source / "model.safetensors", folder_.path() / "model.safetensors",
                  fs::copy_options::overwrite_existing);
    folder_.write("config.json", config.dump());
    Recognised model = model_at(folder_.path());
    return std::get<TransformerSpec>(std::move(model.facts));
  }
  std::vector<double> results(const std::string& fixture, const json& fields = json::object()) {
    const json expected = read_json_value(convert_fixture(fixture.c_str()) / "expected.json");
    const std::vector<uint32_t> ids = expected["ids"];
    return evaluate(build_graph(read(fixture, fields)), {.tokens = ids}).values;
  }
  void expect_refusals(const std::string& fixture, const json& fields, std::string_view field,
                       std::string_view why) {
    EXPECT_NO_THROW(read(fixture));
    EXPECT_TRUE(refuses([&] { read(fixture, fields); }, {field, why})) << fixture;
  }

  TempFolder folder_;
};

TEST_F(HfFamilies, RefuseWhatTheirReadersDoNotCompute) {
  const struct {
    const char* fixture;
    json fields;
    const char* why;
  } cases[] = {
      {"stablelm", {{"qk_layernorm", true}}, "layer norms"},
      {"phi-tied", {{"qk_layernorm", true}}, "layer norms"},
      {"cohere", {{"use_qk_norm", true}}, "follow from the model's family"},
      {"cohere2", {{"position_embedding_type", "alibi"}}, "rope_gptj"},
      {"cohere2", {{"layer_types", {"full_attention", "other"}}}, "or sliding_attention"},
      {"gemma2", {{"hidden_act", "relu"}}, "hidden_activation"},
      {"gemma2", {{"use_bidirectional_attention", true}}, "causal"},
      {"gemma3", {{"use_bidirectional_attention", true}}, "without logits"},
      {"gemma3", {{"attn_logit_softcapping", 30.0}}, "does not cap"},
      {"gpt_neo", {{"attention_layers", {"global"}}}, "expected 2 entries"},
      {"gpt_neo", {{"attention_layers", {"global", "far"}}}, "global or local"},
      {"gpt_neo", {{"attention_types", {1}}, {"attention_layers", nullptr}}, "how often"},
      {"gptj", {{"rotary_dim", 5}}, "an even number up to 6"},
      {"gptj", {{"rotary", false}}, "no other positions"},
      {"falcon", {{"num_ln_in_parallel_attn", 2}}, "expected 1"},
      {"falcon-alibi", {{"num_kv_heads", 2}}, "new_decoder_architecture"},
      {"smollm3", {{"no_rope_layers", {1}}}, "expected 2 entries"},
      {"smollm3", {{"use_sliding_window", true}, {"layer_types", nullptr}}, "expected layer_types"},
      {"phi3-longrope", {{"rope_parameters", {{"short_factor", {1.0}}}}}, "expected 2 factors"},
      {"phi3-longrope", {{"rope_parameters", {{"rope_type", "yarn"}}}}, "expected longrope"},
      {"phi3-longrope", {{"original_max_position_embeddings", 1}}, "more than 1"},
  };
  for (const auto& each : cases) {
    const std::string field = each.fields.begin().key();
    expect_refusals(std::string("decoders/") + each.fixture, each.fields,
                    field == "rope_parameters" ? "short_factor" : field, each.why);
  }
}

TEST_F(HfFamilies, RefuseWhatTheReadersOfEncodersDoNotCompute) {
  const struct {
    const char* fixture;
    json fields;
    const char* why;
  } cases[] = {
      {"MPNetModel", {{"relative_attention_num_buckets", 16}}, "expected 32"},
      {"ModernBertForMaskedLM", {{"classifier_activation", "relu"}}, "gelu"},
      {"ModernBertForSequenceClassification", {{"classifier_pooling", "last"}}, "cls or mean"},
      {"ModernBertModel", {{"rope_scaling", {{"rope_type", "linear"}}}}, "rope_parameters"},
      {"NomicBertModel", {{"causal", true}}, "expected false"},
      {"NomicBertModel", {{"rotary_emb_fraction", 0.5}}, "expected 1.0"},
      {"NomicBertModel", {{"qkv_proj_bias", true}}, "unknown"},
      {"AlbertModel", {{"num_hidden_groups", 4}}, "expected up to 3"},
  };
  for (const auto& each : cases) {
    expect_refusals(std::string("heads/") + each.fixture, each.fields, each.fields.begin().key(),
                    each.why);
  }
}

TEST_F(HfFamilies, HaveOlderNamesOfFields) {
  const struct {
    const char* fixture;
    json fields;
  } cases[] = {
      {"decoders/gemma3",
       {{"rope_parameters", nullptr}, {"rope_theta", 1e6}, {"rope_local_base_freq", 1e4}}},
      {"decoders/gemma3", {{"layer_types", nullptr}}},
      {"decoders/gpt_neo", {{"attention_types", nullptr}}},
      {"decoders/gpt_neo", {{"attention_layers", nullptr}}},
      {"decoders/gpt_neo-local", {{"attention_layers", nullptr}}},
      {"decoders/phi3", {{"full_attn_mod", 1}, {"interpolate_factor", 1}}},
      {"decoders/starcoder2",
       {{"activation_function", "gelu"}, {"norm_type", "layer_norm"}, {"mlp_type", "default"}}},
      {"heads/AlbertModel", {{"gap_size", 0}, {"down_scale_factor", 1}}},
      {"heads/ModernBertModel",
       {{"rope_parameters", nullptr}, {"global_rope_theta", 160000.0}, {"layer_types", nullptr}}},
      {"heads/NomicBertModel",
       {{"hidden_size", nullptr},
        {"n_embd", 16},
        {"num_attention_heads", nullptr},
        {"n_head", 4},
        {"num_hidden_layers", nullptr},
        {"n_layer", 2},
        {"n_inner", 20},
        {"rope_parameters", nullptr},
        {"rotary_emb_base", 30},
        {"prenorm", false},
        {"activation_function", "swiglu"},
        {"max_position_embeddings", nullptr},
        {"max_trained_positions", 32},
        {"n_positions", 128}}},
  };
  for (const auto& each : cases) {
    EXPECT_EQ(results(each.fixture, each.fields), results(each.fixture)) << each.fields;
  }
}

// ALBERT runs one layer several times.
TEST_F(HfFamilies, LayersThatRunTwice_AreStoredOnce) {
  const fs::path folder = convert_fixture("heads/AlbertModel");
  const Conversion conversion = convert_model(folder, "tiny", {}, {Target::kPortable});
  EXPECT_EQ(std::get<TransformerSpec>(conversion.model.facts).layers.size(), 3u);
  EXPECT_EQ(std::ranges::count_if(conversion.program.tensors,
                                  [](const ProgramTensor& tensor) {
                                    return tensor.outputs == 20 && tensor.inputs == 16;
                                  }),
            1);
}

TEST_F(HfFamilies, LongropeHasTheTrainedContext) {
  const TransformerSpec spec = read("decoders/phi3-longrope");
  EXPECT_EQ(spec.positions_max, 16u);  // of 32
  ASSERT_EQ(spec.notes.size(), 1u);
  EXPECT_NE(spec.notes[0].find("longrope rotates by other frequencies"), std::string::npos);
}

TEST_F(HfFamilies, LocalLayersOfGptNeoHaveWindows) {
  const TransformerSpec spec = read("decoders/gpt_neo");
  EXPECT_EQ(spec.layers[0].window, 0u);
  EXPECT_EQ(spec.layers[1].window, 4u);
}

}  // namespace
}  // namespace arenite::convert
