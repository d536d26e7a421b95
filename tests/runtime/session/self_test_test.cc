// SPDX-License-Identifier: Apache-2.0
// The self-test of a file passes where the kernels are correct, and names the op where they are
// not.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "convert/check/pack_model.h"
#include "convert/families/families.h"
#include "convert/program/program.h"
#include "convert/program/writer.h"
#include "convert/spec/model_tensors.h"
#include "format/reader.h"
#include "runtime/session/decoder_fixture.h"
#include "runtime/session/encoder_fixture.h"
#include "support/malloc_trap.h"
#include "support/model_factory.h"
#include "support/pool.h"

namespace arenite::test {
namespace {

// One program for each kind of model there is.
std::vector<convert::Program> all_programs() {
  std::vector<convert::Program> programs;
  for (const ModuleSpec& spec : all_specs()) {
    programs.push_back(compile(build_graph(make_module(spec)), spec.name));
  }
  for (const DecoderShape& shape : all_decoders()) programs.push_back(decoder_program(shape));
  for (const EncoderShape& shape : all_encoders()) programs.push_back(encoder_program(shape));
  return programs;
}

convert::AlignedBytes file_of(const convert::Program& program,
                              const std::vector<Target>& targets = all_targets()) {
  return convert::pack_model(program, targets, "test");
}

convert::Program decoder() { return decoder_program(decoder_named("llama")); }

SelfTest test_of(Session& session) {
  Diagnostic why;
  const Result<SelfTest> test = session.self_test(&why);
  EXPECT_TRUE(test.ok()) << describe(test.status(), why);
  return test.ok() ? *test : SelfTest{};
}

std::string words(const SelfTest& test) {
  return std::string(test.op_name) + " differs by " + std::to_string(test.difference) +
         ", tolerance " + std::to_string(test.tolerance);
}

// The weights of a tensor in a file that is not to be verified again.
float* weights_of(convert::AlignedBytes& file, Target target, uint32_t tensor) {
  const format::ModelReader reader(file.span());
  uint32_t packed = 0;
  while (reader.packed(packed).target != static_cast<uint8_t>(target)) ++packed;
  return const_cast<float*>(reader.weights(packed, tensor).f32());
}

class SelfTests : public testing::TestWithParam<Target> {
 protected:
  // Runs the self-test of a file whose checksums are not verified.
  static SelfTest test_unverified(const convert::AlignedBytes& file) {
    LoadOptions options;
    options.force_target = true;
    options.target = GetParam();
    options.checksums = Checksums::kSkip;
    const Result<Model> model = Model::load(file.span(), nullptr, options);
    EXPECT_TRUE(model.ok());
    const TestSession session(*model, options_for(kDecoderPositions));
    return test_of(*session);
  }
};
ARENITE_FOR_EACH_KERNEL_SET(SelfTests);

TEST_P(SelfTests, PassForModelsOfAllKinds) {
  for (const convert::Program& program : all_programs()) {
    const TestModel model(file_of(program).span(), GetParam());
    const uint32_t tokens = model->self_test_tokens();
    ASSERT_NE(tokens, 0u) << program.name;
    const TestSession session(*model, options_for(tokens));
    const SelfTest test = test_of(*session);
    EXPECT_TRUE(test.passed) << program.name << ": " << words(test);
    EXPECT_GT(test.tolerance, 0.0f) << program.name;
    EXPECT_LE(test.op_index, model->ops());
  }
}

// Computes 1e6 x - 1e6 x: zero if a kernel rounds each product, and the rounding error of the first
// product if it fuses multiply and add.
convert::Program cancelling_program() {
  ModuleSpec spec = spec_named("causal");
  spec.heads = 1;
  spec.value_dim = 2;
  spec.output_features = 1;
  convert::AttentionModule module = make_module(spec);
  module.value = select_rows(module.value, {0, 0});
  module.output = {held_weight("output", 1, 2, {1e6f, -1e6f}), {0.0f}};
  return compile(build_graph(module), "cancelling");
}

// If kernel sets differ much, the tolerance is 16 times their difference instead of a share of the
// row's norm.
TEST(SelfTestTolerance, CoversTheDifferencesOfKernelSets) {
  const convert::AlignedBytes file = file_of(cancelling_program());
  float most_used = 0.0f;
  for (const Target target : targets_here()) {
    const TestModel model(file.span(), target);
    const TestSession session(*model, options_for(model->self_test_tokens()));
    const SelfTest test = test_of(*session);
    EXPECT_TRUE(test.passed) << kernel_set_name(target) << ": " << words(test);
    most_used = std::max(most_used, test.difference / test.tolerance);
  }
  const uint32_t fused = bit(Target::kX86_64_v3) | bit(Target::kArm64);
  if ((cpu_targets() & fused) == 0) GTEST_SKIP() << "no kernel set here fuses products and sums";
  EXPECT_FLOAT_EQ(most_used, 1.0f / 16.0f);
}

TEST_P(SelfTests, ServeFilesForOtherCpusToo) {
  const bool on_arm = (cpu_targets() & bit(Target::kArm64)) != 0;
  const Target foreign = on_arm ? Target::kX86_64_v2 : Target::kArm64;
  const convert::AlignedBytes file = file_of(decoder(), {foreign, GetParam()});
  const TestModel model(file.span(), GetParam());
  const TestSession session(*model, options_for(model->self_test_tokens()));
  EXPECT_TRUE(test_of(*session).passed);
}

TEST_P(SelfTests, PassForAnySessionOptions) {
  const TestModel model(file_of(decoder()).span(), GetParam());
  Pool pool(3);
  for (const uint32_t tokens_max : {1u, 2u, 64u}) {
    for (const Outputs outputs : {Outputs::kLast, Outputs::kAll}) {
      SessionOptions options = options_for(kDecoderPositions, 3);
      options.tokens_max = tokens_max;
      options.outputs = outputs;
      options.parallel = pool.parallel_for();
      const TestSession session(*model, options);
      EXPECT_TRUE(test_of(*session).passed) << tokens_max;
    }
  }
}

// The type of the session's KV cache has its own tolerance.
TEST_P(SelfTests, PassWithTheOtherTypeOfCache) {
  const TestModel model(file_of(decoder()).span(), GetParam());
  SessionOptions options = options_for(kDecoderPositions);
  options.kv_cache = KvType::kInt8;
  const TestSession session(*model, options);
  const SelfTest test = test_of(*session);
  EXPECT_TRUE(test.passed) << words(test);
  EXPECT_GT(test.difference, 0.0f);
}

TEST_P(SelfTests, PassInAContextOfOneToken) {
  convert::Program program = decoder();
  program.inputs[0].positions_max = 1;
  const TestModel model(file_of(program).span(), GetParam());
  const TestSession session(*model, options_for(1));
  EXPECT_TRUE(test_of(*session).passed);
}

// The last token is fed alone: kernels for many rows and kernels for one row are both tested.
TEST_P(SelfTests, FeedTheLastTokenAlone) {
  const TestModel model(file_of(decoder()).span(), GetParam());
  ASSERT_GT(model->self_test_tokens(), 2u);
  uint32_t calls = 0;
  SessionOptions options = options_for(kDecoderPositions);
  options.profile.context = &calls;
  options.profile.op_begins = [](void* context, uint32_t op_index) {
    if (op_index == 0) ++*static_cast<uint32_t*>(context);
  };
  const TestSession session(*model, options);
  EXPECT_TRUE(test_of(*session).passed);
  EXPECT_EQ(calls, 2u);
}

TEST_P(SelfTests, NeedNoHeapAndLeaveTheSessionEmpty) {
  const TestModel model(file_of(decoder()).span(), GetParam());
  const TestSession session(*model, options_for(kDecoderPositions));
  const std::vector<TokenId> ids = random_ids(5, model->vocab_size());
  const std::vector<float> before = session.run(ids);
  bool passed = false;
  {
    const NoHeapScope no_heap;
    passed = session->self_test()->passed;
  }
  EXPECT_TRUE(passed);
  EXPECT_EQ(session->positions(), 0u);
  EXPECT_TRUE(same_bits(session.step(ids), before));
}

// A weight that is off by an amount that would be hard to see in an answer.
TEST_P(SelfTests, NameTheFirstOpWhoseWeightsAreWrong) {
  const convert::Program program = decoder();
  for (const uint32_t op : {1u, 2u}) {
    uint32_t linear = 0;
    uint32_t index = 0;
    for (; index < program.ops.size(); ++index) {
      if (program.ops[index].body.kind == format::OpKind::kLinear && ++linear == op) break;
    }
    convert::AlignedBytes file = file_of(program, {GetParam()});
    EXPECT_TRUE(test_unverified(file).passed);
    weights_of(file, GetParam(), program.ops[index].body.numbers[format::LinearOp::kTensor])[0] +=
        0.02f;  // a bias
    const SelfTest test = test_unverified(file);
    EXPECT_FALSE(test.passed);
    EXPECT_EQ(test.op_index, index);
    EXPECT_EQ(test.op_name, program.ops[index].name);
    EXPECT_GT(test.difference, test.tolerance);
    EXPECT_LT(test.difference, 0.03f);
  }
}

TEST_P(SelfTests, FailOnNaN) {
  const convert::Program program = decoder();
  convert::AlignedBytes file = file_of(program, {GetParam()});
  const uint32_t tensor = program.ops[0].body.numbers[format::EmbeddingOp::kTokens];
  float* const weights = weights_of(file, GetParam(), tensor);
  const uint64_t floats = format::stored_bytes(program.tensors[tensor].shape(),
                                               packing_of(GetParam(), TensorType::kF32))
                              .value() /
                          4;
  std::fill(weights, weights + floats, std::numeric_limits<float>::quiet_NaN());
  const SelfTest test = test_unverified(file);
  EXPECT_FALSE(test.passed);
  EXPECT_EQ(test.op_index, 0u);
  EXPECT_TRUE(std::isnan(test.difference));
}

TEST_P(SelfTests, CompareTheOutputElementByElement) {
  convert::AlignedBytes file = file_of(decoder(), {GetParam()});
  const format::ModelReader reader(file.span());
  const format::SelfTestView stored = reader.self_test();
  const uint64_t output = format::self_test_layout(reader, stored.tokens).outputs[0];
  const uint32_t width = reader.slot(reader.output_slot()).width;
  float last;  // follows the tolerance of the row
  std::byte* const place =
      file.data() + stored.segment.begin() + output + size_t{width} * sizeof(last);
  std::memcpy(&last, place, sizeof(last));
  last += 0.1f;
  std::memcpy(place, &last, sizeof(last));
  const SelfTest test = test_unverified(file);
  EXPECT_FALSE(test.passed);
  EXPECT_EQ(test.op_index, decoder().ops.size());
  EXPECT_STREQ(test.op_name, "output");
  EXPECT_EQ(test.token, stored.tokens - 1);
  EXPECT_NEAR(test.difference, 0.1f, 1e-3f);
}

TEST_P(SelfTests, AreRefusedWhereTheFileHasNone) {
  convert::AlignedBytes file = file_of(decoder());
  convert::strip_self_test(file);
  const TestModel model(file.span(), GetParam());
  EXPECT_EQ(model->self_test_tokens(), 0u);
  const TestSession session(*model, options_for(kDecoderPositions));
  Diagnostic why;
  EXPECT_EQ(session->self_test(&why).status(), Status::kUnsupported);
  EXPECT_STREQ(why.field, "self_test");
}

TEST_P(SelfTests, AreRefusedBySessionsTooSmallForThem) {
  const TestModel decoder_model(file_of(decoder()).span(), GetParam());
  const uint32_t tokens = decoder_model->self_test_tokens();
  const TestSession small(*decoder_model, options_for(tokens - 1));
  Diagnostic why;
  EXPECT_EQ(small->self_test(&why).status(), Status::kInvalidArgument);
  EXPECT_STREQ(why.field, "options.positions_max");
  EXPECT_EQ(why.expected, tokens);

  // An encoder's tokens go in together.
  const convert::Program program = encoder_program(encoder_named("bert"));
  const TestModel encoder(file_of(program).span(), GetParam());
  SessionOptions options = options_for(kEncoderPositions);
  options.tokens_max = tokens - 1;
  const TestSession narrow(*encoder, options);
  EXPECT_EQ(narrow->self_test(&why).status(), Status::kInvalidArgument);
  EXPECT_STREQ(why.field, "batch.tokens");
}

TEST_P(SelfTests, AreRefusedWhileAStepIsInProgress) {
  const TestModel model(file_of(decoder()).span(), GetParam());
  const TestSession session(*model, options_for(kDecoderPositions));
  const std::vector<TokenId> ids = random_ids(3, model->vocab_size());
  ASSERT_EQ(session->begin_run(TokenBatch{ids, 1, 3}), Status::kOk);
  Diagnostic why;
  EXPECT_EQ(session->self_test(&why).status(), Status::kInvalidArgument);
  ASSERT_TRUE(session->advance(UINT64_MAX).ok());
  EXPECT_EQ(session->positions(), 3u) << "the step was there before and goes on";
}

// Ids are the only values in the segment that the runtime uses for more than comparisons.
TEST_P(SelfTests, AreRefusedWithIdsThatTheVocabularyLacks) {
  for (const uint32_t token : {0u, 5u}) {  // of the first call and of the second
    convert::AlignedBytes file = file_of(decoder(), {GetParam()});
    const format::SegmentView segment = format::ModelReader(file.span()).self_test().segment;
    std::memset(file.data() + segment.begin() + token * sizeof(TokenId), 0x7F, sizeof(TokenId));
    LoadOptions options;
    options.checksums = Checksums::kSkip;
    const Result<Model> model = Model::load(file.span(), nullptr, options);
    ASSERT_TRUE(model.ok());
    const TestSession session(*model, options_for(kDecoderPositions));
    EXPECT_EQ(session->self_test().status(), Status::kInvalidArgument);
    EXPECT_EQ(session->positions(), 0u);
  }
}

// The scalar kernels give the same results here as on the converter's machine.
TEST(SelfTestsOfThePortableTarget, FindNoDifference) {
  for (const convert::Program& program : all_programs()) {
    const TestModel model(file_of(program).span(), Target::kPortable);
    const TestSession session(*model, options_for(model->self_test_tokens()));
    const SelfTest test = test_of(*session);
    EXPECT_EQ(test.difference, 0.0f) << program.name;
    EXPECT_EQ(test.op_index, 0u) << "the first of equal differences is named, " << program.name;
  }
}

TEST(StrippingTheSelfTest, GivesTheFileThatNeverHadOne) {
  for (const convert::Program& program : all_programs()) {
    convert::AlignedBytes file = file_of(program);
    convert::strip_self_test(file);
    const convert::AlignedBytes without = convert::write_model(program, all_targets());
    ASSERT_EQ(file.size(), without.size()) << program.name;
    EXPECT_EQ(std::memcmp(file.data(), without.span().data(), file.size()), 0) << program.name;
    convert::strip_self_test(file);
    EXPECT_EQ(file.size(), without.size());
  }
}

}  // namespace
}  // namespace arenite::test
