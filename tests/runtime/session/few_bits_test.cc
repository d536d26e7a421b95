// SPDX-License-Identifier: Apache-2.0
// Quantized modules and encoders keep all promises: the reference's results, the same bits in any
// chunks, and a passing self-test on every kernel set. Other tests include quantized decoders.
#include <gtest/gtest.h>

#include "convert/check/pack_model.h"
#include "convert/graph/interpreter.h"
#include "convert/program/weights.h"
#include "convert/program/writer.h"
#include "runtime/session/encoder_fixture.h"
#include "support/few_bits_models.h"
#include "support/slow_builds.h"

namespace arenite::test {
namespace {

constexpr uint32_t kFewBitsTokens = 37;

class FewBits : public EncoderTest {
 protected:
  static TestModel load(const FewBitsModel& model) {
    return TestModel(convert::write_model(model.program(), {GetParam()}).span(), GetParam());
  }

  static EncoderInput input_for(const FewBitsModel& model, size_t tokens) {
    EncoderInput input;
    input.features_per_token = model.features;
    if (model.vocab_size == 0) {
      input.features = random_floats(tokens * model.features, 7);
    } else {
      input.ids = random_ids(tokens, model.vocab_size);
    }
    return input;
  }

  // Evaluates the reference with the weights that the file holds.
  static std::vector<double> expected(const FewBitsModel& model, const EncoderInput& input) {
    const convert::SequenceInput read = {input.ids, input.types, input.features};
    return convert::evaluate(convert::with_stored_weights(model.graph), read).values;
  }
};
ARENITE_FOR_EACH_KERNEL_SET(FewBits);

TEST_P(FewBits, ModulesAgreeWithTheReferenceInAnyChunk) {
  for (const FewBitsModel& of_type : few_bits_modules()) {
    const TestModel model = load(of_type);
    const TestSession session(*model, options_for(kFewBitsTokens));
    const EncoderInput input = input_for(of_type, kFewBitsTokens);
    const std::vector<float> all = session.run(input.features);
    ASSERT_TRUE(all_near(all, expected(of_type, input), of_type.tolerance)) << of_type.name;
    for (const uint32_t tokens : {1u, 2u, 3u, 5u, 9u, 13u}) {
      session->reset();
      ASSERT_TRUE(same_bits(session.steps_of(tokens, input.features), all))
          << of_type.name << tokens;
    }
  }
}

TEST_P(FewBits, EncodersAgreeWithTheReferenceAtEveryLength) {
  Turns turns(4);
  for (const FewBitsModel& of_type : few_bits_encoder_models()) {
    const TestModel model = load(of_type);
    for (const uint32_t tokens : {1u, 9u, kFewBitsTokens}) {
      if (!turns.has_next()) continue;
      const EncoderInput input = input_for(of_type, tokens);
      ASSERT_TRUE(all_near(alone(*model, input), expected(of_type, input), of_type.tolerance))
          << of_type.name << tokens;
    }
  }
}

// Scalar kernels give the bits that the converter stored; other kernels are within the tolerance.
TEST_P(FewBits, SelfTestsPass) {
  std::vector<FewBitsModel> models = few_bits_modules();
  for (FewBitsModel& model : few_bits_encoder_models()) models.push_back(std::move(model));
  for (const FewBitsModel& of_type : models) {
    const auto file = convert::pack_model(of_type.program(), all_targets(), "test");
    const TestModel model(file.span(), GetParam());
    const TestSession session(*model, options_for(model->self_test_tokens()));
    const Result<SelfTest> test = session->self_test();
    ASSERT_TRUE(test.ok()) << of_type.name;
    EXPECT_TRUE(test->passed) << of_type.name << ": " << test->op_name;
    if (GetParam() == Target::kPortable) {
      EXPECT_EQ(test->difference, 0.0f) << of_type.name;
    }
  }
}

TEST(FewBitsModels, HaveWeightsOfTheirTypes) {
  for (const FewBitsModel& of_type : few_bits_encoder_models()) {
    uint32_t in_few_bits = 0;
    for (const convert::ProgramTensor& tensor : of_type.program().tensors) {
      if (tensor.type != TensorType::kF32) ++in_few_bits;
    }
    EXPECT_GE(in_few_bits, 8u) << of_type.name;
  }
}

}  // namespace
}  // namespace arenite::test
