// SPDX-License-Identifier: Apache-2.0
// Compares randomly initialised decoders with transformers on every kernel set: hidden states and
// logits. All chunk sizes of the prompt give the same bits.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>

#include "convert/files/npy.h"
#include "golden/decoder_case.h"
#include "support/compare.h"
#include "support/kernel_sets.h"
#include "support/transformers_cases.h"

namespace arenite::test {
namespace {

// Share of the largest value.
constexpr double kDecoderError = 2e-5;

using arenite::testing::kDecoderCases;
using arenite::testing::TransformersCase;
using Parameter = std::tuple<TransformersCase, Target>;

std::string case_and_set(const ::testing::TestParamInfo<Parameter>& info) {
  return test_name(std::get<0>(info.param)) + "_" + kernel_set_name(std::get<1>(info.param));
}

class DecoderGolden : public ::testing::TestWithParam<Parameter> {
 protected:
  void SetUp() override {
    folder_ = std::get<0>(GetParam()).folder("decoders");
    if (!std::get<0>(GetParam()).is_own) {
      ARENITE_NEEDS_DATA(folder_);
    }
    const convert::NpyArray array = convert::NpyArray::read(folder_ / "input_ids.npy");
    for (const int64_t id : array.to_i64()) ids_.push_back(static_cast<TokenId>(id));
    sequences_ = static_cast<size_t>(array.shape()[0]);
    tokens_ = static_cast<size_t>(array.shape()[1]);
  }

  Target target() const { return std::get<1>(GetParam()); }
  std::span<const TokenId> sequence(size_t index) const {
    return std::span(ids_).subspan(index * tokens_, tokens_);
  }
  std::vector<double> expected(const char* file) const {
    return convert::NpyArray::read(folder_ / file).to_f64();
  }

  std::filesystem::path folder_;
  std::vector<TokenId> ids_;  // [sequences, tokens]
  size_t sequences_ = 0;
  size_t tokens_ = 0;
};
INSTANTIATE_TEST_SUITE_P(Transformers, DecoderGolden,
                         ::testing::Combine(::testing::ValuesIn(kDecoderCases),
                                            ::testing::ValuesIn(float_targets_in_tests())),
                         case_and_set);

::testing::AssertionResult near(std::span<const float> found, std::span<const double> expected) {
  double largest = 0.0;
  for (const double value : expected) largest = std::max(largest, std::abs(value));
  return all_near(found, expected, kDecoderError * largest);
}

TEST_P(DecoderGolden, GivesTheLogitsAndHiddenStatesOfTransformers) {
  const DecoderCase decoder(folder_, target());
  const std::vector<double> logits = expected("logits.npy");
  const std::vector<double> states = expected("hidden_states.npy");
  const size_t logits_each = logits.size() / sequences_;
  const size_t state_each = states.size() / sequences_ / decoder.model().hidden_states();
  for (size_t s = 0; s < sequences_; ++s) {
    const DecoderRun run =
        run_in_chunks(decoder.model(), sequence(s), static_cast<uint32_t>(tokens_));
    EXPECT_TRUE(near(run.logits, std::span(logits).subspan(s * logits_each, logits_each)));
    for (size_t i = 0; i < run.hidden_states.size(); ++i) {
      EXPECT_TRUE(near(run.hidden_states[i],
                       std::span(states).subspan((i * sequences_ + s) * state_each, state_each)))
          << "state " << i;
    }
  }
}

TEST_P(DecoderGolden, GivesTheSameBitsHoweverThePromptIsCut) {
  const DecoderCase decoder(folder_, target());
  const DecoderRun whole =
      run_in_chunks(decoder.model(), sequence(0), static_cast<uint32_t>(tokens_));
  for (const uint32_t chunk : {1u, 3u, 8u}) {
    const DecoderRun cut = run_in_chunks(decoder.model(), sequence(0), chunk);
    EXPECT_TRUE(same_bits(cut.logits, whole.logits)) << chunk;
    for (size_t i = 0; i < whole.hidden_states.size(); ++i) {
      EXPECT_TRUE(same_bits(cut.hidden_states[i], whole.hidden_states[i])) << chunk << ", " << i;
    }
  }
}

TEST_P(DecoderGolden, ContinuesThePromptAsTransformersDid) {
  const DecoderCase decoder(folder_, target());
  const auto ids = read_json(folder_ / "greedy.json").get<std::vector<TokenId>>();
  ASSERT_GT(ids.size(), tokens_);
  const std::vector<TokenId> prompt(ids.begin(), ids.begin() + static_cast<ptrdiff_t>(tokens_));
  EXPECT_EQ(continue_greedily(decoder.model(), prompt, ids.size()), ids);
}

}  // namespace
}  // namespace arenite::test
