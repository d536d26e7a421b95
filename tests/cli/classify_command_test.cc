// SPDX-License-Identifier: Apache-2.0
// Tests of `arenite classify`: classes of texts, of tokens and of frames, most likely first.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "arenite/session.h"
#include "cli/checkpoints.h"
#include "cli/printed.h"
#include "cli/token_models.h"
#include "convert/files/memory.h"
#include "convert/files/npy.h"

namespace arenite::testing {
namespace {

// What the runtime says of these ids: "class 1  43.21 %" for the likeliest class of each row.
std::vector<std::string> likeliest(const std::string& model, const std::vector<TokenId>& ids) {
  const std::vector<float> logits = logits_of(model, ids);
  const convert::FileMap file(model);
  const uint32_t classes = Model::load(file.bytes())->output_features();
  std::vector<std::string> lines;
  for (size_t row = 0; row * classes < logits.size(); ++row) {
    const auto first = logits.begin() + static_cast<ptrdiff_t>(row * classes);
    const auto best = std::max_element(first, first + classes);
    double sum = 0.0;
    for (auto it = first; it != first + classes; ++it) sum += std::exp(double{*it} - *best);
    lines.push_back(fmt::format("class {} {:6.2f} %", best - first, 100.0 / sum));
  }
  return lines;
}

// [CLS] the pump is loud [SEP], as the models' vocabulary numbers them.
const std::vector<TokenId> kIds = {2, 4, 5, 6, 7, 3};

TEST(Classify, TellsTheClassOfEachText) {
  const TempFolder folder;
  const std::string model = write_text_classifier(folder);
  const std::string expected = likeliest(model, kIds)[0];
  EXPECT_TRUE(ends(run_arenite({"classify", model, "--text", "The pump is loud"}), kDone,
                   {expected + "  The pump is loud\n"}));
  const ProgramResult all =
      run_arenite({"classify", model, "--text", "the pump is loud", "--top", "9"});
  EXPECT_TRUE(ends(all, kDone, {expected, "class 0", "class 1", "class 2"}));
  EXPECT_EQ(std::ranges::count(all.output, '\n'), 3);
}

TEST(Classify, TellsTheClassOfEachTokenWhereTheModelDoes) {
  const TempFolder folder;
  const std::string model = write_tagger(folder);
  const std::vector<std::string> expected = likeliest(model, kIds);
  ASSERT_EQ(expected.size(), 6u);
  EXPECT_TRUE(ends(run_arenite({"classify", model, "--text", "the pump is loud"}), kDone,
                   {"the pump is loud\n" + expected[0] + "  [CLS]\n" + expected[1] + "  the\n" +
                    expected[2] + "  pump\n" + expected[3] + "  is\n" + expected[4] + "  loud\n" +
                    expected[5] + "  [SEP]\n"}));
}

TEST(Classify, TellsTheClassOfEachWindowOfFeatures) {
  const TempFolder folder;
  const std::string model = write_sensor_classifier(folder);
  const std::string windows = write_features(folder, "w.npy", {3, 8, 5});
  const ProgramResult all = run_arenite({"classify", model, "--input", windows});
  EXPECT_TRUE(ends(all, kDone, {"  window 0\n", "  window 1\n", "  window 2\n"}));
  const std::string one = write_features(folder, "one.npy", {8, 5});
  const ProgramResult first = run_arenite({"classify", model, "--input", one});
  EXPECT_TRUE(ends(first, kDone, {"  window 0\n"}));
}

TEST(Classify, RefusesToTellTheClassOfWhatIsNotFinite) {
  const TempFolder folder;
  const std::string windows = (folder.path() / "w.npy").string();
  std::vector<float> features(2 * 8 * 5, 0.25f);
  features[50] = std::numeric_limits<float>::quiet_NaN();
  convert::write_npy(windows, std::vector<uint64_t>{2, 8, 5}, features);
  const std::string model = write_sensor_classifier(folder);
  EXPECT_TRUE(ends(run_arenite({"classify", model, "--input", windows}), kBadInput,
                   {"w.npy'", "the value nan at index 50"}));
  features[50] = std::numeric_limits<float>::max();
  convert::write_npy(windows, std::vector<uint64_t>{2, 8, 5}, features);
  EXPECT_TRUE(ends(run_arenite({"classify", model, "--input", windows}), kBadInput,
                   {"w.npy", "NaN or infinity"}));
}

TEST(Classify, RefusesWhatDoesNotFit) {
  const TempFolder folder;
  const std::string text = write_text_classifier(folder);
  const std::string sensor = write_sensor_classifier(folder);
  const std::string windows = write_features(folder, "w.npy", {3, 8, 4});
  EXPECT_TRUE(ends(run_arenite({"classify", sensor, "--input", windows}), kBadInput,
                   {"w.npy'", "[3, 8, 4]", "[batch, tokens, 5]"}));
  EXPECT_TRUE(ends(run_arenite({"classify", sensor, "--text", "a"}), kBadInput,
                   {"reads features", "--input"}));
  EXPECT_TRUE(ends(run_arenite({"classify", text, "--input", windows}), kBadInput,
                   {"reads text", "--text"}));
  EXPECT_TRUE(ends(run_arenite({"classify", write_text_decoder(folder), "--text", "a"}), kBadInput,
                   {"arenite generate"}));
  const std::string long_windows = write_features(folder, "long.npy", {1, 10, 5});
  EXPECT_TRUE(ends(run_arenite({"classify", sensor, "--input", long_windows}), kBadInput,
                   {"found 10", "9"}));
}

}  // namespace
}  // namespace arenite::testing
