// SPDX-License-Identifier: Apache-2.0
// Memory of encoders: exactly the planned bytes, and no access outside them.
#include <gtest/gtest.h>

#include <cstring>

#include "runtime/session/encoder_fixture.h"
#include "support/slow_builds.h"

namespace arenite::test {
namespace {

class EncoderMemory : public EncoderTest {};
ARENITE_FOR_EACH_FLOAT_SET(EncoderMemory);

struct Shape {
  uint32_t positions, sequences, tokens_max;
};

constexpr Shape kShapes[] = {{1, 1, 0},  {8, 1, 0},   {33, 1, 0},   {70, 1, 0},  {70, 3, 0},
                             {70, 3, 1}, {70, 3, 71}, {33, 16, 40}, {8, 50, 399}};

// Spreads the largest number of tokens of a call over the sequences.
BatchForm fullest_batch(const SessionOptions& options) {
  BatchForm form;
  uint32_t left =
      options.tokens_max != 0 ? options.tokens_max : options.positions_max * options.sequences_max;
  form.sequences = options.sequences_max;
  form.back_to_back = true;
  for (uint32_t i = 0; i < form.sequences; ++i) {
    form.lengths.push_back(std::min(left, options.positions_max));
    left -= form.lengths.back();
  }
  return form;
}

TEST_P(EncoderMemory, SucceedsWithThePlannedBytesAndFailsWithOneLess) {
  Turns turns(5);
  for (const EncoderShape& shape : all_encoders()) {
    const TestModel model = load(shape);
    for (const Shape& size : kShapes) {
      for (const Outputs outputs : {Outputs::kLast, Outputs::kAll}) {
        if (!turns.has_next()) continue;
        SessionOptions options = options_for(size.positions, size.sequences);
        options.tokens_max = size.tokens_max;
        options.outputs = outputs;
        const size_t bytes = plan_arena(*model, options)->total_bytes;
        const GuardedBuffer arena(bytes, kArenaAlignment);
        Diagnostic why;
        ASSERT_EQ(Session::create(*model, options, arena.span().first(bytes - 1), &why).status(),
                  Status::kArenaTooSmall);
        EXPECT_EQ(why.bytes_needed, bytes);
        const Result<Session*> session = Session::create(*model, options, arena.span(), &why);
        ASSERT_TRUE(session.ok()) << shape.name;
        const BatchForm form = fullest_batch(options);
        uint32_t tokens = 0;
        for (const uint32_t length : form.lengths) tokens += length;
        ASSERT_TRUE(run_batch(**session, input_for(shape, tokens), form, &why).ok())
            << shape.name << why.reason;
        ASSERT_TRUE(arena.surroundings_intact());
      }
    }
  }
}

// Nothing is kept from call to call, so the layers take turns with one cache.
TEST_P(EncoderMemory, LayersShareTheirCache) {
  EncoderShape shape = encoder_named("sentences");
  const SessionOptions options = options_for(70, 3);
  const size_t two_layers = plan_arena(*load(shape), options)->kv_cache_bytes;
  shape.layers = 9;
  EXPECT_EQ(plan_arena(*load(shape), options)->kv_cache_bytes, two_layers);
}

TEST_P(EncoderMemory, PooledModelsHaveOutputRowsForSequencesOnly) {
  const TestModel model = load("sentences");
  SessionOptions options = options_for(70, 3);
  const size_t last = plan_arena(*model, options)->total_bytes;
  options.outputs = Outputs::kAll;
  EXPECT_EQ(plan_arena(*model, options)->total_bytes, last);
}

TEST_P(EncoderMemory, GuardPagesAreNotTouched) {
  for (const EncoderShape& shape : all_encoders()) {
    const convert::AlignedBytes file = make_encoder_model(shape, {GetParam()});
    for (const Guard guard : {Guard::kBehind, Guard::kBefore}) {
      const TestModel model(file.span(), GetParam(), guard);
      for (const uint32_t count : {1u, 2u, 7u, 16u, 33u, 70u}) {
        const EncoderInput input = input_for(shape, count);
        const size_t bytes = input.features.size() * sizeof(float) + input.ids.size() * 4;
        const GuardedBuffer memory(bytes, sizeof(float), 0, guard);
        const void* const from =
            input.ids.empty() ? static_cast<const void*>(input.features.data()) : input.ids.data();
        std::memcpy(memory.data(), from, bytes);
        const GuardedBuffer types(count, 1, 0, guard);
        std::memset(types.data(), 0, count);
        const GuardedBuffer mask(count, 1, 0, guard);
        std::memset(mask.data(), 1, count);
        const std::span visible(reinterpret_cast<const uint8_t*>(mask.data()), count);
        const TestSession session(*model, options_for(count), guard);
        if (shape.vocab_size == 0) {
          const std::span features(reinterpret_cast<const float*>(memory.data()), bytes / 4);
          ASSERT_TRUE(session->run(Batch{features, 1, count, {}, visible, false}).ok());
        } else {
          const std::span ids(reinterpret_cast<const TokenId*>(memory.data()), count);
          TokenBatch batch{ids, 1, count, {}, visible, false};
          if (shape.token_types != 0) {
            batch.types = {reinterpret_cast<const uint8_t*>(types.data()), count};
          }
          ASSERT_TRUE(session->run(batch).ok());
        }
        EXPECT_TRUE(session.arena().surroundings_intact());
        EXPECT_TRUE(memory.surroundings_intact());
      }
    }
  }
}

}  // namespace
}  // namespace arenite::test
