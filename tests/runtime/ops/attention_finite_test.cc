// SPDX-License-Identifier: Apache-2.0
// NaN, infinity and overflowing scores reach only the rows that attend to them, with the same
// results on every kernel set and in any chunks.
#include <gtest/gtest.h>

#include <cfloat>
#include <string>
#include <utility>
#include <vector>

#include "attention_case.h"
#include "support/compare.h"
#include "support/kernel_sets.h"
#include "support/pool.h"
#include "support/slow_builds.h"

namespace arenite::test {
namespace {

constexpr float kNotFinite[] = {NAN, INFINITY, -INFINITY};

class AttentionFinite : public CacheTest {
 protected:
  // Rows that see token `bad` of sequence 0 may be anything, or must be NaN if `all_nan`; all
  // others have the bits that they have in `clean`. Chunks change nothing.
  void expect_only_in_sight(const AttentionCase& clean, const AttentionCase& spoiled, uint32_t bad,
                            bool all_nan, const ParallelFor& parallel = {}) const {
    const auto expected = run_attention(kernels(), clean, clean.at_once());
    const auto found = run_attention(kernels(), spoiled, spoiled.at_once(), parallel);
    const size_t width = clean.shape.heads * clean.shape.value_dim;
    for (size_t s = 0; s < found.size(); ++s) {
      for (uint32_t row = 0; row < clean.lengths[s]; ++row) {
        const std::span<const float> numbers(found[s].data() + row * width, width);
        if (s != 0 || !clean.mask.dense.sees(row, bad)) {
          ASSERT_TRUE(same_bits(numbers, {expected[s].data() + row * width, width}))
              << clean.mask.name << ", row " << row << " of sequence " << s << ", bad " << bad;
        } else if (all_nan) {
          for (const float number : numbers) ASSERT_TRUE(std::isnan(number) || is_int8()) << row;
        }
      }
    }
    if (!clean.mask.causal()) return;
    for (const uint32_t chunk : {1u, 5u, 64u}) {
      const auto steps = run_attention(kernels(), spoiled, spoiled.in_chunks(chunk));
      for (size_t s = 0; s < found.size(); ++s) {
        ASSERT_TRUE(same_bits_or_nan(steps[s], found[s])) << clean.mask.name << " by " << chunk;
      }
    }
  }
};
ARENITE_FOR_EACH_CACHE(AttentionFinite);

// Every other key hidden, in a strip.
TestMask every_other(uint32_t positions) {
  std::vector<float> values(2 * size_t{positions} - 1);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = (i + positions) % 2 != 0 ? 0.5f : -INFINITY;
  }
  TestMask mask = strip_mask(positions, positions - 1, 0, values);
  mask.name = "every other key";
  return mask;
}

std::vector<TestMask> masks(uint32_t positions) {
  return {causal_mask(positions),
          band_mask(positions, 20, 0),
          band_mask(positions, 20, 20),
          slope_mask(positions, 30, 0, 0.5f),
          every_other(positions),
          random_mask(positions, 3, true, 1),
          random_mask(positions, 5, false, 7),
          document_mask(positions, 45),
          prefix_mask(positions, 50),
          sink_mask(positions, 3)};
}

TEST_P(AttentionFinite, NonFiniteKeysAndValuesReachTheRowsThatSeeThem) {
  for (const TestMask& mask : thinned(masks(100), 3)) {
    const AttentionCase clean(kv_type(), {2, 1, 4, 9}, mask, {100, 7});
    for (const uint32_t bad : {0u, 2u, 37u, 99u}) {
      if (kSampled && bad != 37) continue;
      for (const float number : kNotFinite) {
        SCOPED_TRACE(mask.name + " " + std::to_string(number));
        AttentionCase value = clean;
        value.tokens[0].value[bad * 9 + 5] = number;
        ASSERT_NO_FATAL_FAILURE(expect_only_in_sight(clean, value, bad, is_int8()));
        AttentionCase key = clean;
        key.tokens[0].key[bad * 4 + 3] = number;
        ASSERT_NO_FATAL_FAILURE(
            expect_only_in_sight(clean, key, bad, std::isnan(number) || is_int8()));
      }
      AttentionCase token = clean;
      std::fill_n(token.tokens[0].key.begin() + bad * 4, 4, NAN);
      std::fill_n(token.tokens[0].value.begin() + bad * 9, 9, NAN);
      ASSERT_NO_FATAL_FAILURE(expect_only_in_sight(clean, token, bad, true));
    }
  }
}

// A value stays in the cache after the window has passed it.
TEST_P(AttentionFinite, NonFiniteValuesBeforeTheWindowReachNoRow) {
  for (const uint32_t length : {600u, 1100u}) {
    for (const uint32_t bad : {3u, 511u, 512u, 590u}) {
      if (kSampled && (length > 600 || bad != 511)) continue;  // beside the end of a page
      const AttentionCase clean(kv_type(), {2, 1, 3, 34}, band_mask(length, 70, 0), {length});
      AttentionCase spoiled = clean;
      std::fill_n(spoiled.tokens[0].value.begin() + bad * 34, 34, NAN);
      ASSERT_NO_FATAL_FAILURE(expect_only_in_sight(clean, spoiled, bad, true));
      const auto whole = run_attention(kernels(), spoiled, spoiled.at_once());
      spoiled.cache_positions = 2 * kPagePositions;
      const auto ring = run_attention(kernels(), spoiled, spoiled.in_chunks(37));
      ASSERT_TRUE(same_bits_or_nan(ring[0], whole[0])) << length << " " << bad;
    }
  }
}

// Rows of a block are heads there: each head of values is seen by its own group alone.
TEST_P(AttentionFinite, NaNOfAHeadReachesItsGroupOnly) {
  const AttentionCase clean(kv_type(), {6, 2, 4, 5}, causal_mask(40), {40});
  const auto expected = run_attention(kernels(), clean, clean.at_once());
  AttentionCase value = clean;
  value.tokens[0].value[20 * 10 + 7] = NAN;  // of the second head of values
  AttentionCase query = clean;
  query.tokens[0].query[20 * 24 + 9] = NAN;  // of the third head
  for (const uint32_t chunk : {1u, 40u}) {
    const auto by_value = run_attention(kernels(), value, value.in_chunks(chunk));
    const auto by_query = run_attention(kernels(), query, query.in_chunks(chunk));
    for (uint32_t i = 0; i < expected[0].size(); ++i) {
      const uint32_t row = i / 30, head = i % 30 / 5, column = i % 5;
      ASSERT_EQ(std::isnan(by_value[0][i]), row >= 20 && head >= 3 && (is_int8() || column == 2))
          << i;
      ASSERT_EQ(std::isnan(by_query[0][i]), row == 20 && head == 2) << i;
      if (row == 20) continue;
      ASSERT_TRUE(same_bits({&by_query[0][i], 1}, {&expected[0][i], 1})) << i;
    }
  }
}

TEST_P(AttentionFinite, ThreadsGiveTheResultsOfOneThread) {
  Pool shuffled(3, Order::kShuffled);
  for (const TestMask& mask : thinned(masks(100), 3)) {
    const AttentionCase clean(kv_type(), {4, 2, 4, 9}, mask, {100, 30});
    AttentionCase spoiled = clean;
    spoiled.tokens[0].value[50 * 18 + 1] = NAN;
    ASSERT_NO_FATAL_FAILURE(
        expect_only_in_sight(clean, spoiled, 50, false, shuffled.parallel_for()));
  }
}

// Only float32 caches: int8 has no infinity and rounds the values that these tests compare exactly.
class AttentionScores : public KernelSetTest {
 protected:
  // The last token's output: one head, this query, these keys, the values 1, 2, 4, ...
  float last_output(const std::vector<float>& query, const std::vector<float>& keys,
                    const TestMask& mask, float score_cap = 0.0f) const {
    const uint32_t dims = static_cast<uint32_t>(query.size());
    const uint32_t tokens = static_cast<uint32_t>(keys.size()) / dims;
    AttentionCase problem(TensorType::kF32, {1, 1, dims, 1}, mask, {tokens});
    std::ranges::copy(query, problem.tokens[0].query.end() - dims);
    problem.tokens[0].key = keys;
    problem.score_cap = score_cap;
    for (uint32_t i = 0; i < tokens; ++i) {
      problem.tokens[0].value[i] = static_cast<float>(1u << i);
    }
    return run_attention(kernels(), problem, problem.at_once())[0].back();
  }
};
ARENITE_FOR_EACH_KERNEL_SET(AttentionScores);

// One mask of each kind in which the last of three tokens sees all.
std::vector<TestMask> last_sees_all() {
  DenseMask dense(3);
  for (const auto& [row, key] : {std::pair(0u, 0u), {1, 1}, {2, 0}, {2, 1}, {2, 2}}) {
    dense.visible[dense.index(row, key)] = 1;
  }
  return {causal_mask(3), slope_mask(3, 2, 0, 0.0f), tile_mask("tiles", dense)};
}

TEST_P(AttentionScores, ALargestScoreThatIsNotFiniteMakesTheRowNaN) {
  for (const TestMask& mask : last_sees_all()) {
    SCOPED_TRACE(mask.name);
    EXPECT_TRUE(std::isnan(last_output({1e30f}, {1e30f, 0, 0}, mask)));
    EXPECT_TRUE(std::isnan(last_output({1e30f}, {1e30f, 1e30f, 1e30f}, mask)));
    EXPECT_TRUE(std::isnan(last_output({1e30f}, {-1e30f, -1e30f, -1e30f}, mask)));
    EXPECT_TRUE(std::isnan(last_output({1}, {INFINITY, 0, 0}, mask)));
    EXPECT_TRUE(std::isnan(last_output({1}, {-INFINITY, -INFINITY, -INFINITY}, mask)));
    EXPECT_TRUE(std::isnan(last_output({1}, {0, NAN, 0}, mask)));
    EXPECT_TRUE(std::isnan(last_output({NAN}, {0, 0, 0}, mask)));
    // Beyond every float, although the first product is -infinity by itself.
    EXPECT_TRUE(std::isnan(last_output({1e20f, 1e20f}, {-1e20f, 3e20f, 0, 0, 0, 0}, mask)));
  }
}

// PyTorch gives these results too.
TEST_P(AttentionScores, AScoreOfMinusInfinityBesideOthersIsWeightZero) {
  for (const TestMask& mask : last_sees_all()) {
    SCOPED_TRACE(mask.name);
    EXPECT_EQ(last_output({1e30f}, {0, -1e30f, 0}, mask), 2.5f);
    EXPECT_EQ(last_output({1}, {-INFINITY, 0, 0}, mask), 3.0f);
    EXPECT_EQ(last_output({1, 1}, {1, 0, 1, 0, -INFINITY, 5}, mask), 1.5f);
    // The sum is below every float, although its first product is infinite by itself.
    EXPECT_EQ(last_output({1e20f, 1e20f}, {0, 0, 1e20f, -3e20f, 0, 0}, mask), 2.5f);
  }
}

// A score that a float can hold is right, even if its parts cancel that a float cannot hold.
TEST_P(AttentionScores, AScoreWhosePartsOverflowIsTheirSum) {
  for (const TestMask& mask : last_sees_all()) {
    SCOPED_TRACE(mask.name);
    EXPECT_FLOAT_EQ(last_output({1e20f, 1e20f}, {0, 0, 1e20f, -1e20f, 0, 0}, mask), 7.0f / 3.0f);
    EXPECT_EQ(last_output({1e20f, -1e20f}, {-1e18f, 0, 4e18f, 2e18f, 0, 0}, mask), 2.0f);
    EXPECT_EQ(last_output({1e20f, 1e20f}, {-1e18f, 0, -4e18f, 6e18f, 0, 0}, mask), 2.0f);
  }
}

// The first score is 1e37, but its first part is more than a float can hold. Under a cap that would
// look like the largest score of all, which is the second one's. One divided by the cap is above
// FLT_MIN, below which 32-bit ARM takes numbers for zero.
TEST_P(AttentionScores, AScoreWhosePartsOverflowIsTheirSumUnderACap) {
  for (const TestMask& mask : last_sees_all()) {
    SCOPED_TRACE(mask.name);
    const std::vector<float> keys = {3.5e18f, 3.4e18f, 0.5e18f, 0, 0, 0};
    EXPECT_EQ(last_output({1e20f, -1e20f}, keys, mask, 5e37f), 2.0f);
  }
}

// The lowest score of all is what tiles give hidden keys: those stay hidden beside it.
TEST_P(AttentionScores, TheLowestScoreIsNotAHiddenKeys) {
  DenseMask dense(3);
  for (const auto& [row, key] : {std::pair(0u, 0u), {1, 0}, {1, 1}, {2, 0}, {2, 2}}) {
    dense.visible[dense.index(row, key)] = 1;
  }
  EXPECT_EQ(last_output({-1}, {FLT_MAX, 1, FLT_MAX}, tile_mask("tiles", dense)), 2.5f);
}

}  // namespace
}  // namespace arenite::test
