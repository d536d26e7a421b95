// SPDX-License-Identifier: Apache-2.0
// Decoders give the same bits for all chunk sizes, other sequences and session sizes.
// same_bits_test.cc covers threads and forms of batches.
#include <gtest/gtest.h>

#include <cstring>

#include "runtime/session/decoder_fixture.h"
#include "support/random.h"
#include "support/slow_builds.h"

namespace arenite::test {
namespace {

class DecoderBits : public DecoderTest {};
ARENITE_FOR_EACH_FLOAT_SET(DecoderBits);

TEST_P(DecoderBits, ChunksOfAnySizeEqualOnePass) {
  for (const DecoderShape& shape : all_decoders()) {
    const TestModel model = load(shape);
    const TestSession session(*model, all_outputs(options_for(kDecoderPositions)));
    const std::vector<TokenId> tokens = ids(*model, kDecoderPositions);
    const std::vector<float> all = session.run(tokens);
    for (const uint32_t chunk : thinned({1u, 2u, 3u, 7u, 8u, 9u, 32u, 33u, kDecoderPositions}, 5)) {
      session->reset();
      ASSERT_TRUE(same_bits(session.steps_of(chunk, tokens), all)) << shape.name << chunk;
    }
  }
}

TEST_P(DecoderBits, LastRowsOfChunksEqualOnePass) {
  for (const DecoderShape& shape : thinned(all_decoders(), 2)) {
    const TestModel model = load(shape);
    const std::vector<TokenId> tokens = ids(*model, kDecoderPositions);
    const TestSession whole(*model, all_outputs(options_for(kDecoderPositions)));
    const std::vector<float> all = whole.run(tokens);
    const size_t width = model->output_features();
    for (const uint32_t chunk : {1u, 7u, kDecoderPositions}) {
      const TestSession session(*model, options_for(kDecoderPositions));
      for (uint32_t begin = 0; begin < kDecoderPositions; begin += chunk) {
        ASSERT_TRUE(same_bits(session.step(part(tokens, begin, chunk)),
                              rows(all, width, begin + chunk - 1, 1)))
            << shape.name << chunk;
      }
    }
  }
}

// Contexts longer than the ring of a layer with a window, in a session that takes 37 tokens a call,
// against one whose caches hold everything.
TEST_P(DecoderBits, RingsEqualWholeCaches) {
  const TestModel model = load(ring_decoder());
  const uint32_t positions = kRingDecoderPositions;
  const TestSession whole(*model, all_outputs(options_for(positions)));
  const std::vector<TokenId> tokens = ids(*model, positions);
  const std::vector<float> all = whole.run(tokens);
  for (const uint32_t chunk : thinned({1u, 36u, 37u}, 2)) {
    SessionOptions options = all_outputs(options_for(positions));
    options.tokens_max = chunk;
    const TestSession session(*model, options);
    ASSERT_LT(plan_arena(*model, options)->kv_cache_bytes,
              plan_arena(*model, options_for(positions))->kv_cache_bytes);
    ASSERT_TRUE(same_bits(session.steps_of(chunk, tokens), all)) << chunk;
    ASSERT_TRUE(session.arena().surroundings_intact());
  }
}

// The smallest ring of all: a window that sees one token but its own, token by token.
TEST_P(DecoderBits, RingsOfSmallWindowsEqualWholeCaches) {
  for (const uint32_t window : thinned({1u, 2u, 513u}, 2)) {
    DecoderShape shape = ring_decoder();
    shape.windows = {window};
    const TestModel model = load(shape);
    const uint32_t positions = kRingDecoderPositions;
    const TestSession whole(*model, all_outputs(options_for(positions)));
    const std::vector<TokenId> tokens = ids(*model, positions);
    const std::vector<float> all = whole.run(tokens);
    SessionOptions options = all_outputs(options_for(positions));
    options.tokens_max = 1;
    const TestSession session(*model, options);
    ASSERT_TRUE(same_bits(session.steps_of(1, tokens), all)) << window;
  }
}

// Several sequences, each as long as it likes, some of them longer than the ring.
TEST_P(DecoderBits, RaggedSequencesInRingsEqualEachAlone) {
  constexpr uint32_t kSequences = 3, kCallTokens = 60;
  const TestModel model = load(ring_decoder());
  const uint32_t positions = kRingDecoderPositions;
  const TestSession whole(*model, all_outputs(options_for(positions)));
  std::vector<std::vector<TokenId>> tokens;
  std::vector<std::vector<float>> expected;
  for (uint32_t i = 0; i < kSequences; ++i) {
    tokens.push_back(ids(*model, positions, i));
    expected.push_back(whole.run(tokens[i]));
  }
  SessionOptions options = all_outputs(options_for(positions, kSequences));
  options.tokens_max = kCallTokens;
  const TestSession session(*model, options);
  Random random(3);
  const size_t width = model->output_features();
  for (uint32_t turn = 0; turn < 90; ++turn) {
    uint32_t lengths[kSequences] = {random.below(40), random.below(19), turn % 7 == 0 ? 1u : 0u};
    uint32_t held[kSequences], total = 0;
    std::vector<TokenId> fed(kSequences * kCallTokens, UINT32_MAX);  // read no further than lengths
    for (uint32_t i = 0; i < kSequences; ++i) {
      held[i] = session->positions(i);
      lengths[i] = std::min(lengths[i], positions - held[i]);
      total += lengths[i];
      std::copy_n(tokens[i].begin() + held[i], lengths[i], fed.begin() + i * kCallTokens);
    }
    if (total == 0) continue;
    const std::vector<float> found = session.step(fed, kSequences, lengths);
    size_t row = 0;
    for (uint32_t i = 0; i < kSequences; row += lengths[i], ++i) {
      ASSERT_TRUE(same_bits(rows(found, width, row, lengths[i]),
                            rows(expected[i], width, held[i], lengths[i])))
          << "turn " << turn << " sequence " << i;
    }
  }
  EXPECT_GT(session->positions(0), 2 * kPagePositions);
}

TEST_P(DecoderBits, DoNotDependOnOldContentsOfTheArena) {
  for (const DecoderShape& shape : thinned(all_decoders(), 3)) {
    const TestModel model = load(shape);
    const SessionOptions options = all_outputs(options_for(kDecoderPositions, 2));
    const std::vector<TokenId> tokens = ids(*model, 2 * kDecoderPositions);
    const TestSession poisoned(*model, options);
    const std::vector<float> expected = poisoned.run(tokens, 2);
    const GuardedBuffer arena(plan_arena(*model, options)->total_bytes, kArenaAlignment);
    for (const int fill : {0x00, 0x7F, 0x55}) {
      std::memset(arena.data(), fill, arena.size());
      const Result<Session*> session = Session::create(*model, options, arena.span());
      ASSERT_TRUE(session.ok());
      const TokenBatch batch{tokens, 2, kDecoderPositions, {}};
      ASSERT_TRUE(same_bits(values_of((*session)->run(batch)), expected)) << shape.name << fill;
    }
  }
}

}  // namespace
}  // namespace arenite::test
