// SPDX-License-Identifier: Apache-2.0
// Tests of `arenite embed-text`: vectors of texts, the angles between them, and what is refused.
#include <gtest/gtest.h>

#include <cmath>

#include "cli/printed.h"
#include "cli/token_models.h"
#include "convert/files/npy.h"

namespace arenite::testing {
namespace {

using convert::NpyArray;

class EmbedText : public ::testing::Test {
 protected:
  EmbedText() : model_(write_sentence_encoder(folder_)) {}

  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  ProgramResult embed(std::vector<std::string> options) const {
    options.insert(options.begin(), {"embed-text", model_});
    return run_arenite(options);
  }
  std::vector<float> vectors(std::vector<std::string> options) const {
    options.insert(options.end(), {"-o", path("v.npy")});
    EXPECT_TRUE(ends(embed(options), kDone, {"12] float32"}));
    return NpyArray::read(path("v.npy")).to_f32();
  }

  TempFolder folder_;
  std::string model_;
};

TEST_F(EmbedText, GivesAVectorOfLengthOneForEachText) {
  const std::vector<float> both =
      vectors({"--text", "the pump is loud", "--text", "A noisy pump."});
  ASSERT_EQ(both.size(), 2 * kSentenceWidth);
  for (size_t i = 0; i < 2; ++i) {
    double squares = 0.0;
    for (size_t c = 0; c < kSentenceWidth; ++c) {
      squares += std::pow(both[i * kSentenceWidth + c], 2);
    }
    EXPECT_NEAR(squares, 1.0, 1e-6);
  }
  const std::vector<float> second = vectors({"--text", "A noisy pump."});
  EXPECT_EQ(std::vector(both.begin() + kSentenceWidth, both.end()), second);
}

TEST_F(EmbedText, ReadsLinesAndDoesNotCareHowManyShareACall) {
  std::string lines;
  std::vector<float> expected;
  const std::vector<float> one = vectors({"--text", "the pumps"});
  const std::vector<float> other = vectors({"--text", "a pump is loud."});
  for (int i = 0; i < 700; ++i) {
    const std::vector<float>& row = i % 3 == 0 ? other : one;
    lines += i % 3 == 0 ? "a pump is loud.\r\n" : "the pumps\n";
    expected.insert(expected.end(), row.begin(), row.end());
  }
  const std::string file = folder_.write("lines.txt", lines).string();
  EXPECT_EQ(vectors({"--file", file}), expected);
  EXPECT_EQ(vectors({"--file", file, "--threads", "2"}), expected);
}

TEST_F(EmbedText, ComparesTexts) {
  const ProgramResult result =
      embed({"--text", "the pump is loud", "--text", "the PUMP is loud", "--text", "a a a"});
  EXPECT_TRUE(ends(result, kDone, {"similarity (cosine)", " 1.000  1.000", "  a a a"}));
  EXPECT_TRUE(ends(embed({"--text", "the pump"}), kDone, {"12 numbers:", "-o writes all"}));
}

TEST_F(EmbedText, PairsAreOneTextWithTypes) {
  const std::vector<float> pair = vectors({"--pairs", "--text", "the pump\tis loud"});
  EXPECT_NE(pair, vectors({"--text", "the pump is loud"}));
  EXPECT_TRUE(ends(embed({"--pairs", "--text", "the pump"}), kBadInput,
                   {"--text 'the pump'", "a tab between them"}));
}

TEST_F(EmbedText, CutsLongTextsOnlyWhereAsked) {
  const std::string text = "the pump is loud a a a a a a";  // 12 tokens with [CLS] and [SEP]
  EXPECT_TRUE(ends(embed({"--text", text}), kBadInput,
                   {"--text 'the pump", "found 12 tokens", "at most 9", "--truncate"}));
  EXPECT_EQ(vectors({"--truncate", "--text", text}), vectors({"--text", "the pump is loud a a a"}));
  const std::string file = folder_.write("lines.txt", "the pump\n" + text + "\n").string();
  EXPECT_TRUE(ends(embed({"--file", file}), kBadInput, {"lines.txt', line 2", "found 12 tokens"}));
  EXPECT_EQ(vectors({"--file", file, "--on-error", "skip"}), vectors({"--text", "the pump"}));
  EXPECT_TRUE(ends(embed({"--file", file, "--on-error", "skip"}), kDone,
                   {"warning: skipped '" + file + "', line 2: found 12 tokens"}));
}

TEST_F(EmbedText, RefusesMissingTextsAndUnsuitableModels) {
  EXPECT_TRUE(ends(embed({}), kBadInput, {"no texts", "--text", "--file"}));
  EXPECT_TRUE(ends(embed({"--file", path("none.txt")}), kBadInput, {"cannot open", "none.txt"}));
  EXPECT_TRUE(ends(embed({"--text", "a", "-o", model_}), kBadUsage, {"input of this command"}));
  EXPECT_TRUE(ends(run_arenite({"embed-text", write_tagger(folder_), "--text", "a"}), kBadInput,
                   {"a vector for each token", "--pooling"}));
  EXPECT_TRUE(ends(run_arenite({"embed-text", write_sensor_classifier(folder_), "--text", "a"}),
                   kBadInput, {"reads features, not text"}));
  std::vector<std::string> many;
  for (int i = 0; i < 11; ++i) many.insert(many.end(), {"--text", "a"});
  EXPECT_TRUE(ends(embed(many), kBadInput, {"found 11 texts", "-o FILE.npy"}));
}

}  // namespace
}  // namespace arenite::testing
