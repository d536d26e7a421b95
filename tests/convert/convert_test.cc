// SPDX-License-Identifier: Apache-2.0
// Tests the choice of targets in whole conversions.
#include "convert/convert.h"

#include <gtest/gtest.h>

#include "convert/files/error.h"

namespace arenite::convert {
namespace {

TEST(Targets, AllMeansEveryTargetOnce) {
  EXPECT_EQ(parse_targets("all").size(), kTargets);
  EXPECT_EQ(parse_targets("portable,portable").size(), 1u);
}

TEST(Targets, NativeRunsHere) {
  ASSERT_EQ(parse_targets("native").size(), 1u);
  EXPECT_NE(cpu_targets() & bit(parse_targets("native")[0]), 0u);
}

TEST(Targets, RefusesUnknownNamesAndListsTheKnown) {
  try {
    parse_targets("portable,z80");
    FAIL();
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("'z80'"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("arm64"), std::string::npos);
  }
}

}  // namespace
}  // namespace arenite::convert
