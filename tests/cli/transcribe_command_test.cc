// SPDX-License-Identifier: Apache-2.0
// Transcription by a Whisper of random weights, compared with the tokens and times that
// transformers gives (data/transcribe/make_transcribe.py); refusals.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/printed.h"
#include "cli/program.h"
#include "convert/files/json_file.h"
#include "support/byte_string.h"

namespace arenite::testing {
namespace {

using nlohmann::json;

constexpr uint32_t kRate = 16000;
constexpr double kWindow = 1.0;  // seconds

std::string sound_of(double seconds) {
  std::string samples;
  for (int64_t i = 0; i < static_cast<int64_t>(seconds * kRate); ++i) {
    samples += bytes_of(static_cast<int16_t>(static_cast<int16_t>(i * (i / 16 + 300)) >> 2));
  }
  return samples;
}

class Transcribe : public ::testing::Test {
 protected:
  static std::filesystem::path data() { return project_folder() / "tests/convert/data/transcribe"; }
  void SetUp() override {
    model_ = (folder_.path() / "m.arn").string();
    ASSERT_TRUE(ends(
        run_arenite({"convert", (data() / "whisper.pt2").string(), "-o", model_, "--tokenizer",
                     data().string(), "--sound", (data() / "preprocessor_config.json").string()}),
        kDone, {"16 bands"}));
  }
  ProgramResult transcribe(double seconds, std::vector<std::string> options) const {
    const std::string file = folder_.write("x.raw", sound_of(seconds)).string();
    options.insert(options.begin(), {"transcribe", model_, "--sound", file});
    return run_arenite(options);
  }
  json facts(double seconds, std::vector<std::string> options) const {
    options.emplace_back("--json");
    const ProgramResult result = transcribe(seconds, options);
    EXPECT_EQ(result.exit_code, kDone) << result.errors;
    return json::parse(result.output);
  }
  static json expected(const std::string& key) {
    return arenite::convert::read_json_object(data() / "expected.json").at(key);
  }

  TempFolder folder_;
  std::string model_;
};

// Returns the tokens of all segments.
std::vector<uint32_t> tokens_of(const json& segments) {
  std::vector<uint32_t> tokens;
  for (const json& segment : segments) {
    for (const json& id : segment[2]) tokens.push_back(id.get<uint32_t>());
  }
  return tokens;
}

TEST_F(Transcribe, LongSound_InAGivenLanguage_HasTheTokensAndTimesOfTransformers) {
  const json found = facts(2.6, {"--language", "en", "--timestamps"});
  const json segments = expected("2.6 en True");
  EXPECT_EQ(found["ids"].get<std::vector<uint32_t>>(), tokens_of(segments));
  EXPECT_EQ(found["language"], "en");
  ASSERT_EQ(found["segments"].size(), segments.size());
  for (size_t i = 0; i < segments.size(); ++i) {
    EXPECT_NEAR(found["segments"][i]["begin"].get<double>(), segments[i][0].get<double>(), 0.011);
  }
}

// Weights, tokenizer and front end come from the folder that transformers saved.
TEST_F(Transcribe, ModelOfAFolder_HasTheTokensOfTransformers) {
  ASSERT_TRUE(ends(run_arenite({"convert", data().string(), "-o", model_}), kDone, {"16 bands"}));
  const json found = facts(2.6, {"--language", "en", "--timestamps"});
  EXPECT_EQ(found["ids"].get<std::vector<uint32_t>>(), tokens_of(expected("2.6 en True")));
}

// The reference goes on after the sound, in the silence that fills up its window.
TEST_F(Transcribe, LanguageAndTimes_AsAsked_BeginAsTheReferenceDoes) {
  const struct {
    double seconds;
    std::vector<std::string> options;
    const char* key;
    size_t tokens;
  } cases[] = {{0.7, {"--language", "en"}, "0.7 en False", 4},
               {0.7, {"--language", "en", "--timestamps"}, "0.7 en True", 8},
               {0.7, {}, "0.7 None False", 8},
               {0.7, {"--timestamps"}, "0.7 None True", 5},
               {2.6, {"--timestamps"}, "2.6 None True", 63}};
  for (const auto& one : cases) {
    SCOPED_TRACE(one.key);
    std::vector<uint32_t> ids = facts(one.seconds, one.options)["ids"];
    std::vector<uint32_t> wanted = tokens_of(expected(one.key));
    ASSERT_GE(ids.size(), one.tokens);
    ids.resize(one.tokens);
    wanted.resize(one.tokens);
    EXPECT_EQ(ids, wanted);
  }
}

TEST_F(Transcribe, Text_OnATerminal_IsALineOrALinePerSegment) {
  EXPECT_TRUE(
      ends(transcribe(0.7, {"--language", "en"}), kDone, {"sound      0.70 s, language en"}));
  const ProgramResult result = transcribe(2.6, {"--language", "en", "--timestamps"});
  EXPECT_TRUE(ends(result, kDone));
  for (const char* line : {"[00:00.78 --> 00:00.82] ", "\n[00:01.64 --> 00:02.42] "}) {
    EXPECT_NE(result.output.find(line), std::string::npos) << result.output;
  }
}

TEST_F(Transcribe, BadUse_IsRefusedByName) {
  EXPECT_TRUE(ends(transcribe(0.7, {"--language", "xx"}), kBadInput, {"found 'xx'", "such as en"}));
  EXPECT_TRUE(ends(run_arenite({"transcribe", model_, "--sound", "x.npy"}), kBadInput,
                   {"expected a .wav file"}));
  const std::string words = (folder_.path() / "w.arn").string();
  ASSERT_TRUE(
      ends(run_arenite({"convert", (data() / "whisper.pt2").string(), "-o", words}), kDone));
  const std::string file = folder_.write("y.raw", sound_of(kWindow)).string();
  EXPECT_TRUE(
      ends(run_arenite({"transcribe", words, "--sound", file}), kBadInput, {"has no tokenizer"}));
}

}  // namespace
}  // namespace arenite::testing
