// SPDX-License-Identifier: Apache-2.0
// Several sequences in one session do not affect each other.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "runtime/session/session_fixture.h"
#include "support/random.h"

namespace arenite::test {
namespace {

class SessionBatch : public SessionTest {};
ARENITE_FOR_EACH_FLOAT_SET(SessionBatch);

constexpr uint32_t kBatchSequences = 4;
constexpr uint32_t kBatchTokens = 37;

// The rows that a sequence gives when it is alone.
std::vector<float> alone(const Model& model, std::span<const float> tokens) {
  const TestSession session(model, options_for(kSpecPositions));
  return session.run(tokens);
}

TEST_P(SessionBatch, SequencesOfOneLengthEqualThoseAlone) {
  for (const ModuleSpec& spec : all_specs()) {
    const TestModel model = load(spec);
    const TestSession session(*model, options_for(kSpecPositions, kBatchSequences));
    const std::vector<float> tokens = features(*model, kBatchSequences * kBatchTokens);
    const std::vector<float> found = session.run(tokens, kBatchSequences);
    for (uint32_t i = 0; i < kBatchSequences; ++i) {
      const auto part = rows(tokens, model->input_features(), i * kBatchTokens, kBatchTokens);
      ASSERT_TRUE(same_bits(rows(found, model->output_features(), i * kBatchTokens, kBatchTokens),
                            alone(*model, part)))
          << spec.name << i;
    }
  }
}

TEST_P(SessionBatch, SequencesOfDifferentLengthsEqualThoseAlone) {
  const uint32_t all_lengths[][kBatchSequences] = {
      {37, 1, 33, 8}, {0, 37, 0, 1}, {1, 2, 3, 4}, {31, 32, 33, 0}, {0, 0, 0, 5}};
  for (const ModuleSpec& spec : all_specs()) {
    const TestModel model = load(spec);
    const TestSession session(*model, options_for(kSpecPositions, kBatchSequences));
    const std::vector<float> tokens = features(*model, kBatchSequences * kBatchTokens);
    for (const auto& lengths : all_lengths) {
      const std::vector<float> found = session.run(tokens, kBatchSequences, lengths);
      size_t row = 0;
      for (uint32_t i = 0; i < kBatchSequences; ++i) {
        EXPECT_EQ(session->positions(i), lengths[i]);
        if (lengths[i] == 0) continue;
        const auto part = rows(tokens, model->input_features(), i * kBatchTokens, lengths[i]);
        ASSERT_TRUE(
            same_bits(rows(found, model->output_features(), row, lengths[i]), alone(*model, part)))
            << spec.name << i;
        row += lengths[i];
      }
      EXPECT_EQ(found.size(), row * model->output_features());
    }
  }
}

TEST_P(SessionBatch, DoesNotReadTheRowsBeyondALength) {
  const TestModel model = load("causal");
  const TestSession session(*model, options_for(kBatchTokens, 2));
  std::vector<float> tokens = features(*model, 2 * kBatchTokens);
  const uint32_t lengths[] = {3, kBatchTokens};
  const std::vector<float> found = session.run(tokens, 2, lengths);
  const size_t width = model->input_features();
  std::fill(tokens.begin() + static_cast<ptrdiff_t>(3 * width),
            tokens.begin() + static_cast<ptrdiff_t>(kBatchTokens * width), NAN);
  EXPECT_TRUE(same_bits(session.run(tokens, 2, lengths), found));
}

// Each sequence is fed in chunks of its own, with rewinds in between.
TEST_P(SessionBatch, SequencesAdvanceSeparately) {
  for (const char* const name : {"causal", "window", "strip", "documents", "head_masks", "wide"}) {
    const TestModel model = load(name);
    const TestSession session(*model, options_for(kSpecPositions, kBatchSequences));
    const uint32_t in = model->input_features();
    const uint32_t out = model->output_features();
    const std::vector<float> tokens = features(*model, kBatchSequences * kSpecPositions);
    std::vector<std::vector<float>> expected;
    for (uint32_t i = 0; i < kBatchSequences; ++i) {
      expected.push_back(alone(*model, rows(tokens, in, i * kSpecPositions, kSpecPositions)));
    }
    Random random(1);
    for (int turn = 0; turn < 40; ++turn) {
      constexpr uint32_t kChunk = 11;
      std::vector<float> batch(size_t{kBatchSequences} * kChunk * in);
      uint32_t lengths[kBatchSequences];
      uint32_t held[kBatchSequences];
      for (uint32_t i = 0; i < kBatchSequences; ++i) {
        held[i] = session->positions(i);
        if (held[i] == kSpecPositions || random.below(8) == 0) {
          held[i] = random.below(held[i] + 1);
          ASSERT_EQ(session->rewind(i, held[i]), Status::kOk);
        }
        lengths[i] = std::min(random.below(kChunk + 1), kSpecPositions - held[i]);
        const auto part = rows(tokens, in, i * kSpecPositions + held[i], lengths[i]);
        std::copy(part.begin(), part.end(), batch.begin() + i * kChunk * in);
      }
      if (std::ranges::count(lengths, 0u) == kBatchSequences) continue;
      const std::vector<float> found = session.step(batch, kBatchSequences, lengths);
      size_t row = 0;
      for (uint32_t i = 0; i < kBatchSequences; ++i) {
        ASSERT_EQ(session->positions(i), held[i] + lengths[i]);
        ASSERT_TRUE(same_bits(rows(found, out, row, lengths[i]),
                              rows(expected[i], out, held[i], lengths[i])))
            << name << turn;
        row += lengths[i];
      }
    }
  }
}

TEST_P(SessionBatch, StepsFewerSequencesThanTheSessionHolds) {
  const TestModel model = load("causal");
  const TestSession session(*model, options_for(20, 3));
  const std::vector<float> tokens = features(*model, 20);
  const size_t in = model->input_features();
  session.run(rows(tokens, in, 0, 15), 3);
  // Only sequence 0 goes on; the others keep what they have.
  session.step(rows(tokens, in, 5, 5));
  EXPECT_EQ(session->positions(0), 10u);
  EXPECT_EQ(session->positions(1), 5u);
  EXPECT_EQ(session->positions(2), 5u);
}

// A non-causal sequence that holds nothing may begin while another rests.
TEST_P(SessionBatch, NonCausalSequencesBeginSeparately) {
  const TestModel model = load("bidirectional");
  const TestSession session(*model, options_for(kBatchTokens, 2));
  const std::vector<float> tokens = features(*model, 2 * kBatchTokens);
  const uint32_t first[] = {kBatchTokens, 0};
  const uint32_t second[] = {0, 5};
  session.run(tokens, 2, first);
  const std::vector<float> found = session.step(tokens, 2, second);
  EXPECT_TRUE(
      same_bits(found, alone(*model, rows(tokens, model->input_features(), kBatchTokens, 5))));
  EXPECT_EQ(session->positions(0), kBatchTokens);
}

TEST_P(SessionBatch, NaNStaysInItsSequence) {
  for (const ModuleSpec& spec : all_specs()) {
    const TestModel model = load(spec);
    const TestSession session(*model, options_for(kBatchTokens, 3));
    const std::vector<float> sound = features(*model, 3 * kBatchTokens);
    const std::vector<float> expected = session.run(sound, 3);
    const size_t in = model->input_features();
    const size_t out = model->output_features();
    for (const float value : {NAN, INFINITY, -INFINITY, 3e38f}) {
      std::vector<float> tokens = sound;
      std::fill_n(tokens.begin() + static_cast<ptrdiff_t>(kBatchTokens * in), kBatchTokens * in,
                  value);
      const std::vector<float> found = session.run(tokens, 3);
      for (const size_t i : {size_t{0}, size_t{2}}) {
        ASSERT_TRUE(same_bits(rows(found, out, i * kBatchTokens, kBatchTokens),
                              rows(expected, out, i * kBatchTokens, kBatchTokens)))
            << spec.name << value;
      }
      // The value has no effect after its tokens are rewound.
      ASSERT_EQ(session->rewind(1, 0), Status::kOk);
      const uint32_t lengths[] = {0, kBatchTokens, 0};
      ASSERT_TRUE(same_bits(session.step(sound, 3, lengths),
                            rows(expected, out, kBatchTokens, kBatchTokens)))
          << spec.name << value;
    }
  }
}

// Token by token, what came before a bad value is not touched by it, and a rewind forgets it.
TEST_P(SessionBatch, RewindForgetsNaN) {
  for (const char* const name : {"causal", "window", "strip", "documents", "head_masks", "wide"}) {
    const TestModel model = load(name);
    const TestSession session(*model, options_for(kBatchTokens));
    const std::vector<float> tokens = features(*model, kBatchTokens);
    const std::vector<float> bad(5 * model->input_features(), NAN);
    const std::vector<float> expected = session.run(tokens);
    for (const uint32_t keep : {1u, 7u, 31u, 32u}) {
      session.run(rows(tokens, model->input_features(), 0, keep));
      session.step(bad);
      ASSERT_EQ(session->rewind(0, keep), Status::kOk);
      const size_t rest = kBatchTokens - keep;
      ASSERT_TRUE(same_bits(session.step(rows(tokens, model->input_features(), keep, rest)),
                            rows(expected, model->output_features(), keep, rest)))
          << name << keep;
    }
  }
}

}  // namespace
}  // namespace arenite::test
