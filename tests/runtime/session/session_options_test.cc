// SPDX-License-Identifier: Apache-2.0
// Tests the options of a session, and the messages for options that it cannot serve.
#include <gtest/gtest.h>

#include <string_view>

#include "runtime/session/session_fixture.h"
#include "support/model_surgery.h"
#include "support/pool.h"

namespace arenite::test {
namespace {

class SessionOptionsTest : public SessionTest {
 protected:
  // plan_arena and create must refuse alike, and name `field`.
  static Diagnostic refusal(const Model& model, const SessionOptions& options, const char* field) {
    Diagnostic why;
    EXPECT_EQ(plan_arena(model, options, &why).status(), Status::kInvalidArgument);
    Diagnostic create_why;
    const GuardedBuffer arena(1 << 20, kArenaAlignment);
    EXPECT_EQ(Session::create(model, options, arena.span(), &create_why).status(),
              Status::kInvalidArgument);
    EXPECT_STREQ(why.field, field);
    EXPECT_STREQ(create_why.field, field);
    EXPECT_STREQ(create_why.reason, why.reason);
    return why;
  }
};
ARENITE_FOR_EACH_FLOAT_SET(SessionOptionsTest);

TEST_P(SessionOptionsTest, RefusesMorePositionsThanTheModelHas) {
  const TestModel model = load("strip");
  Diagnostic why = refusal(*model, options_for(kSpecPositions + 1), "options.positions_max");
  EXPECT_EQ(why.found, kSpecPositions + 1);
  EXPECT_EQ(why.expected, kSpecPositions);
  ASSERT_TRUE(plan_arena(*model, options_for(kSpecPositions), &why).ok());
  EXPECT_EQ(why.reason, nullptr) << "what was refused before is no longer so";
}

TEST_P(SessionOptionsTest, DefaultsToThePositionsOfTheModel) {
  const TestModel model = load("strip");
  EXPECT_EQ(plan_arena(*model, {})->total_bytes,
            plan_arena(*model, options_for(kSpecPositions))->total_bytes);
}

TEST_P(SessionOptionsTest, AsksForPositionsWhenTheModelHasNone) {
  const TestModel model = load("causal");
  ASSERT_EQ(model->positions_max(), 0u);
  refusal(*model, {}, "options.positions_max");
}

TEST_P(SessionOptionsTest, RefusesNoSequences) {
  refusal(*load("causal"), options_for(4, 0), "options.sequences_max");
}

TEST_P(SessionOptionsTest, RefusesMoreTokensThanPositions) {
  const TestModel model = load("causal");
  SessionOptions options = options_for(10, 3);
  options.tokens_max = 30;
  ASSERT_TRUE(plan_arena(*model, options).ok());
  EXPECT_EQ(plan_arena(*model, options)->total_bytes,
            plan_arena(*model, options_for(10, 3))->total_bytes);
  options.tokens_max = 31;
  const Diagnostic why = refusal(*model, options, "options.tokens_max");
  EXPECT_EQ(why.found, 31u);
  EXPECT_EQ(why.expected, 30u);
}

// 2^32 tokens in one call cannot be counted; with a smaller call the same sequences are fine.
TEST_P(SessionOptionsTest, AsksForTokensWhenAllPositionsAreTooMany) {
  const TestModel model = load("causal");
  SessionOptions options = options_for(1u << 20, 1u << 12);
  const Diagnostic why = refusal(*model, options, "options.tokens_max");
  EXPECT_NE(why.found, why.expected) << "the numbers would not be shown";
  options.tokens_max = 1;
  EXPECT_EQ(plan_arena(*model, options).ok(), sizeof(size_t) > 4);
}

TEST_P(SessionOptionsTest, RefusesThreadsOutOfRange) {
  const TestModel model = load("causal");
  Pool pool(2);
  SessionOptions options = options_for(4);
  options.parallel = pool.parallel_for();
  ASSERT_TRUE(plan_arena(*model, options).ok());
  options.parallel.threads = 0;
  refusal(*model, options, "options.parallel.threads");
  options.parallel.threads = 1u << 20;
  const Diagnostic why = refusal(*model, options, "options.parallel.threads");
  EXPECT_EQ(why.found, 1u << 20);
  EXPECT_LT(why.expected, why.found);
  options.parallel = {.threads = 2};
  refusal(*model, options, "options.parallel.run");
}

// Each type of cache has its own arena size. The file's type applies if the session sets none.
TEST_P(SessionOptionsTest, KeepsCachesInTheRequestedType) {
  const TestModel model = load("causal");
  SessionOptions options = options_for(512);
  const size_t of_model = plan_arena(*model, options)->kv_cache_bytes;
  options.kv_cache = KvType::kF32;
  EXPECT_EQ(plan_arena(*model, options)->kv_cache_bytes, of_model);
  EXPECT_EQ(model->kv_cache(), TensorType::kF32);
  options.kv_cache = KvType::kInt8;
  EXPECT_LT(plan_arena(*model, options)->kv_cache_bytes, of_model);
  options.kv_cache = static_cast<KvType>(3);
  EXPECT_EQ(refusal(*model, options, "options.kv_cache").found, 3u);
}

TEST_P(SessionOptionsTest, RefusesUnknownOutputs) {
  const TestModel model = load("causal");
  SessionOptions options = options_for(4);
  options.outputs = static_cast<Outputs>(7);
  const Diagnostic why = refusal(*model, options, "options.outputs");
  EXPECT_EQ(why.found, 7u);
  EXPECT_EQ(why.expected, 1u);
}

TEST_P(SessionOptionsTest, RefusesSizesThatOverflow) {
  const TestModel model = load("wide");
  for (const uint32_t positions : {1u << 31, UINT32_MAX - kPagePositions}) {
    SessionOptions options = options_for(positions, UINT32_MAX);
    options.tokens_max = UINT32_MAX;
    EXPECT_EQ(refusal(*model, options, "options").expected, SIZE_MAX / 2);
  }
  refusal(*model, options_for(UINT32_MAX), "options.positions_max");
}

// Rounded up to whole panels, these positions would overflow 32 bits, and the cache would be empty.
TEST_P(SessionOptionsTest, RefusesAContextThatCannotBeCounted) {
  for (const uint32_t positions : {UINT32_MAX, UINT32_MAX - 1, UINT32_MAX - kPagePositions + 1}) {
    ModelSurgery file(make_model(spec_named("causal")).span());
    file.overwrite(reinterpret_cast<const uint32_t*>(file.model().inputs()->Data()) + 3, positions);
    file.repair();
    const TestModel model(file.file(), GetParam());
    ASSERT_EQ(model->positions_max(), positions);
    SessionOptions options;
    options.tokens_max = 1;
    EXPECT_EQ(refusal(*model, options, "options.positions_max").found, positions);
    options.positions_max = 4;
    EXPECT_TRUE(plan_arena(*model, options).ok());
  }
}

TEST_P(SessionOptionsTest, RefusesAModelThatWasNotLoaded) {
  const Model model;
  Diagnostic why;
  EXPECT_EQ(plan_arena(model, options_for(4), &why).status(), Status::kInvalidArgument);
  EXPECT_STREQ(why.reason, "the model was not loaded");
  const GuardedBuffer arena(1 << 16, kArenaAlignment);
  EXPECT_EQ(Session::create(model, options_for(4), arena.span(), &why).status(),
            Status::kInvalidArgument);
  EXPECT_STREQ(why.reason, "the model was not loaded");
}

TEST_P(SessionOptionsTest, NeedNoDiagnostic) {
  const TestModel model = load("causal");
  EXPECT_FALSE(plan_arena(*model, {}).ok());
  EXPECT_FALSE(Session::create(*model, {}, {}).ok());
  EXPECT_FALSE(Session::create(*model, options_for(4), {}).ok());
}

}  // namespace
}  // namespace arenite::test
