// SPDX-License-Identifier: Apache-2.0
// Features that are not finite, in whole models: which outputs they reach, and how a call reports
// them.
#include <gtest/gtest.h>

#include <cmath>

#include "runtime/session/encoder_fixture.h"

namespace arenite::test {
namespace {

class SessionFinite : public EncoderTest {
 protected:
  static TestModel module(const ModuleSpec& spec) {
    return TestModel(make_model(spec).span(), GetParam());
  }
};
ARENITE_FOR_EACH_FLOAT_SET(SessionFinite);

TEST_P(SessionFinite, NonFiniteTokensReachNoEarlierRowOfACausalModel) {
  for (const ModuleSpec& spec : all_specs()) {
    const TestModel model = module(spec);
    const size_t in = model->input_features(), out = model->output_features();
    const TestSession session(*model, options_for(kSpecPositions));
    std::vector<float> features = random_floats(kSpecPositions * in, 7);
    const std::vector<float> clean = session.run(features);
    EXPECT_TRUE(session->output().finite()) << spec.name;
    for (const uint32_t bad : {1u, 38u, kSpecPositions - 1}) {
      for (const float number : {NAN, INFINITY}) {
        std::vector<float> spoiled = features;
        std::fill_n(spoiled.begin() + static_cast<ptrdiff_t>(bad * in), in, number);
        const std::vector<float> found = session.run(spoiled);
        EXPECT_FALSE(session->output().finite()) << spec.name << number;
        if (!model->causal()) continue;
        EXPECT_TRUE(same_bits(rows(found, out, 0, bad), rows(clean, out, 0, bad)))
            << spec.name << " " << number << " in token " << bad;
        for (const uint32_t chunk : {1u, 9u}) {
          session->reset();
          ASSERT_TRUE(same_bits_or_nan(session.steps_of(chunk, spoiled), found)) << spec.name;
        }
      }
    }
  }
}

TEST_P(SessionFinite, NonFiniteSequencesReachNoOther) {
  for (const ModuleSpec& spec : all_specs()) {
    const TestModel model = module(spec);
    const size_t sequence_features = 20 * model->input_features();
    const size_t out = 20 * size_t{model->output_features()};
    const TestSession session(*model, options_for(20, 3));
    std::vector<float> features = random_floats(3 * sequence_features, 7);
    const std::vector<float> clean = session.run(features, 3);
    std::fill_n(features.begin() + static_cast<ptrdiff_t>(sequence_features), sequence_features,
                NAN);
    const std::vector<float> found = session.run(features, 3);
    EXPECT_TRUE(same_bits(rows(found, out, 0, 1), rows(clean, out, 0, 1))) << spec.name;
    EXPECT_TRUE(same_bits(rows(found, out, 2, 1), rows(clean, out, 2, 1))) << spec.name;
    for (const float number : rows(found, out, 1, 1)) ASSERT_TRUE(std::isnan(number)) << spec.name;
  }
}

// Norms, activations, pooling and classifiers in between: NaN is not lost on the way.
TEST_P(SessionFinite, EveryEncoderOfFeaturesKeepsNaNInItsSequence) {
  for (const EncoderShape& shape : all_encoders()) {
    if (shape.vocab_size != 0) continue;
    const TestModel model = load(shape);
    const TestSession session(*model, options_for(12, 3));
    EncoderInput input = input_for(shape, 3 * 12);
    const BatchForm form = {3, 12};
    const std::vector<float> clean = values_of(run_batch(*session, input, form));
    EXPECT_TRUE(session->output().finite()) << shape.name;
    input.features[(12 + 5) * shape.input_features] = NAN;
    const std::vector<float> found = values_of(run_batch(*session, input, form));
    EXPECT_FALSE(session->output().finite()) << shape.name;
    const size_t size = clean.size() / 3;
    for (const size_t sequence : {0u, 2u}) {
      EXPECT_TRUE(same_bits(rows(found, size, sequence, 1), rows(clean, size, sequence, 1)))
          << shape.name;
    }
    for (const float number : rows(found, size, 1, 1)) EXPECT_TRUE(std::isnan(number));
  }
}

TEST_P(SessionFinite, PaddingIsNotRead) {
  for (const EncoderShape& shape : all_encoders()) {
    if (shape.vocab_size != 0) continue;
    const TestModel model = load(shape);
    const TestSession session(*model, options_for(12, 2));
    EncoderInput input = input_for(shape, 2 * 12);
    const BatchForm form = {2, 12, {5, 12}};
    const std::vector<float> clean = values_of(run_batch(*session, input, form));
    std::fill(input.features.begin() + 5 * shape.input_features,
              input.features.begin() + 12 * shape.input_features, NAN);
    EXPECT_TRUE(same_bits(values_of(run_batch(*session, input, form)), clean)) << shape.name;
    EXPECT_TRUE(session->output().finite());
  }
}

TEST(OutputFinite, ChecksEveryElement) {
  for (uint32_t size = 1; size <= 70; ++size) {
    std::vector<float> numbers = random_floats(size, size);
    const Output output = {numbers.data(), 1, size};
    EXPECT_TRUE(output.finite());
    for (float& number : numbers) {
      for (const float bad : {NAN, -NAN, INFINITY, -INFINITY}) {
        const float before = std::exchange(number, bad);
        EXPECT_FALSE(output.finite()) << size;
        number = before;
      }
      for (const float good : {3.4028235e38f, -3.4028235e38f, 0.0f, -0.0f, 1e-45f}) {
        const float before = std::exchange(number, good);
        EXPECT_TRUE(output.finite()) << good;
        number = before;
      }
    }
  }
  EXPECT_TRUE(Output{}.finite());
}

}  // namespace
}  // namespace arenite::test
