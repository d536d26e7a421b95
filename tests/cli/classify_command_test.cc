// SPDX-License-Identifier: Apache-2.0
// Tests of `arenite classify`: classes of texts, tokens and frames, the most probable first.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "arenite/session.h"
#include "cli/checkpoints.h"
#include "cli/printed.h"
#include "cli/token_models.h"
#include "convert/files/memory.h"
#include "convert/files/npy.h"

namespace arenite::testing {
namespace {

// Returns the most probable class of each row by the runtime itself, as "class 1  43.21 %".
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

// Lines of 4, 12 and 5 words; the model takes 9 tokens, two of them around a text.
constexpr const char* kLines =
    "the pump is loud\nthe the the the the the the the the the the the\n"
    "a noisy pump is loud\n";

TEST(Classify, StopsAtALineThatIsTooLongOrSkipsIt) {
  const TempFolder folder;
  const std::string model = write_text_classifier(folder);
  const std::string lines = folder.write("lines.txt", kLines).string();
  const ProgramResult stopped = run_arenite({"classify", model, "--file", lines});
  EXPECT_TRUE(
      ends(stopped, kBadInput,
           {"lines.txt', line 2: found 14 tokens; at most 9", "--truncate", "--on-error skip"}));
  const ProgramResult skipped =
      run_arenite({"classify", model, "--file", lines, "--on-error", "skip"});
  EXPECT_TRUE(ends(skipped, kDone,
                   {"%  the pump is loud\n", "%  a noisy pump is loud\n",
                    "warning: skipped '" + lines + "', line 2: found 14 tokens"}));
  EXPECT_EQ(skipped.output.find("the the"), std::string::npos);
  Command quiet;
  quiet.errors_file = "/dev/null";
  const auto json = nlohmann::json::parse(
      run_arenite({"classify", model, "--file", lines, "--on-error", "skip", "--json"}, quiet)
          .output);
  EXPECT_EQ(json["results"].size(), 2u);
  ASSERT_EQ(json["skipped"].size(), 1u);
  EXPECT_EQ(json["skipped"][0]["line"], 2);
  EXPECT_TRUE(json["skipped"][0]["reason"].get<std::string>().find("14 tokens") !=
              std::string::npos);
  EXPECT_TRUE(ends(run_arenite({"classify", model, "--file",
                                folder.write("all.txt", "a a a a a a a a a a a\n").string(),
                                "--on-error", "skip"}),
                   kBadInput, {"all 1 lines were skipped", "line 1: found 13 tokens"}));
  EXPECT_TRUE(
      ends(run_arenite({"classify", model, "--text", "a", "--on-error", "skip"}), kBadUsage));
}

TEST(Classify, AnswersLinesOfAPipeAsTheyCome) {
  const TempFolder folder;
  const std::string model = write_text_classifier(folder);
  // The writer goes on only once its line was answered, so that a program that waits for the end
  // of the pipe never ends.
  const std::string script =
      "mkfifo \"$2/in\" \"$2/out\"\n"
      "\"$0\" classify \"$1\" --file - --on-error skip <\"$2/in\" >\"$2/out\" &\n"
      "exec 3>\"$2/in\" 4<\"$2/out\"\n"
      "echo 'the pump' >&3; read -r first <&4; echo \"1: $first\"\n"
      "echo 'a a a a a a a a a a a' >&3\n"
      "echo 'is loud' >&3; read -r second <&4; echo \"2: $second\"\n"
      "exec 3>&-; wait $!; echo \"ended $?\"\n";
  const ProgramResult result =
      run({"timeout", "60", "sh", "-c", script, ARENITE_PROGRAM, model, folder.path().string()});
  EXPECT_TRUE(ends(result, kDone,
                   {"1: class ", "%  the pump\n", "2: class ", "%  is loud\n",
                    "skipped the standard input, line 2: ", "ended 0\n"}));
}

TEST(Classify, WarnsOfWordsThatTheVocabularyLacks) {
  const TempFolder folder;
  const std::string model = write_text_classifier(folder);
  EXPECT_TRUE(ends(
      run_arenite({"classify", model, "--text", "the caf\xC3\xA9 pumps \xE2\x98\x83"}), kDone,
      {"warning: --text 'the caf\xC3\xA9 pumps \xE2\x98\x83': the vocabulary has no token for ",
       "'\xE2\x98\x83' (U+2603)", "read as '[UNK]'"}));
  const ProgramResult sayable = run_arenite({"classify", model, "--text", "The pumps is loud."});
  EXPECT_TRUE(ends(sayable, kDone));
  EXPECT_TRUE(sayable.errors.empty()) << sayable.errors;
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

TEST(Classify, RefusesNonFiniteLogits) {
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
