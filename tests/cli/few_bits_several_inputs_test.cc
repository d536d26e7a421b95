// SPDX-License-Identifier: Apache-2.0
// Commands on models with several inputs and quantized weights and caches.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "cli/printed.h"
#include "convert/check/check_session.h"
#include "convert/files/npy.h"
#include "support/byte_string.h"
#include "support/kernel_sets.h"

namespace arenite::testing {
namespace {

using convert::NpyArray;

std::string fixture_file(const std::string& name) {
  return (convert_fixture("several_inputs") / name).string();
}

// Returns the largest difference from PyTorch's float64 results, relative to the largest value.
double error_of(const std::string& file, const std::string& expected_name) {
  const std::vector<double> found = NpyArray::read(file).to_f64();
  const std::vector<double> expected = NpyArray::read(fixture_file(expected_name)).to_f64();
  if (found.size() != expected.size()) return HUGE_VAL;
  double largest = 0.0, error = 0.0;
  for (size_t i = 0; i < expected.size(); ++i) {
    largest = std::max(largest, std::fabs(expected[i]));
    error = std::max(error, std::fabs(expected[i] - found[i]));
  }
  return error / largest;
}

class FewBits : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }

  // speech.pt2: two convolutions, and a decoder of one layer that attends to their rows.
  ProgramResult convert_speech(const std::vector<std::string>& options,
                               const std::string& output = "model.arn") const {
    std::vector<std::string> words = {"convert", fixture_file("speech.pt2"), "-o", path(output),
                                      "-v"};
    words.insert(words.end(), options.begin(), options.end());
    return run_arenite(words);
  }

  // Runs the first example of a fixture.
  ProgramResult run(const std::string& name, const std::vector<std::string>& options = {}) const {
    std::vector<std::string> words = {"run",      path("model.arn"),
                                      "--input",  fixture_file(name + "_i0_0.npy"),
                                      "--input",  fixture_file(name + "_i0_1.npy"),
                                      "--output", path("y.npy")};
    words.insert(words.end(), options.begin(), options.end());
    return run_arenite(words);
  }

  // Sequences of 40 rows and of 20 tokens.
  std::vector<std::string> calibration(uint64_t sequences) const {
    const uint64_t rows[] = {sequences, 6, 40}, tokens[] = {sequences, 20};
    std::vector<int32_t> ids(sequences * 20);
    for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i * i % 19);
    convert::write_npy(path("mels.npy"), rows, convert::features_to_check(sequences * 240));
    convert::write_npy(path("ids.npy"), tokens, ids);
    return {"--calibrate", path("mels.npy"), "--calibrate", path("ids.npy")};
  }

  TempFolder folder_;
};

// ---- on all kernel sets, in all types ----

struct FewBitTypes {
  const char* weights;
  const char* kv;
  double error;  // about twice what is found
};

void PrintTo(const FewBitTypes& types, std::ostream* out) { *out << types.weights << types.kv; }

class FewBitsOfTypes : public FewBits, public ::testing::WithParamInterface<FewBitTypes> {};

TEST_P(FewBitsOfTypes, StayCloseToPyTorchInOnePassAndTokenByToken) {
  const FewBitTypes& types = GetParam();
  ASSERT_TRUE(ends(convert_speech({"--weights", types.weights, "--kv", types.kv, "--keep", "none",
                                   "--target", "all"}),
                   kDone, {"compared with float32 on 8 sequences"}));
  EXPECT_TRUE(ends(run_arenite({"verify", path("model.arn")}), kDone, {"sound"}));
  for (const Target target : test::targets_in_tests()) {
    const std::string kernels = kernel_set_name(target);
    ASSERT_TRUE(ends(run("speech", {"--kernels", kernels}), kDone));
    const std::string whole = read_bytes(path("y.npy"));
    const double error = error_of(path("y.npy"), "speech_e0.npy");
    EXPECT_LE(error, types.error) << kernels;
    EXPECT_GE(error, types.error / 10) << kernels;
    ASSERT_TRUE(ends(run("speech", {"--kernels", kernels, "--chunk", "1"}), kDone));
    EXPECT_EQ(read_bytes(path("y.npy")), whole) << kernels;
  }
}

TEST_P(FewBitsOfTypes, NeedExactlyThePlannedArena) {
  const FewBitTypes& types = GetParam();
  ASSERT_TRUE(ends(convert_speech({"--weights", types.weights, "--kv", types.kv}), kDone));
  const std::string bytes = read_bytes(path("model.arn"));
  convert::AlignedBytes file(bytes.size());
  std::ranges::copy(std::as_bytes(std::span(bytes)), file.data());
  const Model model = convert::load_best(file);
  const convert::ModelInput sequence = convert::sequence_to_check(model, 33);
  SessionOptions options = convert::options_for_functions(model, sequence.tokens_of_inputs(), 5);
  options.outputs = Outputs::kAll;
  const size_t needed = plan_arena(model, options)->total_bytes;
  convert::AlignedBytes arena(needed);
  EXPECT_EQ(Session::create(model, options, arena.span().first(needed - 1)).status(),
            Status::kArenaTooSmall);
  const Result<Session*> session = Session::create(model, options, arena.span());
  ASSERT_TRUE(session.ok());
  EXPECT_EQ(convert::run_functions(**session, model, sequence, 5, "speech").size(), 33u * 19);
}

INSTANTIATE_TEST_SUITE_P(, FewBitsOfTypes,
                         ::testing::Values(FewBitTypes{"f32", "int8", 0.01},
                                           FewBitTypes{"w8", "f32", 0.02},
                                           FewBitTypes{"q8", "f32", 0.03},
                                           FewBitTypes{"q8", "int8", 0.03},
                                           FewBitTypes{"q4", "int8", 0.3}),
                         [](const ::testing::TestParamInfo<FewBitTypes>& info) {
                           return std::string(info.param.weights) + "_kv_" + info.param.kv;
                         });

// ---- of all fixtures ----

struct FewBitModel {
  const char* name;
  double error;  // about twice what is found; weights of width 8 are far from Gaussian
  std::vector<std::string> options = {};
  std::vector<std::string> programs = {};  // .pt2; none: the one of this name
};

void PrintTo(const FewBitModel& fixture, std::ostream* out) { *out << fixture.name; }

class FewBitsOfFixtures : public FewBits, public ::testing::WithParamInterface<FewBitModel> {};

TEST_P(FewBitsOfFixtures, StayCloseToPyTorch) {
  const FewBitModel& fixture = GetParam();
  std::vector<std::string> words = {"convert", "-o",  path("model.arn"), "--weights", "q8",
                                    "--kv",    "int8"};
  for (const std::string& program : fixture.programs) words.push_back(fixture_file(program));
  if (fixture.programs.empty()) words.push_back(fixture_file(std::string(fixture.name) + ".pt2"));
  words.insert(words.end(), fixture.options.begin(), fixture.options.end());
  ASSERT_TRUE(ends(run_arenite(words), kDone));
  ASSERT_TRUE(ends(run(fixture.name), kDone));
  EXPECT_LE(error_of(path("y.npy"), std::string(fixture.name) + "_e0.npy"), fixture.error);
}

INSTANTIATE_TEST_SUITE_P(
    , FewBitsOfFixtures,
    ::testing::Values(FewBitModel{"t5", 0.15, {"--context", "24"}}, FewBitModel{"bart", 0.03},
                      FewBitModel{"marian", 0.05},
                      FewBitModel{"whisper", 0.03, {"--context", "14"}},

                      FewBitModel{"translation",
                                  0.06,
                                  {"--functions", "encode,step"},
                                  {"translation_encoder.pt2", "translation_decoder.pt2"}},
                      FewBitModel{"image_text", 0.05}, FewBitModel{"joined", 0.04},
                      FewBitModel{"pooled", 0.05}, FewBitModel{"similarity", 0.02}),
    [](const ::testing::TestParamInfo<FewBitModel>& info) { return std::string(info.param.name); });

// ---- calibration ----

TEST_F(FewBits, AreRoundedForAFileOfEachInput) {
  std::vector<std::string> words = {"--weights", "q4", "--keep", "none"};
  EXPECT_TRUE(
      ends(convert_speech(words), kDone,
           {"rounded to nearest: the model has 2 inputs, and there is no --calibrate FILE for each",
            "first is q8: its rows of 18 are not multiples of 32"}));
  const std::vector<std::string> files = calibration(10);
  words.insert(words.end(), files.begin(), files.end());
  EXPECT_TRUE(ends(convert_speech(words), kDone,
                   {"q4 by GPTQ: 8 matrices", "600 tokens in 10 sequences, 120 of the tokens held",
                    "2 sequences, 40 rows that were held out", "perplexity ", "mean KL "}));
  words[1] = "auto";
  words.insert(words.end(), {"--max-bytes", "30000"});
  EXPECT_TRUE(ends(convert_speech(words), kDone, {"chosen     words is q", "nats of KL for"}));
  EXPECT_LE(std::filesystem::file_size(path("model.arn")), 30000u);
}

TEST_F(FewBits, AreNotRoundedForFilesThatDoNotFitTheInputs) {
  const auto refused = [&](const std::vector<std::string>& files,
                           std::initializer_list<std::string_view> parts) {
    std::vector<std::string> words = {"--weights", "q8"};
    words.insert(words.end(), files.begin(), files.end());
    EXPECT_TRUE(ends(convert_speech(words), kBadInput, parts));
  };
  std::vector<std::string> files = calibration(1);
  refused(files, {"one sequence", "two or more"});
  refused({files[0], files[1]},
          {"found 1 for 2 of the model's inputs (mels, ids)", "one file for each"});
  files[3] = files[1];
  refused(files, {"mels.npy", "token ids"});
  EXPECT_FALSE(std::filesystem::exists(path("model.arn")));
}

// ---- the other commands ----

TEST_F(FewBits, AreRepackedInspectedReportedAndTimed) {
  ASSERT_TRUE(ends(convert_speech({"--weights", "q4", "--kv", "int8", "--name", "speech",
                                   "--target", "portable", "--report", path("page.html")}),
                   kDone));
  EXPECT_NE(read_bytes(path("page.html")).find("multihead_attn"), std::string::npos);
  EXPECT_TRUE(ends(run_arenite({"inspect", path("model.arn")}), kDone,
                   {"int8, as the file says", "step takes ids, sees mels", " q4 "}));
  EXPECT_TRUE(ends(run_arenite({"repack", path("model.arn"), "-o", path("repacked.arn"), "--target",
                                "portable,arm64"}),
                   kDone, {"self-test  passed"}));
  ASSERT_TRUE(ends(convert_speech({"--weights", "q4", "--kv", "int8", "--name", "speech",
                                   "--target", "portable,arm64"},
                                  "both.arn"),
                   kDone));
  EXPECT_EQ(read_bytes(path("repacked.arn")), read_bytes(path("both.arn")));

  const ProgramResult result =
      run_arenite({"bench", path("model.arn"), "--tokens", "9,40", "--prompt", "5", "--decode", "4",
                   "--at", "20", "--context", "30", "--seconds", "0.01", "--json"});
  ASSERT_TRUE(ends(result, kDone));
  const auto json = nlohmann::json::parse(result.output);
  EXPECT_EQ(json["tokens_seen"], 40);
  EXPECT_GT(json["peak_q4_gops"], 0.0);
  std::vector<std::string> tests;
  for (const auto& each : json["runs"]) {
    tests.push_back(each["test"]);
    const bool reads = each.contains("gbytes_per_s");
    EXPECT_GT(each[reads ? "gbytes_per_s" : "gflops"], 0.0);
    EXPECT_LE(each[reads ? "share_of_read" : "share_of_peak"], 1.0);
  }
  EXPECT_EQ(tests, (std::vector<std::string>{"encode 9", "encode 40", "step pp5", "step tg4",
                                             "step at 20"}));
}

}  // namespace
}  // namespace arenite::testing
