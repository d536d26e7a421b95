// SPDX-License-Identifier: Apache-2.0
// Nothing is written outside the arena: all other memory of the process (the model, the heap, the
// program's variables and the callers' stack) is read-only from load to the last step.
#include <gtest/gtest.h>

#include "runtime/session/encoder_fixture.h"
#include "support/few_bits_models.h"
#include "support/frozen_memory.h"
#include "support/slow_builds.h"
#include "support/smallest_slice.h"

namespace arenite::test {
namespace {

constexpr uint32_t kFrozenPositions = 70;
constexpr uint32_t kFrozenTokensMax = 2 * kFrozenPositions;
constexpr uint32_t kThreads = 3;

// Runs tasks on one thread, in a shuffled order, with all thread indices in turn.
void run_backwards(void*, uint32_t tasks, ParallelFor::Task task, void* job) {
  for (uint32_t i = tasks; i-- > 0;) task(job, i, i % kThreads);
}

// Makes every call of a session. Returns false if a call fails that must succeed.
template <typename AnyBatch, typename Value>
bool all_calls(Session& session, const Model& model, std::span<const Value> values, size_t width) {
  Diagnostic why;
  const uint32_t lengths[] = {40, 9};
  const AnyBatch ragged{values.first(2 * 40 * width), 2, 40, lengths};
  bool ok = session.run(ragged, &why).ok();
  if (model.self_test_tokens() != 0) ok = ok && session.self_test(&why).ok();
  ok =
      ok &&
      session.run(AnyBatch{values.first(kFrozenPositions * width), 1, kFrozenPositions}, &why).ok();
  session.reset();
  for (uint32_t i = 0; i < 3 && (i == 0 || model.causal()); ++i) {
    ok = ok && session.step(values.subspan(i * width, width), &why).ok();
  }
  ok = ok && (!model.causal() || session.rewind(0, 1, &why) == Status::kOk);
  ok = ok && session.begin_run(ragged, &why) == Status::kOk && advance_least(session, 2).ok();
  session.cancel();
  ok = ok && !session.step(values.first(0), &why).ok();
  char line[200];
  return ok && describe(Status::kInvalidArgument, why, line) != 0;
}

class FrozenMemory : public EncoderTest {
 protected:
  void SetUp() override {
    if (!can_freeze_memory()) GTEST_SKIP() << "this build writes to memory of its own";
  }

  static SessionOptions options(const Model& model, KvType kv_cache) {
    SessionOptions options = options_for(kFrozenPositions, 2);
    options.tokens_max = kFrozenTokensMax;
    options.kv_cache = kv_cache;
    options.parallel = {kThreads, run_backwards, nullptr};
    if (model.vocab_size() != 0) options.outputs = Outputs::kAll;
    return options;
  }

  // Loads, plans, creates and runs in the arena, which is as large as planned.
  [[noreturn]] static void live(std::span<const std::byte> file, const GuardedBuffer& arena,
                                KvType kv_cache, std::span<const float> features,
                                std::span<const TokenId> ids) {
    call_frozen({arena.span()}, [&] {
      LoadOptions load_options;
      load_options.force_target = true;
      load_options.target = GetParam();
      Diagnostic why;
      const Result<Model> model = Model::load(file, &why, load_options);
      if (!model.ok()) return false;
      const Result<ArenaPlan> plan = plan_arena(*model, options(*model, kv_cache), &why);
      if (!plan.ok() || plan->total_bytes != arena.size()) return false;
      const Result<Session*> session =
          Session::create(*model, options(*model, kv_cache), arena.span(), &why);
      if (!session.ok()) return false;
      const bool ok =
          model->vocab_size() != 0
              ? all_calls<TokenBatch, TokenId>(**session, *model, ids, 1)
              : all_calls<Batch, float>(**session, *model, features, model->input_features());
      return ok && arena.surroundings_intact();
    });
  }

  void TearDown() override { RecordProperty("lives", static_cast<int>(lives_)); }

  void expect_frozen(const convert::AlignedBytes& file, const std::string& name) {
    const TestModel model(file.span(), GetParam());
    for (const KvType kv_cache : {KvType::kF32, KvType::kInt8}) {
      Diagnostic why;
      const Result<ArenaPlan> plan = plan_arena(*model, options(*model, kv_cache), &why);
      ASSERT_TRUE(plan.ok()) << name << describe(plan.status(), why);
      const GuardedBuffer arena(plan->total_bytes, kArenaAlignment);
      const std::vector<float> features =
          random_floats(size_t{kFrozenTokensMax} * model->input_features(), 7);
      const std::vector<TokenId> ids =
          random_ids(kFrozenTokensMax, std::max(model->vocab_size(), 1u));
      ++lives_;
      EXPECT_EXIT(live(model.memory().span(), arena, kv_cache, features, ids),
                  testing::ExitedWithCode(0), "")
          << name;
    }
  }

 private:
  uint32_t lives_ = 0;
};
using FrozenMemoryDeathTest = FrozenMemory;
ARENITE_FOR_EACH_FLOAT_SET(FrozenMemoryDeathTest);

TEST_P(FrozenMemoryDeathTest, IsNotWrittenByModules) {
  for (const ModuleSpec& spec : thinned(all_specs(), 3)) {
    expect_frozen(make_model(spec, {GetParam()}), spec.name);
  }
}

TEST_P(FrozenMemoryDeathTest, IsNotWrittenByDecoders) {
  for (const DecoderShape& shape : thinned(all_decoders(), 3)) {
    expect_frozen(make_decoder_model(shape, {GetParam()}), shape.name);
  }
}

TEST_P(FrozenMemoryDeathTest, IsNotWrittenByEncoders) {
  for (const EncoderShape& shape : thinned(all_encoders(), 3)) {
    expect_frozen(make_encoder_model(shape, {GetParam()}), shape.name);
  }
}

}  // namespace
}  // namespace arenite::test
