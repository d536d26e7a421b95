// SPDX-License-Identifier: Apache-2.0
// Compares state dicts of published programs with PyTorch's results; those of unknown programs are
// refused.
#include "convert/families/families.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "convert/check/converted_model.h"
#include "convert/convert.h"
#include "convert/families/tiny_models.h"
#include "convert/files/npy.h"
#include "support/recognised.h"
#include "support/refusal.h"
#include "support/test_data.h"

namespace arenite::convert {
namespace {

using namespace testing;

// PyTorch's outputs are of double precision, so this is the error of float32 in two layers.
constexpr double kRelativeError = 5e-6;

std::filesystem::path named(const std::string& name) {
  return convert_fixture("named") / name / "model.safetensors";
}
AuthorFiles files_of(const std::string& name) {
  return {convert_fixture("named") / name / "x.npy", convert_fixture("named") / name / "y.npy"};
}

struct Case {
  const char* name;
  ModelOptions options;
};

ModelOptions gpt(Activation activation) {
  return {.heads = 2, .activation = activation, .norm_first = true};
}

std::vector<Case> cases() {
  ModelOptions meta = gpt(Activation::kSilu);
  meta.context = 16;
  ModelOptions book = meta;
  book.rope_theta = 5e5;
  book.epsilon = 1e-6;
  ModelOptions by_width = gpt(Activation::kRelu);
  by_width.score_scale = 0.35355339059327373;
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
          {"annotated", annotated},
          {"bert", bert}};
}

TensorMap tensors_of(const std::string& name) {
  TensorMap tensors;
  const Checkpoint checkpoint = Checkpoint::read(named(name));
  for (const CheckpointTensor& tensor : checkpoint.tensors()) {
    tensors[tensor.name] = {tensor.shape, tensor.to_f32()};
  }
  return tensors;
}

TEST(PublishedPrograms, AgreeWithPyTorchGivenAllOptions) {
  for (const Case& one : cases()) {
    const Conversion model =
        convert_model(named(one.name), one.name, {.source = one.options}, parse_targets("all"));
    const AuthorCheck check = check_against_author(model, files_of(one.name), one.name);
    EXPECT_LE(check.largest_difference / check.largest_value, kRelativeError) << one.name;
  }
}

TEST(PublishedPrograms, NameAllMissingOptionsAtOnce) {
  EXPECT_TRUE(refuses([] { model_at(named("meta_llama")); },
                      {"--heads N", "--activation NAME", "--norm-first or --norm-last",
                       "--context N", "'num_heads', 'activation', 'norm_first', 'block_size'",
                       "Meta's Llama as published: --activation silu --norm-first"}));
  EXPECT_TRUE(refuses([] { model_at(named("annotated")); },
                      {"--causal, --bidirectional or --window N", "--embedding-scale X"}));
  const std::string lecture = refusal_of([] { model_at(named("lecture")); });
  EXPECT_EQ(lecture.find("--heads"), std::string::npos) << lecture;  // they are modules
}

TEST(PublishedPrograms, RefuseOptionsThatTheyHaveNoUseFor) {
  ModelOptions options = gpt(Activation::kRelu);
  options.heads = 4;
  EXPECT_TRUE(refuses([&] { model_at(named("lecture"), options); },
                      {"2 heads are separate modules", "--heads"}));
  options = gpt(Activation::kRelu);
  options.rope_theta = 5e5;
  EXPECT_TRUE(refuses([&] { model_at(named("lecture"), options); },
                      {"--rope-theta", "no rotary positions", "drop the option"}));
}

TEST(PublishedPrograms, RotationsMayBeStored) {
  const TempFolder folder;
  const ModelOptions options = cases()[2].options;
  TensorMap tensors = tensors_of("meta_llama");
  tensors["rope.freqs"] = {{2}, {1.0f, 0.25f}};
  const auto file = folder.write("m.safetensors", safetensors_of(tensors));
  EXPECT_EQ(decoder_at(file, options).rope->inverse_frequencies, (std::vector<double>{1.0, 0.25}));
  EXPECT_TRUE(decoder_at(file, options).rope->turns_neighbours);
  EXPECT_FALSE(decoder_at(named("book_llama"), options).rope->turns_neighbours);
}

class OtherTensors : public ::testing::Test {
 protected:
  ::testing::AssertionResult refuses_tensors(const TensorMap& tensors,
                                             std::initializer_list<std::string_view> parts) {
    const auto file = folder_.write("m.safetensors", safetensors_of(tensors));
    return refuses([&] { model_at(file, gpt(Activation::kRelu)); }, parts);
  }

  TempFolder folder_;
  TensorMap tensors_ = tensors_of("lecture");
};

TEST_F(OtherTensors, UnusedOnesAreNamed) {
  EXPECT_NO_THROW(model_at(named("lecture"), gpt(Activation::kRelu)));
  tensors_["value_head.weight"] = random_tensor("v", {1, 8});
  tensors_["blocks.1.scale"] = random_tensor("s", {8});
  EXPECT_TRUE(
      refuses_tensors(tensors_, {"no place", "'value_head.weight' [1, 8]", "'blocks.1.scale' [8]",
                                 "not belong to the GPT of Karp", "torch.export.save"}));
}

TEST_F(OtherTensors, AreRefusedWhereShapesDiffer) {
  tensors_["blocks.1.ffwd.net.0.weight"] = random_tensor("w", {12, 7});
  EXPECT_TRUE(refuses_tensors(tensors_, {"'blocks.1.ffwd.net.0.weight'", "[12, 7]", "[12, 8]"}));
}

TEST_F(OtherTensors, MissingOnesAreNamed) {
  tensors_.erase("blocks.1.ffwd.net.2.bias");
  tensors_.erase("blocks.0.ln2.weight");
  EXPECT_TRUE(refuses_tensors(
      tensors_, {"missing", "'blocks.1.ffwd.net.2.bias' [8]", "'blocks.0.ln2.weight' [8]"}));
  tensors_.erase("token_embedding_table.weight");
  EXPECT_TRUE(refuses_tensors(tensors_, {"'token_embedding_table.weight'"}));
}

// Names tell the role of a tensor, but not the computation.
TEST_F(OtherTensors, UnknownProgramsAreShownTheLinesThatExportThem) {
  TensorMap own;
  for (const auto& [name, tensor] : tensors_) {
    if (name.find("tril") != std::string::npos) continue;
    const size_t at = name.find("sa.heads");
    own[at == std::string::npos ? name : name.substr(0, at) + "attention" + name.substr(at + 8)] =
        tensor;
  }
  EXPECT_TRUE(refuses_tensors(
      own, {"no attention module found, and no published model",
            "blocks.0.attention.0.query.weight", "the GPT of Karpathy's lecture: ... ",
            "torch.export.export(model.eval(), (example,), dynamic_shapes=",
            "arenite convert model.pt2"}));
}

// Without an MLP of that name, the attention counts as a module of another model.
TEST_F(OtherTensors, AnotherMlpMakesAModelToExport) {
  TensorMap own;
  for (const auto& [name, tensor] : tensors_of("../state_dicts/book")) {
    const size_t at = name.find("ff.layers");
    own[at == std::string::npos ? name : name.substr(0, at) + "mlp" + name.substr(at + 9)] = tensor;
  }
  EXPECT_TRUE(refuses_tensors(own, {"there are 2 modules", "--module PREFIX",
                                    "not a known published model", "torch.export.save"}));
}

#ifdef ARENITE_HAVE_LIBZIP

TEST(PublishedPrograms, ConfigAndCharactersBesideTheWeightsAreRead) {
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
  EXPECT_TRUE(refuses([&] { model_at(file, {.heads = 4}); }, {"--heads 4", "which is 2"}));
}

#endif

TEST(PublishedPrograms, CharactersMustAgree) {
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
