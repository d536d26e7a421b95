// SPDX-License-Identifier: Apache-2.0
// Transformers with the names that people give to their parts, against what PyTorch computed: with
// all that has to be said, and with that found out by comparison.
#include "convert/families/families.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "convert/answer_search.h"
#include "convert/check/author_check.h"
#include "convert/convert.h"
#include "convert/families/tiny_models.h"
#include "convert/files/npy.h"
#include "convert/graph/interpreter.h"
#include "support/recognised.h"
#include "support/refusal.h"
#include "support/test_data.h"

namespace arenite::convert {
namespace {

using namespace testing;

// PyTorch's outputs are of double precision, so this is the error of float32 in two layers.
constexpr double kNamedError = 5e-6;

std::filesystem::path named(const std::string& name) {
  return convert_fixture("named") / name / "model.safetensors";
}
AuthorFiles files_of(const std::string& name) {
  return {convert_fixture("named") / name / "x.npy", convert_fixture("named") / name / "y.npy"};
}

struct NamedCase {
  const char* name;
  ModelOptions options;
};

ModelOptions gpt(Activation activation) {
  return {.heads = 2, .activation = activation, .norm_first = true};
}

std::vector<NamedCase> cases() {
  ModelOptions meta = gpt(Activation::kSilu);
  meta.norm = NormKind::kRms;
  meta.rope = RopeChoice::kPairs;
  meta.context = 16;
  ModelOptions book = meta;
  book.rope = RopeChoice::kHalves;
  book.rope_theta = 5e5;
  book.epsilon = 1e-6;
  ModelOptions by_width = gpt(Activation::kRelu);
  by_width.score_scale = 0.35355339059327373;
  ModelOptions by_head = gpt(Activation::kGeluErf);
  by_head.fused_order = fused_order("heads-qkv");
  ModelOptions plain = gpt(Activation::kGeluTanh);
  plain.norm_first = false;
  plain.embedding_scale = EmbeddingScale{.is_sqrt = true};
  ModelOptions annotated = gpt(Activation::kRelu);
  annotated.mask = MaskChoice::kBidirectional;
  annotated.embedding_scale = EmbeddingScale{.is_sqrt = true};
  ModelOptions bert = gpt(Activation::kGeluErf);
  bert.norm_first = false;
  bert.mask = MaskChoice::kBidirectional;
  bert.epsilon = 1e-12;
  return {{"lecture", gpt(Activation::kRelu)},
          {"lecture_by_width", by_width},
          {"meta_llama", meta},
          {"book_llama", book},
          {"qkv", gpt(Activation::kGeluErf)},
          {"qkv_by_head", by_head},
          {"plain", plain},
          {"annotated", annotated},
          {"bert", bert}};
}

double error_of(const Conversion& conversion, const std::string& name) {
  const AuthorCheck check = check_against_author(conversion, files_of(name), name);
  return check.largest_difference / check.largest_value;
}

TEST(NamedModels, ComputeWhatPyTorchDoesWhereAllIsSaid) {
  for (const NamedCase& one : cases()) {
    const Conversion model =
        convert_model(named(one.name), one.name, {.source = one.options}, parse_targets("all"));
    EXPECT_LE(error_of(model, one.name), kNamedError) << one.name;
  }
}

TEST(NamedModels, WhatIsNotSaidIsFoundOutByComparison) {
  for (const NamedCase& one : cases()) {
    ModelOptions only_context;
    only_context.context = one.options.context;
    const Conversion model = convert_model(named(one.name), one.name,
                                           {.source = only_context, .expect = {files_of(one.name)}},
                                           parse_targets("native"));
    EXPECT_LE(error_of(model, one.name), kNamedError) << one.name;
    const auto found = std::ranges::count_if(model.account.given, [](const std::string& given) {
      return given.find("found by comparison with") != std::string::npos;
    });
    EXPECT_GE(found, 2) << one.name;
  }
}

TEST(NamedModels, FindsTheAnswersThatTheAuthorWouldGive) {
  for (const NamedCase& one : cases()) {
    ModelOptions found;
    found.context = one.options.context;
    answer_by_comparison(open_model(named(one.name)), files_of(one.name), found);
    const ModelOptions& said = one.options;
    EXPECT_EQ(found.activation, said.activation) << one.name;
    EXPECT_EQ(found.norm_first, said.norm_first) << one.name;
    EXPECT_EQ(found.norm, said.norm) << one.name;
    EXPECT_EQ(found.rope, said.rope) << one.name;
    EXPECT_EQ(found.rope_theta, said.rope_theta) << one.name;
    EXPECT_EQ(found.fused_order, said.fused_order) << one.name;
    EXPECT_EQ(found.mask, said.mask) << one.name;
    EXPECT_EQ(found.embedding_scale, said.embedding_scale) << one.name;
    EXPECT_EQ(found.score_scale.has_value(), said.score_scale.has_value()) << one.name;
    EXPECT_EQ(found.epsilon, said.epsilon) << one.name;
  }
}

TEST(NamedModels, AskForAllThatIsMissingAtOnce) {
  EXPECT_TRUE(refuses([] { model_at(named("meta_llama")); },
                      {"--heads N", "--activation NAME", "--norm-first or --norm-last",
                       "--norm NAME", "--rope NAME", "--context N", "--expect x.npy,y.npy",
                       "Meta's Llama as published: --activation silu --norm-first --norm rms"}));
  EXPECT_TRUE(refuses([] { model_at(named("annotated")); },
                      {"--causal, --bidirectional or --window N", "--embedding-scale X"}));
  const std::string lecture = refusal_of([] { model_at(named("lecture")); });
  EXPECT_EQ(lecture.find("--heads"), std::string::npos) << lecture;  // they are modules
}

TEST(NamedModels, RefuseOptionsThatTheyHaveNoUseFor) {
  const auto refuses_option = [](const char* name, const ModelOptions& options,
                                 std::initializer_list<std::string_view> parts) {
    return refuses([&] { model_at(named(name), options); }, parts);
  };
  ModelOptions options = gpt(Activation::kRelu);
  options.heads = 4;
  EXPECT_TRUE(refuses_option("lecture", options, {"2 heads are modules of their own", "--heads"}));
  options = gpt(Activation::kRelu);
  options.norm = NormKind::kRms;
  EXPECT_TRUE(refuses_option("lecture", options, {"--norm", "layer norms", "drop the option"}));
  options = gpt(Activation::kRelu);
  options.rope = RopeChoice::kHalves;
  EXPECT_TRUE(refuses_option("qkv", options, {"--rope", "a table of positions"}));
  options = gpt(Activation::kRelu);
  options.fused_order = FusedOrder{};
  EXPECT_TRUE(refuses_option("lecture", options, {"--fused-order", "leave no choice"}));
  options = gpt(Activation::kRelu);
  options.gate = "w1";
  EXPECT_TRUE(refuses_option("lecture", options, {"--gate", "has no gate"}));
  options = cases()[2].options;
  options.gate = "w7";
  EXPECT_TRUE(refuses_option("meta_llama", options,
                             {"--gate w7", "'feed_forward.w1' or 'feed_forward.w3'"}));
  options = cases()[2].options;
  options.rope = RopeChoice::kNone;
  options.rope_theta = 1e4;
  EXPECT_TRUE(refuses_option("meta_llama", options, {"--rope-theta", "--rope is none"}));
}

TEST(NamedModels, AGateMayBeTheOtherOne) {
  ModelOptions options = cases()[2].options;
  options.gate = "feed_forward.w3";
  const DecoderSpec spec = decoder_at(named("meta_llama"), options);
  EXPECT_EQ(spec.layers[0].gate->weight.name, "layers.0.feed_forward.w3.weight");
  EXPECT_EQ(spec.layers[0].up.weight.name, "layers.0.feed_forward.w1.weight");
}

TEST(NamedModels, AComparisonThatNothingFitsSaysHowFarTheBestIsOff) {
  ModelOptions wrong = gpt(Activation::kSilu);
  wrong.heads = 0;
  EXPECT_TRUE(
      refuses([&] { answer_by_comparison(open_model(named("qkv")), files_of("qkv"), wrong); },
              {"no answer", "y.npy", "is off by", "of the largest value, with --heads",
               "torch.export.export"}));
  ModelOptions none;
  EXPECT_TRUE(refuses(
      [&] { answer_by_comparison(open_model(named("meta_llama")), files_of("meta_llama"), none); },
      {"--expect finds out much, but not this", "--context N"}));
  EXPECT_TRUE(
      refuses([&] { answer_by_comparison(open_model(named("bert")), files_of("lecture"), none); },
              {"no answer"}));
}

// One token sees itself under any mask.
TEST(NamedModels, AComparisonThatDoesNotTellTwoAnswersApartIsRefused) {
  const TempFolder folder;
  const std::vector<int64_t> ids = NpyArray::read(files_of("annotated").input).to_i64();
  const std::vector<int32_t> one = {static_cast<int32_t>(ids[0])};
  ModelOptions options = cases()[7].options;
  const Conversion model =
      convert_model(named("annotated"), "m", {.source = options}, parse_targets("native"));
  const Evaluation rows =
      evaluate(model.graph, {.tokens = std::vector<uint32_t>{static_cast<uint32_t>(ids[0])}});
  const AuthorFiles files = {folder.path() / "x.npy", folder.path() / "y.npy"};
  write_npy(files.input, std::vector<uint64_t>{1}, std::span<const int32_t>(one));
  const std::vector<float> values(rows.values.begin(), rows.values.end());
  write_npy(files.outputs, std::vector<uint64_t>{1, 8}, std::span<const float>(values));
  options.mask = MaskChoice::kUnsaid;
  EXPECT_TRUE(refuses([&] { answer_by_comparison(open_model(named("annotated")), files, options); },
                      {"does not tell --causal", "from --bidirectional", "a longer input"}));
}

TensorMap tensors_of(const std::string& name) {
  TensorMap tensors;
  const Checkpoint checkpoint = Checkpoint::read(named(name));
  for (const CheckpointTensor& tensor : checkpoint.tensors()) {
    tensors[tensor.name] = {tensor.shape, tensor.to_f32()};
  }
  return tensors;
}

TEST(NamedModels, TensorsThatHaveNoPlaceAreNamed) {
  const TempFolder folder;
  const auto refuses_tensors = [&](const TensorMap& tensors,
                                   std::initializer_list<std::string_view> parts) {
    const auto file = folder.write("m.safetensors", safetensors_of(tensors));
    return refuses([&] { model_at(file, gpt(Activation::kGeluErf)); }, parts);
  };
  const TensorMap good = tensors_of("qkv");
  EXPECT_NO_THROW(model_at(named("qkv"), gpt(Activation::kGeluErf)));
  TensorMap tensors = good;
  tensors["value_head.weight"] = random_tensor("v", {1, 8});
  tensors["blocks.1.scale"] = random_tensor("s", {8});
  EXPECT_TRUE(
      refuses_tensors(tensors, {"no place", "'value_head.weight' [1, 8]", "'blocks.1.scale' [8]"}));
  tensors = good;
  tensors["blocks.0.cross.dense.weight"] = random_tensor("c", {8, 8});
  EXPECT_TRUE(refuses_tensors(tensors, {"'blocks.0.cross.dense.weight'", "expected [12, 8]"}));
  tensors["blocks.0.cross.query.weight"] = random_tensor("q", {8, 8});
  tensors["blocks.0.cross.key.weight"] = random_tensor("k", {8, 8});
  EXPECT_TRUE(refuses_tensors(tensors, {"expected an MLP of two or three matrices in a layer",
                                        "'blocks.0.cross.query.weight'", "torch.export.save"}));
  tensors = good;
  tensors["blocks.1.mlp.fc1.weight"] = random_tensor("w", {12, 7});
  EXPECT_TRUE(refuses_tensors(tensors, {"'blocks.1.mlp.fc1.weight'", "[12, 7]", "[12, 8]"}));
  tensors = good;
  tensors["blocks.1.attn.qkv.weight"] = random_tensor("w", {23, 8});
  EXPECT_TRUE(refuses_tensors(tensors, {"'blocks.1.attn.qkv.weight'", "[23, 8]", "[24, 8]"}));
  tensors = good;
  tensors.erase("blocks.1.mlp.fc2.bias");
  EXPECT_TRUE(refuses_tensors(tensors, {"missing", "'blocks.1.mlp.fc2.bias' [8]"}));
  tensors = good;
  tensors.erase("blocks.0.norm2.weight");
  tensors.erase("blocks.0.norm2.bias");
  EXPECT_TRUE(refuses_tensors(tensors, {"expected two norms in a layer", "blocks.0.norm1"}));
}

// Names of Hugging Face's Llama say as much as anyone's.
TEST(NamedModels, GiveWhatAConfigOfTransformersGives) {
  const TempFolder folder;
  const auto whole = write_hf(folder, "llama", llama_config(), llama_tensors());
  const DecoderSpec expected = decoder_at(whole);
  const auto file = folder.write("bare.safetensors", safetensors_of(llama_tensors()));
  ModelOptions options = {.heads = kHeads, .activation = Activation::kSilu, .norm_first = true};
  options.norm = NormKind::kRms;
  options.rope = RopeChoice::kHalves;
  options.rope_theta = llama_config().value("rope_theta", 10000.0);
  options.epsilon = expected.final_norm->epsilon;
  options.context = kPositions;
  const DecoderSpec spec = decoder_at(file, options);
  EXPECT_EQ(spec.kv_heads, kKvHeads);
  EXPECT_EQ(logits_of(spec), logits_of(expected));
}

#ifdef ARENITE_HAVE_LIBZIP

TEST(NamedModels, ConfigAndCharactersBesideTheWeightsAreRead) {
  const auto file = convert_fixture("named") / "characters.pt";
  const Conversion model = convert_model(file, "m", {}, parse_targets("native"));
  ASSERT_NE(model.decoder(), nullptr);
  EXPECT_EQ(model.decoder()->heads, 2u);
  EXPECT_EQ(model.decoder()->activation, Activation::kRelu);
  const auto& tokenizer = model.program.tokenizer;
  ASSERT_TRUE(tokenizer.has_value());
  EXPECT_EQ(tokenizer->kind, format::TokenizerKind::kCharacters);
  ASSERT_EQ(tokenizer->tokens.size(), 11u);
  EXPECT_EQ(tokenizer->tokens[0], "\n");
  EXPECT_EQ(tokenizer->tokens[2], "a");
  EXPECT_EQ(tokenizer->tokens[10], "ü");
  EXPECT_TRUE(refuses([&] { model_at(file, {.heads = 4}); }, {"2 heads are modules", "--heads"}));
}

#endif

TEST(NamedModels, CharactersMustAgree) {
  const auto tokens = [](const std::map<std::string, std::string>& values) {
    return character_tokenizer_in(values, "m.pt");
  };
  EXPECT_FALSE(tokens({{"step", "3"}, {"config.n_head", "2"}}));
  EXPECT_EQ(tokens({{"itos.0", "b"}, {"itos.1", "a"}})->tokens,
            (std::vector<std::string>{"b", "a"}));
  EXPECT_FALSE(tokens({{"stoi.word", "0"}, {"stoi.other", "1"}}));  // words, not characters
  EXPECT_TRUE(refuses(
      [&] {
        tokens({{"stoi.a", "0"}, {"itos.0", "b"}});
      },
      {"stoi and itos disagree"}));
  EXPECT_TRUE(refuses([&] { tokens({{"stoi.a", "-1"}}); }, {"stoi", "'-1'", "expected 0 to"}));
  EXPECT_TRUE(refuses([&] { tokens({{"stoi.a", "x"}}); }, {"the id of 'a' is 'x'"}));
}

}  // namespace
}  // namespace arenite::convert
