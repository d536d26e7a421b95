// SPDX-License-Identifier: Apache-2.0
// Tests sessions on integer rows, as in firmware for CPUs without an FPU: this program links those
// sources of the runtime in place of the library's.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>

#include "convert/files/npy.h"
#include "golden/converted.h"
#include "golden/decoder_case.h"
#include "support/slow_builds.h"
#include "support/test_data.h"

namespace arenite::test {
namespace {

std::filesystem::path models() { return testing::project_folder() / "models"; }

// Returns the vibration model in q8, packed for every CPU.
const TestModel& vibration() {
  static const convert::AlignedBytes file =
      converted("few_bits", models() / "vibration", {"portable", "q8", "rounded"});
  static const TestModel model(file.span(), Target::kPortable);
  return model;
}
const DecoderCase& commands() {
  static const convert::AlignedBytes file =
      converted("few_bits", models() / "home-intent", {"portable", "q8", "rounded"});
  static const DecoderCase decoder(file.span(), Target::kPortable);
  return decoder;
}

SessionOptions options_with(KvType caches, uint32_t positions, uint32_t sequences = 1) {
  SessionOptions options = options_for(positions, sequences);
  options.kv_cache = caches;
  return options;
}

std::vector<float> floats_of(const char* file) {
  const std::vector<double> numbers =
      convert::NpyArray::read(models() / "vibration" / file).to_f64();
  return {numbers.begin(), numbers.end()};
}

class IntegerRows : public ::testing::TestWithParam<KvType> {};
INSTANTIATE_TEST_SUITE_P(Caches, IntegerRows, ::testing::Values(KvType::kF32, KvType::kInt8),
                         [](const auto& info) {
                           return info.param == KvType::kF32 ? "f32" : "int8";
                         });

// Tolerates the difference from PyTorch's logits that rounding to int8 also causes in float builds.
TEST_P(IntegerRows, StayCloseToTheLogitsOfPyTorch) {
  constexpr uint32_t kWindows = 5;
  const TestSession session(*vibration(), options_with(GetParam(), 64, kWindows));
  const std::vector<float> logits = session.run(floats_of("input.npy"), kWindows);
  const std::vector<float> expected = floats_of("expected_logits.npy");
  ASSERT_EQ(logits.size(), expected.size());
  for (size_t i = 0; i < logits.size(); ++i) EXPECT_NEAR(logits[i], expected[i], 0.1);
}

TEST_P(IntegerRows, HaveTheSameBitsStepByStepAndInSlices) {
  constexpr uint32_t kTokens = 21;
  std::vector<TokenId> ids;
  for (uint32_t i = 0; i < kTokens; ++i) ids.push_back(i * 37 % 400);
  SessionOptions options = options_with(GetParam(), kTokens);
  options.outputs = Outputs::kAll;
  const TestSession session(commands().model(), options);
  const std::vector<float> at_once = session.run(ids);
  session->reset();
  EXPECT_EQ(session.steps_of(1, ids), at_once);
  session->reset();
  ASSERT_EQ(session->begin_step(TokenBatch{ids, 1, kTokens}), Status::kOk);
  Diagnostic why;
  while (true) {
    const Result<uint32_t> left = session->advance(60'000, &why);
    ASSERT_TRUE(left.ok()) << describe(left.status(), why);
    if (*left == 0) break;
  }
  EXPECT_EQ(values_of(session->output(), why), at_once);
}

TEST_P(IntegerRows, AnswerCommands) {
  std::ifstream file(models() / "home-intent" / "held_out.tsv");
  const Tokenizer tokenizer = *Tokenizer::of(commands().model());
  const TestSession session(commands().model(), options_with(GetParam(), 128));
  size_t number = 0, asked = 0, right = 0;
  for (std::string line; std::getline(file, line); ++number) {
    if (number % 100 != 0) continue;
    const size_t tab = line.find('\t');
    std::vector<TokenId> ids = commands().encode(line.substr(0, tab));
    ids.push_back(tokenizer.find_special("<|do|>"));
    std::vector<TokenId> answer = commands().encode(line.substr(tab + 1));
    answer.push_back(tokenizer.end());
    session->reset();
    bool is_right = true;
    for (const TokenId expected : answer) {
      Diagnostic why;
      const TokenId best = best_token(values_of(session->step(ids, &why), why));
      is_right = is_right && best == expected;
      ids = {expected};
    }
    ++asked;
    right += is_right ? 1 : 0;
  }
  EXPECT_EQ(asked, 40u);
  EXPECT_GE(right, 39u);
}

TEST_P(IntegerRows, BecomeNaNWhereTheyMeetNaN) {
  std::vector<float> features = floats_of("input.npy");
  features[5 * 16 + 3] = std::numeric_limits<float>::quiet_NaN();
  const TestSession session(*vibration(), options_with(GetParam(), 64, 5));
  const std::vector<float> logits = session.run(features, 5);
  for (size_t i = 0; i < logits.size(); ++i) EXPECT_EQ(std::isnan(logits[i]), i < 5) << i;
}

TEST(IntegerRowsOfAnyFile, RefuseTheSelfTestOfFloats) {
  const TestSession session(*vibration(), options_for(64));
  EXPECT_EQ(session->self_test().status(), Status::kUnsupported);
}

}  // namespace
}  // namespace arenite::test
