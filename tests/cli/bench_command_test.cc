// SPDX-License-Identifier: Apache-2.0
// Tests of `arenite bench`: what it prints, not how fast the machine is.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/checkpoints.h"
#include "cli/printed.h"
#include "cli/token_models.h"
#include "support/test_data.h"

namespace arenite::testing {
namespace {

TEST(BenchCommand, PrintsATableOrTheSameAsJson) {
  const TempFolder folder;
  const std::string model = convert_small(folder, "portable");
  const std::string bytes = std::to_string(std::filesystem::file_size(model)) + " bytes";
  EXPECT_TRUE(ends(run_arenite({"bench", model, "--tokens", "3"}), kDone,
                   {bytes, "kernel set scalar, 1 thread", "GFLOP/s peak", "tokens", "\n     3 "}));
  const ProgramResult result = run_arenite({"bench", model, "--json", "--threads", "2"});
  ASSERT_TRUE(ends(result, kDone));
  const nlohmann::json json = nlohmann::json::parse(result.output, nullptr, false);
  ASSERT_TRUE(json.is_object()) << result.output;
  EXPECT_EQ(json["threads"], 2);
  EXPECT_EQ(json["kernel_set"], "scalar");
  ASSERT_EQ(json["runs"].size(), 1u);  // of the usual sizes, only 6 fits this context
  EXPECT_EQ(json["runs"][0]["tokens"], 6);
  // No part is larger than its whole.
  EXPECT_LE(json["runs"][0]["share_of_peak"], 1.0);
  EXPECT_LE(json["crc_ms"], json["load_ms"]);
  EXPECT_GT(json["runs"][0]["gflops"], 0.0);
}

TEST(BenchCommand, TimesPromptsAndSingleTokensOfDecoders) {
  const TempFolder folder;
  const std::string model = write_plain_decoder(folder);
  const ProgramResult table =
      run_arenite({"bench", model, "--prompt", "5", "--decode", "0", "--profile"});
  EXPECT_TRUE(ends(table, kDone,
                   {"context    70 positions, 64 tokens a call", "GB/s read over", "\n   pp5 ",
                    "of peak", "of read", "Profile of "}));
  const ProgramResult result =
      run_arenite({"bench", model, "--decode", "8", "--at", "0,60", "--context", "66", "--chunk",
                   "16", "--threads", "2", "--json"});
  ASSERT_TRUE(ends(result, kDone));
  const nlohmann::json json = nlohmann::json::parse(result.output, nullptr, false);
  ASSERT_TRUE(json.is_object()) << result.output;
  EXPECT_EQ(json["context"], 66);
  EXPECT_EQ(json["tokens_per_call"], 16);
  std::vector<std::string> tests;
  for (const nlohmann::json& run : json["runs"]) {
    tests.push_back(run["test"]);
    EXPECT_GT(run["tokens_per_s"], 0.0);
    EXPECT_GT(run.contains("gflops") ? run["gflops"] : run["gbytes_per_s"], 0.0);
    EXPECT_LE(run.contains("gflops") ? run["share_of_peak"] : run["share_of_read"], 1.0);
  }
  EXPECT_EQ(tests, (std::vector<std::string>{"pp66", "tg8", "at 0", "at 60"}));
}

TEST(BenchCommand, RefusesSizesThatDoNotFitTheContextOrTheModel) {
  const TempFolder folder;
  const std::string tokens = write_plain_decoder(folder);
  const std::string features = convert_small(folder);
  EXPECT_TRUE(ends(run_arenite({"bench", tokens, "--context", "71"}), kBadInput,
                   {"--context: found 71", "at most 70"}));
  EXPECT_TRUE(ends(run_arenite({"bench", tokens, "--context", "9", "--prompt", "9,10"}), kBadInput,
                   {"--prompt: found 10", "at most 9"}));
  EXPECT_TRUE(ends(run_arenite({"bench", tokens, "--decode", "70"}), kBadInput,
                   {"--decode: found 70", "at most 69"}));
  EXPECT_TRUE(ends(run_arenite({"bench", tokens, "--at", "70"}), kBadInput,
                   {"--at: found 70", "at most 69"}));
  EXPECT_TRUE(ends(run_arenite({"bench", tokens, "--tokens", "3"}), kBadInput,
                   {"--tokens does not fit", "is a decoder"}));
  EXPECT_TRUE(ends(run_arenite({"bench", features, "--at", "3"}), kBadInput,
                   {"--at does not fit", "is no decoder"}));
}

TEST(BenchCommand, TimesFunctionsOfModelsWithSeveralInputs) {
  const TempFolder folder;
  const std::string model = (folder.path() / "model.arn").string();
  const auto convert = [&](const char* name) {
    const std::filesystem::path file = convert_fixture("several_inputs") / name;
    ASSERT_TRUE(ends(run_arenite({"convert", file.string(), "-o", model}), kDone));
  };
  convert("translation.pt2");
  EXPECT_TRUE(
      ends(run_arenite({"bench", model, "--seconds", "0.01", "--profile"}), kDone,
           {"context    24 positions, 24 tokens a call, which see 24 tokens of other inputs",
            "\n  encode 24 ", "\n  step pp24 ", "\n  step tg23 ", "Profile of "}));
  EXPECT_TRUE(ends(run_arenite({"bench", model, "--tokens", "25"}), kBadInput,
                   {"--tokens: found 25", "at most 24"}));
  EXPECT_TRUE(ends(run_arenite({"bench", model, "--lengths", "2"}), kBadInput,
                   {"--lengths does not fit", "one with several inputs"}));
  convert("joined.pt2");
  EXPECT_TRUE(
      ends(run_arenite({"bench", model, "--tokens", "7", "--seconds", "0.01"}), kDone, {"run 7 "}));
  EXPECT_TRUE(ends(run_arenite({"bench", model, "--decode", "7"}), kBadInput,
                   {"--decode does not fit", "not fed token by token"}));
}

TEST(BenchCommand, TimesImages) {
  const TempFolder folder;
  const std::string model = (folder.path() / "vit.arn").string();
  const std::string checkpoint = convert_fixture("exported/vit.pt2").string();
  ASSERT_TRUE(ends(run_arenite({"convert", checkpoint, "-o", model}), kDone));
  EXPECT_TRUE(ends(run_arenite({"bench", model, "--profile"}), kDone,
                   {"\n    72 ", "an image", "patches"}));
  EXPECT_TRUE(ends(run_arenite({"bench", model, "--tokens", "3"}), kBadInput,
                   {"--tokens does not fit", "one of images"}));
}

// Without options, bench times the lengths that the model has room for.
TEST(BenchCommand, TimesModelsOfOneLength) {
  const TempFolder folder;
  const std::string model = (folder.path() / "seven.arn").string();
  const std::string checkpoint = convert_fixture("exported/soft_cap.pt2").string();
  ASSERT_TRUE(ends(run_arenite({"convert", checkpoint, "-o", model}), kDone));
  EXPECT_TRUE(ends(run_arenite({"bench", model, "--seconds", "0.01"}), kDone, {"\n     7 "}));
  EXPECT_TRUE(ends(run_arenite({"bench", model, "--tokens", "6"}), kBadInput,
                   {"--tokens: found 6; at least 7, the model's shortest sequence"}));
  EXPECT_TRUE(ends(run_arenite({"bench", model, "--lengths", "7,3"}), kBadInput,
                   {"--lengths: found 3; at least 7"}));
}

TEST(BenchCommand, TimesFewerTokensThanUsualOfAShortContext) {
  const TempFolder folder;
  const std::string model = write_plain_decoder(folder);
  EXPECT_TRUE(ends(run_arenite({"bench", model, "--context", "9", "--seconds", "0.01"}), kDone,
                   {" pp9 ", " tg8 "}));
}

TEST(BenchCommand, RefusesSizesBeyondTheContext) {
  const TempFolder folder;
  const std::string model = convert_small(folder);
  EXPECT_TRUE(ends(run_arenite({"bench", model, "--tokens", "6,7"}), kBadInput,
                   {"small.arn'", "--tokens: found 7; at most 6"}));
}

}  // namespace
}  // namespace arenite::testing
