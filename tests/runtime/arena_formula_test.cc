// SPDX-License-Identifier: Apache-2.0
// The arena formula against the sizes of what lies in the arena, and against overflow.
#include "core/arena_formula.h"

#include <gtest/gtest.h>

#include "ops/kv_cache.h"

namespace arenite {
namespace {

ArenaFormula formula_of(Packing packing, const CacheShape& shape) {
  ArenaFormula formula;
  formula.kv_bytes_per_panel = cache_bytes_per_panel(packing, shape).value();
  formula.kv_bytes_per_page = cache_bytes_per_page(packing, shape).value();
  formula.nr = packing.nr;
  formula.score_rows = packing.mr;
  return formula;
}

TEST(ArenaFormula, AgreesWithTheCacheForEveryShape) {
  for (uint32_t target = 0; target < kTargets; ++target) {
    const Packing packing = packing_of(static_cast<Target>(target));
    const uint32_t nr = packing.nr;
    for (const uint32_t kv_heads : {1u, 3u}) {
      for (const uint32_t head_dim : {0u, 1u, 9u, 64u}) {
        for (const uint32_t value_dim : {1u, nr - 1, nr, nr + 1, 64u}) {
          const CacheShape shape = {kv_heads, head_dim, value_dim};
          for (const uint32_t positions : {1u, nr, nr + 1, 255u, 511u, 512u, 513u, 600u}) {
            const uint64_t floats = KvCache::floats(packing, shape, positions);
            const ArenaSizes sizes = evaluate(formula_of(packing, shape), positions, 1, 2, 1);
            EXPECT_EQ(sizes.kv_cache_bytes.value(), round_up(2 * floats * 4, kArenaUnit).value())
                << "nr " << nr << " kv_heads " << kv_heads << " head_dim " << head_dim
                << " value_dim " << value_dim << " positions " << positions;
          }
        }
      }
    }
  }
}

TEST(ArenaFormula, AddsUpItsParts) {
  const ArenaFormula formula = {100, 1000, 10, 8, 4};
  const ArenaSizes sizes = evaluate(formula, 600, 7, 3, 2);
  EXPECT_EQ(sizes.session_bytes.value(), round_up(kSessionBytes + 3 * 16, 64).value());
  EXPECT_EQ(sizes.kv_cache_bytes.value(), round_up(3 * (75 * 1000 + 2 * 10), 64).value());
  EXPECT_EQ(sizes.activation_bytes.value(), round_up(7 * 100 + 16, 64).value());
  EXPECT_EQ(sizes.scratch_bytes_per_thread.value(), round_up(4 * (600 + 16 + 8) * 4, 64).value());
  EXPECT_EQ(sizes.scratch_bytes.value(), 2 * sizes.scratch_bytes_per_thread.value());
  EXPECT_EQ(sizes.total_bytes.value(), sizes.session_bytes.value() + sizes.kv_cache_bytes.value() +
                                           sizes.activation_bytes.value() +
                                           sizes.scratch_bytes.value());
}

TEST(ArenaFormula, NeedsNoScratchWithoutAttention) {
  const ArenaFormula formula = {100, 0, 0, 8, 0};
  const ArenaSizes sizes = evaluate(formula, 300, 7, 1, 5);
  EXPECT_EQ(sizes.scratch_bytes.value(), 0u);
  EXPECT_EQ(sizes.kv_cache_bytes.value(), 0u);
}

TEST(ArenaFormula, GivesEveryPartAMultipleOfItsUnit) {
  for (uint32_t i = 1; i < 70; ++i) {
    const ArenaSizes sizes = evaluate({i, 4 * i, 4, 4, 4}, i, i, i, 1);
    for (const Checked part : {sizes.session_bytes, sizes.kv_cache_bytes, sizes.activation_bytes,
                               sizes.scratch_bytes_per_thread}) {
      EXPECT_EQ(part.value() % kArenaUnit, 0u);
    }
  }
}

TEST(ArenaFormula, CatchesAnOverflowInEveryPart) {
  constexpr uint64_t kHuge = UINT64_MAX / 2;
  constexpr uint32_t kMany = UINT32_MAX;
  EXPECT_TRUE(evaluate({1, 1, 1, 8, 4}, kMany, kMany, 1, 1).total_bytes.ok());
  EXPECT_FALSE(evaluate({kHuge, 0, 0, 8, 4}, 1, 3, 1, 1).total_bytes.ok());
  EXPECT_FALSE(evaluate({0, kHuge, 0, 8, 4}, 24, 1, 1, 1).total_bytes.ok());
  EXPECT_FALSE(evaluate({0, 0, kHuge, 8, 4}, 257, 1, 2, 1).total_bytes.ok());
  EXPECT_FALSE(evaluate({0, 1ull << 33, 0, 8, 4}, kMany, 1, kMany, 1).total_bytes.ok());
  EXPECT_FALSE(evaluate({0, 0, 0, 8, kMany}, kMany, 1, 1, kMany).total_bytes.ok());
  // Each part fits, but not their sum.
  const ArenaSizes sizes = evaluate({kHuge, kHuge, 0, 8, 0}, 8, 1, 1, 1);
  EXPECT_TRUE(sizes.kv_cache_bytes.ok() && sizes.activation_bytes.ok());
  EXPECT_FALSE(sizes.total_bytes.ok());
}

static_assert(evaluate({4, 0, 0, 4, 0}, 1, 1, 1, 1).total_bytes.value() == 512 + 64,
              "an application can evaluate it at compile time");

}  // namespace
}  // namespace arenite
