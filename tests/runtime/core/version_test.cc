// SPDX-License-Identifier: Apache-2.0
// Tests of the version string.
#include "arenite/version.h"

#include <gtest/gtest.h>

#include <regex>
#include <string>

TEST(Version, IsThreeNumbersWithDots) {
  EXPECT_TRUE(std::regex_match(std::string(arenite::version()), std::regex(R"(\d+\.\d+\.\d+)")));
}
