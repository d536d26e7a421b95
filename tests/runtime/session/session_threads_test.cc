// SPDX-License-Identifier: Apache-2.0
// Sessions on several threads, each with tasks in every op, give the results of one thread in an
// arena of exactly the planned size. ThreadSanitizer finds races in these tests.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <span>
#include <thread>
#include <type_traits>
#include <vector>

#include "runtime/session/decoder_fixture.h"
#include "runtime/session/encoder_fixture.h"
#include "support/pool.h"
#include "support/slow_builds.h"
#include "support/smallest_slice.h"

namespace arenite::test {
namespace {

// Two, three and more threads than any op has tasks, and a schedule that is the machine's.
std::deque<Pool>& pools() {
  static std::deque<Pool> all;
  if (all.empty()) {
    for (const uint32_t threads : {2u, 3u, 17u}) all.emplace_back(threads, Order::kAssigned);
    all.emplace_back(3, Order::kConcurrent);
  }
  return all;
}

// A session with the pool's threads fits into N bytes and does not fit into N - 1.
void expect_exact_arena(const Model& model, const SessionOptions& options) {
  const size_t bytes = plan_arena(model, options)->total_bytes;
  const GuardedBuffer arena(bytes, kArenaAlignment);
  Diagnostic why;
  ASSERT_EQ(Session::create(model, options, arena.span().first(bytes - 1), &why).status(),
            Status::kArenaTooSmall);
  EXPECT_EQ(why.bytes_needed, bytes);
  EXPECT_TRUE(Session::create(model, options, arena.span(), &why).ok());
}

class ModuleThreads : public SessionTest {};
ARENITE_FOR_EACH_FLOAT_SET(ModuleThreads);

TEST_P(ModuleThreads, EqualOneThreadInTheExactArena) {
  for (const ModuleSpec& spec : all_specs()) {
    const TestModel model = load(spec);
    const std::vector<float> tokens = features(*model, kSpecPositions);
    const TestSession alone(*model, options_for(kSpecPositions));
    const std::vector<float> expected = alone.run(tokens);
    for (Pool& pool : pools()) {
      SessionOptions options = options_for(kSpecPositions);
      options.parallel = pool.parallel_for();
      expect_exact_arena(*model, options);
      const TestSession session(*model, options);  // in the exact arena
      ASSERT_TRUE(same_bits(session.run(tokens), expected)) << spec.name;
      EXPECT_TRUE(session.arena().surroundings_intact());
    }
  }
}

class DecoderThreads : public DecoderTest {};
ARENITE_FOR_EACH_FLOAT_SET(DecoderThreads);

TEST_P(DecoderThreads, EqualOneThreadInTheExactArena) {
  const uint32_t lengths[] = {33, 0, 1, 8};
  for (const DecoderShape& shape : all_decoders()) {
    const TestModel model = load(shape);
    const std::vector<TokenId> tokens = ids(*model, 4 * 33);
    SessionOptions options = all_outputs(options_for(33, 4));
    options.tokens_max = 42;  // exactly those of the lengths
    const TestSession alone(*model, options);
    const std::vector<float> expected = alone.run(tokens, 4, lengths);
    for (Pool& pool : pools()) {
      options.parallel = pool.parallel_for();
      expect_exact_arena(*model, options);
      const TestSession session(*model, options);
      ASSERT_TRUE(same_bits(session.run(tokens, 4, lengths), expected)) << shape.name;
      EXPECT_TRUE(session.arena().surroundings_intact());
    }
  }
}

TEST_P(DecoderThreads, ReturnNoRowsWhereNoneAreRequested) {
  const std::vector<uint8_t> none(9);
  for (const char* const name : {"llama", "q8"}) {
    const TestModel model = load(name);
    const std::vector<TokenId> tokens = ids(*model, 9);
    for (Pool& pool : pools()) {
      SessionOptions options = options_for(9);
      options.parallel = pool.parallel_for();
      const TestSession session(*model, options);
      EXPECT_EQ(session->run(TokenBatch{tokens, 1, 9, {}, {}, false, {}, {}, none})->rows, 0u);
      EXPECT_EQ(session->positions(0), 9u) << name;
    }
  }
}

// The ring wraps around, in calls of a token and of many.
TEST_P(DecoderThreads, RingsEqualThoseOfOneThread) {
  const TestModel model = load(ring_decoder());
  // The last 230 positions follow after calls of many tokens.
  constexpr uint32_t kPositions = kEmulated ? 1150 : 2300;
  constexpr uint32_t kMany = kPositions - 230;
  const std::vector<TokenId> tokens = ids(*model, kPositions);
  SessionOptions options = options_for(kPositions);
  options.tokens_max = 230;
  const TestSession alone(*model, options);
  const std::vector<float> expected = alone.steps_of(230, tokens);
  std::vector<Pool*> tried;
  for (Pool& pool : pools()) tried.push_back(&pool);
  for (Pool* pool : thinned(tried, 3)) {
    options.parallel = pool->parallel_for();
    expect_exact_arena(*model, options);
    const TestSession session(*model, options);
    ASSERT_TRUE(same_bits(session.steps_of(230, tokens), expected));
    session->reset();
    session.steps_of(115, part(tokens, 0, kMany));
    const std::vector<float> single = session.steps_of(1, part(tokens, kMany, 50));
    ASSERT_TRUE(single.size() == 50 * model->output_features());
    const std::vector<float> rest = session.steps_of(180, part(tokens, kMany + 50, 180));
    const size_t width = model->output_features();
    ASSERT_TRUE(same_bits(std::span(rest).last(width), std::span(expected).last(width)));
    EXPECT_TRUE(session.arena().surroundings_intact());
  }
}

class EncoderThreads : public EncoderTest {};
ARENITE_FOR_EACH_FLOAT_SET(EncoderThreads);

TEST_P(EncoderThreads, EqualOneThreadInTheExactArena) {
  BatchForm form;
  form.lengths = {37, 1, 33, 8, 16};
  form.sequences = static_cast<uint32_t>(form.lengths.size());
  form.back_to_back = true;
  for (const EncoderShape& shape : all_encoders()) {
    const TestModel model = load(shape);
    const EncoderInput input = input_for(shape, 95);
    SessionOptions options = options_for(37, form.sequences);
    options.tokens_max = 95;
    const TestSession alone(*model, options);
    const std::vector<float> expected = values_of(run_batch(*alone, input, form));
    for (Pool& pool : pools()) {
      options.parallel = pool.parallel_for();
      expect_exact_arena(*model, options);
      const TestSession session(*model, options);
      ASSERT_TRUE(same_bits(values_of(run_batch(*session, input, form)), expected)) << shape.name;
      EXPECT_TRUE(session.arena().surroundings_intact());
    }
  }
}

// Makes every call of a session repeatedly with one more thread. Returns true if all bits are as
// expected. `fed` holds a decoder's ids or a module's rows of features.
template <typename Input>
bool works_in_every_way(const Model& model, const Input& fed, size_t width,
                        const std::vector<float>& expected) {
  constexpr uint32_t kTurns = 3;
  const uint32_t tokens = static_cast<uint32_t>(fed.size() / width);
  Pool pool(2, Order::kAssigned);
  SessionOptions options = all_outputs(options_for(tokens, 2));
  options.parallel = pool.parallel_for();
  const TestSession session(model, options);
  const size_t out = model.output_features();
  const std::span in(fed);
  const auto batch = [&](size_t begin, uint32_t count) {
    const auto part = in.subspan(begin * width, count * width);
    if constexpr (std::is_same_v<Input, std::vector<TokenId>>) return TokenBatch{part, 1, count};
    if constexpr (std::is_same_v<Input, std::vector<float>>) return Batch{part, 1, count};
  };
  bool sound = true;
  for (uint32_t turn = 0; turn < kTurns; ++turn) {
    sound &= same_bits(session.run(in), expected);
    session->reset();
    sound &= same_bits(session.steps_of(7 + turn, in), expected);
    sound &= session->rewind(0, turn + 1) == Status::kOk;
    sound &=
        session->begin_step(batch(tokens - 3, 3)) == Status::kOk && advance_least(*session, 2).ok();
    session->cancel();
    const std::vector<float> rest = session.step(in.subspan((turn + 1) * width));
    sound &= same_bits(rest, rows(expected, out, turn + 1, tokens - turn - 1));
    sound &= session->self_test().ok() || model.self_test_tokens() == 0;
    sound &= model.verify_checksums() == Status::kOk;
  }
  return sound && session.arena().surroundings_intact();
}

// Four sessions on one model, each on a thread of its own, with inputs of their own.
template <typename Input, typename MakeInput>
void expect_four_sound(const Model& model, size_t width, MakeInput input) {
  constexpr size_t kSessions = 4;
  std::vector<Input> fed;
  std::vector<std::vector<float>> expected;
  for (size_t i = 0; i < kSessions; ++i) {
    fed.push_back(input(i));
    const auto tokens = static_cast<uint32_t>(fed[i].size() / width);
    expected.push_back(TestSession(model, all_outputs(options_for(tokens))).run(std::span(fed[i])));
  }
  std::atomic<size_t> sound = 0;
  {
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < kSessions; ++i) {
      threads.emplace_back(
          [&, i] { sound += works_in_every_way(model, fed[i], width, expected[i]) ? 1 : 0; });
    }
  }
  EXPECT_EQ(sound, kSessions);
}

// A model is only read, whatever its weights and caches are.
TEST_P(DecoderThreads, FourSessionsShareAModel) {
  for (const char* const name : {"llama", "q4", "int8_cache"}) {
    const TestModel model = load(name);
    expect_four_sound<std::vector<TokenId>>(*model, 1,
                                            [&](size_t i) { return ids(*model, 40 + i, i); });
  }
}

TEST_P(ModuleThreads, FourSessionsShareAModel) {
  const TestModel model = load("causal");
  expect_four_sound<std::vector<float>>(*model, model->input_features(),
                                        [&](size_t i) { return features(*model, 40 + i, i); });
}

}  // namespace
}  // namespace arenite::test
