// SPDX-License-Identifier: Apache-2.0
// Folders of sentence-transformers: their modules one by one.
#include "convert/encoders/sentence_transformers.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "convert/encoders/encoder_fixture.h"
#include "convert/encoders/encoder_source.h"
#include "support/refusal.h"

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

  EncoderSpec open(const ModelOptions& options = {}) const {
    return open_encoder(folder_.path(), options).spec;
  }
  ::testing::AssertionResult refuses(std::initializer_list<std::string_view> parts,
                                     const ModelOptions& options = {}) const {
    return testing::refuses([&] { open(options); }, parts);
  }

  TempFolder folder_;
};

TEST_F(SentenceTransformers, ReadsAllModules) {
  const EncoderSpec spec = open();
  EXPECT_EQ(spec.pooling, Pooling::kMean);
  ASSERT_EQ(spec.head.size(), 1u);
  EXPECT_EQ(spec.head[0].linear.weight.rows, 5u);
  EXPECT_EQ(spec.head[0].activation, Activation::kTanh);
  EXPECT_TRUE(spec.normalize);
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

TEST_F(SentenceTransformers, PoolsTheFirstTokenWhereThatIsSaid) {
  set("1_Pooling/config.json", "pooling_mode_cls_token", true);
  set("1_Pooling/config.json", "pooling_mode_mean_tokens", false);
  EXPECT_EQ(open().pooling, Pooling::kFirst);
}

TEST_F(SentenceTransformers, DenseMayHaveNoActivation) {
  set("2_Dense/config.json", "activation_function", "torch.nn.modules.linear.Identity");
  EXPECT_FALSE(open().head[0].activation.has_value());
}

TEST_F(SentenceTransformers, LengthIsAtMostThePositions) {
  set("sentence_bert_config.json", "max_seq_length", 512);
  EXPECT_EQ(open().positions_max, 9u);
}

TEST_F(SentenceTransformers, RefusesOtherPooling) {
  EXPECT_TRUE(refuses({"1_Pooling", "'first'", "'mean'"}, {.pooling = PoolingChoice::kFirst}));
  set("1_Pooling/config.json", "pooling_mode_cls_token", true);
  EXPECT_TRUE(refuses({"1_Pooling", "one of them"}));
  set("1_Pooling/config.json", "pooling_mode_cls_token", false);
  set("1_Pooling/config.json", "pooling_mode_max_tokens", true);
  EXPECT_TRUE(refuses({"1_Pooling", "'pooling_mode_max_tokens'"}));
  set("1_Pooling/config.json", "pooling_mode_max_tokens", false);
  set("1_Pooling/config.json", "pooling_mode_of_tomorrow", true);
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

TEST_F(SentenceTransformers, RefusesTextInLowerCaseWithAdvice) {
  set("sentence_bert_config.json", "do_lower_case", true);
  EXPECT_TRUE(refuses({"sentence_bert_config.json", "'do_lower_case'", "tokenizer"}));
}

TEST_F(SentenceTransformers, RefusesAClassifierInTheTransformer) {
  const EditedEncoder classifier("bert_sequence");
  std::filesystem::copy(
      classifier.write(), folder_.path(),
      std::filesystem::copy_options::recursive | std::filesystem::copy_options::overwrite_existing);
  EXPECT_TRUE(refuses({"config.json", "classifier"}));
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
  changed[1]["idx"] = 5;
  write("modules.json", changed);
  EXPECT_TRUE(refuses({"modules.json", "'idx'", "expected 1"}));
  write("modules.json", json::array({modules[0]}));
  EXPECT_TRUE(refuses({"modules.json", "Pooling"}));
  write("modules.json", modules[0]);
  EXPECT_TRUE(refuses({"modules.json", "expected a list"}));
}

TEST_F(SentenceTransformers, RefusesModulesBehindNormalize) {
  json modules = read("modules.json");
  std::swap(modules[2]["type"], modules[3]["type"]);
  write("modules.json", modules);
  EXPECT_TRUE(refuses({"modules.json", "module 3", "'Dense'", "last"}));
}

}  // namespace
}  // namespace arenite::convert
