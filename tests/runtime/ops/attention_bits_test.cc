// SPDX-License-Identifier: Apache-2.0
// The bits of attention's results do not depend on the chunks of a prompt, threads and their order,
// other sequences, or the previous contents of the memory.
#include <gtest/gtest.h>

#include <vector>

#include "attention_case.h"
#include "support/compare.h"
#include "support/kernel_sets.h"
#include "support/pool.h"
#include "support/random.h"
#include "support/slow_builds.h"

namespace arenite::test {
namespace {

class AttentionBits : public CacheTest {
 protected:
  void expect_same(const std::vector<std::vector<float>>& found,
                   const std::vector<std::vector<float>>& expected) const {
    ASSERT_EQ(found.size(), expected.size());
    for (size_t s = 0; s < found.size(); ++s) {
      ASSERT_TRUE(same_bits(found[s], expected[s])) << "sequence " << s;
    }
  }
};
ARENITE_FOR_EACH_CACHE(AttentionBits);

std::vector<TestMask> causal_masks(uint32_t positions) {
  return {causal_mask(positions),
          band_mask(positions, 20, 0),
          band_mask(positions, 270, 0),
          slope_mask(positions, positions - 1, 0, 0.125f),
          slope_mask(positions, std::min(30u, positions - 1), 0, 0.5f),
          random_mask(positions, 3, true, 1),
          random_mask(positions, 100, true, 2),
          document_mask(positions, 45),
          sink_mask(positions, 3)};
}

std::vector<TestMask> all_masks(uint32_t positions) {
  std::vector<TestMask> masks = causal_masks(positions);
  masks.push_back(band_mask(positions, kUnlimited, kUnlimited));
  masks.push_back(random_mask(positions, 5, false, 7));
  masks.push_back(prefix_mask(positions, 50));
  return masks;
}

TEST_P(AttentionBits, AreTheSameInAnyChunks) {
  for (const uint32_t length : {7u, 70u, 300u, 530u}) {
    if (kSampled && length > 300) continue;
    for (const TestMask& mask : thinned(causal_masks(length), 2)) {
      const AttentionCase problem(kv_type(), {2, 1, 8, 9}, mask, {length});
      const auto whole = run_attention(kernels(), problem, problem.at_once());
      for (const uint32_t chunk : {1u, 3u, 8u, 100u}) {
        if (kSampled && chunk < 8 && length > 70) continue;
        SCOPED_TRACE(mask.name + " of " + std::to_string(length) + " by " + std::to_string(chunk));
        ASSERT_NO_FATAL_FAILURE(
            expect_same(run_attention(kernels(), problem, problem.in_chunks(chunk)), whole));
      }
    }
  }
}

TEST_P(AttentionBits, AreTheSameInChunksOfAnySize) {
  Random random(9);
  for (const TestMask& mask : thinned(causal_masks(300), 2)) {
    const AttentionCase problem(kv_type(), {1, 1, 3, 34}, mask, {300});
    const auto whole = run_attention(kernels(), problem, problem.at_once());
    std::vector<Step> steps;
    for (uint32_t left = 300; left != 0; left -= steps.back()[0]) {
      steps.push_back({std::min(left, 1 + random.below(40))});
    }
    SCOPED_TRACE(mask.name);
    ASSERT_NO_FATAL_FAILURE(expect_same(run_attention(kernels(), problem, steps), whole));
  }
}

TEST_P(AttentionBits, AreTheSameOnAnyThreadsInAnyOrder) {
  Pool one(1), two(2), three(3), reversed(3, Order::kReversed), shuffled(4, Order::kShuffled);
  for (const TestMask& mask : thinned(all_masks(270), 3)) {
    const AttentionCase problem(kv_type(), {4, 2, 8, 9}, mask, {270, 270});
    const auto expected = run_attention(kernels(), problem, problem.at_once());
    for (Pool* pool : {&shuffled, &reversed, &three, &two, &one}) {
      // A sample is the order that is least alike and, for ThreadSanitizer, one with threads.
      if (kSampled && pool != &shuffled && (kEmulated || pool != &three)) continue;
      SCOPED_TRACE(mask.name);
      ASSERT_NO_FATAL_FAILURE(expect_same(
          run_attention(kernels(), problem, problem.at_once(), pool->parallel_for()), expected));
    }
  }
}

TEST_P(AttentionBits, DoNotDependOnOtherSequences) {
  for (const TestMask& mask : thinned(causal_masks(270), 3)) {
    const AttentionCase problem(kv_type(), {2, 1, 8, 9}, mask, {33, 0, 270, 1, 258});
    const auto together = run_attention(kernels(), problem, problem.at_once());
    for (size_t s = 0; s < problem.lengths.size(); ++s) {
      AttentionCase alone = problem;
      alone.lengths = {problem.lengths[s]};
      alone.tokens = {problem.tokens[s]};
      if (alone.lengths[0] == 0) continue;
      SCOPED_TRACE(mask.name + ", sequence " + std::to_string(s));
      ASSERT_NO_FATAL_FAILURE(
          expect_same(run_attention(kernels(), alone, alone.at_once()), {together[s]}));
    }
  }
}

// The size of the cache moves everything in it, but changes no result.
TEST_P(AttentionBits, AreTheSameInACacheOfAnySize) {
  const AttentionCase exact(kv_type(), {2, 1, 8, 9}, causal_mask(270), {270});
  const auto expected = run_attention(kernels(), exact, exact.at_once());
  for (const uint32_t capacity : {271u, 300u, 512u, 1000u}) {
    AttentionCase roomy = exact;
    roomy.cache_positions = capacity;
    ASSERT_NO_FATAL_FAILURE(
        expect_same(run_attention(kernels(), roomy, roomy.at_once()), expected));
  }
}

// Every other test runs on memory full of NaN; here, that other garbage changes nothing either.
TEST_P(AttentionBits, DoNotDependOnOldContentsOfMemory) {
  for (const TestMask& mask : thinned(all_masks(270), 3)) {
    const AttentionCase problem(kv_type(), {2, 1, 8, 9}, mask, {270});
    const auto expected = run_attention(kernels(), problem, problem.at_once());
    for (const float garbage : thinned({0.0f, 3e38f, INFINITY, -INFINITY}, 3)) {
      SCOPED_TRACE(mask.name + " " + std::to_string(garbage));
      ASSERT_NO_FATAL_FAILURE(
          expect_same(run_attention(kernels(), problem, problem.at_once(), {}, garbage), expected));
    }
  }
}

TEST_P(AttentionBits, AreTheSameAfterARewind) {
  for (const TestMask& mask : thinned(causal_masks(300), 4)) {
    const AttentionCase problem(kv_type(), {2, 1, 8, 9}, mask, {300});
    const auto straight = run_attention(kernels(), problem, problem.at_once());
    AttentionRun run(kernels(), problem);
    run.feed({290});
    for (const uint32_t positions : {257u, 256u, 31u, 5u, 0u}) {
      run.rewind(0, positions);
      run.feed({290 - positions});
    }
    run.feed({10});
    SCOPED_TRACE(mask.name);
    ASSERT_NO_FATAL_FAILURE(expect_same(run.outputs(), straight));
  }
}

// A window pays nothing for the pages it has left: spoiling them changes nothing.
TEST_P(AttentionBits, AreTheSameWhenPagesBeforeTheWindowAreSpoiled) {
  const AttentionCase problem(kv_type(), {1, 1, 8, 9}, band_mask(600, 20, 0), {600});
  const auto expected = run_attention(kernels(), problem, problem.at_once());
  AttentionRun run(kernels(), problem);
  run.feed({540});
  const std::vector<float> nans(520 * 9, NAN);
  run.cache(0).append(kernels(), 0, 0, {nans.data(), 512, 8, 8}, {nans.data(), 512, 9, 9});
  run.feed({60});
  ASSERT_NO_FATAL_FAILURE(expect_same(run.outputs(), expected));
}

// Keys in tile columns that no query of a block sees are not multiplied at all.
TEST_P(AttentionBits, AreTheSameWhenKeysInHiddenTilesAreSpoiled) {
  const AttentionCase problem(kv_type(), {1, 1, 8, 9}, sink_mask(200, 2), {200});
  const auto expected = run_attention(kernels(), problem, problem.at_once());
  AttentionRun run(kernels(), problem);
  run.feed({192});
  const std::vector<float> nans(160 * 8, NAN);
  const uint32_t value_dim = problem.shape.value_dim;
  const float* const values = problem.tokens[0].value.data() + 32 * value_dim;
  run.cache(0).append(kernels(), 0, 32, {nans.data(), 160, 8, 8},
                      {values, 160, value_dim, value_dim});
  run.feed({8});
  ASSERT_NO_FATAL_FAILURE(expect_same(run.outputs(), expected));
}

// A ring holds what a window can still see, and the rest does not matter.
TEST_P(AttentionBits, AreTheSameInARing) {
  constexpr uint32_t kLength = kEmulated ? 1300 : 2100;
  AttentionCase problem(kv_type(), {4, 2, 8, 9}, band_mask(kLength, 100, 0), {kLength});
  const auto expected = run_attention(kernels(), problem, problem.in_chunks(37));
  problem.cache_positions = 2 * kPagePositions;
  for (const uint32_t rows : thinned({1u, 37u, 412u}, 2)) {
    SCOPED_TRACE(rows);
    ASSERT_NO_FATAL_FAILURE(
        expect_same(run_attention(kernels(), problem, problem.in_chunks(rows)), expected));
  }
}

// A weighted value that underflows to -0 stays so unless a later key, hidden, adds its +0.
TEST_P(AttentionBits, AreTheSameWhereSumsUnderflow) {
  AttentionCase problem(kv_type(), {1, 1, 1, 1}, causal_mask(3), {3});
  problem.tokens[0] = {{1, 1, 1}, {2, 0, 0}, {0, -0x1p-149f, 1}};
  ASSERT_NO_FATAL_FAILURE(expect_same(run_attention(kernels(), problem, problem.in_chunks(1)),
                                      run_attention(kernels(), problem, problem.at_once())));
}

}  // namespace
}  // namespace arenite::test
