// SPDX-License-Identifier: Apache-2.0
// Outputs of decoder sessions: logits of the last rows or of all, and hidden states.
#include <gtest/gtest.h>

#include <map>

#include "convert/program/weights.h"
#include "runtime/session/decoder_fixture.h"
#include "support/reference_models.h"

namespace arenite::test {
namespace {

class DecoderRun : public DecoderTest {};
ARENITE_FOR_EACH_FLOAT_SET(DecoderRun);

// Values are near 1; each layer adds the roundings of a few sums of at most 300 products.
constexpr double kDecoderTolerance = 300 * 64 * kRounding;

// Evaluates the reference with the weights that the file holds.
convert::Evaluation reference_of(const DecoderShape& shape, std::span<const TokenId> tokens) {
  return convert::evaluate(convert::with_stored_weights(decoder_graph(shape)), {tokens, {}, {}});
}

// Where rows are rounded to int8, the last bit of a number may decide between two steps, each a
// 256th of what the row spans.
double tolerance_of(const DecoderShape& shape) {
  return shape.rounds_rows() ? 0.05 : kDecoderTolerance;
}

// Copies of the hidden states of one call, by index.
struct DecoderStates {
  std::map<uint32_t, std::vector<float>> values;
  std::vector<uint32_t> order;

  HiddenStateHook hook() {
    return {[](void* context, uint32_t index, const float* data, uint32_t rows, uint32_t features) {
              DecoderStates& self = *static_cast<DecoderStates*>(context);
              self.values[index].assign(data, data + size_t{rows} * features);
              self.order.push_back(index);
            },
            this};
  }
};

TEST_P(DecoderRun, AgreesWithTheReferenceInEveryLogitAndHiddenState) {
  for (const DecoderShape& shape : all_decoders()) {
    const TestModel model = load(shape);
    const std::vector<TokenId> tokens = ids(*model, kDecoderPositions);
    DecoderStates states;
    SessionOptions options = all_outputs(options_for(kDecoderPositions));
    options.hidden_states = states.hook();
    const TestSession session(*model, options);
    for (const uint32_t count : {1u, 2u, 9u, 33u, kDecoderPositions}) {
      const auto expected = reference_of(shape, part(tokens, 0, count));
      const double tolerance = tolerance_of(shape);
      states = {};
      ASSERT_TRUE(all_near(session.run(part(tokens, 0, count)), expected.values, tolerance))
          << shape.name << count;
      ASSERT_EQ(model->hidden_states(), shape.windows.size() + 1);
      ASSERT_EQ(expected.hidden_states.size(), model->hidden_states());
      ASSERT_EQ(states.order.size(), model->hidden_states());
      for (uint32_t i = 0; i < model->hidden_states(); ++i) {
        ASSERT_EQ(states.order[i], i);
        ASSERT_TRUE(all_near(states.values[i], expected.hidden_states[i], tolerance))
            << shape.name << count << " state " << i;
      }
    }
  }
}

TEST_P(DecoderRun, DescribesItsInputAndOutput) {
  for (const DecoderShape& shape : all_decoders()) {
    const TestModel model = load(shape);
    EXPECT_EQ(model->vocab_size(), shape.vocab_size);
    EXPECT_EQ(model->input_features(), 0u);
    EXPECT_EQ(model->output_features(), shape.vocab_size);
    EXPECT_EQ(model->positions_max(), shape.positions_max);
    EXPECT_TRUE(model->causal());
  }
  EXPECT_EQ(TestModel(make_model(spec_named("causal")).span(), GetParam())->vocab_size(), 0u);
}

TEST_P(DecoderRun, ReturnsTheLastRowOfEachSequenceWithTokens) {
  for (const DecoderShape& shape : all_decoders()) {
    const TestModel model = load(shape);
    const std::vector<TokenId> tokens = ids(*model, 4 * 20);
    const uint32_t lengths[] = {20, 0, 1, 7};
    const TestSession all(*model, all_outputs(options_for(20, 4)));
    const TestSession last(*model, options_for(20, 4));
    const std::vector<float> expected = all.run(tokens, 4, lengths);
    const size_t width = model->output_features();
    ASSERT_EQ(expected.size(), 28 * width);
    const std::vector<float> found = last.run(tokens, 4, lengths);
    ASSERT_EQ(found.size(), 3 * width);
    const size_t rows_of_last[] = {19, 20, 27};
    for (size_t i = 0; i < 3; ++i) {
      ASSERT_TRUE(same_bits(rows(found, width, i, 1), rows(expected, width, rows_of_last[i], 1)))
          << shape.name << i;
    }
    // One token of one sequence.
    const uint32_t one[] = {0, 1, 0, 0};
    ASSERT_EQ(last.step(tokens, 4, one).size(), width);
  }
}

// A call may ask for rows of any tokens, or none, whatever SessionOptions::outputs says.
TEST_P(DecoderRun, ReturnsTheRequestedRows) {
  for (const DecoderShape& shape : all_decoders()) {
    const TestModel model = load(shape);
    const std::vector<TokenId> tokens = ids(*model, 4 * 20);
    const uint32_t lengths[] = {20, 0, 1, 7};
    const size_t begins[] = {0, 0, 20, 21};  // in the rows of all
    const TestSession all(*model, all_outputs(options_for(20, 4)));
    const std::vector<float> expected = all.run(tokens, 4, lengths);
    const size_t width = model->output_features();
    const TestSession last(*model, options_for(20, 4));
    for (const bool is_dense : {true, false}) {
      std::vector<TokenId> fed = tokens;
      std::vector<uint8_t> outputs(tokens.size(), 0);
      if (!is_dense) {
        fed.clear();
        for (size_t i = 0; i < 4; ++i) {
          const auto sequence = std::span(tokens).subspan(20 * i, lengths[i]);
          fed.insert(fed.end(), sequence.begin(), sequence.end());
        }
        outputs.assign(fed.size(), 0);
      }
      const size_t begin_of_last = is_dense ? 60 : 21;
      outputs[0] = outputs[7] = outputs[begin_of_last + 2] = 1;
      const TokenBatch batch = {fed, 4, 20, lengths, {}, !is_dense, {}, {}, outputs};
      for (const TestSession* session : {&all, &last}) {
        ASSERT_EQ(*(*session)->rows_out(batch, true), 3u);
        const std::vector<float> found = values_of((*session)->run(batch));
        ASSERT_EQ(found.size(), 3 * width) << shape.name;
        const size_t asked[] = {begins[0], begins[0] + 7, begins[3] + 2};
        for (size_t i = 0; i < 3; ++i) {
          EXPECT_TRUE(same_bits(rows(found, width, i, 1), rows(expected, width, asked[i], 1)))
              << shape.name << i;
        }
      }
      std::ranges::fill(outputs, uint8_t{0});
      EXPECT_EQ(last->run(batch)->rows, 0u);
      EXPECT_EQ(last->positions(0), 20u) << "tokens are held, too";
      std::ranges::fill(std::span(outputs).first(5), uint8_t{1});
      Diagnostic why;
      EXPECT_EQ(last->run(batch, &why).status(), Status::kInvalidArgument) << "of five 4 fit";
      EXPECT_STREQ(why.field, "batch.outputs");
      EXPECT_EQ(why.found, 5u);
      EXPECT_EQ(why.expected, 4u);
    }
  }
}

TEST_P(DecoderRun, RefusesOutputsThatDoNotFit) {
  const TestModel model = load("llama");
  const TestSession session(*model, options_for(8));
  const std::vector<TokenId> tokens = ids(*model, 4);
  const auto refusal = [&](std::vector<uint8_t> outputs, const char* words) {
    const TokenBatch batch = {tokens, 1, 4, {}, {}, false, {}, {}, outputs};
    Diagnostic why;
    EXPECT_EQ(session->run(batch, &why).status(), Status::kInvalidArgument);
    EXPECT_EQ(session->rows_out(batch, true).status(), Status::kInvalidArgument);
    EXPECT_STREQ(why.reason, words);
  };
  refusal({1, 0, 0}, "expected an outputs value for each token");
  refusal({0, 0, 0, 2}, "outputs have a value other than 0 and 1");
  const TestModel encoder(make_model(spec_named("causal")).span(), GetParam());
  const TestSession other(*encoder, options_for(8));
  const std::vector<float> features(encoder->input_features());
  const uint8_t one[] = {1};
  EXPECT_EQ(other->run(Batch{features, 1, 1, {}, {}, false, {}, one}).status(),
            Status::kUnsupported);
}

// The session holds more sequences than a call has tokens.
TEST_P(DecoderRun, ReturnsAtMostARowPerToken) {
  const TestModel model = load("llama");
  SessionOptions options = options_for(8, 5);
  options.tokens_max = 2;
  const TestSession session(*model, options);
  const std::vector<TokenId> tokens = ids(*model, 5);
  const uint32_t lengths[] = {0, 1, 0, 0, 1};
  EXPECT_EQ(session.run(tokens, 5, lengths).size(), 2 * model->output_features());
  EXPECT_TRUE(session.arena().surroundings_intact());
}

TEST_P(DecoderRun, HiddenStatesHaveARowPerTokenForAnyOutputs) {
  const TestModel model = load("gemma");
  const std::vector<TokenId> tokens = ids(*model, 2 * 9);
  const uint32_t lengths[] = {9, 4};
  DecoderStates all, last;
  SessionOptions options = options_for(9, 2);
  options.hidden_states = last.hook();
  const TestSession last_session(*model, options);
  options = all_outputs(options);
  options.hidden_states = all.hook();
  const TestSession all_session(*model, options);
  all_session.run(tokens, 2, lengths);
  last_session.run(tokens, 2, lengths);
  for (uint32_t i = 0; i < model->hidden_states(); ++i) {
    EXPECT_EQ(all.values[i].size(), 13u * 12u);
    EXPECT_TRUE(same_bits(last.values[i], all.values[i])) << i;
  }
}

TEST_P(DecoderRun, HiddenStatesChangeNoResult) {
  const TestModel model = load("phi");
  const std::vector<TokenId> tokens = ids(*model, 30);
  DecoderStates states;
  SessionOptions options = options_for(30);
  const TestSession without(*model, options);
  options.hidden_states = states.hook();
  const TestSession with(*model, options);
  EXPECT_TRUE(same_bits(with.run(tokens), without.run(tokens)));
  EXPECT_EQ(plan_arena(*model, options)->total_bytes,
            plan_arena(*model, options_for(30))->total_bytes);
}

// The features of the modules go in and out row by row, whatever a decoder would choose.
TEST_P(DecoderRun, ModulesIgnoreTheChoiceOfOutputs) {
  const TestModel model(make_model(spec_named("causal")).span(), GetParam());
  EXPECT_EQ(model->hidden_states(), 0u);
  const std::vector<float> tokens = random_floats(9 * model->input_features(), 7);
  const TestSession last(*model, options_for(9));
  const TestSession all(*model, all_outputs(options_for(9)));
  EXPECT_TRUE(same_bits(last.run(tokens), all.run(tokens)));
  EXPECT_EQ(last.arena().size(), all.arena().size());
}

TEST_P(DecoderRun, StartsAnewOnRunAndOnReset) {
  const TestModel model = load("llama");
  const TestSession session(*model, all_outputs(options_for(20, 2)));
  const std::vector<TokenId> tokens = ids(*model, 24);
  const std::vector<float> first = session.run(tokens, 2);
  EXPECT_TRUE(same_bits(session.run(tokens, 2), first));
  EXPECT_EQ(session->positions(1), 12u);
  session->reset();
  EXPECT_EQ(session->positions(0), 0u);
  EXPECT_TRUE(same_bits(session.step(tokens, 2), first));
}

}  // namespace
}  // namespace arenite::test
