// SPDX-License-Identifier: Apache-2.0
// Tests of the name under which the converter signs its files.
#include "convert/producer.h"

#include <gtest/gtest.h>

#include "arenite/version.h"

TEST(Producer, EndsWithTheVersionOfTheLibrary) {
  EXPECT_EQ(arenite::convert::producer(), std::string("arenite ") + arenite::version());
}
