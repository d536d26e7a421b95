// SPDX-License-Identifier: Apache-2.0
// Compares conversions with arrays that PyTorch computed, and refuses arrays that do not fit.
#include "convert/check/converted_model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "convert/check/check_session.h"
#include "convert/convert.h"
#include "convert/files/npy.h"
#include "support/refusal.h"
#include "support/temp_folder.h"
#include "support/test_data.h"

namespace arenite::convert {
namespace {

using testing::convert_fixture;
using testing::refusal_of;
using testing::refuses;
using testing::TempFolder;

// PyTorch's outputs are of double precision, so this is the error of float32 in two layers.
constexpr double kAuthorError = 1e-5;

std::filesystem::path fixture(const std::string& name) {
  return convert_fixture("state_dicts") / name;
}

AuthorFiles files_of(const std::string& name) {
  return {fixture(name) / "x.npy", fixture(name) / "y.npy"};
}

ConvertedModel author_checked(const std::string& name, const ModelOptions& options) {
  const auto path = fixture(name) / "model.safetensors";
  const std::vector<Target> targets = parse_targets("all");
  return convert_model(path, name, {.source = options}, targets);
}

const ModelOptions kTutorial{.heads = 2,
                             .activation = Activation::kRelu,
                             .norm_first = false,
                             .mask = MaskChoice::kCausal,
                             .embedding_scale = EmbeddingScale{.is_sqrt = true}};
const ModelOptions kNanoGpt{.heads = 2, .activation = Activation::kRelu, .norm_first = true};

::testing::AssertionResult is_as_pytorch(const AuthorCheck& check) {
  if (check.largest_value > 0.1 && check.largest_difference <= kAuthorError * check.largest_value) {
    return ::testing::AssertionSuccess();
  }
  return ::testing::AssertionFailure() << check.largest_difference << " of " << check.largest_value;
}

TEST(AuthorCheck, PublishedProgramsAgreeWithPyTorch) {
  ModelOptions old = kTutorial;
  old.norm_first = true;
  old.mask = MaskChoice::kBidirectional;
  old.embedding_scale = EmbeddingScale{};
  ModelOptions norm_last = kNanoGpt;
  norm_last.norm_first = false;
  norm_last.activation = Activation::kGeluErf;
  ModelOptions book = kNanoGpt;
  book.activation = Activation::kGeluTanh;
  const struct {
    const char* name;
    ModelOptions options;
  } cases[] = {{"tutorial", kTutorial},
               {"tutorial_old", old},
               {"nanogpt_relu", kNanoGpt},
               {"nanogpt_norm_last", norm_last},
               {"book", book}};
  for (const auto& one : cases) {
    const ConvertedModel model = author_checked(one.name, one.options);
    const AuthorCheck check = check_against_author(model, files_of(one.name), one.name);
    EXPECT_TRUE(is_as_pytorch(check)) << one.name;
    EXPECT_EQ(check.sequences, 2u);
    EXPECT_EQ(check.tokens, 7u);
    EXPECT_FALSE(check.of_last_tokens);
  }
}

TEST(AuthorCheck, ScoresOfAModuleMayHaveAnotherScale) {
  const auto path = fixture("unscaled_module") / "model.safetensors";
  ModelOptions options;
  options.heads = 2;
  const auto model = [&] {
    return convert_model(path, "m", {.source = options}, parse_targets("all"));
  };
  EXPECT_TRUE(refuses([&] { check_against_author(model(), files_of("unscaled_module"), "m.pt"); },
                      {"m.pt", "y.npy", "differ by up to", "--heads 2",
                       "assumed: scores times 1/sqrt(head_dim); causal mask, as usual for "
                       "this module"}));
  options.score_scale = 1.0;
  const Conversion scaled = model();
  EXPECT_EQ(scaled.account.given, (std::vector<std::string>{"--heads 2", "--scale 1"}));
  EXPECT_TRUE(is_as_pytorch(check_against_author(scaled, files_of("unscaled_module"), "m.pt")));
}

// Each option describes a different model with the same tensors.
TEST(AuthorCheck, DetectsEveryWrongOption) {
  std::vector<ModelOptions> wrong(7, kTutorial);
  wrong[0].heads = 4;
  wrong[1].activation = Activation::kSilu;
  wrong[2].norm_first = true;
  wrong[3].mask = MaskChoice::kBidirectional;
  wrong[4].embedding_scale = EmbeddingScale{};
  wrong[5].score_scale = 1.0;
  wrong[6].epsilon = 0.5;
  for (size_t i = 0; i < wrong.size(); ++i) {
    const ConvertedModel model = author_checked("tutorial", wrong[i]);
    EXPECT_TRUE(refuses([&] { check_against_author(model, files_of("tutorial"), "lm.pt"); },
                        {"'lm.pt'", "does not compute", "One of these may be wrong",
                         "given: --heads", "No file was written"}))
        << i;
  }
}

class AuthorArrays : public ::testing::Test {
 protected:
  std::filesystem::path ids(const std::vector<uint64_t>& shape, size_t count) const {
    const std::vector<int64_t> all = NpyArray::read(files_of("tutorial").input).to_i64();
    std::vector<int32_t> values(all.begin(), all.end());
    values.resize(count, 1);
    write_npy(folder_.path() / "ids.npy", shape, std::span<const int32_t>(values));
    return folder_.path() / "ids.npy";
  }
  std::filesystem::path floats(const std::vector<uint64_t>& shape,
                               const std::vector<float>& values) const {
    write_npy(folder_.path() / "floats.npy", shape, std::span<const float>(values));
    return folder_.path() / "floats.npy";
  }
  static std::vector<float> outputs() {
    return NpyArray::read(files_of("tutorial").outputs).to_f32();
  }
  AuthorCheck check(const AuthorFiles& files) const {
    return check_against_author(model_, files, "lm.pt");
  }
  ::testing::AssertionResult refuses_arrays(const AuthorFiles& files,
                                            std::initializer_list<std::string_view> parts) const {
    return refuses([&] { check(files); }, parts);
  }

  TempFolder folder_;
  const ConvertedModel model_ = author_checked("tutorial", kTutorial);
};

TEST_F(AuthorArrays, MayHoldOneSequence) {
  std::vector<float> first = outputs();
  first.resize(7 * 11);
  for (const std::vector<uint64_t>& shape : {std::vector<uint64_t>{7}, {1, 7}}) {
    EXPECT_TRUE(is_as_pytorch(check({ids(shape, 7), floats({7, 11}, first)})));
    EXPECT_TRUE(is_as_pytorch(check({ids(shape, 7), floats({1, 7, 11}, first)})));
  }
}

TEST_F(AuthorArrays, MayHoldTheLastTokens) {
  const std::vector<float> all = outputs();
  std::vector<float> last(all.begin() + 6 * 11, all.begin() + 7 * 11);
  for (const std::vector<uint64_t>& shape : {std::vector<uint64_t>{11}, {1, 11}, {1, 1, 11}}) {
    const AuthorCheck found = check({ids({7}, 7), floats(shape, last)});
    EXPECT_TRUE(found.of_last_tokens);
    EXPECT_TRUE(is_as_pytorch(found));
  }
  last.insert(last.end(), all.begin() + 13 * 11, all.end());
  EXPECT_TRUE(check({files_of("tutorial").input, floats({2, 11}, last)}).of_last_tokens);
  std::swap(last[0], last[1]);
  EXPECT_TRUE(refuses_arrays({files_of("tutorial").input, floats({2, 11}, last)}, {"differ"}));
}

TEST_F(AuthorArrays, AreRefusedByNameWhereTheyDoNotFit) {
  const std::vector<float> all = outputs();
  const auto y = floats({2, 7, 11}, all);
  EXPECT_TRUE(refuses_arrays({y, y}, {"floats.npy", "F32", "token ids"}));
  EXPECT_TRUE(refuses_arrays({ids({2, 7, 1}, 14), y}, {"ids.npy", "[2, 7, 1]", "[batch, tokens]"}));
  EXPECT_TRUE(refuses_arrays({ids({0}, 0), y}, {"ids.npy", "at least one"}));
  EXPECT_TRUE(refuses_arrays({ids({11}, 11), y}, {"[11]", "at most 10 tokens", "context"}));
  EXPECT_TRUE(
      refuses_arrays({ids({2, 6}, 12), y}, {"floats.npy", "[2, 7, 11]", "[2, 6, 11]", "[2, 11]"}));
  const auto x = ids({2, 7}, 14);
  EXPECT_TRUE(refuses_arrays({x, x}, {"ids.npy", "I32", "outputs, float32"}));
  EXPECT_TRUE(refuses_arrays({x, floats({14, 11}, all)}, {"[14, 11]"}));
  std::vector<float> nan = all;
  nan[5] = std::nanf("");
  EXPECT_TRUE(refuses_arrays({x, floats({2, 7, 11}, nan)}, {"floats.npy", "nan at index 5"}));
  std::vector<int32_t> beyond(14, 11);
  write_npy(folder_.path() / "beyond.npy", std::vector<uint64_t>{2, 7},
            std::span<const int32_t>(beyond));
  floats({2, 7, 11}, all);
  EXPECT_TRUE(
      refuses_arrays({folder_.path() / "beyond.npy", y}, {"token 11 at [0, 0]", "from 0 to 10"}));
  EXPECT_TRUE(refuses_arrays({folder_.path() / "none.npy", y}, {"none.npy"}));
}

TEST(AuthorCheck, ComparesPooledOutputsOfFeatureEncoders) {
  const auto folder = convert_fixture("encoders") / "torch_features";
  const ConvertedModel model = convert_model(folder, "features", {}, parse_targets("native"));
  const Checkpoint expected = Checkpoint::read(folder / "expected.safetensors");
  std::vector<float> x = expected.find("input")->to_f32();
  std::vector<float> y = expected.find("values")->to_f32();
  x.resize(7 * 5);  // the second sequence is padded
  y.resize(3);
  const TempFolder temp;
  const AuthorFiles files{temp.path() / "x.npy", temp.path() / "y.npy"};
  write_npy(files.outputs, std::vector<uint64_t>{1, 3}, std::span<const float>(y));
  for (const std::vector<uint64_t>& shape : {std::vector<uint64_t>{7, 5}, {1, 7, 5}}) {
    write_npy(files.input, shape, std::span<const float>(x));
    EXPECT_TRUE(is_as_pytorch(check_against_author(model, files, "m.pt")));
  }
  write_npy(files.outputs, std::vector<uint64_t>{3, 1}, std::span<const float>(y));
  EXPECT_NO_THROW(check_against_author(model, files, "m.pt"));
  write_npy(files.input, std::vector<uint64_t>{5, 7}, std::span<const float>(x));
  EXPECT_TRUE(refuses([&] { check_against_author(model, files, "m.pt"); },
                      {"x.npy", "[5, 7]", "[tokens, 5] or [batch, tokens, 5]"}));
  y[1] += 1.0f;
  write_npy(files.input, std::vector<uint64_t>{7, 5}, std::span<const float>(x));
  write_npy(files.outputs, std::vector<uint64_t>{3}, std::span<const float>(y));
  EXPECT_TRUE(refuses([&] { check_against_author(model, files, "m.pt"); },
                      {"differ", "num", "config.json"}));
}

// A language model around torch.nn.TransformerEncoder runs token by token, like a decoder.
TEST(AuthorCheck, CausalEncodersRunTokenByToken) {
  const ConvertedModel model = author_checked("tutorial", kTutorial);
  const std::vector<int64_t> ids = NpyArray::read(files_of("tutorial").input).to_i64();
  const std::vector<float> expected = NpyArray::read(files_of("tutorial").outputs).to_f32();
  for (const TargetCheck& target : model.checks) {
    if (!target.ran) continue;
    ASSERT_TRUE(load_converted(model.file, target.target).causal());
    CheckSession session(model.file, target.target, 7, Outputs::kLast);
    for (size_t t = 0; t < 7; ++t) {
      const TokenId id = static_cast<TokenId>(ids[t]);
      const auto output = session.session().step(std::span(&id, 1));
      ASSERT_TRUE(output.ok());
      ASSERT_EQ(output->rows, 1u);
      for (size_t i = 0; i < 11; ++i) EXPECT_NEAR(output->data[i], expected[t * 11 + i], 1e-4);
    }
  }
}

}  // namespace
}  // namespace arenite::convert
