// SPDX-License-Identifier: Apache-2.0
// A step in slices gives the bits of one call, and a cancelled step changes nothing.
#include <gtest/gtest.h>

#include "core/packing.h"
#include "ops/rows.h"
#include "runtime/session/decoder_fixture.h"
#include "runtime/session/encoder_fixture.h"
#include "support/malloc_trap.h"
#include "support/slow_builds.h"
#include "support/smallest_slice.h"

namespace arenite::test {
namespace {

// Budgets besides the smallest that are accepted, which 0 stands for.
constexpr uint64_t kBudgets[] = {0, 5000, 40000, UINT64_MAX};

// The output of what was begun, after slices of a budget, or of what the next block takes instead.
std::vector<float> finish(Session& session, uint64_t budget) {
  for (uint32_t left = UINT32_MAX; left != 0;) {
    EXPECT_EQ(session.output().rows, 0u) << "results before the end";
    const uint32_t before = left;
    Result<uint32_t> advanced = session.advance(budget);
    if (!advanced.ok()) advanced = advance_least(session);
    EXPECT_TRUE(advanced.ok());
    left = advanced.ok() ? *advanced : 0;
    EXPECT_LE(left, before);
    EXPECT_TRUE(budget != UINT64_MAX || left == 0);
  }
  return values_of(session.output());
}

TokenBatch batch_of(std::span<const TokenId> ids) {
  return {ids, 1, static_cast<uint32_t>(ids.size())};
}

class SessionSlices : public EncoderTest {
 protected:
  static TestModel load_decoder(const DecoderShape& shape) {
    return TestModel(make_decoder_model(shape, {GetParam()}).span(), GetParam());
  }
};
ARENITE_FOR_EACH_FLOAT_SET(SessionSlices);

TEST_P(SessionSlices, DecodersGiveTheResultsOfOneCall) {
  for (const DecoderShape& shape : all_decoders()) {
    const TestModel model = load_decoder(shape);
    const TestSession session(*model, all_outputs(options_for(kDecoderPositions)));
    const std::vector<TokenId> tokens = random_ids(13, model->vocab_size());
    const std::vector<float> all = session.run(tokens);
    const size_t width = model->output_features();
    for (const uint64_t budget : kBudgets) {
      ASSERT_EQ(session->begin_run(batch_of(part(tokens, 0, 12))), Status::kOk);
      ASSERT_TRUE(same_bits(finish(*session, budget), rows(all, width, 0, 12)))
          << shape.name << budget;
      ASSERT_EQ(session->begin_step(batch_of(part(tokens, 12, 1))), Status::kOk);
      EXPECT_EQ(session->positions(), 12u);
      ASSERT_TRUE(same_bits(finish(*session, budget), rows(all, width, 12, 1)))
          << shape.name << budget;
      EXPECT_EQ(session->positions(), 13u);
    }
  }
}

// The caller may free the features once the step has begun.
TEST_P(SessionSlices, ModulesGiveTheResultsOfOneCall) {
  for (const ModuleSpec& spec : all_specs()) {
    const TestModel model(make_model(spec).span(), GetParam());
    const TestSession session(*model, options_for(kSpecPositions, 2));
    const std::vector<float> features = random_floats(2 * 40 * model->input_features(), 7);
    const uint32_t lengths[] = {40, 9};
    const std::vector<float> expected = session.run(features, 2, lengths);
    for (const uint64_t budget : kBudgets) {
      std::vector<float> passing = features;
      ASSERT_EQ(session->begin_run(Batch{passing, 2, 40, lengths}), Status::kOk);
      passing.assign(passing.size(), -1.0f);
      ASSERT_TRUE(same_bits(finish(*session, budget), expected)) << spec.name << budget;
    }
  }
}

TEST_P(SessionSlices, EncodersGiveTheResultsOfOneCall) {
  const std::vector<uint8_t> visible = {1, 0, 1, 1, 0, 1, 1, 0, 1, 1, 1, 1, 1, 1, 1, 1};
  for (const EncoderShape& shape : all_encoders()) {
    const TestModel model = load(shape);
    const TestSession session(*model, options_for(kEncoderPositions, 2));
    const EncoderInput input = input_for(shape, 16);
    const std::vector<float> expected =
        values_of(run_batch(*session, input, BatchForm{2, 8, {}, visible}));
    for (const uint64_t budget : kBudgets) {
      const Status status =
          shape.vocab_size == 0
              ? session->begin_run(Batch{input.features, 2, 8, {}, visible})
              : session->begin_run(TokenBatch{input.ids, 2, 8, {}, visible, false, input.types});
      ASSERT_EQ(status, Status::kOk);
      ASSERT_TRUE(same_bits(finish(*session, budget), expected)) << shape.name << budget;
    }
  }
}

TEST_P(SessionSlices, ShowEachHiddenStateOnce) {
  const TestModel model = load_decoder(decoder_named("llama"));
  std::vector<uint32_t> shown;
  SessionOptions options = options_for(kDecoderPositions);
  options.hidden_states = {[](void* to, uint32_t index, const float*, uint32_t, uint32_t) {
                             static_cast<std::vector<uint32_t>*>(to)->push_back(index);
                           },
                           &shown};
  const TestSession session(*model, options);
  const std::vector<TokenId> tokens = random_ids(3, model->vocab_size());
  ASSERT_EQ(session->begin_step(batch_of(tokens)), Status::kOk);
  finish(*session, 0);
  ASSERT_EQ(shown.size(), model->hidden_states());
  for (uint32_t i = 0; i < shown.size(); ++i) EXPECT_EQ(shown[i], i);
}

// Cancels in the middle of ops, after any number of blocks.
TEST_P(SessionSlices, CancelledLeaveTheSequencesAsTheyWere) {
  for (const DecoderShape& shape : thinned(all_decoders(), 3)) {
    const TestModel model = load_decoder(shape);
    const TestSession session(*model, all_outputs(options_for(kDecoderPositions, 2)));
    const std::vector<TokenId> tokens = random_ids(18, model->vocab_size());
    const std::vector<TokenId> other = random_ids(12, model->vocab_size(), 6);
    const std::vector<float> expected = session.run(tokens, 2);
    uint32_t ops_left = 1;
    for (uint32_t done = 0; ops_left != 0; done += 1 + done / 8) {
      // Five tokens each, then six others that do not count, then the four that do.
      std::vector<TokenId> first(tokens.begin(), tokens.begin() + 5);
      first.insert(first.end(), tokens.begin() + 9, tokens.begin() + 14);
      std::vector<TokenId> rest(tokens.begin() + 5, tokens.begin() + 9);
      rest.insert(rest.end(), tokens.begin() + 14, tokens.end());
      ASSERT_TRUE(session->run(TokenBatch{first, 2, 5}).ok());
      ASSERT_EQ(session->begin_step(TokenBatch{other, 2, 6}), Status::kOk);
      if (done != 0) ops_left = *advance_least(*session, done);
      if (ops_left == 0) break;
      session->cancel();
      EXPECT_EQ(session->output().rows, 0u);
      EXPECT_EQ(session->positions(0), 5u);
      EXPECT_EQ(session->positions(1), 5u);
      const size_t width = model->output_features();
      const std::vector<float> found = session.step(rest, 2);
      ASSERT_TRUE(same_bits(rows(found, width, 0, 4), rows(expected, width, 5, 4)))
          << shape.name << done;
      ASSERT_TRUE(same_bits(rows(found, width, 4, 4), rows(expected, width, 14, 4)))
          << shape.name << done;
    }
  }
}

// run() must finish a step from any slice, even in the middle of an op.
TEST_P(SessionSlices, FinishFromAnywhere) {
  const TestModel model = load_decoder(decoder_named("llama"));
  const TestSession session(*model, options_for(kDecoderPositions));
  const std::vector<TokenId> tokens = random_ids(12, model->vocab_size());
  const std::vector<float> expected = session.run(tokens);
  uint32_t left = 1;
  for (uint32_t done = 1; left != 0; done += 1 + done / 4) {
    ASSERT_EQ(session->begin_run(batch_of(tokens)), Status::kOk);
    left = *advance_least(*session, done);
    if (left != 0) {
      EXPECT_EQ(*session->advance(UINT64_MAX), 0u);
    }
    ASSERT_TRUE(same_bits(values_of(session->output()), expected)) << done;
  }
}

TEST_P(SessionSlices, CancelledRunsHaveForgottenTheSequences) {
  const TestModel model = load_decoder(decoder_named("llama"));
  const TestSession session(*model, all_outputs(options_for(kDecoderPositions)));
  const std::vector<TokenId> tokens = random_ids(12, model->vocab_size());
  const std::vector<float> expected = session.run(tokens);
  ASSERT_EQ(session->begin_run(batch_of(part(tokens, 3, 7))), Status::kOk);
  ASSERT_TRUE(advance_least(*session, 5).ok());
  session->cancel();
  EXPECT_EQ(session->positions(), 0u);
  EXPECT_TRUE(same_bits(session.step(tokens), expected));
}

// With windows of 100 tokens and 37 a call, a ring holds two pages.
TEST_P(SessionSlices, CancelledInARingLimitRewind) {
  constexpr uint32_t kBehind = 99, kChunk = 37, kRing = 2 * kPagePositions;
  constexpr uint32_t kHeld = kEmulated ? 1200 : 1400;
  constexpr uint32_t kFirst = kHeld - kRing + kBehind;  // sees the oldest position that is held
  const TestModel model = load_decoder(ring_decoder());
  SessionOptions options = all_outputs(options_for(kRingDecoderPositions));
  const std::vector<TokenId> tokens = random_ids(kRingDecoderPositions, model->vocab_size());
  const std::vector<TokenId> other = random_ids(kChunk, model->vocab_size(), 6);
  const TestSession whole(*model, options);
  const std::vector<float> all = whole.run(tokens);
  options.tokens_max = kChunk;
  const TestSession session(*model, options);
  session.steps_of(kChunk, part(tokens, 0, kHeld));
  const auto expect_as_in_one_pass = [&](uint32_t count) {
    const uint32_t held = session->positions();
    ASSERT_TRUE(same_bits(session.steps_of(kChunk, part(tokens, held, count)),
                          rows(all, model->output_features(), held, count)))
        << "from " << held;
  };

  for (int times = 0; times < 2; ++times) {
    ASSERT_EQ(session->begin_step(batch_of(other)), Status::kOk);
    while (*advance_least(*session) > 1) continue;
    session->cancel();
  }
  EXPECT_EQ(session->rewind(0, kFirst + kChunk - 1), Status::kInvalidArgument);
  EXPECT_EQ(session->positions(), kHeld);
  expect_as_in_one_pass(60);  // overwrites more than was cancelled
  EXPECT_EQ(session->rewind(0, kFirst + 60 - 1), Status::kInvalidArgument);
  ASSERT_EQ(session->rewind(0, kFirst + 60), Status::kOk);
  ASSERT_EQ(session->begin_step(batch_of(other)), Status::kOk);
  while (*advance_least(*session) > 1) continue;
  session->cancel();
  expect_as_in_one_pass(300);
}

TEST_P(SessionSlices, RefuseOtherCallsInBetween) {
  const TestModel model = load_decoder(decoder_named("llama"));
  const TestSession session(*model, options_for(kDecoderPositions));
  const std::vector<TokenId> tokens = random_ids(4, model->vocab_size());
  const TokenBatch batch = batch_of(tokens);
  const std::vector<float> expected = session.run(tokens);
  Diagnostic why;
  EXPECT_EQ(session->advance(1, &why).status(), Status::kInvalidArgument);
  EXPECT_STREQ(why.reason, "no step is in progress: begin one");
  EXPECT_EQ(session->begin_step(Batch{}, &why), Status::kInvalidArgument);
  EXPECT_EQ(session->advance(1).status(), Status::kInvalidArgument) << "a refused step has no ops";

  ASSERT_EQ(session->begin_run(batch), Status::kOk);
  ASSERT_TRUE(advance_least(*session, 3).ok());
  EXPECT_EQ(session->run(batch, &why).status(), Status::kInvalidArgument);
  EXPECT_STREQ(why.reason, "a step is in progress: advance or cancel it");
  EXPECT_EQ(session->step(tokens).status(), Status::kInvalidArgument);
  EXPECT_EQ(session->begin_run(batch), Status::kInvalidArgument);
  EXPECT_EQ(session->begin_step(batch), Status::kInvalidArgument);
  EXPECT_EQ(session->rewind(0, 0), Status::kInvalidArgument);
  EXPECT_TRUE(same_bits(finish(*session, 0), expected)) << "refused calls change nothing";

  ASSERT_EQ(session->begin_step(batch), Status::kOk);
  session->reset();
  EXPECT_EQ(session->positions(), 0u);
  EXPECT_TRUE(same_bits(session.step(tokens), expected));
  session->cancel();  // nothing to cancel
  EXPECT_TRUE(same_bits(values_of(session->output()), expected));
}

// The diagnostic says the missing budget, and the refusal changes nothing.
TEST_P(SessionSlices, RefuseBudgetsThatNoBlockFitsInto) {
  const TestModel model = load_decoder(decoder_named("llama"));
  const TestSession session(*model, options_for(kDecoderPositions));
  const std::vector<TokenId> tokens = random_ids(11, model->vocab_size());
  const std::vector<float> expected = session.run(tokens);
  ASSERT_EQ(session->begin_run(batch_of(tokens)), Status::kOk);
  uint64_t largest = 0;
  uint32_t slices = 0;
  for (uint32_t left = model->ops(); left != 0; ++slices) {
    Diagnostic why;
    ASSERT_EQ(session->advance(0, &why).status(), Status::kInvalidArgument);
    EXPECT_STREQ(why.field, "op");
    EXPECT_EQ(why.index, model->ops() - left);
    EXPECT_EQ(why.found, 0u);
    largest = std::max(largest, why.expected);
    EXPECT_EQ(session->advance(why.expected - 1).status(), Status::kInvalidArgument);
    const Result<uint32_t> advanced = session->advance(why.expected);
    ASSERT_TRUE(advanced.ok());
    left = *advanced;
  }
  EXPECT_GE(slices, model->ops());
  EXPECT_TRUE(same_bits(values_of(session->output()), expected));
  // With the largest of them no slice is refused.
  ASSERT_EQ(session->begin_run(batch_of(tokens)), Status::kOk);
  for (uint32_t left = 1; left != 0; --slices) {
    const Result<uint32_t> advanced = session->advance(largest);
    ASSERT_TRUE(advanced.ok());
    left = *advanced;
  }
  EXPECT_GT(slices, 0u) << "blocks share a slice where they have room";
  EXPECT_TRUE(same_bits(values_of(session->output()), expected));
}

// In multiply-adds, beside what finding op and task counts: blocks of queries times keys, and
// blocks of rows times all weights of a small layer. As many blocks as a budget pays for run in one
// slice.
TEST_P(SessionSlices, CountTheWorkOfBlocks) {
  constexpr uint32_t kTokens = 11;
  const DecoderShape shape = decoder_named("llama");
  const TestModel model = load_decoder(shape);
  const TestSession session(*model, options_for(kDecoderPositions));
  const std::vector<TokenId> tokens = random_ids(kTokens, model->vocab_size());
  const Packing packing = packing_of(GetParam(), TensorType::kF32);
  const uint32_t rows = std::min(kTokens, uint32_t{packing.mr});
  const uint32_t of_attention =
      uint32_t{packing.mr} * kTokens * (shape.head_dim + shape.head_dim + kFunctionWork);
  const uint32_t of_down = rows * panels_of(packing, shape.model_dim) * packing.nr * shape.ffn_dim;
  const uint32_t blocks = div_up(kTokens, uint32_t{packing.mr});
  ASSERT_EQ(session->begin_run(batch_of(tokens)), Status::kOk);
  uint32_t seen = 0;
  for (uint32_t left = model->ops(); left != 0;) {
    const std::string name = model->op_name(model->ops() - left);
    Diagnostic why;
    ASSERT_EQ(session->advance(0, &why).status(), Status::kInvalidArgument);
    const uint64_t budget = why.expected;
    if (name == "0.attention" && seen++ == 2) {  // keys and values of both heads are kept first
      EXPECT_EQ(budget, kOpWork + kTaskWork + of_attention);
    }
    if (name == "0.down") {
      EXPECT_EQ(budget, kOpWork + kTaskWork + of_down);
      const uint64_t all = kOpWork + blocks * (kTaskWork + of_down);
      ASSERT_EQ(session->advance(all).value(), --left);
      continue;
    }
    left = session->advance(budget).value();
  }
}

TEST_P(SessionSlices, TouchNoHeap) {
  if (!NoHeapScope::traps_malloc()) GTEST_SKIP() << "this build cannot see calls of malloc";
  const TestModel model = load_decoder(decoder_named("llama"));
  const TestSession session(*model, options_for(kDecoderPositions));
  const std::vector<TokenId> tokens = random_ids(4, model->vocab_size());
  bool sound = false;
  {
    const NoHeapScope no_heap;
    sound = session->begin_run(batch_of(tokens)) == Status::kOk && advance_least(*session, 4).ok();
    sound = sound && !session->step(tokens).ok();
    session->cancel();
    sound = sound && session->begin_step(batch_of(tokens)) == Status::kOk;
    sound = sound && session->advance(UINT64_MAX).ok() && session->output().rows == 1;
  }
  EXPECT_TRUE(sound);
}

}  // namespace
}  // namespace arenite::test
