// SPDX-License-Identifier: Apache-2.0
// Attention with slopes (ALiBi), a soft cap, biases from a table or a sink: compares it with the
// reference, and tests every promise of attention without them.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "attention_case.h"
#include "support/compare.h"
#include "support/kernel_sets.h"
#include "support/pool.h"
#include "support/slow_builds.h"

namespace arenite::test {
namespace {

using Table = AttentionCase::Table;

struct Change {
  const char* name;
  float cap;
  bool has_slopes;
  bool has_table;
  Table table = Table::kDistances;
  bool hides = false;
  bool has_sinks = false;
};

constexpr Change kChanges[] = {
    {"slopes", 0.0f, true, false},
    {"cap", 1.5f, false, false},
    {"cap and slopes", 1.5f, true, false},
    {"distances", 0.0f, false, true},
    {"hiding distances, cap", 2.0f, false, true, Table::kDistances, true},
    {"pairs", 0.0f, false, true, Table::kPairs},
    {"hiding pairs", 0.0f, false, true, Table::kPairs, true},
    {"hiding pairs of all heads, cap", 1.0f, false, true, Table::kPairsOfAllHeads, true},
    {"sinks", 0.0f, false, false, {}, false, true},
    {"sinks, cap and slopes", 1.5f, true, false, {}, false, true},
    {"sinks, hiding pairs", 0.0f, false, true, Table::kPairs, true, true},
    {"queries", 0.0f, false, true, Table::kQueries},
    {"queries before, cap, sinks", 1.5f, false, true, Table::kQueriesBefore, false, true}};

// A slow build takes those that change scores in several ways.
std::vector<Change> changes() {
  std::vector<Change> taken;
  for (const Change& change : kChanges) {
    const int ways = (change.cap != 0.0f) + change.has_slopes + change.has_table + change.has_sinks;
    if (!kSampled || ways > 1) taken.push_back(change);
  }
  return taken;
}

class AttentionTerms : public CacheTest {
 protected:
  AttentionCase with(const Change& change, const AttentionShape& shape, const TestMask& mask,
                     std::vector<uint32_t> lengths) const {
    AttentionCase problem(kv_type(), shape, mask, std::move(lengths));
    problem.score_cap = change.cap;
    if (change.has_slopes) problem.add_slopes();
    if (change.has_table) problem.add_table(change.table, change.hides);
    if (change.has_sinks) problem.add_sinks();
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
ARENITE_FOR_EACH_CACHE(AttentionTerms);

std::vector<TestMask> causal_masks_with_terms(uint32_t positions) {
  return {causal_mask(positions),
          band_mask(positions, 20, 0),
          slope_mask(positions, positions - 1, 0, 0.125f),
          random_mask(positions, 3, true, 1),
          document_mask(positions, 45),
          sink_mask(positions, 3)};
}

std::vector<TestMask> masks_with_terms(uint32_t positions) {
  std::vector<TestMask> masks = causal_masks_with_terms(positions);
  masks.push_back(band_mask(positions, kUnlimited, kUnlimited));
  masks.push_back(random_mask(positions, 5, false, 7));
  masks.push_back(prefix_mask(positions, positions / 2));
  return masks;
}

TEST_P(AttentionTerms, AgreeWithTheReferenceForEveryMaskAndNumberOfHeads) {
  Turns turns(5);
  for (const Change& change : changes()) {
    for (const TestMask& mask : masks_with_terms(70)) {
      for (const AttentionShape& shape :
           {AttentionShape{1, 1, 8, 9}, AttentionShape{6, 2, 8, 9}, AttentionShape{12, 1, 8, 9},
            AttentionShape{2, 1, 0, 5}}) {
        if (!turns.has_next()) continue;
        SCOPED_TRACE(change.name);
        const AttentionCase problem = with(change, shape, mask, {70});
        ASSERT_NO_FATAL_FAILURE(expect_near_reference(problem, problem.at_once()));
      }
    }
  }
}

// One token is computed with heads as the rows of a block, each with terms of its own.
TEST_P(AttentionTerms, MatchTheirHeadsTokenByToken) {
  for (const Change& change : changes()) {
    SCOPED_TRACE(change.name);
    const AttentionCase problem = with(change, {12, 3, 3, 33}, causal_mask(40), {40, 17});
    ASSERT_NO_FATAL_FAILURE(expect_near_reference(problem, problem.in_chunks(1)));
  }
}

TEST_P(AttentionTerms, GiveTheSameBitsInAnyChunks) {
  for (const Change& change : thinned(changes(), 3)) {
    for (const uint32_t length : {7u, 530u}) {
      for (const TestMask& mask : causal_masks_with_terms(length)) {
        // A slow build takes the mask that most models have.
        if (kSampled && length > 100 && mask.kind != MaskKind::kBand) continue;
        const AttentionCase problem = with(change, {4, 2, 8, 9}, mask, {length});
        const auto whole = run_attention(kernels(), problem, problem.at_once());
        for (const uint32_t chunk : {1u, 100u}) {
          if (chunk == 1 && length > 100 && (kSampled || mask.kind != MaskKind::kBand)) continue;
          SCOPED_TRACE(change.name + (" " + mask.name) + " by " + std::to_string(chunk));
          ASSERT_NO_FATAL_FAILURE(
              expect_same(run_attention(kernels(), problem, problem.in_chunks(chunk)), whole));
        }
      }
    }
  }
}

TEST_P(AttentionTerms, GiveTheSameBitsInARing) {
  constexpr uint32_t kLength = kSampled ? 1100 : 1700;
  constexpr uint32_t kGroups = kSampled ? 1 : 2;
  const AttentionShape shape = {2 * kGroups, kGroups, 3, 5};
  for (const Change& change : thinned(changes(), 3)) {
    SCOPED_TRACE(change.name);
    AttentionCase ring = with(change, shape, band_mask(kLength, 300, 0), {kLength});
    const auto window = run_attention(kernels(), ring, ring.at_once());
    ring.cache_positions = 2 * kPagePositions;
    ASSERT_NO_FATAL_FAILURE(
        expect_same(run_attention(kernels(), ring, ring.in_chunks(200)), window));
  }
}

TEST_P(AttentionTerms, GiveTheSameBitsOnAnyThreadsAndBesideAnySequences) {
  Pool shuffled(4, Order::kShuffled);
  for (const Change& change : thinned(changes(), 3)) {
    SCOPED_TRACE(change.name);
    const AttentionCase problem = with(change, {4, 2, 8, 9}, causal_mask(270), {33, 0, 270, 1});
    const auto together = run_attention(kernels(), problem, problem.at_once());
    ASSERT_NO_FATAL_FAILURE(expect_same(
        run_attention(kernels(), problem, problem.at_once(), shuffled.parallel_for()), together));
    AttentionCase alone = problem;
    alone.lengths = {270};
    alone.tokens = {problem.tokens[2]};
    ASSERT_NO_FATAL_FAILURE(
        expect_same(run_attention(kernels(), alone, alone.at_once()), {together[2]}));
  }
}

// Heads that see a token that is not finite are computed anew; all others keep their bits.
TEST_P(AttentionTerms, KeepNaNInRowsThatSeeIt) {
  constexpr uint32_t kHeads = 4, kDim = 9;
  Turns turns(4);
  for (const Change& change : changes()) {
    for (const TestMask& mask : masks_with_terms(60)) {
      if (!turns.has_next()) continue;
      const AttentionCase clean = with(change, {kHeads, 2, 4, kDim}, mask, {60});
      const auto expected = run_attention(kernels(), clean, clean.at_once());
      for (const float number : {NAN, INFINITY, -INFINITY}) {
        constexpr uint32_t kBad = 37;
        AttentionCase spoiled = clean;
        for (uint32_t head = 0; head < 2; ++head) {
          spoiled.tokens[0].value[(kBad * 2 + head) * kDim + 5] = number;
          spoiled.tokens[0].key[(kBad * 2 + head) * 4 + 3] = number;
        }
        const auto found = run_attention(kernels(), spoiled, spoiled.at_once());
        for (uint32_t i = 0; i < 60 * kHeads; ++i) {
          const std::span<const float> numbers(found[0].data() + size_t{i} * kDim, kDim);
          if (!clean.sees(i % kHeads, i / kHeads, kBad)) {
            ASSERT_TRUE(same_bits(numbers, {expected[0].data() + size_t{i} * kDim, kDim}))
                << change.name << ", " << mask.name << ", row " << i / kHeads;
          } else if (std::isnan(number)) {
            for (const float output : numbers) ASSERT_TRUE(std::isnan(output)) << change.name;
          }
        }
        if (!mask.causal()) continue;
        const auto steps = run_attention(kernels(), spoiled, spoiled.in_chunks(7));
        ASSERT_TRUE(same_bits_or_nan(steps[0], found[0])) << change.name << ", " << mask.name;
      }
    }
  }
}

// Scores of keys that are near round as they do at the start of a context.
TEST_P(AttentionTerms, SlopesRoundAlikeFarIntoAContext) {
  constexpr uint32_t kPages = kEmulated ? 2 : 3;  // of the ring
  constexpr uint32_t kLength = kEmulated ? 1100 : kSampled ? 1700 : 2300;
  constexpr uint32_t kGroups = kEmulated ? 1 : 2;
  const AttentionShape shape = {2 * kGroups, kGroups, 3, 5};
  const AttentionCase problem = with(kChanges[0], shape, causal_mask(kLength), {kLength});
  const auto whole = run_attention(kernels(), problem, problem.at_once());
  const auto expected = problem.expected();
  ASSERT_TRUE(all_near(whole[0], expected[0], problem.tolerance(kernels())));
  const TestMask band = band_mask(kLength, kPages * 200, 0);
  AttentionCase ring = with(kChanges[0], shape, band, {kLength});
  const auto window = run_attention(kernels(), ring, ring.at_once());
  ring.cache_positions = kPages * kPagePositions;
  ASSERT_NO_FATAL_FAILURE(expect_same(run_attention(kernels(), ring, ring.in_chunks(400)), window));
  ASSERT_TRUE(all_near(window[0], ring.expected()[0], ring.tolerance(kernels())));
}

TEST_P(AttentionTerms, SlopesOfZeroAndOneEqualThoseOfTheMask) {
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

class AttentionTermsInF32 : public KernelSetTest {};
ARENITE_FOR_EACH_KERNEL_SET(AttentionTermsInF32);

// A score beyond all floats has the weight of the cap, and one whose parts overflow its own.
TEST_P(AttentionTermsInF32, AreCappedWhereTheyOverflow) {
  AttentionCase problem(TensorType::kF32, {1, 1, 2, 1}, causal_mask(3), {3});
  problem.tokens[0].query = {0, 0, 0, 0, 1e20f, 1e20f};
  problem.tokens[0].key = {1e20f, 1e20f, 1e20f, -1e20f, -1e20f, -1e20f};
  problem.tokens[0].value = {1, 2, 4};
  problem.score_cap = 2.0f;
  const double weights[] = {std::exp(2.0), 1.0, std::exp(-2.0)};
  const double expected =
      (weights[0] + 2 * weights[1] + 4 * weights[2]) / (weights[0] + weights[1] + weights[2]);
  EXPECT_NEAR(run_attention(kernels(), problem, problem.at_once())[0].back(), expected, 1e-6);
}

// A score that overflows in parts, but not as a sum, is right with the slope's term added to it.
// (In int8 the parts are smaller, and do not overflow.)
TEST_P(AttentionTermsInF32, AreAddedToAScoreWhosePartsOverflow) {
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

// A query whose keys a table all hides has no result, and nobody else's changes.
TEST_P(AttentionTermsInF32, AreNaNWhereATableHidesAll) {
  AttentionCase problem(TensorType::kF32, {2, 1, 3, 5}, causal_mask(9), {9});
  problem.add_table(Table::kPairs, false);
  const auto clean = run_attention(kernels(), problem, problem.at_once());
  for (uint32_t key = 0; key < 9; ++key) problem.table[(9 + 4) * 9 + key] = -INFINITY;
  const auto found = run_attention(kernels(), problem, problem.at_once());
  for (uint32_t i = 0; i < 9 * 2 * 5; ++i) {
    if (i / 5 == 4 * 2 + 1) {
      EXPECT_TRUE(std::isnan(found[0][i])) << i;
    } else {
      EXPECT_EQ(found[0][i], clean[0][i]) << i;
    }
  }
}

// A sink remains of the sum where a query sees nothing: its weights are zeros, and so is the
// result.
TEST_P(AttentionTerms, AreZeroWhereATableHidesAllButTheSink) {
  for (const AttentionShape& shape : {AttentionShape{2, 1, 3, 5}, AttentionShape{2, 1, 0, 33}}) {
    AttentionCase problem(kv_type(), shape, causal_mask(9), {9});
    problem.add_table(Table::kPairs, false);
    problem.add_sinks();
    for (uint32_t key = 0; key < 9; ++key) problem.table[(9 + 4) * 9 + key] = -INFINITY;
    for (const uint32_t rows : {9u, 1u}) {
      const auto found = run_attention(kernels(), problem, problem.in_chunks(rows));
      ASSERT_TRUE(all_near(found[0], problem.expected()[0], problem.tolerance(kernels())));
      for (uint32_t c = 0; c < shape.value_dim; ++c) {
        EXPECT_EQ(found[0][(4 * 2 + 1) * shape.value_dim + c], 0.0f) << c;
      }
    }
  }
}

// The sinks range from no weight to all of the weight.
TEST_P(AttentionTermsInF32, SinksAreAnySize) {
  const AttentionCase plain(TensorType::kF32, {2, 1, 3, 5}, causal_mask(9), {9});
  AttentionCase problem = plain;
  for (const float sink : {-INFINITY, -3e38f, -200.0f}) {
    problem.sinks = {sink, sink};
    ASSERT_TRUE(all_near(run_attention(kernels(), problem, problem.at_once())[0],
                         plain.expected()[0], plain.tolerance(kernels())))
        << sink;
  }
  for (const float sink : {200.0f, 3e38f}) {
    problem.sinks = {sink, sink};
    const auto found = run_attention(kernels(), problem, problem.at_once());
    for (const float output : found[0]) ASSERT_EQ(output, 0.0f) << sink;
  }
  // Those of a head are its own.
  problem.sinks = {0.0f, NAN};
  const auto found = run_attention(kernels(), problem, problem.at_once());
  for (uint32_t i = 0; i < 9 * 2 * 5; ++i) {
    ASSERT_EQ(std::isnan(found[0][i]), i / 5 % 2 == 1) << i;
  }
}

}  // namespace
}  // namespace arenite::test
