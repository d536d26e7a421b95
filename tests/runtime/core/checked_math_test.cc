// SPDX-License-Identifier: Apache-2.0
// Size arithmetic reports every overflow.
#include "arenite/checked_math.h"

#include <gtest/gtest.h>

namespace arenite {
namespace {

constexpr size_t kMax = SIZE_MAX;
constexpr size_t kHalf = size_t{1} << (4 * sizeof(size_t));  // whose square is one too large

TEST(Checked, AddsAndMultipliesWhatFits) {
  EXPECT_EQ((Checked(kMax - 2) + 1).value(), kMax - 1);
  EXPECT_TRUE((Checked(kMax - 2) + 1).ok());
  EXPECT_EQ((Checked(kHalf) * (kHalf - 1)).value(), kMax - (kHalf - 1));
  EXPECT_TRUE((Checked(0) * (kMax - 1)).ok());
}

TEST(Checked, RemembersAnOverflowThroughLaterOperations) {
  EXPECT_FALSE((Checked(kMax - 1) + 1).ok());  // the largest number stands for all beyond
  EXPECT_FALSE((Checked(kMax) + 1).ok());
  EXPECT_FALSE((Checked(kHalf) * kHalf).ok());
  EXPECT_FALSE(Checked(UINT64_MAX).ok()) << "a number that this machine cannot address";
  EXPECT_FALSE(((Checked(kMax) + 1) * 0).ok());
  EXPECT_FALSE((Checked(0) * (Checked(kMax) + 1)).ok());
  EXPECT_FALSE((Checked(1) + (Checked(kMax) * 2)).ok());
  EXPECT_FALSE(round_up(Checked(kMax) + 1, 64).ok());
}

TEST(Checked, SaturatesSoThatAnyLimitIsExceeded) {
  EXPECT_EQ((Checked(kMax) + 1).value(), kMax);
  EXPECT_EQ(Checked(7).value(), 7u);
}

TEST(RoundUp, GivesTheSmallestMultipleThatIsEnough) {
  EXPECT_EQ(round_up(0, 64).value(), 0u);
  EXPECT_EQ(round_up(1, 64).value(), 64u);
  EXPECT_EQ(round_up(64, 64).value(), 64u);
  EXPECT_EQ(round_up(65, 64).value(), 128u);
  EXPECT_EQ(round_up(7, 1).value(), 7u);
  EXPECT_EQ(round_up(10, 4).value(), 12u);
}

TEST(RoundUp, FailsWhereTheMultipleDoesNotFit) {
  EXPECT_EQ(round_up(kMax - 127, 64).value(), kMax - 127);
  EXPECT_FALSE(round_up(kMax - 62, 64).ok());
  EXPECT_FALSE(round_up(kMax, 64).ok());
  EXPECT_TRUE(round_up(kMax - 1, 1).ok());
}

TEST(DivUp, RoundsUpWithoutOverflow) {
  EXPECT_EQ(div_up(0, 8), 0u);
  EXPECT_EQ(div_up(1, 8), 1u);
  EXPECT_EQ(div_up(8, 8), 1u);
  EXPECT_EQ(div_up(9, 8), 2u);
  EXPECT_EQ(div_up(UINT32_MAX, 1), UINT32_MAX);
  EXPECT_EQ(div_up(UINT32_MAX, 2), 1u << 31);
  EXPECT_EQ(div_up(UINT32_MAX, UINT32_MAX), 1u);
}

static_assert(round_up(Checked(100) * 3, 64).value() == 320, "usable at compile time");

}  // namespace
}  // namespace arenite
