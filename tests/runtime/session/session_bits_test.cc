// SPDX-License-Identifier: Apache-2.0
// Sessions give the same bits for all chunks, session sizes and previous contents of their memory.
// same_bits_test.cc covers threads and forms of batches.
#include <gtest/gtest.h>

#include <cstring>

#include "runtime/session/session_fixture.h"
#include "support/slow_builds.h"

namespace arenite::test {
namespace {

class SessionBits : public SessionTest {};
ARENITE_FOR_EACH_FLOAT_SET(SessionBits);

TEST_P(SessionBits, ChunksOfAnySizeEqualOnePass) {
  for (const ModuleSpec& spec : all_specs()) {
    const TestModel model = load(spec);
    if (!model->causal()) continue;
    const TestSession session(*model, options_for(kSpecPositions));
    const std::vector<float> tokens = features(*model, kSpecPositions);
    const std::vector<float> all = session.run(tokens);
    for (const uint32_t chunk : {1u, 2u, 3u, 7u, 8u, 9u, 32u, 33u, kSpecPositions}) {
      session->reset();
      ASSERT_TRUE(same_bits(session.steps_of(chunk, tokens), all)) << spec.name << chunk;
    }
  }
}

// Sequences longer than a page of the cache, and a window that has passed whole pages.
TEST_P(SessionBits, ChunksBeyondAPageEqualOnePass) {
  constexpr uint32_t kPositions = 2 * kPagePositions + 40;
  for (const uint32_t lookback : thinned({kUnlimited, 20u, kPagePositions}, 2)) {
    ModuleSpec spec = spec_named("causal");
    spec.masks = {convert::band_mask(lookback, 0, 0)};
    const TestModel model = load(spec);
    const TestSession session(*model, options_for(kPositions));
    const std::vector<float> tokens = features(*model, kPositions);
    const std::vector<float> all = session.run(tokens);
    for (const uint32_t chunk : thinned({1u, 5u, kPagePositions, kPagePositions + 1}, 3)) {
      session->reset();
      ASSERT_TRUE(same_bits(session.steps_of(chunk, tokens), all)) << lookback << " " << chunk;
    }
  }
}

TEST_P(SessionBits, DoNotDependOnALargerArena) {
  for (const ModuleSpec& spec : all_specs()) {
    const TestModel model = load(spec);
    for (const uint32_t count : {1u, 8u, 33u}) {
      const std::vector<float> tokens = features(*model, count);
      const TestSession exact(*model, options_for(count));
      const std::vector<float> expected = exact.run(tokens);
      for (const uint32_t positions : {count + 1, kSpecPositions, 300u}) {
        if (model->positions_max() != 0 && positions > model->positions_max()) continue;
        for (const uint32_t sequences : {1u, 5u}) {
          SessionOptions options = options_for(positions, sequences);
          const TestSession roomy(*model, options);
          ASSERT_TRUE(same_bits(roomy.run(tokens), expected)) << spec.name << positions;
          options.tokens_max = count;
          const TestSession narrow(*model, options);
          ASSERT_TRUE(same_bits(narrow.run(tokens), expected)) << spec.name << positions;
        }
      }
    }
  }
}

// The arena's previous contents must not matter, whether another user or the session left them.
TEST_P(SessionBits, DoNotDependOnOldContentsOfTheArena) {
  for (const ModuleSpec& spec : thinned(all_specs(), 3)) {
    const TestModel model = load(spec);
    const SessionOptions options = options_for(kSpecPositions, 2);
    const std::vector<float> tokens = features(*model, 2 * kSpecPositions);
    const TestSession poisoned(*model, options);
    const std::vector<float> expected = poisoned.run(tokens, 2);
    const size_t bytes = plan_arena(*model, options)->total_bytes;
    const GuardedBuffer arena(bytes, kArenaAlignment);
    for (const int fill : {0x00, 0x7F, 0x55}) {
      std::memset(arena.data(), fill, bytes);
      const Result<Session*> session = Session::create(*model, options, arena.span());
      ASSERT_TRUE(session.ok());
      const Batch batch{tokens, 2, kSpecPositions, {}};
      ASSERT_TRUE(same_bits(values_of((*session)->run(batch)), expected)) << spec.name << fill;
      ASSERT_TRUE(same_bits(values_of((*session)->run(batch)), expected)) << spec.name << fill;
    }
    // The arena of a session that has run, given to a new one.
    const Result<Session*> again = Session::create(*model, options, poisoned.arena().span());
    ASSERT_TRUE(again.ok());
    ASSERT_TRUE(same_bits(values_of((*again)->run({tokens, 2, kSpecPositions, {}})), expected));
  }
}

TEST_P(SessionBits, TwoSessionsOfAModelAreIndependent) {
  const TestModel model = load("causal");
  const std::vector<float> a = features(*model, 20, 1);
  const std::vector<float> b = features(*model, 20, 2);
  const TestSession alone(*model, options_for(20));
  const std::vector<float> expected_a = alone.run(a);
  const std::vector<float> expected_b = alone.run(b);
  const TestSession first(*model, options_for(20));
  const TestSession second(*model, options_for(30, 2));
  const size_t in = model->input_features();
  for (uint32_t token = 0; token < 20; ++token) {
    ASSERT_TRUE(same_bits(first.step(rows(a, in, token, 1)),
                          rows(expected_a, model->output_features(), token, 1)));
    ASSERT_TRUE(same_bits(second.step(rows(b, in, token, 1)),
                          rows(expected_b, model->output_features(), token, 1)));
  }
}

}  // namespace
}  // namespace arenite::test
