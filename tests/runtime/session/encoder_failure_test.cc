// SPDX-License-Identifier: Apache-2.0
// Refused calls of encoders report the reason and change nothing.
#include <gtest/gtest.h>

#include <functional>

#include "arenite/checked_math.h"
#include "convert/program/writer.h"
#include "format/model_needs.h"
#include "runtime/session/encoder_fixture.h"

namespace arenite::test {
namespace {

constexpr uint32_t kFewSequences = 2;
constexpr uint32_t kFewTokens = 10;
constexpr uint32_t kFewPositions = 12;
constexpr uint32_t kFewTokensMax = 18;

struct Refusal {
  Status status;
  const char* field;
  const char* words;  // a part of the reason
  uint32_t index = 0;
  uint64_t found = 0;
  uint64_t expected = 0;
};

class EncoderFailure : public EncoderTest {
 protected:
  // A batch of two sequences that the session would take, changed in one place.
  static void check(const Refusal& refusal,
                    const std::function<void(EncoderInput&, BatchForm&)>& break_it,
                    const std::string& name = "bert") {
    const EncoderShape shape = encoder_named(name);
    const TestModel model = load(shape);
    SessionOptions options = options_for(kFewPositions, kFewSequences);
    options.tokens_max = kFewTokensMax;
    const TestSession session(*model, options);
    EncoderInput input = input_for(shape, kFewSequences * kFewTokens);
    BatchForm form = {kFewSequences, kFewTokens, {9, 7}, {}, false};
    const std::vector<float> expected = values_of(run_batch(*session, input, form));
    const EncoderInput sound = input;
    const BatchForm sound_form = form;
    break_it(input, form);

    Diagnostic why;
    EXPECT_EQ(run_batch(*session, input, form, &why).status(), refusal.status);
    ASSERT_NE(why.reason, nullptr);
    EXPECT_STREQ(why.field, refusal.field) << why.reason;
    EXPECT_NE(std::string(why.reason).find(refusal.words), std::string::npos) << why.reason;
    EXPECT_EQ(why.index, refusal.index) << why.reason;
    EXPECT_EQ(why.found, refusal.found) << why.reason;
    EXPECT_EQ(why.expected, refusal.expected) << why.reason;
    EXPECT_EQ(session->positions(0), 9u);
    EXPECT_EQ(session->positions(1), 7u);
    EXPECT_TRUE(same_bits(values_of(run_batch(*session, sound, sound_form)), expected));
  }
};
ARENITE_FOR_EACH_FLOAT_SET(EncoderFailure);

constexpr Status kInvalid = Status::kInvalidArgument;

TEST_P(EncoderFailure, RefusesBatchesBeyondTheSession) {
  check({kInvalid, "batch.sequences", "more sequences", 0, 3, 2},
        [](EncoderInput&, BatchForm& form) { form.sequences = 3; });
  check({kInvalid, "batch.tokens", "more tokens", 0, 19, kFewTokensMax},
        [](EncoderInput&, BatchForm& form) {
          form.lengths = {10, 9};
        });
  check({Status::kContextFull, "batch.lengths", "positions of the session", 1, 13, kFewPositions},
        [](EncoderInput& input, BatchForm& form) {
          input = input_for(encoder_named("bert"), 2 * 13);
          form.tokens = 13;
          form.lengths = {3, 13};
        });
  check({kInvalid, "batch.ids", "not [sequences, tokens]", 0, 20, 22},
        [](EncoderInput&, BatchForm& form) { form.tokens = 11; });
}

TEST_P(EncoderFailure, RefusesInvalidMasks) {
  const std::vector<uint8_t> ones(kFewSequences * kFewTokens, 1);
  const auto masked = [&](size_t index, uint8_t value) {
    return [=](EncoderInput&, BatchForm& form) {
      form.lengths.clear();
      form.visible = ones;
      form.visible[0] = form.visible[1] = 0;  // 18 tokens are left
      form.visible[index] = value;
    };
  };
  check({kInvalid, "batch.visible", "other than 0 and 1", 3, 2, 1}, masked(13, 2));
  check({kInvalid, "batch.visible", "hides a whole sequence", 1, 0, 1},
        [&](EncoderInput&, BatchForm& form) {
          form.lengths.clear();
          form.visible = ones;
          std::fill_n(form.visible.begin() + kFewTokens, kFewTokens, uint8_t{0});
        });
  check({kInvalid, "batch.visible", "not [sequences, tokens]", 0, 19, 20},
        [&](EncoderInput&, BatchForm& form) {
          form.lengths.clear();
          form.visible.assign(19, 1);
        });
  check({kInvalid, "batch.visible", "not both", 0, 0, 0},
        [&](EncoderInput&, BatchForm& form) { form.visible = ones; });
  check({kInvalid, "batch.tokens", "more tokens", 0, 19, kFewTokensMax}, masked(1, 1));
  // The last token that counts decides how long a sequence is.
  check({Status::kContextFull, "batch.visible", "positions of the session", 0, 13, kFewPositions},
        [](EncoderInput& input, BatchForm& form) {
          input = input_for(encoder_named("bert"), 2 * 14);
          form.tokens = 14;
          form.lengths.clear();
          form.visible.assign(2 * 14, 0);
          form.visible[12] = form.visible[14] = 1;
        });
}

TEST_P(EncoderFailure, RefusesPackedBatchesWhoseLengthsDoNotAddUp) {
  check({kInvalid, "batch.lengths", "need their lengths", 0, 0, 2},
        [](EncoderInput&, BatchForm& form) {
          form.back_to_back = true;
          form.lengths.clear();
        });
  check({kInvalid, "batch.ids", "lengths do not add up", 0, 20, 16},
        [](EncoderInput&, BatchForm& form) { form.back_to_back = true; });
  check({kInvalid, "batch.lengths", "sequence needs a length", 0, 1, 2},
        [](EncoderInput&, BatchForm& form) { form.lengths = {9}; });
  check(
      {kInvalid, "batch.features", "lengths do not add up", 0, 100,
       (Checked(0xFFFFFFFF) * 2 * 5).value()},
      [](EncoderInput&, BatchForm& form) {
        form.back_to_back = true;
        form.lengths = {0xFFFFFFFF, 0xFFFFFFFF};
      },
      "sensor");
}

TEST_P(EncoderFailure, RefusesTypesThatTheModelDoesNotKnow) {
  check({kInvalid, "batch.types", "token type is out of range", 6, 2, 1},
        [](EncoderInput& input, BatchForm&) { input.types[16] = 2; });
  check({kInvalid, "batch.types", "each id needs a type", 0, 19, 20},
        [](EncoderInput& input, BatchForm&) { input.types.pop_back(); });
  check(
      {Status::kUnsupported, "batch.types", "has no token types", 0, 20, 0},
      [](EncoderInput& input, BatchForm&) { input.types.assign(20, 0); }, "sentences");
  check({kInvalid, "batch.ids", "not in the vocabulary", 2, 41, 40},
        [](EncoderInput& input, BatchForm&) { input.ids[12] = 41; });
}

// A second step would have to change what the first one gave out.
TEST_P(EncoderFailure, RefusesToExtendASequence) {
  const EncoderShape shape = encoder_named("bert");
  const TestModel model = load(shape);
  const TestSession session(*model, options_for(kFewPositions));
  const std::vector<TokenId> tokens = input_for(shape, 4).ids;
  session.run(tokens);
  Diagnostic why;
  EXPECT_EQ(session->step(tokens, &why).status(), Status::kUnsupported);
  EXPECT_STREQ(why.field, "batch");
}

// A model of whole sequences of 9 tokens or more, though its mask is causal.
TEST_P(EncoderFailure, RefusesSequencesShorterThanTheModels) {
  convert::Program program = decoder_program(decoder_named("llama"));
  program.inputs[0].tokens_min = 9;
  const TestModel model(convert::write_model(program, {GetParam()}).span(), GetParam());
  EXPECT_EQ(model->tokens_min(), 9u);
  EXPECT_FALSE(model->causal());
  const TestSession session(*model, options_for(20));
  const std::vector<TokenId> tokens = random_ids(10, model->vocab_size());
  Diagnostic why;
  EXPECT_EQ(session->run(TokenBatch{std::span(tokens).first(8), 1, 8}, &why).status(), kInvalid);
  EXPECT_STREQ(why.field, "batch.lengths");
  EXPECT_EQ(why.found, 8u);
  EXPECT_EQ(why.expected, 9u);
  EXPECT_TRUE(session->run(TokenBatch{std::span(tokens).first(9), 1, 9}, &why).ok()) << why.reason;
  EXPECT_EQ(session->step(tokens, &why).status(), Status::kUnsupported);
  EXPECT_TRUE(session->run(TokenBatch{tokens, 1, 10}, &why).ok()) << why.reason;
}

TEST_P(EncoderFailure, RefusesLengthsBetweenTheStepsOfTheModel) {
  convert::Program program = decoder_program(decoder_named("llama"));
  program.inputs[0].tokens_min = 1;
  program.inputs[0].tokens_step = 4;
  const convert::AlignedBytes file = convert::write_model(program, {GetParam()});
  bool is_needed = false;
  format::for_each_need(file.span(), [&](Need need, uint32_t) {
    is_needed = is_needed || need == Need::kLengthSteps;
    return true;
  });
  EXPECT_TRUE(is_needed);  // so that a build for other models refuses the file
  const TestModel model(file.span(), GetParam());
  EXPECT_EQ(model->input(0).tokens_step, 4u);
  EXPECT_FALSE(model->causal());
  const TestSession session(*model, options_for(20));
  const std::vector<TokenId> tokens = random_ids(9, model->vocab_size());
  for (uint32_t length = 1; length <= 9; ++length) {
    Diagnostic why;
    const Result<Output> output =
        session->run(TokenBatch{std::span(tokens).first(length), 1, length}, &why);
    EXPECT_EQ(output.ok(), length % 4 == 1) << length;
    if (output.ok()) continue;
    EXPECT_STREQ(why.field, "batch.lengths");
    EXPECT_EQ(why.found, length);
    EXPECT_EQ(why.expected, length > 8 ? 9u : length > 4 ? 5u : 1u);
  }
}

// A model with its own mask refuses gaps, since they would change distances.
TEST_P(EncoderFailure, ModelsWithAMaskOfTheirOwnTakeLengthsOnly) {
  const TestModel model(make_decoder_model(decoder_named("llama"), {GetParam()}).span(),
                        GetParam());
  const TestSession session(*model, options_for(kFewPositions));
  const std::vector<TokenId> tokens = random_ids(4, model->vocab_size());
  const std::vector<uint8_t> visible = {1, 1, 1, 0};
  TokenBatch batch{tokens, 1, 4};
  batch.visible = visible;
  Diagnostic why;
  EXPECT_EQ(session->run(batch, &why).status(), Status::kUnsupported);
  EXPECT_STREQ(why.field, "batch.visible");
}

}  // namespace
}  // namespace arenite::test
