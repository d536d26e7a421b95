// SPDX-License-Identifier: Apache-2.0
// Tests configs, heads and tensors of Hugging Face encoders: accepted ones and refusals.
#include "convert/families/hf_models.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "convert/families/encoder_fixture.h"
#include "support/recognised.h"

namespace arenite::convert {
namespace {

using namespace testing;

// BERT without a head, with its pooler.
EditedEncoder plain_bert() { return EditedEncoder("sentence"); }

TEST(HfEncoder, ReadsSizesAndNames) {
  const TransformerSpec spec = encoder_at(encoder_fixture("bert_sequence"));
  EXPECT_EQ(spec.architecture, "bert");
  EXPECT_EQ(spec.vocab_size, 13u);
  EXPECT_EQ(spec.input_features, 0u);
  EXPECT_EQ(spec.token_types, 2u);
  EXPECT_EQ(spec.model_dim, 12u);
  EXPECT_EQ(spec.heads, 3u);
  EXPECT_EQ(spec.head_dim, 4u);
  EXPECT_EQ(spec.ffn_dim, 20u);
  EXPECT_EQ(spec.positions_max, 9u);
  EXPECT_EQ(spec.position_offset, 0u);
  EXPECT_FALSE(spec.norm_first);
  EXPECT_EQ(spec.labels, (std::vector<std::string>{"low", "middle", "high"}));
}

TEST(HfEncoder, PositionsOfRobertaCountFromAfterItsPadding) {
  const TransformerSpec spec = encoder_at(encoder_fixture("roberta_sequence"));
  EXPECT_EQ(spec.position_offset, 2u);
  EXPECT_EQ(spec.positions_max, 7u);
  EXPECT_EQ(spec.position_embedding->rows, 9u);
  EditedEncoder short_one("roberta_sequence");
  short_one.config["pad_token_id"] = 8;
  EXPECT_TRUE(short_one.refuses({"max_position_embeddings", "more than 9"}));
}

TEST(HfEncoder, TheOnlyTokenTypeIsAddedToPositions) {
  const TransformerSpec spec = encoder_at(encoder_fixture("roberta_sequence"));
  EXPECT_EQ(spec.token_types, 0u);
  EXPECT_FALSE(spec.type_embedding.has_value());
}

TEST(HfEncoder, XlmRobertaIsReadAsRoberta) {
  EditedEncoder encoder("roberta_sequence");
  const std::vector<double> expected = run_row(encoder.open(), "roberta_sequence", 0).values;
  encoder.config["model_type"] = "xlm-roberta";
  encoder.config["architectures"] = {"XLMRobertaForSequenceClassification"};
  EXPECT_EQ(run_row(encoder.open(), "roberta_sequence", 0).values, expected);
}

TEST(HfEncoder, EmbeddingsAsWideAsLayersNeedNoProjection) {
  EditedEncoder encoder("bert_sequence");
  encoder.rename("bert.", "electra.");
  encoder.config["model_type"] = "electra";
  encoder.config["architectures"] = {"ElectraModel"};
  encoder.config["embedding_size"] = 12;
  for (const char* name : {"electra.pooler.dense", "classifier"}) {
    encoder.tensors.erase(std::string(name) + ".weight");
    encoder.tensors.erase(std::string(name) + ".bias");
  }
  const TransformerSpec spec = encoder.open();
  EXPECT_FALSE(spec.input.has_value());
  EXPECT_EQ(
      run_row(spec, "bert_sequence", 0).hidden_states,
      run_row(encoder_at(encoder_fixture("bert_sequence")), "bert_sequence", 0).hidden_states);
}

TEST(HfEncoder, PaddingOfRobertaIsNotCounted) {
  EXPECT_EQ(encoder_at(encoder_fixture("roberta_sequence")).padding_id, 1u);
  EXPECT_FALSE(encoder_at(encoder_fixture("bert_sequence")).padding_id.has_value());
  EditedEncoder encoder("roberta_sequence");
  encoder.config["pad_token_id"] = 13;
  EXPECT_TRUE(encoder.refuses({"'pad_token_id'", "below 13"}));
}

// Absent fields take the defaults of transformers' config classes.
TEST(HfEncoder, AbsentFieldsHaveTheDefaultsOfTheirClass) {
  EditedEncoder bert("bert_sequence");
  const std::vector<double> expected = run_row(bert.open(), "bert_sequence", 0).values;
  for (const char* field : {"hidden_act", "type_vocab_size", "layer_norm_eps", "pad_token_id",
                            "position_embedding_type", "transformers_version"}) {
    bert.config.erase(field);
  }
  EXPECT_EQ(run_row(bert.open(), "bert_sequence", 0).values, expected);
  bert.config.erase("max_position_embeddings");
  EXPECT_TRUE(bert.refuses({"position_embeddings.weight", "[512, 12]"}));
  const struct {
    const char* fixture;
    const char* field;
    const char* shape;
  } cases[] = {{"bert_sequence", "vocab_size", "[30522, 12]"},
               {"roberta_sequence", "vocab_size", "[50265, 12]"},
               {"distilbert_sequence", "vocab_size", "[30522, 12]"},
               {"bert_sequence", "intermediate_size", "[3072, 12]"},
               {"electra_sequence", "intermediate_size", "[1024, 12]"},
               {"distilbert_sequence", "hidden_dim", "[3072, 12]"},
               {"electra_sequence", "embedding_size", "[13, 128]"},
               {"bert_sequence", "num_attention_heads", "12 heads"},
               {"electra_sequence", "num_attention_heads", "4 heads"}};
  for (const auto& each : cases) {
    EditedEncoder encoder(each.fixture);
    encoder.config.erase(each.field);
    if (std::string_view(each.field) != "num_attention_heads") {
      EXPECT_TRUE(encoder.refuses({each.shape})) << each.fixture << each.field;
    } else {
      EXPECT_EQ(encoder.open().heads, each.shape[0] == '4' ? 4u : 12u);
    }
  }
  EditedEncoder roberta("roberta_sequence");
  roberta.config.erase("pad_token_id");
  EXPECT_EQ(roberta.open().padding_id, 1u);
}

TEST(HfEncoder, ALanguageHeadMultipliesByTheEmbedding) {
  const TransformerSpec spec = encoder_at(encoder_fixture("bert_masked_lm"));
  EXPECT_EQ(spec.pooling, SelectKind::kAsAsked);
  ASSERT_EQ(spec.head.size(), 2u);
  EXPECT_TRUE(spec.head[1].is_token_embedding);
  EXPECT_EQ(output_width(spec), 13u);
  EditedEncoder encoder("bert_masked_lm");
  const auto& bias = encoder.tensors["cls.predictions.bias"].values;
  EXPECT_EQ(spec.head[1].linear->bias, std::vector<double>(bias.begin(), bias.end()));
  // A copy of the embedding is accepted; another matrix contradicts the config.
  encoder.tensors["cls.predictions.decoder.weight"] =
      encoder.tensors["bert.embeddings.word_embeddings.weight"];
  EXPECT_NO_THROW(encoder.open());
  encoder.tensors["cls.predictions.decoder.weight"].values[0] += 1.0f;
  EXPECT_TRUE(encoder.refuses({"cls.predictions.decoder.weight", "tie_word_embeddings"}));
  encoder.config["tie_word_embeddings"] = false;
  EXPECT_FALSE(encoder.open().head[1].is_token_embedding);
  encoder.tensors.erase("cls.predictions.bias");
  encoder.tensors.erase("cls.predictions.decoder.bias");
  EXPECT_TRUE(encoder.refuses({"missing", "'cls.predictions.decoder.bias' [13]"}));
}

TEST(HfEncoder, ALanguageHeadIsDroppedForARequestedPooling) {
  for (const char* fixture :
       {"bert_masked_lm", "distilbert_masked_lm", "roberta_masked_lm", "electra_masked_lm"}) {
    const EditedEncoder encoder(fixture);
    const Evaluation outputs = run_row(encoder.open({.pooling = PoolingChoice::kNone}), fixture, 0);
    EXPECT_EQ(outputs.values, outputs.hidden_states.back());
    EXPECT_EQ(output_width(encoder.open({.pooling = PoolingChoice::kMean})), 12u);
  }
}

// The output of each model class is converted or refused, and unused tensors are reported.
TEST(HfEncoder, RefusesAHeadThatTheWeightsDoNotHave) {
  EditedEncoder encoder("bert_tokens");
  encoder.config["architectures"] = {"BertForMaskedLM"};
  encoder.tensors.erase("classifier.weight");
  encoder.tensors.erase("classifier.bias");
  encoder.tensors["cls.predictions.bias"] = {{13}, std::vector<float>(13)};
  EXPECT_TRUE(encoder.refuses({"'architectures'", "no such head", "--pooling none"}));
  const TransformerSpec spec = encoder.open({.pooling = PoolingChoice::kNone});
  EXPECT_TRUE(spec.head.empty());
  EXPECT_TRUE(spec.labels.empty());
  EXPECT_EQ(spec.account.assumed,
            (std::vector<std::string>{"unused, as the outputs of this class need none of them: "
                                      "'cls.predictions.bias'"}));
}

TEST(HfEncoder, NamesAPoolerThatGivesNothingOut) {
  const EditedEncoder encoder = plain_bert();
  ASSERT_EQ(encoder.open().account.assumed.size(), 1u);
  EXPECT_NE(encoder.open().account.assumed[0].find("'pooler.dense.weight'"), std::string::npos);
  EXPECT_TRUE(encoder.open({.pooling = PoolingChoice::kPooler}).account.assumed.empty());
}

TEST(HfEncoder, TwoResultsOfAPreTrainingAreNotOne) {
  EditedEncoder encoder("bert_masked_lm");
  encoder.config["architectures"] = {"BertForPreTraining"};
  EXPECT_TRUE(encoder.refuses(
      {"two outputs", "BertForMaskedLM", "BertForNextSentencePrediction", "--pooling"}));
  EXPECT_TRUE(encoder.open({.pooling = PoolingChoice::kNone}).head.empty());
}

TEST(HfEncoder, PoolsAModelWithoutAHeadAsAsked) {
  const EditedEncoder encoder = plain_bert();
  const Evaluation all = run_row(encoder.open(), "sentence", 0);
  EXPECT_EQ(all.values, all.hidden_states.back());
  const TransformerSpec first = encoder.open({.pooling = PoolingChoice::kFirst});
  EXPECT_EQ(run_row(first, "sentence", 0).values,
            std::vector<double>(all.values.begin(), all.values.begin() + 12));
  const TransformerSpec mean = encoder.open({.pooling = PoolingChoice::kMean});
  EXPECT_EQ(mean.pooling, SelectKind::kMean);
  EXPECT_TRUE(mean.head.empty());
  const TransformerSpec pooler = encoder.open({.pooling = PoolingChoice::kPooler});
  ASSERT_EQ(pooler.head.size(), 1u);
  EXPECT_EQ(pooler.head[0].linear->weight.name, "pooler.dense.weight");
  EXPECT_EQ(pooler.head[0].activation, Activation::kTanh);
}

TEST(HfEncoder, RefusesAMissingPooler) {
  EditedEncoder encoder = plain_bert();
  encoder.tensors.erase("pooler.dense.weight");
  encoder.tensors.erase("pooler.dense.bias");
  EXPECT_NO_THROW(encoder.open());
  EXPECT_TRUE(encoder.refuses({"missing", "'pooler.dense.weight' [12, 12]"},
                              {.pooling = PoolingChoice::kPooler}));
}

TEST(HfEncoder, RefusesAnotherPoolingThanTheHeads) {
  const EditedEncoder bert("bert_sequence");
  EXPECT_NO_THROW(bert.open({.pooling = PoolingChoice::kPooler}));
  EXPECT_TRUE(bert.refuses({"'mean'", "'pooler'"}, {.pooling = PoolingChoice::kMean}));
  const EditedEncoder tokens("bert_tokens");
  EXPECT_TRUE(tokens.refuses({"'first'", "'none'"}, {.pooling = PoolingChoice::kFirst}));
}

TEST(HfEncoder, RefusesOptionsThatContradictTheConfig) {
  const EditedEncoder encoder("distilbert_sequence");
  EXPECT_NO_THROW(
      encoder.open({.heads = 3, .activation = Activation::kGeluErf, .norm_first = false}));
  EXPECT_TRUE(encoder.refuses({"4 heads", "3"}, {.heads = 4}));
  EXPECT_TRUE(encoder.refuses({"activation"}, {.activation = Activation::kRelu}));
  EXPECT_TRUE(encoder.refuses({"'distilbert'"}, {.norm_first = true}));
}

TEST(HfEncoder, RefusesLabelsThatAreNotTheClasses) {
  EditedEncoder encoder("bert_sequence");
  encoder.config["id2label"] = {{"0", "no"}, {"1", "yes"}};
  EXPECT_TRUE(encoder.refuses({"config.json", "'id2label'", "2 labels", "3 classes"}));
  encoder.config["id2label"] = {{"0", "no"}, {"1", "yes"}, {"3", "maybe"}};
  EXPECT_TRUE(encoder.refuses({"'id2label'", "class 2"}));
  encoder.config["id2label"] = {{"0", "no"}, {"1", "yes"}, {"2", 7}};
  EXPECT_TRUE(encoder.refuses({"'id2label'", "'2'", "expected a string"}));
  encoder.config.erase("id2label");
  EXPECT_TRUE(encoder.open().labels.empty());
  encoder.config["num_labels"] = 2;
  EXPECT_TRUE(encoder.refuses({"'num_labels'", "expected 3"}));
}

TEST(HfEncoder, KeepsGenericLabels) {
  EditedEncoder encoder("bert_sequence");
  encoder.config["id2label"] = {{"0", "LABEL_0"}, {"1", "LABEL_1"}, {"2", "LABEL_2"}};
  EXPECT_EQ(encoder.open().labels[2], "LABEL_2");
}

TEST(HfEncoder, RefusesHeadsThatItDoesNotKnow) {
  EditedEncoder encoder("bert_sequence");
  encoder.config["architectures"] = {"BertForRewardModel"};
  EXPECT_TRUE(encoder.refuses({"'architectures'", "ForRewardModel", "ForTokenClassification"}));
  for (const char* causal : {"BertLMHeadModel", "BertForCausalLM"}) {
    encoder.config["architectures"] = {causal};
    EXPECT_TRUE(encoder.refuses({"'architectures'", causal, "causal"}));
  }
  encoder.config["architectures"] = {"BertDoubleHeadsModel"};
  EXPECT_TRUE(encoder.refuses({"'architectures'", "not supported for this type"}));
  encoder.config["architectures"] = {"BertModel", "BertForSequenceClassification"};
  EXPECT_TRUE(encoder.refuses({"'architectures'", "one name"}));
  encoder.config.erase("architectures");
  EXPECT_TRUE(encoder.refuses({"'architectures'", "missing", "classifier"}));
}

TEST(HfEncoder, RefusesAClassifierThatItsArchitectureDoesNotHave) {
  EditedEncoder encoder("bert_sequence");
  encoder.config["architectures"] = {"BertModel"};
  EXPECT_TRUE(encoder.refuses({"no place in this model", "'classifier.weight' [3, 12]"}));
}

TEST(HfEncoder, NamesTensorsThatAreMissingOrTooMany) {
  EditedEncoder encoder("distilbert_sequence");
  encoder.tensors.erase("distilbert.transformer.layer.1.attention.k_lin.weight");
  encoder.tensors["distilbert.transformer.layer.2.extra"] = {{2}, {1.0f, 2.0f}};
  EXPECT_TRUE(encoder.refuses({"distilbert.transformer.layer.1.attention.k_lin.weight' [12, 12]",
                               "'distilbert.transformer.layer.2.extra' [2]"}));
}

TEST(HfEncoder, RefusesPositionIdsThatDoNotCount) {
  EditedEncoder encoder("bert_sequence");
  encoder.tensors["bert.embeddings.position_ids"].values[3] = 0;
  EXPECT_TRUE(encoder.refuses({"position_ids", "index 3"}));
}

TEST(HfEncoder, RefusesUnsupportedSettings) {
  const struct {
    const char* field;
    nlohmann::json value;
    const char* why;
  } cases[] = {
      {"position_embedding_type", "relative_key", "relative positions"},
      {"is_decoder", true, "causal"},
      {"add_cross_attention", true, "cross-attention"},
      {"is_encoder_decoder", true, "only encoders"},
      {"pruned_heads", {{"0", {1}}}, "pruned heads"},
      {"quantization_config", {{"bits", 4}}, "quantization"},
      {"hidden_act", "tanh", "expected one of"},
      {"num_attention_heads", 5, "5 heads do not divide a width of 12"},
      {"num_hidden_layers", 2000, "2000 layers"},
      {"rope_theta", 10000.0, "fields are unknown"},
  };
  for (const auto& wrong : cases) {
    EditedEncoder encoder("bert_sequence");
    encoder.config[wrong.field] = wrong.value;
    EXPECT_TRUE(encoder.refuses({"config.json", wrong.why})) << wrong.field;
  }
}

TEST(HfEncoder, ScoresOfACrossEncoderComeFromItsClassifier) {
  EditedEncoder encoder("bert_sequence");
  const char* field = "sbert_ce_default_activation_function";
  encoder.config[field] = "torch.nn.modules.linear.Identity";
  EXPECT_NO_THROW(encoder.open());
  encoder.config[field] = "torch.nn.modules.activation.Sigmoid";
  EXPECT_TRUE(encoder.refuses({field, "Sigmoid"}));
  encoder.config.erase(field);
  encoder.config["sentence_transformers"] = {{"activation_fn", "torch.nn.modules.linear.Identity"},
                                             {"version", "5.1.0"}};
  EXPECT_NO_THROW(encoder.open());
  encoder.config["sentence_transformers"]["activation_fn"] = "torch.nn.modules.activation.Sigmoid";
  EXPECT_TRUE(encoder.refuses({"'sentence_transformers'", "'activation_fn'", "Sigmoid"}));
}

TEST(HfEncoder, ChunksOfTheFeedForwardLayerChangeNothing) {
  EditedEncoder encoder("bert_sequence");
  encoder.config["chunk_size_feed_forward"] = 4;
  EXPECT_NO_THROW(encoder.open());
}

TEST(HfEncoder, UnsupportedModelsNameTheScriptThatExportsThem) {
  EditedEncoder encoder("bert_sequence");
  encoder.config["model_type"] = "big_bird";
  EXPECT_TRUE(encoder.refuses({"\"big_bird\"", "'model_type'", "distilbert", "arenite_export.py",
                               "-exported\narenite convert "}));
  encoder.config["model_type"] = "bert";
  encoder.config["architectures"] = {"BertForNoKnownTask"};
  EXPECT_TRUE(encoder.refuses({"BertForNoKnownTask", "arenite_export.py"}));
}

}  // namespace
}  // namespace arenite::convert
