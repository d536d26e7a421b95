// SPDX-License-Identifier: Apache-2.0
// Sessions on several threads, each of which has tasks in every op: what one thread gives, in an
// arena of the planned size and not a byte less. Under ThreadSanitizer they are the search for
// threads that touch the same memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <thread>
#include <vector>

#include "runtime/session/decoder_fixture.h"
#include "runtime/session/encoder_fixture.h"
#include "support/pool.h"

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
ARENITE_FOR_EACH_KERNEL_SET(ModuleThreads);

// A model is only read: sessions on threads of their own share it.
TEST_P(ModuleThreads, ShareAModel) {
  const TestModel model = load("causal");
  const std::vector<float> tokens = features(*model, kSpecPositions);
  const std::vector<float> expected = TestSession(*model, options_for(kSpecPositions)).run(tokens);
  std::vector<float> found[4];
  {
    std::vector<std::jthread> threads;
    for (std::vector<float>& result : found) {
      threads.emplace_back([&model, &tokens, &result] {
        const TestSession session(*model, options_for(kSpecPositions));
        for (int turn = 0; turn < 10; ++turn) result = session.run(tokens);
      });
    }
  }
  for (const std::vector<float>& result : found) EXPECT_TRUE(same_bits(result, expected));
}

TEST_P(ModuleThreads, GiveWhatOneGivesInTheExactArena) {
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
ARENITE_FOR_EACH_KERNEL_SET(DecoderThreads);

TEST_P(DecoderThreads, GiveWhatOneGivesInTheExactArena) {
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

// The ring wraps around several times, in calls of a token and of many.
TEST_P(DecoderThreads, RingsGiveWhatOneThreadGives) {
  const TestModel model = load(ring_decoder());
  const std::vector<TokenId> tokens = ids(*model, 2300);
  SessionOptions options = options_for(2300);
  options.tokens_max = 230;
  const TestSession alone(*model, options);
  const std::vector<float> expected = alone.steps_of(230, tokens);
  for (Pool& pool : pools()) {
    options.parallel = pool.parallel_for();
    expect_exact_arena(*model, options);
    const TestSession session(*model, options);
    ASSERT_TRUE(same_bits(session.steps_of(230, tokens), expected));
    session->reset();
    session.steps_of(115, part(tokens, 0, 2070));
    const std::vector<float> single = session.steps_of(1, part(tokens, 2070, 50));
    ASSERT_TRUE(single.size() == 50 * model->output_features());
    const std::vector<float> rest = session.steps_of(180, part(tokens, 2120, 180));
    const size_t width = model->output_features();
    ASSERT_TRUE(same_bits(std::span(rest).last(width), std::span(expected).last(width)));
    EXPECT_TRUE(session.arena().surroundings_intact());
  }
}

class EncoderThreads : public EncoderTest {};
ARENITE_FOR_EACH_KERNEL_SET(EncoderThreads);

TEST_P(EncoderThreads, GiveWhatOneGivesInTheExactArena) {
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

// One model, read by sessions that run at the same time.
TEST_P(DecoderThreads, SessionsShareAModel) {
  const TestModel model = load("llama");
  const std::vector<TokenId> tokens = ids(*model, kDecoderPositions);
  const TestSession alone(*model, options_for(kDecoderPositions));
  const std::vector<float> expected = alone.run(tokens);
  std::vector<std::thread> threads;
  std::vector<std::vector<float>> found(4);
  for (std::vector<float>& result : found) {
    threads.emplace_back([&] {
      const TestSession session(*model, options_for(kDecoderPositions));
      result = session.run(tokens);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::vector<float>& result : found) EXPECT_TRUE(same_bits(result, expected));
}

}  // namespace
}  // namespace arenite::test
