// SPDX-License-Identifier: Apache-2.0
// Tests rewinding of decoders, and how far ring buffers allow it.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "runtime/session/decoder_fixture.h"
#include "support/slow_builds.h"

namespace arenite::test {
namespace {

class DecoderRewind : public DecoderTest {};
ARENITE_FOR_EACH_FLOAT_SET(DecoderRewind);

TEST_P(DecoderRewind, ForgetsTheRest) {
  for (const DecoderShape& shape : thinned(all_decoders(), 2)) {
    const TestModel model = load(shape);
    const TestSession session(*model, all_outputs(options_for(kDecoderPositions)));
    const std::vector<TokenId> tokens = ids(*model, kDecoderPositions);
    const std::vector<TokenId> other = ids(*model, kDecoderPositions, 6);
    const std::vector<float> all = session.run(tokens);
    for (const uint32_t keep : thinned({69u, 33u, 32u, 31u, 1u, 0u}, 4)) {
      session.run(tokens);
      ASSERT_EQ(session->rewind(0, keep), Status::kOk);
      EXPECT_EQ(session->positions(), keep);
      const uint32_t count = kDecoderPositions - keep;
      session.step(part(other, keep, count));
      ASSERT_EQ(session->rewind(0, keep), Status::kOk);
      ASSERT_TRUE(same_bits(session.step(part(tokens, keep, count)),
                            rows(all, model->output_features(), keep, count)))
          << shape.name << keep;
    }
  }
}

// With windows of 100 tokens and 37 a call, a ring holds two pages.
class RingRewind : public DecoderRewind {
 protected:
  static constexpr uint32_t kBehind = 99, kChunk = 37, kRing = 2 * kPagePositions;
  static constexpr uint32_t kHeld = kEmulated ? 1200 : 2000;

  virtual DecoderShape decoder() const { return ring_decoder(); }
  void SetUp() override {
    model_.emplace(load(decoder()));
    tokens_ = ids(**model_, kRingDecoderPositions);
    const TestSession whole(**model_, all_outputs(options_for(kRingDecoderPositions)));
    all_ = whole.run(tokens_);
    SessionOptions options = all_outputs(options_for(kRingDecoderPositions));
    options.tokens_max = kChunk;
    session_.emplace(**model_, options);
  }
  void feed_to(uint32_t positions) {
    const uint32_t held = (*session_)->positions();
    session_->steps_of(kChunk, part(tokens_, held, positions - held));
  }
  // Whether the next tokens give the bits of one pass.
  void expect_as_in_one_pass(uint32_t count) {
    const uint32_t held = (*session_)->positions();
    ASSERT_TRUE(same_bits(session_->steps_of(kChunk, part(tokens_, held, count)),
                          rows(all_, (*model_)->output_features(), held, count)))
        << "from " << held;
  }

  std::optional<TestModel> model_;
  std::optional<TestSession> session_;
  std::vector<TokenId> tokens_;
  std::vector<float> all_;
};
ARENITE_FOR_EACH_FLOAT_SET(RingRewind);

TEST_P(RingRewind, ReachesAsFarAsTheRingHoldsTheWindow) {
  constexpr uint32_t kFirst = kHeld - kRing + kBehind;  // sees the oldest position that is held
  feed_to(kHeld);
  for (const uint32_t keep : {1u, std::min(kPagePositions, kFirst / 2), kFirst - 1}) {
    EXPECT_EQ((*session_)->rewind(0, keep), Status::kInvalidArgument) << keep;
    EXPECT_EQ((*session_)->positions(), kHeld) << "a refused call changes nothing";
  }
  for (const uint32_t keep : {kHeld, kHeld - 1, kFirst + 100, kFirst}) {
    ASSERT_EQ((*session_)->rewind(0, keep), Status::kOk) << keep;
    if (keep != kFirst) continue;
    expect_as_in_one_pass(300);
  }
}

// Positions that were overwritten before a rewind stay lost, however few are held after it.
TEST_P(RingRewind, RefusesOverwrittenPositions) {
  constexpr uint32_t kFirst = kHeld - kRing + kBehind;
  feed_to(kHeld);
  ASSERT_EQ((*session_)->rewind(0, kFirst), Status::kOk);
  EXPECT_EQ((*session_)->rewind(0, kFirst - 1), Status::kInvalidArgument);
  expect_as_in_one_pass(40);
  EXPECT_EQ((*session_)->rewind(0, kFirst - 1), Status::kInvalidArgument);
  ASSERT_EQ((*session_)->rewind(0, kFirst), Status::kOk);
  expect_as_in_one_pass(800);
}

TEST_P(RingRewind, AlwaysReachesTheStart) {
  feed_to(kHeld);
  ASSERT_EQ((*session_)->rewind(0, 0), Status::kOk);
  expect_as_in_one_pass(50);
  ASSERT_EQ((*session_)->rewind(0, 1), Status::kOk) << "what was forgotten does not count";
  expect_as_in_one_pass(1200);
  (*session_)->reset();
  expect_as_in_one_pass(50);
  ASSERT_EQ((*session_)->rewind(0, 1), Status::kOk) << "what a reset forgot does not count";
  expect_as_in_one_pass(100);
}

// A ring that was never overwritten rewinds like any other cache.
TEST_P(RingRewind, ReachesAnyPositionUntilTheRingIsFull) {
  feed_to(kRing);
  for (const uint32_t keep : {kRing - 1, kPagePositions, 5u}) {
    ASSERT_EQ((*session_)->rewind(0, keep), Status::kOk) << keep;
  }
  expect_as_in_one_pass(200);
  feed_to(kRing + 1);
  EXPECT_EQ((*session_)->rewind(0, kBehind), Status::kInvalidArgument);
  EXPECT_EQ((*session_)->rewind(0, kBehind + 1), Status::kOk);
  expect_as_in_one_pass(100);
}

// The rows after the last position written took the place of the oldest.
class Int8RingRewind : public RingRewind {
 protected:
  DecoderShape decoder() const override { return int8_ring_decoder(); }
};
ARENITE_FOR_EACH_FLOAT_SET(Int8RingRewind);

TEST_P(Int8RingRewind, ReachesAFewTokensLessFar) {
  constexpr uint32_t kFirst = kHeld - kRing + kBehind + CacheLayout::kOneRows;
  feed_to(kHeld);
  EXPECT_EQ((*session_)->rewind(0, kFirst - 1), Status::kInvalidArgument);
  for (const uint32_t keep : thinned({kHeld - 1, kFirst + 100, kFirst}, 2)) {
    ASSERT_EQ((*session_)->rewind(0, keep), Status::kOk) << keep;
    expect_as_in_one_pass(kHeld - keep);
  }
  EXPECT_EQ((*session_)->rewind(0, kFirst - 1), Status::kInvalidArgument);
  ASSERT_EQ((*session_)->rewind(0, kFirst), Status::kOk);
  expect_as_in_one_pass(800);
}

TEST_P(Int8RingRewind, ReachesAnyPositionUntilTheRingIsFull) {
  feed_to(kRing);
  for (const uint32_t keep : {kRing - 1, kPagePositions, 5u}) {
    ASSERT_EQ((*session_)->rewind(0, keep), Status::kOk) << keep;
  }
  expect_as_in_one_pass(1200);
}

TEST_P(RingRewind, RefusesPositionsThatAreNotHeld) {
  feed_to(12);
  EXPECT_EQ((*session_)->rewind(0, 13), Status::kInvalidArgument);
  EXPECT_EQ((*session_)->rewind(1, 0), Status::kInvalidArgument);
  Diagnostic why;
  EXPECT_EQ((*session_)->rewind(2, 0, &why), Status::kInvalidArgument);
  EXPECT_STREQ(why.field, "sequence");
  EXPECT_EQ(why.found, 2u);
  EXPECT_EQ(why.expected, 0u);
  EXPECT_EQ((*session_)->positions(), 12u);
}

}  // namespace
}  // namespace arenite::test
