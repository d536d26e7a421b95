// SPDX-License-Identifier: Apache-2.0
// Tests how modules.json and the configs of its modules become pooling and head, and refusals of
// other modules.
#include "convert/families/families.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "convert/families/encoder_fixture.h"
#include "support/recognised.h"
#include "support/reference_models.h"
#include "support/refusal.h"
#include "support/test_data.h"

namespace arenite::convert {
namespace {

using namespace testing;
using nlohmann::json;

class SentenceTransformers : public ::testing::Test {
 protected:
  SentenceTransformers() {
    std::filesystem::copy(encoder_fixture("sentence"), folder_.path(),
                          std::filesystem::copy_options::recursive);
  }

  json read(const std::string& file) const {
    return json::parse(read_bytes(folder_.path() / file));
  }
  void write(const std::string& file, const json& content) { folder_.write(file, content.dump()); }
  // Sets a field of a file that holds an object.
  void set(const std::string& file, const std::string& field, const json& value) {
    json content = read(file);
    content[field] = value;
    write(file, content);
  }

  TransformerSpec open(const ModelOptions& options = {}) const {
    return encoder_at(folder_.path(), options);
  }
  ::testing::AssertionResult refuses(std::initializer_list<std::string_view> parts,
                                     const ModelOptions& options = {}) const {
    return testing::refuses([&] { open(options); }, parts);
  }

  TempFolder folder_;
};

// Decoders of transformers may give the rows, too; transformers computed those of the fixtures.
class SentencesOfDecoders : public ::testing::Test {
 protected:
  void read(const std::filesystem::path& fixture, const char* pooling) {
    for (const char* file : {"config.json", "model.safetensors"}) {
      std::filesystem::copy_file(fixture / file, folder_.path() / file);
    }
    std::filesystem::create_directory(folder_.path() / "1_Pooling");
    const auto module = [](int index, const char* kind, const char* path) {
      return json{{"idx", index},
                  {"name", kind},
                  {"path", path},
                  {"type", std::string("sentence_transformers.models.") + kind}};
    };
    folder_.write("modules.json",
                  json{module(0, "Transformer", ""), module(1, "Pooling", "1_Pooling"),
                       module(2, "Normalize", "2_Normalize")}
                      .dump());
    folder_.write("1_Pooling/config.json", json{{"pooling_mode", pooling}}.dump());
    const json expected = json::parse(read_bytes(fixture / "expected.json"));
    rows_ = expected["results"].get<std::vector<std::vector<double>>>();
    const std::vector<uint32_t> ids = expected["ids"];
    found_ = reference_encoder(encoder_at(folder_.path()), ids).values;
  }
  // Compares with `row`, normalized.
  void expect(const std::vector<double>& row) {
    double squares = 0.0;
    for (const double value : row) squares += value * value;
    ASSERT_EQ(found_.size(), row.size());
    for (size_t i = 0; i < row.size(); ++i) {
      EXPECT_NEAR(found_[i], row[i] / std::sqrt(squares), 1e-6) << i;
    }
  }

  TempFolder folder_;
  std::vector<std::vector<double>> rows_;
  std::vector<double> found_;
};

TEST_F(SentencesOfDecoders, TakeTheLastRow) {
  read(convert_fixture("decoders") / "qwen2-tied-bare", "lasttoken");
  expect(rows_.back());
}

TEST_F(SentencesOfDecoders, SeeBothWaysIfTheConfigSaysSo) {
  read(convert_fixture("heads") / "Gemma3TextModel", "mean");
  std::vector<double> mean(rows_[0].size());
  for (const std::vector<double>& row : rows_) {
    for (size_t i = 0; i < mean.size(); ++i) mean[i] += row[i] / double(rows_.size());
  }
  expect(mean);
}

TEST_F(SentenceTransformers, ReadsAllModules) {
  const TransformerSpec spec = open();
  EXPECT_EQ(spec.pooling, SelectKind::kMean);
  EXPECT_TRUE(spec.more_pooling.empty());
  ASSERT_EQ(spec.head.size(), 2u);
  EXPECT_EQ(spec.head[0].linear->weight.rows, 5u);
  EXPECT_EQ(spec.head[0].activation, Activation::kTanh);
  EXPECT_FALSE(spec.head[0].normalize);
  EXPECT_TRUE(spec.head[1].normalize);
  EXPECT_EQ(spec.positions_max, 7u);  // max_seq_length, of 9 positions
}

TEST_F(SentenceTransformers, TheTransformerMayHaveAFolderOfItsOwn) {
  const auto expected = run_row(open(), "sentence", 1).values;
  std::filesystem::create_directory(folder_.path() / "0_Transformer");
  for (const char* file : {"config.json", "model.safetensors", "sentence_bert_config.json"}) {
    std::filesystem::rename(folder_.path() / file, folder_.path() / "0_Transformer" / file);
  }
  json modules = read("modules.json");
  modules[0]["path"] = "0_Transformer";
  write("modules.json", modules);
  EXPECT_EQ(run_row(open(), "sentence", 1).values, expected);
}

TEST_F(SentenceTransformers, PoolsTheFirstTokenWhereConfigured) {
  set("1_Pooling/config.json", "pooling_mode_cls_token", true);
  set("1_Pooling/config.json", "pooling_mode_mean_tokens", false);
  EXPECT_EQ(open().pooling, SelectKind::kFirst);
}

TEST_F(SentenceTransformers, DenseMayHaveNoActivation) {
  set("2_Dense/config.json", "activation_function", "torch.nn.modules.linear.Identity");
  EXPECT_FALSE(open().head[0].activation.has_value());
}

TEST_F(SentenceTransformers, LengthIsAtMostThePositions) {
  set("sentence_bert_config.json", "max_seq_length", 512);
  EXPECT_EQ(open().positions_max, 9u);
}

// The order of the rows is the library's, whatever that of the fields.
TEST_F(SentenceTransformers, PutsPoolingsSideBySide) {
  write("1_Pooling/config.json", {{"word_embedding_dimension", 12},
                                  {"pooling_mode_lasttoken", true},
                                  {"pooling_mode_weightedmean_tokens", true},
                                  {"pooling_mode_mean_sqrt_len_tokens", true},
                                  {"pooling_mode_mean_tokens", true},
                                  {"pooling_mode_max_tokens", true},
                                  {"pooling_mode_cls_token", true}});
  set("2_Dense/config.json", "in_features", 12);
  EXPECT_TRUE(refuses({"'in_features'", "expected 72"}));
  json modules = read("modules.json");
  modules.erase(3);
  modules.erase(2);
  write("modules.json", modules);
  using enum SelectKind;
  const TransformerSpec spec = open();
  EXPECT_EQ(spec.pooling, kFirst);
  EXPECT_EQ(spec.more_pooling, (std::vector{kMax, kMean, kMeanSqrtLength, kWeightedMean, kLast}));
  EXPECT_EQ(output_width(spec), 72u);
}

TEST_F(SentenceTransformers, ReadsNewNamesOfPooling) {
  write("1_Pooling/config.json", {{"embedding_dimension", 12}, {"pooling_mode", "max"}});
  EXPECT_EQ(open().pooling, SelectKind::kMax);
  write("1_Pooling/config.json", {{"embedding_dimension", 12},
                                  {"pooling_mode", {"mean"}},
                                  {"pooling_mode_cls_token", true},  // superseded
                                  {"include_prompt", false}});
  EXPECT_EQ(open().pooling, SelectKind::kMean);
  EXPECT_TRUE(open().more_pooling.empty());
  for (const json& wrong : {json("median"), json::array({"cls", "median"})}) {
    set("1_Pooling/config.json", "pooling_mode", wrong);
    EXPECT_TRUE(refuses({"1_Pooling", "'pooling_mode'", "median", "'weightedmean'"}));
  }
  set("1_Pooling/config.json", "pooling_mode", json::array());
  EXPECT_TRUE(refuses({"'pooling_mode'", "at least one"}));
  set("1_Pooling/config.json", "pooling_mode", "mean");
  set("1_Pooling/config.json", "embedding_dimension", 13);
  EXPECT_TRUE(refuses({"'embedding_dimension'", "expected 12"}));
}

TEST_F(SentenceTransformers, RefusesOtherPooling) {
  EXPECT_TRUE(refuses({"1_Pooling", "'first'", "'mean'"}, {.pooling = PoolingChoice::kFirst}));
  set("1_Pooling/config.json", "pooling_mode_mean_tokens", false);
  EXPECT_TRUE(refuses({"1_Pooling", "one of them"}));
  set("1_Pooling/config.json", "pooling_mode_max_tokens", true);
  EXPECT_TRUE(
      refuses({"1_Pooling", "'first'", "pools differently"}, {.pooling = PoolingChoice::kFirst}));
  set("1_Pooling/config.json", "pooling_mode_mean_tokens", nullptr);
  EXPECT_TRUE(refuses({"'pooling_mode_mean_tokens'", "versions"}));
  set("1_Pooling/config.json", "pooling_mode_of_tomorrow", true);
  set("1_Pooling/config.json", "pooling_mode_mean_tokens", true);
  EXPECT_TRUE(refuses({"1_Pooling", "'pooling_mode_of_tomorrow'"}));
}

TEST_F(SentenceTransformers, RefusesSizesThatDoNotFit) {
  set("1_Pooling/config.json", "word_embedding_dimension", 13);
  EXPECT_TRUE(refuses({"'word_embedding_dimension'", "expected 12"}));
  set("1_Pooling/config.json", "word_embedding_dimension", 12);
  set("2_Dense/config.json", "in_features", 13);
  EXPECT_TRUE(refuses({"'in_features'", "expected 12"}));
}

TEST_F(SentenceTransformers, RefusesADenseLayerThatItDoesNotKnow) {
  set("2_Dense/config.json", "activation_function", "torch.nn.modules.activation.Softmax");
  EXPECT_TRUE(refuses({"2_Dense", "'activation_function'", "Softmax", "Tanh"}));
}

TEST_F(SentenceTransformers, DenseMayHaveOtherActivations) {
  const std::pair<const char*, Activation> known[] = {{"activation.ReLU", Activation::kRelu},
                                                      {"activation.GELU", Activation::kGeluErf},
                                                      {"activation.SiLU", Activation::kSilu},
                                                      {"activation.Sigmoid", Activation::kSigmoid}};
  for (const auto& [name, activation] : known) {
    set("2_Dense/config.json", "activation_function", std::string("torch.nn.modules.") + name);
    EXPECT_EQ(open().head[0].activation, activation);
  }
}

TEST_F(SentenceTransformers, SaysThatTextsAreInLowerCase) {
  EXPECT_FALSE(model_at(folder_.path()).tokenizer.lowers_case);
  set("sentence_bert_config.json", "do_lower_case", true);
  EXPECT_TRUE(model_at(folder_.path()).tokenizer.lowers_case);
}

TEST_F(SentenceTransformers, TheTokenizersLengthHoldsWhereTheModuleSaysNone) {
  write("tokenizer_config.json", {{"model_max_length", 5}});
  EXPECT_EQ(open().positions_max, 7u);
  set("sentence_bert_config.json", "max_seq_length", nullptr);
  EXPECT_EQ(open().positions_max, 5u);
  write("tokenizer_config.json", {{"model_max_length", 1e30}});
  EXPECT_EQ(open().positions_max, 9u);
}

TEST_F(SentenceTransformers, ReadsNewSettingsOfTheTransformer) {
  const json states = {{"method", "forward"}, {"method_output_name", "last_hidden_state"}};
  write("sentence_bert_config.json", {{"transformer_task", "feature-extraction"},
                                      {"modality_config", {{"text", states}}},
                                      {"module_output_name", "token_embeddings"},
                                      {"processing_kwargs", json::object()},
                                      {"unpad_inputs", true},
                                      {"model_args", {{"attn_implementation", "sdpa"}}},
                                      {"query_length", nullptr}});
  const json good = read("sentence_bert_config.json");
  EXPECT_NO_THROW(open());
  const struct {
    const char* field;
    json value;
  } cases[] = {{"transformer_task", "fill-mask"},
               {"modality_config", {{"text", states}, {"image", states}}},
               {"module_output_name", "sentence_embedding"},
               {"processing_kwargs", {{"text", {{"truncation", true}}}}},
               {"model_args", {{"num_hidden_layers", 1}}},
               {"query_expansion", {{"attend", false}}}};
  for (const auto& wrong : cases) {
    write("sentence_bert_config.json", good);
    set("sentence_bert_config.json", wrong.field, wrong.value);
    EXPECT_TRUE(refuses({"sentence_bert_config.json", wrong.field})) << wrong.field;
  }
}

TEST_F(SentenceTransformers, RefusesPromptsThatGoBeforeEveryText) {
  const char* const file = "config_sentence_transformers.json";
  write(file, {{"model_type", "SentenceTransformer"},
               {"__version__", {{"sentence_transformers", "6.0.0"}}},
               {"prompts", {{"query", "query: "}, {"document", ""}}},
               {"default_prompt_name", nullptr},
               {"similarity_fn_name", "cosine"}});
  EXPECT_NO_THROW(open());
  set(file, "default_prompt_name", "document");
  EXPECT_NO_THROW(open());
  set(file, "default_prompt_name", "query");
  EXPECT_TRUE(refuses({file, "'default_prompt_name'", "set the field to null"}));
  set(file, "default_prompt_name", nullptr);
  set(file, "model_type", "SparseEncoder");
  EXPECT_TRUE(refuses({file, "'model_type'", "SparseEncoder"}));
}

TEST_F(SentenceTransformers, RefusesValuesThatGoElsewhere) {
  set("2_Dense/config.json", "module_input_name", "token_embeddings");
  EXPECT_TRUE(refuses({"2_Dense", "'module_input_name'"}));
  set("2_Dense/config.json", "module_input_name", "sentence_embedding");
  set("2_Dense/config.json", "use_residual", true);
  EXPECT_TRUE(refuses({"2_Dense", "'use_residual'"}));
  set("2_Dense/config.json", "use_residual", false);
  EXPECT_NO_THROW(open());
  std::filesystem::create_directories(folder_.path() / "3_Normalize");
  write("3_Normalize/config.json", {{"module_input_name", "token_embeddings"}});
  EXPECT_TRUE(refuses({"3_Normalize", "'module_input_name'"}));
}

// The library loads the encoder alone, whatever head its architecture has.
TEST_F(SentenceTransformers, AHeadOfTheTransformerIsDropped) {
  EditedEncoder classifier("bert_sequence");
  std::filesystem::copy(
      classifier.write(), folder_.path(),
      std::filesystem::copy_options::recursive | std::filesystem::copy_options::overwrite_existing);
  const TransformerSpec spec = open();
  EXPECT_EQ(spec.head.size(), 2u);
  EXPECT_EQ(output_width(spec), 5u);
  EXPECT_TRUE(spec.labels.empty());
}

TEST_F(SentenceTransformers, RefusesModulesThatItDoesNotKnow) {
  const json modules = read("modules.json");
  json changed = modules;
  changed[2]["type"] = "sentence_transformers.models.LSTM";
  write("modules.json", changed);
  EXPECT_TRUE(refuses({"modules.json", "module 2", "'LSTM'"}));
  changed = modules;
  changed[3]["type"] = "my_code.Normalize";
  write("modules.json", changed);
  EXPECT_TRUE(refuses({"modules.json", "my_code.Normalize"}));
  changed = modules;
  changed[2]["path"] = "../2_Dense";
  write("modules.json", changed);
  EXPECT_TRUE(refuses({"modules.json", "'path'", "../2_Dense"}));
  changed = modules;
  changed[1]["path"] = std::string(300, 'x');  // longer than systems allow
  write("modules.json", changed);
  EXPECT_TRUE(refuses({"cannot open", "xxx/config.json'"}));
  changed = modules;
  changed[1]["idx"] = 5;
  write("modules.json", changed);
  EXPECT_TRUE(refuses({"modules.json", "'idx'", "expected 1"}));
  write("modules.json", json::array({modules[0]}));
  EXPECT_TRUE(refuses({"modules.json", "Pooling"}));
  write("modules.json", modules[0]);
  EXPECT_TRUE(refuses({"modules.json", "expected a list"}));
}

TEST_F(SentenceTransformers, ModulesAfterThePoolingComeInAnyOrder) {
  json modules = read("modules.json");
  std::swap(modules[2]["type"], modules[3]["type"]);
  std::swap(modules[2]["path"], modules[3]["path"]);
  write("modules.json", modules);
  const TransformerSpec spec = open();
  ASSERT_EQ(spec.head.size(), 2u);
  EXPECT_TRUE(spec.head[0].normalize);
  EXPECT_TRUE(spec.head[1].linear.has_value());
  double squares = 0.0;
  for (const double value : run_row(spec, "sentence", 1).values) squares += value * value;
  EXPECT_GT(std::fabs(squares - 1.0), 1e-3);
}

}  // namespace
}  // namespace arenite::convert
