// SPDX-License-Identifier: Apache-2.0
// Tests run, step, rewind and reset, for one sequence and for several.
#include <gtest/gtest.h>

#include "runtime/session/session_fixture.h"
#include "support/reference_models.h"

namespace arenite::test {
namespace {

class SessionRun : public SessionTest {};
ARENITE_FOR_EACH_FLOAT_SET(SessionRun);

// The modules have weights that keep values near 1, and no sum is longer than 300 products.
constexpr double kModuleTolerance = 300 * 8 * kRounding;

TEST_P(SessionRun, AgreesWithTheReferenceForEveryModuleAtEveryLength) {
  for (const ModuleSpec& spec : all_specs()) {
    const TestModel model = load(spec);
    const TestSession session(*model, options_for(kSpecPositions));
    const std::vector<float> tokens = features(*model, kSpecPositions);
    for (uint32_t count = 1; count <= kSpecPositions; count += count < 18 ? 1 : 13) {
      const auto part = rows(tokens, model->input_features(), 0, count);
      Diagnostic why;
      const Result<Output> output = session->run({part, 1, count, {}}, &why);
      // A prefix longer than the sequence is still seen as far as it goes.
      ASSERT_TRUE(output.ok()) << spec.name << count << describe(output.status(), why);
      EXPECT_EQ(output->rows, count);
      EXPECT_EQ(output->features, model->output_features());
      const std::vector<double> expected = reference_module(make_module(spec), part).values;
      ASSERT_TRUE(all_near(values_of(output), expected, kModuleTolerance)) << spec.name << count;
    }
  }
}

TEST_P(SessionRun, PutsOutOneRowPerToken) {
  const TestModel model = load("wide");
  const TestSession session(*model, options_for(9));
  const std::vector<float> tokens = features(*model, 9);
  const Result<Output> output = session->run({tokens, 1, 9, {}});
  ASSERT_TRUE(output.ok());
  ASSERT_EQ(output->rows, 9u);
  for (uint32_t row = 0; row < output->rows; ++row) {
    EXPECT_EQ(output->row(row).data(), output->data + row * output->features);
    EXPECT_EQ(output->row(row).size(), model->output_features());
  }
}

TEST_P(SessionRun, StartsAnewEachTime) {
  const TestModel model = load("causal");
  const TestSession session(*model, options_for(20));
  const std::vector<float> tokens = features(*model, 12);
  const std::vector<float> first = session.run(tokens);
  EXPECT_EQ(session->positions(), 12u);
  EXPECT_TRUE(same_bits(session.run(tokens), first));
  EXPECT_EQ(session->positions(), 12u);
}

TEST_P(SessionRun, StepsAppend) {
  const TestModel model = load("causal");
  const TestSession session(*model, options_for(20));
  const std::vector<float> tokens = features(*model, 20);
  const std::vector<float> all = session.run(tokens);
  const size_t in = model->input_features();
  const size_t out = model->output_features();
  EXPECT_TRUE(same_bits(session.run(rows(tokens, in, 0, 12)), rows(all, out, 0, 12)));
  EXPECT_TRUE(same_bits(session.step(rows(tokens, in, 12, 3)), rows(all, out, 12, 3)));
  EXPECT_EQ(session->positions(), 15u);
  // The short form of step feeds sequence 0.
  EXPECT_TRUE(same_bits(values_of(session->step(rows(tokens, in, 15, 5))), rows(all, out, 15, 5)));
  EXPECT_EQ(session->positions(), 20u);
}

TEST_P(SessionRun, RewindForgetsTheRest) {
  for (const char* const name : {"causal", "window", "strip", "documents", "head_masks"}) {
    const TestModel model = load(name);
    const TestSession session(*model, options_for(kSpecPositions));
    const std::vector<float> tokens = features(*model, kSpecPositions);
    const std::vector<float> other = features(*model, kSpecPositions, 8);
    const size_t in = model->input_features();
    const std::vector<float> all = session.run(tokens);
    for (const uint32_t keep : {kSpecPositions, 69u, 33u, 32u, 31u, 1u, 0u}) {
      session.run(tokens);
      ASSERT_EQ(session->rewind(0, keep), Status::kOk);
      EXPECT_EQ(session->positions(), keep);
      if (keep == kSpecPositions) continue;
      // Forgotten positions are overwritten, then rewound again; their values must not show.
      session.step(rows(other, in, keep, kSpecPositions - keep));
      ASSERT_EQ(session->rewind(0, keep), Status::kOk);
      const size_t count = kSpecPositions - keep;
      ASSERT_TRUE(same_bits(session.step(rows(tokens, in, keep, count)),
                            rows(all, model->output_features(), keep, count)))
          << name << keep;
    }
  }
}

// The caller may change results in place, such as adding a bias to logits before sampling.
TEST_P(SessionRun, ResultsThatTheCallerChangesChangeNothingElse) {
  const TestModel model = load("causal");
  const std::vector<float> tokens = features(*model, 6);
  const TestSession session(*model, options_for(6));
  const std::vector<float> expected = TestSession(*model, options_for(6)).run(tokens);
  const size_t in = model->input_features();
  for (uint32_t token = 0; token < 6; ++token) {
    Result<Output> output = session->step(rows(tokens, in, token, 1));
    ASSERT_TRUE(output.ok());
    const std::span<float> row = output->row(0);
    EXPECT_TRUE(same_bits(row, rows(expected, row.size(), token, 1)));
    std::ranges::fill(row, NAN);
    output->rows = 0;  // the result itself is the caller's, too
  }
}

TEST_P(SessionRun, RewindRefusesPositionsThatAreNotHeld) {
  const TestModel model = load("causal");
  const TestSession session(*model, options_for(20, 2));
  session.run(features(*model, 12));
  Diagnostic why;
  EXPECT_EQ(session->rewind(0, 13, &why), Status::kInvalidArgument);
  EXPECT_EQ(why.found, 13u);
  EXPECT_EQ(why.expected, 12u);
  EXPECT_STREQ(why.field, "positions");
  EXPECT_EQ(session->rewind(1, 1), Status::kInvalidArgument);
  EXPECT_EQ(session->rewind(2, 0, &why), Status::kInvalidArgument);
  EXPECT_EQ(why.found, 2u);
  EXPECT_EQ(why.expected, 1u);
  EXPECT_STREQ(why.field, "sequence");
  EXPECT_EQ(session->rewind(UINT32_MAX, 0), Status::kInvalidArgument);
  EXPECT_EQ(session->positions(0), 12u);
  EXPECT_EQ(session->positions(1), 0u);
  EXPECT_EQ(session->rewind(1, 0), Status::kOk);
}

TEST_P(SessionRun, ResetForgetsAllSequences) {
  const TestModel model = load("causal");
  const TestSession session(*model, options_for(20, 3));
  const std::vector<float> tokens = features(*model, 3 * 7);
  const std::vector<float> first = session.run(tokens, 3);
  session->reset();
  for (uint32_t i = 0; i < 3; ++i) EXPECT_EQ(session->positions(i), 0u);
  EXPECT_TRUE(same_bits(session.step(tokens, 3), first));
}

TEST_P(SessionRun, RunForgetsSequencesThatAreNotInTheBatch) {
  const TestModel model = load("causal");
  const TestSession session(*model, options_for(20, 3));
  session.run(features(*model, 3 * 7), 3);
  session.run(features(*model, 2), 1);
  EXPECT_EQ(session->positions(0), 2u);
  EXPECT_EQ(session->positions(1), 0u);
  EXPECT_EQ(session->positions(2), 0u);
}

TEST_P(SessionRun, FeedsANonCausalModelAnewAfterReset) {
  for (const char* const name : {"bidirectional", "prefix", "separate_inputs"}) {
    const TestModel model = load(name);
    EXPECT_FALSE(model->causal());
    const TestSession session(*model, options_for(20));
    const std::vector<float> tokens = features(*model, 12);
    const std::vector<float> first = session.run(tokens);
    session->reset();
    EXPECT_TRUE(same_bits(session.step(tokens), first));
    ASSERT_EQ(session->rewind(0, 0), Status::kOk);
    EXPECT_TRUE(same_bits(session.step(tokens), first));
  }
}

TEST_P(SessionRun, TellsTheProfilerEachOpOnceInOrder) {
  struct Log {
    std::vector<int> events;  // op + 1 when it begins, -(op + 1) when it ends
  } log;
  const TestModel model = load("head_masks");
  SessionOptions options = options_for(8);
  options.profile = {[](void* context, uint32_t op) {
                       static_cast<Log*>(context)->events.push_back(static_cast<int>(op) + 1);
                     },
                     [](void* context, uint32_t op) {
                       static_cast<Log*>(context)->events.push_back(-static_cast<int>(op) - 1);
                     },
                     &log};
  const TestSession session(*model, options);
  EXPECT_TRUE(log.events.empty());
  session.run(features(*model, 4));
  // qkv, three runs of heads with the same mask, output.
  const std::vector<int> expected = {1, -1, 2, -2, 3, -3, 4, -4, 5, -5};
  EXPECT_EQ(log.events, expected);
  log.events.clear();
  EXPECT_FALSE(session->run(Batch{}).ok());
  EXPECT_TRUE(log.events.empty()) << "a refused call runs nothing";
  session.step(features(*model, 1));
  EXPECT_EQ(log.events, expected);
}

}  // namespace
}  // namespace arenite::test
