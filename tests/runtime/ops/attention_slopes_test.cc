// SPDX-License-Identifier: Apache-2.0
// Attention with a slope for each head (ALiBi): the reference, far into a context too, and every
// promise that attention keeps without one.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "attention_case.h"
#include "support/compare.h"
#include "support/emulated.h"
#include "support/kernel_sets.h"
#include "support/pool.h"

namespace arenite::test {
namespace {

class AttentionSlopes : public CacheTest {
 protected:
  AttentionCase with_slopes(const AttentionShape& shape, const TestMask& mask,
                            std::vector<uint32_t> lengths) const {
    AttentionCase problem(kv_type(), shape, mask, std::move(lengths));
    problem.add_slopes();
    return problem;
  }

  void expect_near_reference(const AttentionCase& problem, const std::vector<Step>& steps) const {
    const auto outputs = run_attention(kernels(), problem, steps);
    const auto expected = problem.expected();
    for (size_t s = 0; s < outputs.size(); ++s) {
      ASSERT_TRUE(all_near(outputs[s], expected[s], problem.tolerance(kernels())))
          << problem.mask.name << ", sequence " << s << " of " << problem.lengths[s];
    }
  }

  static void expect_same(const std::vector<std::vector<float>>& found,
                          const std::vector<std::vector<float>>& expected) {
    ASSERT_EQ(found.size(), expected.size());
    for (size_t s = 0; s < found.size(); ++s) {
      ASSERT_TRUE(same_bits(found[s], expected[s])) << "sequence " << s;
    }
  }
};
ARENITE_FOR_EACH_CACHE(AttentionSlopes);

std::vector<TestMask> causal_masks_with_slopes(uint32_t positions) {
  return {causal_mask(positions),
          band_mask(positions, 20, 0),
          slope_mask(positions, positions - 1, 0, 0.125f),
          random_mask(positions, 3, true, 1),
          document_mask(positions, 45),
          sink_mask(positions, 3)};
}

std::vector<TestMask> masks_with_slopes(uint32_t positions) {
  std::vector<TestMask> masks = causal_masks_with_slopes(positions);
  masks.push_back(band_mask(positions, kUnlimited, kUnlimited));
  masks.push_back(band_mask(positions, 3, 4));
  masks.push_back(random_mask(positions, 5, false, 7));
  masks.push_back(prefix_mask(positions, positions / 2));
  return masks;
}

TEST_P(AttentionSlopes, AgreeWithTheReferenceForEveryMaskAndNumberOfHeads) {
  for (const TestMask& mask : masks_with_slopes(70)) {
    for (const AttentionShape& shape :
         {AttentionShape{1, 1, 8, 9}, AttentionShape{3, 3, 8, 9}, AttentionShape{4, 2, 8, 9},
          AttentionShape{12, 1, 8, 9}, AttentionShape{2, 1, 0, 5}}) {
      const AttentionCase problem = with_slopes(shape, mask, {70});
      ASSERT_NO_FATAL_FAILURE(expect_near_reference(problem, problem.at_once()));
    }
  }
}

// One token is computed with heads as the rows of a block, each with a slope of its own.
TEST_P(AttentionSlopes, AreThoseOfTheirHeadsTokenByToken) {
  for (const AttentionShape& shape :
       {AttentionShape{6, 1, 8, 5}, AttentionShape{12, 3, 3, 33}, AttentionShape{24, 2, 2, 4}}) {
    const AttentionCase problem = with_slopes(shape, causal_mask(40), {40, 17});
    ASSERT_NO_FATAL_FAILURE(expect_near_reference(problem, problem.in_chunks(1)));
  }
}

// Scores of keys that are near round as they do at the start of a context.
TEST_P(AttentionSlopes, HoldFarIntoAContext) {
  constexpr uint32_t kLength = kEmulated ? 1700 : 2300;
  const AttentionCase problem = with_slopes({4, 2, 3, 5}, causal_mask(kLength), {kLength});
  const auto whole = run_attention(kernels(), problem, problem.at_once());
  const auto expected = problem.expected();
  ASSERT_TRUE(all_near(whole[0], expected[0], problem.tolerance(kernels())));
  AttentionCase ring = with_slopes({4, 2, 3, 5}, band_mask(kLength, 600, 0), {kLength});
  const auto window = run_attention(kernels(), ring, ring.at_once());
  ring.cache_positions = 3 * kPagePositions;
  ASSERT_NO_FATAL_FAILURE(expect_same(run_attention(kernels(), ring, ring.in_chunks(400)), window));
  ASSERT_TRUE(all_near(window[0], ring.expected()[0], ring.tolerance(kernels())));
}

TEST_P(AttentionSlopes, OfZeroAndOneAreWhatTheMaskSays) {
  AttentionCase problem(kv_type(), {2, 1, 8, 9}, causal_mask(70), {70});
  const auto plain = run_attention(kernels(), problem, problem.at_once());
  problem.slopes = {0.0f, 0.0f};
  ASSERT_NO_FATAL_FAILURE(expect_same(run_attention(kernels(), problem, problem.at_once()), plain));
  AttentionCase strip(kv_type(), {2, 1, 8, 9}, slope_mask(70, 69, 0, 0.5f), {70});
  const auto of_mask = run_attention(kernels(), strip, strip.at_once());
  problem.slopes = {0.5f, 0.5f};
  ASSERT_NO_FATAL_FAILURE(
      expect_same(run_attention(kernels(), problem, problem.at_once()), of_mask));
}

TEST_P(AttentionSlopes, GiveTheSameBitsInAnyChunks) {
  for (const uint32_t length : {7u, 300u, 530u}) {
    for (const TestMask& mask : causal_masks_with_slopes(length)) {
      const AttentionCase problem = with_slopes({4, 2, 8, 9}, mask, {length});
      const auto whole = run_attention(kernels(), problem, problem.at_once());
      for (const uint32_t chunk : {1u, 3u, 100u}) {
        if (kEmulated && chunk < 100 && length > 100) continue;
        SCOPED_TRACE(mask.name + " of " + std::to_string(length) + " by " + std::to_string(chunk));
        ASSERT_NO_FATAL_FAILURE(
            expect_same(run_attention(kernels(), problem, problem.in_chunks(chunk)), whole));
      }
    }
  }
}

TEST_P(AttentionSlopes, GiveTheSameBitsOnAnyThreadsAndInAnyCompany) {
  Pool shuffled(4, Order::kShuffled);
  for (const TestMask& mask : causal_masks_with_slopes(270)) {
    const AttentionCase problem = with_slopes({4, 2, 8, 9}, mask, {33, 0, 270, 1});
    const auto together = run_attention(kernels(), problem, problem.at_once());
    SCOPED_TRACE(mask.name);
    ASSERT_NO_FATAL_FAILURE(expect_same(
        run_attention(kernels(), problem, problem.at_once(), shuffled.parallel_for()), together));
    AttentionCase alone = problem;
    alone.lengths = {270};
    alone.tokens = {problem.tokens[2]};
    ASSERT_NO_FATAL_FAILURE(
        expect_same(run_attention(kernels(), alone, alone.at_once()), {together[2]}));
  }
}

// Rows that see a key that is not finite are computed by themselves; the others keep their bits.
TEST_P(AttentionSlopes, KeepNaNWhereItBelongs) {
  constexpr float kNotFinite[] = {NAN, INFINITY, -INFINITY};
  for (const TestMask& mask : masks_with_slopes(100)) {
    const AttentionCase clean = with_slopes({4, 2, 4, 9}, mask, {100});
    const auto expected = run_attention(kernels(), clean, clean.at_once());
    const size_t width = clean.shape.heads * clean.shape.value_dim;
    for (const uint32_t bad : {0u, 37u, 99u}) {
      for (const float number : kNotFinite) {
        AttentionCase spoiled = clean;
        for (uint32_t head = 0; head < 2; ++head) {
          spoiled.tokens[0].value[(bad * 2 + head) * 9 + 5] = number;
          spoiled.tokens[0].key[(bad * 2 + head) * 4 + 3] = number;
        }
        const auto found = run_attention(kernels(), spoiled, spoiled.at_once());
        for (uint32_t row = 0; row < 100; ++row) {
          const std::span<const float> numbers(found[0].data() + row * width, width);
          if (!mask.dense.sees(row, bad)) {
            ASSERT_TRUE(same_bits(numbers, {expected[0].data() + row * width, width}))
                << mask.name << ", row " << row << ", bad " << bad;
          } else if (std::isnan(number)) {
            for (const float output : numbers) ASSERT_TRUE(std::isnan(output)) << row;
          }
        }
        if (!mask.causal()) continue;
        const auto steps = run_attention(kernels(), spoiled, spoiled.in_chunks(1));
        ASSERT_TRUE(same_bits_or_nan(steps[0], found[0])) << mask.name;
      }
    }
  }
}

class AttentionSlopesInF32 : public KernelSetTest {};
ARENITE_FOR_EACH_KERNEL_SET(AttentionSlopesInF32);

// A score that overflows in parts, but not as a sum, is right with the slope's term added to it.
// (In int8 the parts are smaller, and do not overflow.)
TEST_P(AttentionSlopesInF32, AreAddedToAScoreWhosePartsOverflow) {
  AttentionCase problem(TensorType::kF32, {1, 1, 2, 1}, causal_mask(3), {3});
  problem.tokens[0].query = {0, 0, 0, 0, 1e20f, 1e20f};
  problem.tokens[0].key = {0, 0, 1e20f, -1e20f, 0, 0};
  problem.tokens[0].value = {1, 2, 4};
  problem.slopes = {1.0f};
  const double weights[] = {std::exp(-2.0), std::exp(-1.0), 1.0};
  const double expected =
      (weights[0] + 2 * weights[1] + 4 * weights[2]) / (weights[0] + weights[1] + weights[2]);
  EXPECT_NEAR(run_attention(kernels(), problem, problem.at_once())[0].back(), expected, 1e-6);
}

}  // namespace
}  // namespace arenite::test
