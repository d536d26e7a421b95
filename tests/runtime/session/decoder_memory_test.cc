// SPDX-License-Identifier: Apache-2.0
// Memory of decoders: exactly the planned bytes, no access outside them, no heap.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "arenite/arena_formula.h"
#include "runtime/session/decoder_fixture.h"
#include "session/session_state.h"
#include "support/malloc_trap.h"
#include "support/model_surgery.h"
#include "support/pool.h"
#include "support/slow_builds.h"

namespace arenite::test {
namespace {

class DecoderMemory : public DecoderTest {};
ARENITE_FOR_EACH_FLOAT_SET(DecoderMemory);

// Sizes that meet tiles, pages, rings and the choice of outputs in different ways.
std::vector<SessionOptions> decoder_options(const Model& model) {
  std::vector<SessionOptions> all;
  for (const uint32_t positions : {1u, 8u, 33u, 70u, 1024u, 2000u}) {
    if (positions > model.positions_max() || (kSampled && positions > 1024)) continue;
    for (const uint32_t sequences : {1u, 3u}) {
      for (const uint32_t tokens : {0u, 1u, 2u, 7u}) {
        if (tokens > positions) continue;
        SessionOptions options = options_for(positions, sequences);
        options.tokens_max = tokens;
        all.push_back(options);
        all.push_back(all_outputs(options));
      }
    }
  }
  return all;
}

TEST_P(DecoderMemory, SucceedsWithThePlannedBytesAndFailsWithOneLess) {
  for (const DecoderShape& shape : all_decoders()) {
    const TestModel model = load(shape);
    for (const SessionOptions& options : thinned(decoder_options(*model), 7)) {
      const size_t bytes = plan_arena(*model, options)->total_bytes;
      const GuardedBuffer arena(bytes, kArenaAlignment);
      Diagnostic why;
      ASSERT_EQ(Session::create(*model, options, arena.span().first(bytes - 1), &why).status(),
                Status::kArenaTooSmall);
      EXPECT_EQ(why.bytes_needed, bytes);
      EXPECT_EQ(why.found, bytes - 1);
      const Result<Session*> session = Session::create(*model, options, arena.span(), &why);
      ASSERT_TRUE(session.ok()) << shape.name;
      const uint32_t tokens = options.tokens_max != 0 ? options.tokens_max : options.positions_max;
      ASSERT_TRUE((*session)->run({ids(*model, tokens), 1, tokens, {}}).ok());
      ASSERT_TRUE(arena.surroundings_intact());
    }
  }
}

TEST_P(DecoderMemory, PlanIsTheFormulaInTheFile) {
  for (const DecoderShape& shape : all_decoders()) {
    const TestModel model = load(shape);
    const ArenaFormula formula =
        ModelAccess::reader(*model).formula(ModelAccess::packed_index(*model));
    for (const SessionOptions& options : decoder_options(*model)) {
      SessionSizes sizes;
      sizes.positions_max = options.positions_max;
      sizes.kv_type = model->kv_cache();
      sizes.sequences_max = options.sequences_max;
      sizes.tokens_max = options.tokens_max != 0 ? options.tokens_max
                                                 : options.positions_max * options.sequences_max;
      sizes.all_rows = options.outputs == Outputs::kAll;
      const ArenaPlan plan = *plan_arena(*model, options);
      const ArenaSizes expected = evaluate(formula, ModelAccess::reader(*model).axes(), sizes);
      EXPECT_EQ(plan.kv_cache_bytes, expected.kv_cache_bytes.value());
      EXPECT_EQ(plan.activation_bytes, expected.activation_bytes.value());
      EXPECT_EQ(plan.total_bytes, expected.total_bytes.value());
    }
  }
}

// Logits are by far the widest rows of a decoder: only those that are given out have room.
TEST_P(DecoderMemory, LastRowsNeedLessThanAll) {
  const TestModel model = load("wide");
  const SessionOptions options = options_for(70, 2);
  const size_t last = plan_arena(*model, options)->activation_bytes;
  const size_t all = plan_arena(*model, all_outputs(options))->activation_bytes;
  const size_t row = (model->output_features() + 67) * sizeof(float);  // logits, what makes them
  EXPECT_LE(all - last, 138 * row + kArenaAlignment);
  EXPECT_GE(all - last + kArenaAlignment, 138 * row);
}

TEST_P(DecoderMemory, GuardPagesAreNotTouched) {
  std::vector<uint32_t> counts;
  for (uint32_t count = 1; count <= kDecoderPositions; count += count < 10 ? 1 : 12) {
    counts.push_back(count);
  }
  for (const DecoderShape& shape : all_decoders()) {
    ModelSurgery file(make_decoder_model(shape, {GetParam()}).span());
    file.pad_to(kModelAlignment);
    for (const Guard guard : {Guard::kBehind, Guard::kBefore}) {
      const TestModel model(file.file(), GetParam(), guard);
      for (const uint32_t count : thinned(counts, 7)) {
        const std::vector<TokenId> tokens = ids(*model, count);
        const GuardedBuffer memory(count * sizeof(TokenId), sizeof(TokenId), 0, guard);
        std::memcpy(memory.data(), tokens.data(), memory.size());
        const std::span<const TokenId> input(reinterpret_cast<const TokenId*>(memory.data()),
                                             count);
        for (const Outputs outputs : {Outputs::kLast, Outputs::kAll}) {
          SessionOptions options = options_for(count);
          options.outputs = outputs;
          const TestSession session(*model, options, guard);
          const std::vector<float> expected = session.run(input);
          session->reset();
          const std::vector<float> steps = session.steps_of(1, input);
          ASSERT_TRUE(same_bits(std::span(steps).last(expected.size()), expected)) << shape.name;
          EXPECT_TRUE(session.arena().surroundings_intact());
        }
        EXPECT_TRUE(memory.surroundings_intact());
      }
      EXPECT_TRUE(model.memory().surroundings_intact());
      EXPECT_EQ(std::memcmp(model.memory().data(), file.file().data(), file.file().size()), 0)
          << "the model was written to";
    }
  }
}

TEST_P(DecoderMemory, GuardPagesAreNotTouchedByThreadsAndRaggedBatches) {
  Pool pool(3, Order::kReversed);
  const uint32_t lengths[] = {33, 0, 1, 8};
  for (const DecoderShape& shape : all_decoders()) {
    const TestModel model = load(shape);
    for (const Guard guard : {Guard::kBehind, Guard::kBefore}) {
      SessionOptions options = options_for(33, 4);
      options.tokens_max = 42;  // exactly those of the lengths
      options.parallel = pool.parallel_for();
      const TestSession session(*model, options, guard);
      EXPECT_EQ(session.run(ids(*model, 4 * 33), 4, lengths).size(), 3 * model->output_features());
      EXPECT_TRUE(session.arena().surroundings_intact());
    }
  }
}

TEST_P(DecoderMemory, GuardPagesAreNotTouchedByRings) {
  const TestModel model = load(ring_decoder());
  constexpr uint32_t kPositions = kEmulated ? kRingDecoderPositions : 2200;
  const std::vector<TokenId> tokens = ids(*model, kPositions);
  for (const Guard guard : {Guard::kBehind, Guard::kBefore}) {
    SessionOptions options = options_for(kPositions);
    options.tokens_max = 37;
    const TestSession session(*model, options, guard);
    session.steps_of(37, tokens);
    EXPECT_TRUE(session.arena().surroundings_intact());
  }
}

// All calls of a session's life, in a scope in which an allocation ends the process.
Status live(std::span<const std::byte> file, Target target, const SessionOptions& options,
            std::span<std::byte> arena, std::span<const TokenId> ids) {
  const NoHeapScope no_heap;
  Diagnostic why;
  const Result<Model> model = Model::load(file, &why, {.force_target = true, .target = target});
  if (!model.ok()) return model.status();
  const Result<Session*> created = Session::create(*model, options, arena, &why);
  if (!created.ok()) return created.status();
  Session& session = **created;
  const TokenBatch batch{ids, 2, static_cast<uint32_t>(ids.size() / 2), {}};
  if (const Result<Output> output = session.run(batch, &why); !output.ok()) return output.status();
  session.reset();
  if (const Result<Output> output = session.step(batch, &why); !output.ok()) return output.status();
  if (const Status status = session.rewind(0, 5); status != Status::kOk) return status;
  const TokenId bad[] = {kNoToken};
  if (session.step(bad, &why).ok()) return Status::kOk;
  char text[256];
  (void)describe(Status::kInvalidArgument, why, text);
  return session.step(ids.first(3), &why).status();
}

TEST_P(DecoderMemory, NoHeapIsTouched) {
  if (!NoHeapScope::traps_malloc()) GTEST_SKIP() << "this build cannot see calls of malloc";
  Pool two(2);
  for (const DecoderShape& shape : thinned(all_decoders(), 3)) {
    const auto file = make_decoder_model(shape, {GetParam()});
    const TestModel model = load(shape);
    const std::vector<TokenId> tokens = ids(*model, 2 * 37);
    SessionOptions options = options_for(kDecoderPositions, 2);
    options.hidden_states.state = [](void*, uint32_t, const float*, uint32_t, uint32_t) {};
    for (const bool threads : {false, true}) {
      if (threads) options.parallel = two.parallel_for();
      convert::AlignedBytes arena(plan_arena(*model, options)->total_bytes);
      EXPECT_EQ(live(file.span(), GetParam(), options, arena.span(), tokens), Status::kOk)
          << shape.name;
    }
  }
}

}  // namespace
}  // namespace arenite::test
