// SPDX-License-Identifier: Apache-2.0
// Compares checkpoints with PyTorch's outputs on every kernel set, and checks that every way of
// feeding the tokens gives the same bits.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <tuple>

#include "golden/golden_case.h"
#include "support/compare.h"
#include "support/kernel_sets.h"
#include "support/pool.h"
#include "support/slow_builds.h"
#include "support/test_data.h"
#include "support/test_session.h"
#include "support/transformers_cases.h"

namespace arenite::test {
namespace {

std::string case_and_set(const ::testing::TestParamInfo<std::tuple<GoldenCase, Target>>& info) {
  std::string name = std::get<0>(info.param).name;
  std::ranges::replace(name, '-', '_');
  return name + "_" + kernel_set_name(std::get<1>(info.param));
}

class Golden : public ::testing::TestWithParam<std::tuple<GoldenCase, Target>> {
 protected:
  void SetUp() override {
    const GoldenCase& golden = std::get<0>(GetParam());
    ARENITE_NEEDS_DATA(case_folder(golden.name));
    golden_ = read_case(golden, target());
  }

  Target target() const { return std::get<1>(GetParam()); }
  SessionOptions options(uint32_t sequences_max = 1) const {
    return options_for(golden_.tokens, sequences_max);
  }
  std::span<const float> sequence(uint32_t index) const {
    const size_t count = size_t{golden_.tokens} * golden_.input_features;
    return std::span(golden_.input).subspan(index * count, count);
  }
  // All sequences, one after the other through one session.
  std::vector<float> one_by_one(const Model& model) const {
    const TestSession session(model, options());
    std::vector<float> all;
    for (uint32_t i = 0; i < golden_.sequences; ++i) {
      const std::vector<float> part = session.run(sequence(i));
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }

  GoldenModel golden_;
};
INSTANTIATE_TEST_SUITE_P(Data, Golden,
                         ::testing::Combine(::testing::ValuesIn(kDataCases),
                                            ::testing::ValuesIn(float_targets_in_tests())),
                         case_and_set);
INSTANTIATE_TEST_SUITE_P(Own, Golden,
                         ::testing::Combine(::testing::ValuesIn(kOwnCases),
                                            ::testing::ValuesIn(float_targets_in_tests())),
                         case_and_set);

// Tests of causal models, whose tokens see no later ones.
class CausalGolden : public Golden {
 protected:
  // The first tokens of the first sequence; all of them but in an emulator.
  uint32_t tokens() const { return kEmulated ? std::min(golden_.tokens, 70u) : golden_.tokens; }
  std::span<const float> first(uint32_t count) const {
    return sequence(0).first(size_t{count} * golden_.input_features);
  }
};

std::vector<GoldenCase> causal_ones(std::vector<GoldenCase> cases) {
  std::erase_if(cases, [](const GoldenCase& golden) { return !golden.is_causal; });
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Data, CausalGolden,
                         ::testing::Combine(::testing::ValuesIn(causal_ones(kDataCases)),
                                            ::testing::ValuesIn(float_targets_in_tests())),
                         case_and_set);
INSTANTIATE_TEST_SUITE_P(Own, CausalGolden,
                         ::testing::Combine(::testing::ValuesIn(causal_ones(kOwnCases)),
                                            ::testing::ValuesIn(float_targets_in_tests())),
                         case_and_set);

TEST_P(Golden, AgreesWithTheReference) {
  const TestModel model(golden_.file.span(), target());
  EXPECT_EQ(model->causal(), golden_.causal);
  EXPECT_EQ(model->causal(), std::get<0>(GetParam()).is_causal) << "as the table of cases says";
  EXPECT_EQ(model->input_features(), golden_.input_features);
  EXPECT_EQ(model->output_features(), golden_.output_features);
  const std::vector<double> expected(golden_.output.begin(), golden_.output.end());
  EXPECT_TRUE(all_near(one_by_one(*model), expected, std::get<0>(GetParam()).tolerance));
}

TEST_P(Golden, GivesTheSameBitsInABatchAndOnTwoThreads) {
  const TestModel model(golden_.file.span(), target());
  const std::vector<float> expected = one_by_one(*model);
  Pool pool(2);
  SessionOptions threaded = options(golden_.sequences);
  threaded.parallel = pool.parallel_for();
  std::vector<SessionOptions> ways = {options(golden_.sequences), threaded};
  if (kEmulated) ways.erase(ways.begin());
  for (const SessionOptions& batched : ways) {
    const TestSession session(*model, batched);
    EXPECT_TRUE(same_bits(session.run(golden_.input, golden_.sequences), expected))
        << batched.parallel.threads << " threads";
  }
}

TEST_P(CausalGolden, GivesTheSameBitsTokenByToken) {
  const TestModel model(golden_.file.span(), target());
  const TestSession session(*model, options());
  const std::vector<float> expected = session.run(first(tokens()));
  session->reset();
  EXPECT_TRUE(same_bits(session.steps_of(1, first(tokens())), expected));
}

TEST_P(CausalGolden, GivesTheFirstRowsForTheFirstTokens) {
  const TestModel model(golden_.file.span(), target());
  const TestSession session(*model, options());
  const std::vector<float> all = session.run(first(tokens()));
  for (const uint32_t count : {1u, tokens() / 2, tokens() - 1}) {
    const std::vector<float> part = session.run(first(count));
    ASSERT_TRUE(same_bits(part, std::span(all).first(part.size()))) << count << " tokens";
  }
}

TEST(GoldenData, CasesOfTransformersAreAllTested) {
  namespace fs = std::filesystem;
  const auto names_below = [](const fs::path& folder) {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename());
    return names;
  };
  const fs::path own = testing::project_folder() / "tests/golden/data";
  std::set<std::string> decoders, encoders;
  for (const auto& model : arenite::testing::kDecoderCases) {
    if (model.is_own) decoders.insert(model.name);
  }
  for (const auto& model : arenite::testing::kEncoderCases) {
    if (model.is_own) encoders.insert(model.name);
  }
  EXPECT_EQ(names_below(own / "decoders"), decoders);
  EXPECT_EQ(names_below(own / "encoders"), encoders);
}

TEST(GoldenData, AttentionCasesAreAllTested) {
  const std::filesystem::path folder = data_folder() / "goldens";
  ARENITE_NEEDS_DATA(folder);
  std::set<std::string> known;
  for (const GoldenCase& golden : kDataCases) known.insert(golden.name);
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    if (name.starts_with("seed")) {
      EXPECT_EQ(known.count(name), 1u) << name;
    }
  }
}

}  // namespace
}  // namespace arenite::test
