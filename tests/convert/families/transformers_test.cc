// SPDX-License-Identifier: Apache-2.0
// Tiny decoders with unusual settings, and encoders with all heads, saved by transformers 5
// (tests/convert/data/make_decoders.py), give the results of transformers.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "convert/convert.h"
#include "convert/families/tiny_models.h"
#include "convert/files/json_file.h"
#include "support/recognised.h"
#include "support/reference_models.h"
#include "support/test_data.h"

namespace arenite::convert {
namespace {

using namespace testing;
namespace fs = std::filesystem;

// transformers computes norms and angles in float32, also in a float64 model.
constexpr double kTransformersError = 2e-6;

std::vector<double> flat(const nlohmann::json& rows) {
  std::vector<double> values;
  for (const nlohmann::json& row : rows) {
    for (const nlohmann::json& value : row) values.push_back(value);
  }
  return values;
}

class TransformersDecoder : public ::testing::TestWithParam<const char*> {
 protected:
  const fs::path folder_ = convert_fixture("decoders") / GetParam();
  const nlohmann::json expected_ = read_json_value(folder_ / "expected.json");
  const std::vector<uint32_t> ids_ = expected_["ids"];
};

TEST_P(TransformersDecoder, GivesTheResultsOfTransformers) {
  const TransformerSpec spec = decoder_at(folder_);
  EXPECT_TRUE(
      near(reference_decoder(spec, ids_).values, flat(expected_["results"]), kTransformersError));
}

// The conversion itself compares the runtime with the reference.
TEST_P(TransformersDecoder, RunsAsTheReferenceSays) {
  const Conversion conversion = convert_model(folder_, "tiny", {}, {Target::kPortable});
  ASSERT_EQ(conversion.checks.size(), 1u);
  EXPECT_TRUE(conversion.checks[0].ran);
  const std::string_view name = GetParam();
  EXPECT_EQ(conversion.decoder()->is_headless, name.ends_with("-bare"));
  EXPECT_EQ(conversion.program.slots[conversion.program.functions[0].output_slot].width,
            expected_["results"][0].size());
}

INSTANTIATE_TEST_SUITE_P(
    Decoders, TransformersDecoder,
    ::testing::Values(
        "gpt2-bare", "llama-bare", "llama-yarn", "llama-dynamic", "mistral-window",
        "qwen2-tied-bare", "qwen3-windows", "gpt_neox-bare", "phi-two-shares", "phi-tied",
        "gemma-gelu", "bloom", "bloom-bare", "mpt", "mpt-scale", "gemma2", "gemma2-types", "gemma3",
        "gemma3-thetas-bare", "smollm3", "smollm3-windows", "granite", "granite-tied", "phi3",
        "phi3-longrope", "phi3-partial-bare", "olmo2", "olmo2-biased", "olmo", "olmo-tied", "opt",
        "opt-norms-last", "opt-plain-bare", "gpt_neo", "gpt_neo-local", "gptj", "gptj-whole-bare",
        "stablelm", "stablelm-parallel", "starcoder2", "starcoder2-plain", "gpt_bigcode",
        "gpt_bigcode-heads", "falcon", "falcon-new", "falcon-one-norm-bare", "falcon-alibi",
        "cohere", "cohere-biased-bare", "cohere2", "cohere2-biased", "ernie4_5", "ernie4_5-biased",
        "helium", "helium-biased", "glm", "glm-plain", "glm4", "glm4-plain", "exaone4",
        "exaone4-full", "nemotron", "nemotron-biased", "mixtral", "mixtral-one", "qwen2_moe",
        "qwen2_moe-windows", "qwen3_moe", "qwen3_moe-steps-bare", "olmoe", "olmoe-weights-of-1",
        "granitemoe", "granitemoe-tied", "gpt_oss", "gpt_oss-yarn"));

class TransformersHead : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(
    Heads, TransformersHead,
    ::testing::Values(
        "BertForMultipleChoice", "BertForNextSentencePrediction", "DistilBertForMultipleChoice",
        "DistilBertForQuestionAnswering", "ElectraForMultipleChoice", "ElectraForPreTraining",
        "RobertaForMultipleChoice", "MPNetModel", "MPNetForMaskedLM",
        "MPNetForSequenceClassification", "ModernBertModel", "ModernBertForSequenceClassification",
        "ModernBertForMaskedLM", "ModernBertForTokenClassification", "NomicBertModel",
        "NomicBertForMaskedLM", "NomicBertForSequenceClassification", "AlbertModel",
        "AlbertForMaskedLM", "AlbertForSequenceClassification", "CamembertForTokenClassification",
        "CamembertForMaskedLM", "RobertaPreLayerNormModel", "RobertaPreLayerNormForMaskedLM",
        "XLMRobertaXLModel", "XLMRobertaXLForSequenceClassification", "Gemma3TextModel",
        "LlamaForSequenceClassification", "Qwen3ForTokenClassification",
        "GPT2ForSequenceClassification", "OPTForSequenceClassification"));

TEST_P(TransformersHead, GivesTheResultsOfTransformers) {
  const fs::path folder = convert_fixture("heads") / GetParam();
  const nlohmann::json expected = read_json_value(folder / "expected.json");
  const TransformerSpec spec = encoder_at(folder);
  EXPECT_TRUE(near(reference_encoder(spec, expected["ids"].get<std::vector<uint32_t>>()).values,
                   flat(expected["results"]), kTransformersError));
  const Conversion conversion = convert_model(folder, "tiny", {}, {Target::kPortable});
  EXPECT_TRUE(conversion.checks[0].ran);
}

// Gemma's first configs say "gelu" and mean the tanh form, which some versions put right.
class GemmaActivation : public ::testing::Test {
 protected:
  // Reads the fixture with other fields; null removes one.
  TransformerSpec read(const nlohmann::json& fields = nlohmann::json::object()) {
    nlohmann::json config = read_json_object(fixture_ / "config.json");
    config.merge_patch(fields);
    const fs::path copy = folder_.path() / "gemma";
    fs::create_directories(copy);
    fs::copy_file(fixture_ / "model.safetensors", copy / "model.safetensors",
                  fs::copy_options::overwrite_existing);
    folder_.write("gemma/config.json", config.dump());
    return decoder_at(copy);
  }
  ::testing::AssertionResult gives(const TransformerSpec& spec, const char* results) {
    const auto ids = expected_["ids"].get<std::vector<uint32_t>>();
    return near(reference_decoder(spec, ids).values, flat(expected_[results]), kTransformersError);
  }

  TempFolder folder_;
  const fs::path fixture_ = convert_fixture("decoders") / "gemma-gelu";
  const nlohmann::json expected_ = read_json_value(fixture_ / "expected.json");
};

TEST_F(GemmaActivation, IsThatOfTheVersionThatSavedTheConfig) {
  EXPECT_FALSE(gives(read(), "results_of_4_39"));  // or the test would show nothing
  for (const char* version : {"4.38.1", "4.38.0.dev0", "4.48.0", "4.57.1", "5.12.1"}) {
    EXPECT_TRUE(gives(read({{"transformers_version", version}}), "results")) << version;
  }
  EXPECT_TRUE(gives(read({{"transformers_version", nullptr}}), "results"));
  for (const char* version : {"4.39.0", "4.44.2", "4.47.1"}) {
    EXPECT_TRUE(gives(read({{"transformers_version", version}}), "results_of_4_39")) << version;
  }
}

TEST_F(GemmaActivation, ComesFromTheFieldThatTheVersionReads) {
  const nlohmann::json both = {{"hidden_act", "gelu"}, {"hidden_activation", "relu"}};
  nlohmann::json old = both;
  old["transformers_version"] = "4.40.0";
  EXPECT_EQ(read(old).activation, Activation::kRelu);
  EXPECT_EQ(read(both).activation, Activation::kGeluErf);
  EXPECT_EQ(read({{"hidden_act", nullptr}}).activation, Activation::kGeluTanh);
}

TEST_F(GemmaActivation, IsNotedWhereVersionsDiffer) {
  const TransformerSpec spec = read({{"transformers_version", "4.40.0"}});
  ASSERT_EQ(spec.notes.size(), 1u);
  EXPECT_EQ(spec.notes[0],
            "activation 'gelu_pytorch_tanh': the config says hidden_act 'gelu'; transformers 4.39 "
            "to 4.47 compute 'gelu_pytorch_tanh' instead, other versions do not; "
            "transformers_version is '4.40.0'");
  EXPECT_TRUE(read({{"hidden_act", "gelu_pytorch_tanh"}}).notes.empty());
}

}  // namespace
}  // namespace arenite::convert
