// SPDX-License-Identifier: Apache-2.0
// Outputs of encoder sessions: rows of tokens or of sequences, and hidden states.
#include <gtest/gtest.h>

#include "runtime/session/encoder_fixture.h"

namespace arenite::test {
namespace {

class EncoderRun : public EncoderTest {};
ARENITE_FOR_EACH_FLOAT_SET(EncoderRun);

// Values are near 1; each layer adds the roundings of a few sums of at most 131 products.
constexpr double kEncoderTolerance = 300 * 64 * kRounding;

struct EncoderStates {
  std::vector<std::vector<float>> values;

  HiddenStateHook hook() {
    return {[](void* context, uint32_t, const float* data, uint32_t rows, uint32_t features) {
              static_cast<EncoderStates*>(context)->values.emplace_back(
                  data, data + size_t{rows} * features);
            },
            this};
  }
};

TEST_P(EncoderRun, AgreesWithTheReferenceInEveryOutputAndHiddenState) {
  for (const EncoderShape& shape : all_encoders()) {
    const TestModel model = load(shape);
    EncoderStates states;
    SessionOptions options = options_for(kEncoderPositions);
    options.hidden_states = states.hook();
    const TestSession session(*model, options);
    const EncoderInput input = input_for(shape, kEncoderPositions);
    for (const uint32_t count : {1u, 2u, 9u, 33u, kEncoderPositions}) {
      const EncoderInput some = input.part(0, count);
      const convert::Evaluation expected = reference(make_encoder(shape), some);
      states.values.clear();
      BatchForm form;
      form.tokens = count;
      ASSERT_TRUE(
          all_near(values_of(run_batch(*session, some, form)), expected.values, kEncoderTolerance))
          << shape.name << count;
      // The features that a bare stack begins with are the caller's.
      const size_t skipped = shape.name == "bare" ? 1 : 0;
      ASSERT_EQ(states.values.size() + skipped, shape.layers + 1) << shape.name;
      for (size_t i = 0; i < states.values.size(); ++i) {
        ASSERT_TRUE(
            all_near(states.values[i], expected.hidden_states[i + skipped], kEncoderTolerance))
            << shape.name << count << " state " << i;
      }
    }
  }
}

TEST_P(EncoderRun, DescribesItsInputAndOutput) {
  for (const EncoderShape& shape : all_encoders()) {
    const TestModel model = load(shape);
    EXPECT_EQ(model->vocab_size(), shape.vocab_size);
    EXPECT_EQ(model->input_features(), shape.input_features);
    EXPECT_EQ(model->token_types(), shape.token_types);
    EXPECT_EQ(model->output_features(), convert::output_width(make_encoder(shape)));
    EXPECT_EQ(model->pooled(), shape.pooling != SelectKind::kAsAsked);
    EXPECT_EQ(model->positions_max(), shape.positions ? kEncoderPositions : 0);
    EXPECT_FALSE(model->causal());
    ASSERT_EQ(model->labels(), shape.classes);
    for (uint32_t i = 0; i < shape.classes; ++i) {
      EXPECT_EQ(model->label(i), "class " + std::to_string(i));
    }
  }
}

TEST_P(EncoderRun, TokensWithoutTypesAreOfTypeZero) {
  const EncoderShape shape = encoder_named("bert");
  const TestModel model = load(shape);
  EncoderInput input = input_for(shape, 20);
  input.types.assign(20, 0);
  const std::vector<float> expected = alone(*model, input);
  input.types.clear();
  EXPECT_TRUE(same_bits(alone(*model, input), expected));
  input.types.assign(20, 1);
  EXPECT_FALSE(same_bits(alone(*model, input), expected));
}

// Pooled models ignore SessionOptions::outputs.
TEST_P(EncoderRun, PooledModelsGiveOneRowForEachSequenceThatGotTokens) {
  for (const EncoderShape& shape : all_encoders()) {
    if (shape.pooling == SelectKind::kAsAsked) continue;
    const TestModel model = load(shape);
    const size_t width = model->output_features();
    const EncoderInput input = input_for(shape, 3 * 20);
    BatchForm form = {3, 20, {20, 0, 7}, {}, false};
    for (const Outputs outputs : {Outputs::kLast, Outputs::kAll}) {
      SessionOptions options = options_for(20, 3);
      options.outputs = outputs;
      const TestSession session(*model, options);
      const std::vector<float> found = values_of(run_batch(*session, input, form));
      ASSERT_EQ(found.size(), 2 * width) << shape.name;
      EXPECT_TRUE(same_bits(rows(found, width, 0, 1), alone(*model, input.part(0, 20))));
      EXPECT_TRUE(same_bits(rows(found, width, 1, 1), alone(*model, input.part(40, 7))));
    }
  }
}

// Pooling part of a sequence would be wrong, even with a causal mask.
TEST_P(EncoderRun, ACausalModelThatPoolsTakesWholeSequences) {
  for (const SelectKind pooling : {SelectKind::kMean, SelectKind::kMax, SelectKind::kFirst,
                                   SelectKind::kLast, SelectKind::kWeightedMean}) {
    EncoderShape shape = encoder_named("sensor");
    shape.causal = true;
    shape.window = 5;
    shape.pooling = pooling;
    const TestModel model = load(shape);
    EXPECT_FALSE(model->causal());
    const EncoderInput input = input_for(shape, kEncoderPositions);
    const std::vector<float> whole = alone(*model, input);
    ASSERT_TRUE(all_near(whole, reference(make_encoder(shape), input).values, kEncoderTolerance));
    const TestSession session(*model, options_for(kEncoderPositions));
    const size_t width = model->input_features();
    const auto part = std::span<const float>(input.features).first(40 * width);
    ASSERT_TRUE(same_bits(session.step(part), alone(*model, input.part(0, 40))));
    Diagnostic why;
    const auto next = std::span<const float>(input.features).subspan(40 * width, width);
    EXPECT_EQ(session->step(next, &why).status(), Status::kUnsupported);
    const std::string reason = test::describe(Status::kUnsupported, why);
    EXPECT_NE(reason.find("takes whole sequences"), std::string::npos) << reason;
    EXPECT_EQ(session->positions(), 40u);
    EXPECT_TRUE(same_bits(session.run(input.features), whole));
  }
}

TEST_P(EncoderRun, NormalizedRowsHaveLengthOne) {
  const EncoderShape shape = encoder_named("sentences");
  const TestModel model = load(shape);
  for (const uint32_t tokens : {1u, 8u, 70u}) {
    double square = 0.0;
    for (const float x : alone(*model, input_for(shape, tokens))) square += double{x} * x;
    EXPECT_NEAR(square, 1.0, 16 * kRounding);
  }
}

TEST_P(EncoderRun, ASecondRunGivesTheSameBits) {
  for (const EncoderShape& shape : all_encoders()) {
    const TestModel model = load(shape);
    const TestSession session(*model, options_for(kEncoderPositions, 2));
    const EncoderInput long_input = input_for(shape, 2 * kEncoderPositions, 1);
    const EncoderInput input = input_for(shape, 9, 2);
    const BatchForm form = {1, 9, {}, {}, false};
    const std::vector<float> expected = values_of(run_batch(*session, input, form));
    values_of(run_batch(*session, long_input, {2, kEncoderPositions, {}, {}, false}));
    EXPECT_TRUE(same_bits(values_of(run_batch(*session, input, form)), expected)) << shape.name;
  }
}

}  // namespace
}  // namespace arenite::test
