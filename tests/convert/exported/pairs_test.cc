// SPDX-License-Identifier: Apache-2.0
// Models with an input of visible token pairs, as for graphs, and constant rows beside a mask. The
// expected outputs have other lengths than the examples.
#include <gtest/gtest.h>

#include <string>

#include "convert/exported/compare_program.h"
#include "support/refusal.h"
#include "support/test_data.h"

namespace arenite::convert {
namespace {

using arenite::testing::convert_fixture;
using arenite::testing::refuses;

Conversion convert_pairs(const std::string& name) {
  return convert_program(convert_fixture("pairs"), name);
}

AuthorCheck check_pairs(const Conversion& conversion, const std::string& name, bool has_pairs) {
  std::vector<std::string> pairs;
  if (has_pairs) pairs.push_back(name + "_pairs.npy");
  return check_program(conversion, convert_fixture("pairs"), name, pairs);
}

struct PairsCase {
  std::string name;
  std::string given = "is a pair mask";
};

class PairsOfTokens : public ::testing::TestWithParam<PairsCase> {};

TEST_P(PairsOfTokens, AreGivenWithACall) {
  const std::string name = GetParam().name;
  const Conversion conversion = convert_pairs(name);
  ASSERT_EQ(conversion.graph.masks.size(), 1u);
  EXPECT_TRUE(is_of_pairs(conversion.graph.masks[0]));
  EXPECT_FALSE(conversion.exported()->causal);
  EXPECT_EQ(conversion.account.given.at(0),
            "input 2 (adjacency) " + GetParam().given + ": --input pairs=FILE");
  const AuthorCheck check = check_pairs(conversion, name, true);
  EXPECT_EQ(check.tokens, 9u);
  EXPECT_TRUE(is_as_pytorch(check));
  EXPECT_TRUE(refuses([&] { check_pairs(conversion, name, false); }, {"expected pairs=FILE"}));
}

INSTANTIATE_TEST_SUITE_P(
    Exported, PairsOfTokens,
    ::testing::Values(PairsCase{"filled"}, PairsCase{"added"}, PairsCase{"bits"},
                      PairsCase{"masked"},
                      PairsCase{"hidden", "is a pair mask, 1 where a query does not see a key"},
                      PairsCase{"infinite",
                                "is a pair mask, -infinity where a query does not see a key"}),
    [](const auto& info) { return info.param.name; });

TEST(PairsOfTokens, AreRefusedUnlessTheyOnlyMask) {
  EXPECT_TRUE(refuses([] { convert_pairs("turned"); },
                      {"adjacency", "no attention uses it as its whole mask"}));
  EXPECT_TRUE(refuses([] { convert_pairs("biased"); }, {"adjacency", "adds a bias"}));
}

TEST(RowsOfConstants, AreSeenBesideACausalMask) {
  const Conversion conversion = convert_pairs("constants");
  EXPECT_TRUE(conversion.exported()->causal);
  EXPECT_TRUE(is_as_pytorch(check_pairs(conversion, "constants", false)));
}

}  // namespace
}  // namespace arenite::convert
