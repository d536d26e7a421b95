// SPDX-License-Identifier: Apache-2.0
// A decoder that refuses a call takes no heap, on one thread and on several. decoder_memory_test.cc
// tests successful calls.
#include <gtest/gtest.h>

#include "runtime/session/decoder_fixture.h"
#include "runtime/session/no_heap_fixture.h"
#include "support/smallest_slice.h"

namespace arenite::test {
namespace {

constexpr uint32_t kStepPositions = 20;
constexpr uint32_t kStepSequences = 2;
constexpr uint32_t kStepTokensMax = 30;

struct DecoderCall {
  std::vector<TokenId> ids;
  uint32_t sequences;
  uint32_t tokens;
  std::vector<uint32_t> lengths;
  Status expected;
};

class DecoderNoHeap : public NoHeapTest<DecoderTest> {
 protected:
  static SessionOptions options_with(Pool& pool) {
    SessionOptions options = options_for(kStepPositions, kStepSequences);
    options.tokens_max = kStepTokensMax;
    options.parallel = pool.parallel_for();
    return options;
  }

  // Returns one call for each reason to refuse a batch, like decoder_failure_test.cc.
  static std::vector<DecoderCall> refused_calls(const Model& model) {
    constexpr Status kInvalid = Status::kInvalidArgument;
    constexpr Status kFull = Status::kContextFull;
    std::vector<TokenId> outside = ids(model, 4);
    outside[3] = model.vocab_size();
    return {{outside, 1, 4, {}, kInvalid},
            {outside, 2, 2, {}, kInvalid},
            {{kNoToken}, 1, 1, {}, kInvalid},
            {{}, 0, 0, {}, kInvalid},
            {{}, 1, 0, {}, kInvalid},
            {ids(model, 5), 2, 3, {}, kInvalid},
            {ids(model, 2), 2, UINT32_MAX, {}, kInvalid},
            {ids(model, 6), 2, 3, {2, 4}, kInvalid},
            {ids(model, 4), 1, 4, {2, 2}, kInvalid},
            {ids(model, 4), 2, 2, {0, 0}, kInvalid},
            {ids(model, 3), 3, 1, {}, kInvalid},
            {ids(model, 32), 2, 16, {}, kInvalid},
            {ids(model, kStepPositions + 1), 1, kStepPositions + 1, {}, kFull},
            {ids(model, 42), 2, 21, {1, 21}, kFull}};
  }
};
ARENITE_FOR_EACH_FLOAT_SET(DecoderNoHeap);

TEST_P(DecoderNoHeap, IsTouchedWhenABatchIsRefused) {
  Pool one(1), three(3);
  for (const DecoderShape& shape : all_decoders()) {
    const TestModel model = load(shape);
    const std::vector<DecoderCall> calls = refused_calls(*model);
    const std::vector<TokenId> sound = ids(*model, 6);
    for (Pool* const pool : {&one, &three}) {
      const TestSession session(*model, options_with(*pool));
      std::vector<Status> run(calls.size()), step(calls.size()), begin(calls.size());
      Status between = Status::kOk;
      {
        const NoHeapScope no_heap;
        char text[256];
        for (size_t i = 0; i < calls.size(); ++i) {
          Diagnostic why;
          const DecoderCall& call = calls[i];
          const TokenBatch batch{call.ids, call.sequences, call.tokens, call.lengths};
          run[i] = session->run(batch, &why).status();
          (void)describe(run[i], why, text);
          step[i] = session->step(batch, &why).status();
          begin[i] = session->begin_step(batch, &why);
        }
        // A refusal leaves the session fit for use.
        between = session->run(TokenBatch{sound, 2, 3}).status();
      }
      EXPECT_EQ(between, Status::kOk) << shape.name;
      for (size_t i = 0; i < calls.size(); ++i) {
        EXPECT_EQ(run[i], calls[i].expected) << shape.name << " call " << i;
        EXPECT_EQ(step[i], calls[i].expected) << shape.name << " call " << i;
        EXPECT_EQ(begin[i], calls[i].expected) << shape.name << " call " << i;
      }
    }
  }
}

TEST_P(DecoderNoHeap, IsTouchedInSlicesAndWhereTheyAreCancelledOrMisused) {
  Pool three(3);
  for (const DecoderShape& shape : all_decoders()) {
    const TestModel model = load(shape);
    const TestSession session(*model, options_with(three));
    const std::vector<TokenId> tokens = ids(*model, 9);
    const std::vector<float> features(64);
    uint32_t accepted = 0;
    uint32_t rows = 0;
    {
      const NoHeapScope no_heap;
      Diagnostic why;
      const TokenBatch batch{tokens, 1, 9};
      ASSERT_EQ(session->begin_run(batch, &why), Status::kOk);
      accepted += session->begin_step(batch, &why) == Status::kOk ? 1 : 0;
      accepted += session->step(tokens, &why).ok() ? 1 : 0;
      accepted += session->rewind(0, 1) == Status::kOk ? 1 : 0;
      (void)advance_least(*session, 3);
      session->cancel();
      ASSERT_EQ(session->begin_run(batch, &why), Status::kOk);
      while (true) {
        const Result<uint32_t> left = advance_least(*session);
        if (!left.ok() || *left == 0) break;
      }
      rows = session->output().rows;
      accepted += session->rewind(0, 10) == Status::kOk ? 1 : 0;
      accepted += session->rewind(kStepSequences, 0) == Status::kOk ? 1 : 0;
      accepted += session->run(Batch{features, 1, 1}, &why).ok() ? 1 : 0;
    }
    EXPECT_EQ(accepted, 0u) << shape.name;
    EXPECT_EQ(rows, 1u) << shape.name;
  }
}

TEST_P(DecoderNoHeap, IsTouchedWhenAFileOptionsOrAnArenaAreRefused) {
  Pool three(3);
  const convert::AlignedBytes sound = make_decoder_model(decoder_named("llama"), {GetParam()});
  EXPECT_EQ(accepted(sound.span(), options_with(three), kDecoderPositions + 1), 0u);
}

}  // namespace
}  // namespace arenite::test
