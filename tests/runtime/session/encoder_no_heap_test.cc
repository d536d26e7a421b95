// SPDX-License-Identifier: Apache-2.0
// Encoders take no heap: on one thread and on several, on success and on every failure.
#include <gtest/gtest.h>

#include "runtime/session/encoder_fixture.h"
#include "runtime/session/no_heap_fixture.h"
#include "support/smallest_slice.h"

namespace arenite::test {
namespace {

constexpr uint32_t kEncodeSequences = 2;
constexpr uint32_t kEncodeTokens = 10;
constexpr uint32_t kEncodePositions = 12;
constexpr uint32_t kEncodeTokensMax = 18;

struct EncoderCall {
  EncoderInput input;
  BatchForm form;
  Status expected = Status::kOk;
};

class EncoderNoHeap : public NoHeapTest<EncoderTest> {
 protected:
  static SessionOptions options_with(Pool& pool) {
    SessionOptions options = options_for(kEncodePositions, kEncodeSequences);
    options.tokens_max = kEncodeTokensMax;
    options.parallel = pool.parallel_for();
    options.hidden_states.state = [](void*, uint32_t, const float*, uint32_t, uint32_t) {};
    return options;
  }

  // Batches of every form: padded, with lengths, masked, back to back.
  static std::vector<EncoderCall> sound_calls(const EncoderShape& shape) {
    const EncoderInput padded = input_for(shape, kEncodeSequences * kEncodeTokens);
    std::vector<uint8_t> visible(kEncodeSequences * kEncodeTokens, 1);
    visible[0] = visible[4] = visible[19] = 0;
    return {{input_for(shape, 9), {1, 9}},
            {padded, {kEncodeSequences, kEncodeTokens, {9, 7}}},
            {padded, {kEncodeSequences, kEncodeTokens, {}, visible}},
            {padded.part(0, 17), {kEncodeSequences, 0, {12, 5}, {}, true}}};
  }

  // Returns one call for each reason to refuse a batch, like encoder_failure_test.cc.
  static std::vector<EncoderCall> refused_calls(const EncoderShape& shape) {
    constexpr Status kInvalid = Status::kInvalidArgument;
    const EncoderInput padded = input_for(shape, kEncodeSequences * kEncodeTokens);
    const EncoderInput long_input = input_for(shape, 2 * 13);
    const std::vector<uint8_t> ones(kEncodeSequences * kEncodeTokens, 1);
    std::vector<uint8_t> twos = ones;
    twos[0] = twos[1] = 0;
    twos[13] = 2;
    std::vector<uint8_t> hides_all = ones;
    std::fill_n(hides_all.begin() + kEncodeTokens, kEncodeTokens, uint8_t{0});
    std::vector<uint8_t> too_far(2 * 13, 0);
    too_far[12] = too_far[14] = 1;
    std::vector<EncoderCall> calls = {
        {padded, {3, kEncodeTokens, {9, 7}}, kInvalid},
        {padded, {0, 0}, kInvalid},
        {padded, {kEncodeSequences, kEncodeTokens, {10, 9}}, kInvalid},
        {padded, {kEncodeSequences, 11, {9, 7}}, kInvalid},
        {padded, {kEncodeSequences, kEncodeTokens, {9, 11}}, kInvalid},
        {padded, {kEncodeSequences, kEncodeTokens, {9}}, kInvalid},
        {long_input, {kEncodeSequences, 13, {3, 13}}, Status::kContextFull},
        {long_input, {kEncodeSequences, 13, {}, too_far}, Status::kContextFull},
        {padded, {kEncodeSequences, kEncodeTokens, {}, twos}, kInvalid},
        {padded, {kEncodeSequences, kEncodeTokens, {}, hides_all}, kInvalid},
        {padded, {kEncodeSequences, kEncodeTokens, {}, std::vector<uint8_t>(19, 1)}, kInvalid},
        {padded, {kEncodeSequences, kEncodeTokens, {9, 7}, ones}, kInvalid},
        {padded, {kEncodeSequences, 0, {}, {}, true}, kInvalid},
        {padded, {kEncodeSequences, 0, {9, 7}, {}, true}, kInvalid},
        {padded, {kEncodeSequences, 0, {0xFFFFFFFF, 0xFFFFFFFF}, {}, true}, kInvalid}};
    if (shape.vocab_size == 0) return calls;
    calls.push_back({padded, {kEncodeSequences, kEncodeTokens, {9, 7}}, kInvalid});
    calls.back().input.ids[12] = shape.vocab_size;
    calls.push_back({padded, {kEncodeSequences, kEncodeTokens, {9, 7}}});
    calls.back().input.types.assign(20, 2);
    calls.back().expected = shape.token_types == 0 ? Status::kUnsupported : kInvalid;
    return calls;
  }

  static std::vector<Status> statuses_of(Session& session, const std::vector<EncoderCall>& calls) {
    std::vector<Status> statuses(calls.size());
    char text[256];
    const NoHeapScope no_heap;
    for (size_t i = 0; i < calls.size(); ++i) {
      Diagnostic why;
      statuses[i] = run_batch(session, calls[i].input, calls[i].form, &why).status();
      (void)describe(statuses[i], why, text);
    }
    return statuses;
  }
};
ARENITE_FOR_EACH_FLOAT_SET(EncoderNoHeap);

TEST_P(EncoderNoHeap, IsTouchedFromLoadToTheLastBatch) {
  Pool one(1), three(3);
  for (const EncoderShape& shape : all_encoders()) {
    const convert::AlignedBytes file = make_encoder_model(shape, {GetParam()});
    const TestModel sizes = load(shape);
    const std::vector<EncoderCall> calls = sound_calls(shape);
    for (Pool* const pool : {&one, &three}) {
      const SessionOptions options = options_with(*pool);
      convert::AlignedBytes arena(plan_arena(*sizes, options)->total_bytes);
      const NoHeapScope no_heap;
      Diagnostic why;
      const Result<Model> model = Model::load(file.span(), &why, this_target());
      ASSERT_TRUE(model.ok()) << why.reason;
      const Result<Session*> session = Session::create(*model, options, arena.span(), &why);
      ASSERT_TRUE(session.ok()) << why.reason;
      for (const EncoderCall& call : calls) {
        ASSERT_TRUE(run_batch(**session, call.input, call.form, &why).ok()) << why.reason;
      }
      (*session)->reset();
    }
  }
}

TEST_P(EncoderNoHeap, IsTouchedInSlicesAndWhereTheyAreCancelled) {
  Pool three(3);
  const EncoderShape shape = encoder_named("bert");
  const TestModel model = load(shape);
  const TestSession session(*model, options_with(three));
  const EncoderInput input = input_for(shape, 9);
  const TokenBatch batch{input.ids, 1, 9, {}, {}, false, input.types};
  Status statuses[4];
  {
    const NoHeapScope no_heap;
    Diagnostic why;
    statuses[0] = session->begin_run(batch, &why);
    statuses[1] = session->begin_run(batch, &why);  // one is in progress
    statuses[2] = session->run(batch, &why).status();
    (void)advance_least(*session, 2);
    session->cancel();
    statuses[3] = session->begin_run(batch, &why);
    while (true) {
      const Result<uint32_t> left = advance_least(*session);
      if (!left.ok() || *left == 0) break;
    }
    (void)session->advance(1, &why);  // there is nothing to advance
  }
  EXPECT_EQ(statuses[0], Status::kOk);
  EXPECT_NE(statuses[1], Status::kOk);
  EXPECT_NE(statuses[2], Status::kOk);
  EXPECT_EQ(statuses[3], Status::kOk);
  EXPECT_EQ(session->output().rows, 9u);
}

TEST_P(EncoderNoHeap, IsTouchedWhenABatchIsRefused) {
  Pool one(1), three(3);
  for (const EncoderShape& shape : all_encoders()) {
    const TestModel model = load(shape);
    const std::vector<EncoderCall> calls = refused_calls(shape);
    for (Pool* const pool : {&one, &three}) {
      const TestSession session(*model, options_with(*pool));
      const std::vector<Status> statuses = statuses_of(*session, calls);
      for (size_t i = 0; i < calls.size(); ++i) {
        EXPECT_EQ(statuses[i], calls[i].expected) << shape.name << " call " << i;
      }
      // A refusal leaves the session fit for use.
      EXPECT_EQ(statuses_of(*session, sound_calls(shape)), std::vector<Status>(4, Status::kOk));
    }
  }
}

TEST_P(EncoderNoHeap, IsTouchedWhenASequenceCannotGoOn) {
  Pool three(3);
  const EncoderShape shape = encoder_named("bert");
  const TestModel model = load(shape);
  const TestSession session(*model, options_with(three));
  const EncoderInput input = input_for(shape, 4);
  const std::vector<float> features(12);
  Status statuses[4];
  {
    const NoHeapScope no_heap;
    Diagnostic why;
    const TokenBatch batch{input.ids, 1, 4};
    statuses[0] = session->run(batch, &why).status();
    statuses[1] = session->step(batch, &why).status();
    statuses[2] = session->rewind(9, 0);
    statuses[3] = session->run(Batch{features, 1, 1}, &why).status();
  }
  EXPECT_EQ(statuses[0], Status::kOk);
  EXPECT_EQ(statuses[1], Status::kUnsupported);
  for (const int i : {2, 3}) EXPECT_NE(statuses[i], Status::kOk) << i;
}

TEST_P(EncoderNoHeap, IsTouchedWhenAFileOptionsOrAnArenaAreRefused) {
  Pool three(3);
  const convert::AlignedBytes sound = make_encoder_model(encoder_named("bert"), {GetParam()});
  EXPECT_EQ(accepted(sound.span(), options_with(three), kEncoderPositions + 1), 0u);
}

}  // namespace
}  // namespace arenite::test
