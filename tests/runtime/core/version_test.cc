// SPDX-License-Identifier: Apache-2.0
// The version in the headers is that of the CMake project.
#include "arenite/version.h"

#include <gtest/gtest.h>

#include <regex>
#include <string>

TEST(Version, IsThreeNumbersWithDots) {
  EXPECT_TRUE(std::regex_match(std::string(arenite::version()), std::regex(R"(\d+\.\d+\.\d+)")));
}
