// SPDX-License-Identifier: Apache-2.0
// Compares the attention op with its reference: every mask, shapes around the tiles, lengths around
// the pages, several sequences at once.
#include "ops/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "attention_case.h"
#include "support/compare.h"
#include "support/kernel_sets.h"
#include "support/pool.h"
#include "support/slow_builds.h"

namespace arenite::test {
namespace {

constexpr AttentionShape kHeads[] = {{1, 1}, {2, 2}, {4, 2}, {6, 1}};

class AttentionOp : public CacheTest {
 protected:
  void expect_near_reference(const AttentionCase& problem, const std::vector<Step>& steps) const {
    const std::vector<std::vector<float>> outputs = run_attention(kernels(), problem, steps);
    const std::vector<std::vector<double>> expected = problem.expected();
    for (size_t s = 0; s < outputs.size(); ++s) {
      const AttentionShape& shape = problem.shape;
      ASSERT_TRUE(all_near(outputs[s], expected[s], problem.tolerance(kernels())))
          << problem.mask.name << ", sequence " << s << " of " << problem.lengths[s]
          << " tokens, heads " << shape.heads << "/" << shape.kv_heads << ", head_dim "
          << shape.head_dim << ", value_dim " << shape.value_dim;
    }
  }
  void expect_near_reference(const AttentionCase& problem) const {
    expect_near_reference(problem, problem.at_once());
  }
};
ARENITE_FOR_EACH_CACHE(AttentionOp);

// A mask of each kind and look, for `positions` positions, at least 2.
std::vector<TestMask> masks_of_every_kind(uint32_t positions) {
  const uint32_t most = positions - 1;
  std::vector<float> odd(2 * size_t{positions} - 1);
  for (size_t i = 0; i < odd.size(); ++i) odd[i] = (i + most) % 2 == 0 ? 0.5f : -INFINITY;
  return {causal_mask(positions),
          band_mask(positions, 5, 0),
          band_mask(positions, 0, 0),
          band_mask(positions, kUnlimited, kUnlimited),
          band_mask(positions, 3, 4),
          band_mask(positions, 0, kUnlimited),
          slope_mask(positions, most, 0, 0.25f),
          slope_mask(positions, most, most, 0.5f),
          slope_mask(positions, std::min(most, 9u), 0, 1.0f),
          strip_mask(positions, most, most, odd),
          random_mask(positions, 3, false, 1),
          random_mask(positions, 30, true, 2),
          document_mask(positions, 11),
          prefix_mask(positions, positions / 2),
          sink_mask(positions, 2)};
}

TEST_P(AttentionOp, AgreesWithTheReferenceForEveryMaskAndNumberOfHeads) {
  for (const TestMask& mask : masks_of_every_kind(70)) {
    for (AttentionShape shape : kHeads) {
      shape.head_dim = 8;
      shape.value_dim = 9;
      ASSERT_NO_FATAL_FAILURE(expect_near_reference({kv_type(), shape, mask, {70}}));
    }
  }
}

TEST_P(AttentionOp, AgreesWithTheReferenceForEveryHeadAndValueDimension) {
  for (const uint32_t head_dim : {0u, 1u, 2u, 3u, 8u, 9u, 64u}) {
    for (const uint32_t value_dim : {1u, 2u, 3u, 8u, 9u, 33u, 64u}) {
      for (const TestMask& mask :
           {causal_mask(37), slope_mask(37, 36, 36, 0.5f), random_mask(37, 3, false, 1)}) {
        ASSERT_NO_FATAL_FAILURE(
            expect_near_reference({kv_type(), {4, 2, head_dim, value_dim}, mask, {37}}));
      }
    }
  }
}

// Without keys the scores are the mask's alone: the case of a fixed mixing of positions.
TEST_P(AttentionOp, TakesScoresFromTheMaskWhereThereAreNoKeys) {
  for (const TestMask& mask : masks_of_every_kind(70)) {
    ASSERT_NO_FATAL_FAILURE(expect_near_reference({kv_type(), {2, 1, 0, 5}, mask, {70}}));
  }
}

TEST_P(AttentionOp, AgreesWithTheReferenceForLengthsAroundTheTile) {
  const uint32_t nr = packing().nr;
  const uint32_t mr = packing().mr;
  for (const uint32_t length :
       {1u, 2u, mr - 1, mr, mr + 1, 3 * mr + 2, nr - 1, nr, nr + 1, 2 * nr + 1}) {
    const uint32_t positions = std::max(length, 2u);
    for (const TestMask& mask : masks_of_every_kind(positions)) {
      if (length < positions && !mask.causal()) continue;
      ASSERT_NO_FATAL_FAILURE(expect_near_reference({kv_type(), {2, 1, 3, 5}, mask, {length}}));
    }
  }
}

TEST_P(AttentionOp, AgreesWithTheReferenceForLengthsAroundThePage) {
  Turns turns(2);
  for (const uint32_t length : {255u, 511u, 512u, 513u, 600u}) {
    if (kSampled && length != 255 && length != 513) continue;
    for (const TestMask& mask :
         {causal_mask(length), band_mask(length, 20, 0), band_mask(length, 300, 0),
          band_mask(length, kUnlimited, kUnlimited), band_mask(length, 100, 100),
          slope_mask(length, length - 1, 0, 0.01f), slope_mask(length, 20, 20, 0.1f),
          document_mask(length, 280), prefix_mask(length, 10), sink_mask(length, 3),
          random_mask(length, 100, false, 4)}) {
      if (!turns.has_next()) continue;
      ASSERT_NO_FATAL_FAILURE(expect_near_reference({kv_type(), {2, 1, 8, 33}, mask, {length}}));
    }
  }
}

TEST_P(AttentionOp, AgreesWithTheReferenceInACacheWithRoomToSpare) {
  for (const uint32_t length : {1u, 40u, 511u, 512u, 513u}) {
    for (const uint32_t capacity : {514u, 600u, 1100u}) {
      for (const TestMask& mask :
           {causal_mask(capacity), band_mask(capacity, 30, 0),
            band_mask(capacity, kUnlimited, kUnlimited), random_mask(capacity, 9, true, 1)}) {
        ASSERT_NO_FATAL_FAILURE(expect_near_reference({kv_type(), {1, 1, 2, 9}, mask, {length}}));
      }
    }
  }
}

TEST_P(AttentionOp, ServesRaggedSequencesAtOnce) {
  for (const TestMask& mask : masks_of_every_kind(40)) {
    // A query of a short sequence may be shown nothing but keys that are not there; a session
    // refuses that.
    const std::vector<uint32_t> lengths = mask.causal() || mask.kind != MaskKind::kTiles
                                              ? std::vector<uint32_t>{5, 0, 40, 1, 17}
                                              : std::vector<uint32_t>{40, 0, 40};
    ASSERT_NO_FATAL_FAILURE(expect_near_reference({kv_type(), {2, 1, 3, 4}, mask, lengths}));
  }
}

TEST_P(AttentionOp, ContinuesSequencesWhereTheyStand) {
  const std::vector<Step> steps = {{3, 0, 250}, {0, 7, 1}, {1, 1, 1}, {30, 2, 20}, {0, 0, 28}};
  for (const TestMask& mask :
       {causal_mask(300), band_mask(300, 20, 0), slope_mask(300, 299, 0, 0.1f),
        random_mask(300, 40, true, 3), document_mask(300, 50), sink_mask(300, 4)}) {
    ASSERT_NO_FATAL_FAILURE(
        expect_near_reference({kv_type(), {2, 2, 8, 5}, mask, {34, 10, 300}}, steps));
  }
}

TEST_P(AttentionOp, DoesNothingWithoutRows) {
  const AttentionCase problem(kv_type(), {2, 1, 3, 4}, causal_mask(10), {10, 10});
  Pool pool(2);
  AttentionRun run(kernels(), problem, pool.parallel_for());
  run.feed({2, 0});
  const std::vector<std::vector<float>> before = run.outputs();
  run.feed({0, 0});
  EXPECT_EQ(run.outputs(), before);
}

// Scores far apart make one weight 1 and the others 0, whatever their size.
TEST_P(AttentionOp, CopesWithScoresOfAnySize) {
  for (const float limit : {1e3f, 1e10f, 1e37f}) {
    for (const TestMask& mask :
         {causal_mask(70), slope_mask(70, 69, 69, 100.0f), random_mask(70, 3, false, 1)}) {
      const AttentionCase problem(kv_type(), {2, 1, 2, 5}, mask, {70}, limit);
      const auto outputs = run_attention(kernels(), problem, problem.at_once());
      for (const float output : outputs[0]) {
        ASSERT_LE(std::abs(output), 1.0f) << mask.name << " " << limit;
      }
    }
  }
}

}  // namespace
}  // namespace arenite::test
