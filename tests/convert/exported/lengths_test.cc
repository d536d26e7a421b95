// SPDX-License-Identifier: Apache-2.0
// For which lengths a conversion is the author's model: programs whose numbers depend on their
// length, and some whose numbers only seem to. tests/convert/data/lengths/make_lengths.py made
// them, most of them with fixed sizes and with a symbol.
#include <gtest/gtest.h>

#include <string>

#include "convert/check/converted_model.h"
#include "convert/convert.h"
#include "support/refusal.h"
#include "support/test_data.h"

namespace arenite::convert {
namespace {

using arenite::testing::convert_fixture;
using arenite::testing::refuses;

constexpr double kLengthError = 2e-6;  // of the largest value
constexpr uint32_t kTokens = 11;       // of the examples

Conversion convert_at(const std::string& archive, const std::vector<std::string>& expected = {}) {
  ConvertOptions options;
  for (const std::string& name : expected) {
    options.expect.push_back({convert_fixture("lengths") / (name + "_input.npy"),
                              convert_fixture("lengths") / (name + "_expected.npy")});
  }
  return convert_model(convert_fixture("lengths") / (archive + ".pt2"), archive, options,
                       parse_targets("native"));
}

AuthorCheck check(const Conversion& conversion, const std::string& name) {
  const std::filesystem::path folder = convert_fixture("lengths");
  return check_against_author(
      conversion, {folder / (name + "_input.npy"), folder / (name + "_expected.npy")}, name);
}

struct Claim {
  const char* archive;
  uint32_t tokens_min, positions_max;
  bool causal;
  const char* words;  // a part of what is said of it
};

class Lengths : public ::testing::TestWithParam<Claim> {};
TEST_P(Lengths, AreThoseThatAreProved) {
  const Claim& claim = GetParam();
  const Conversion conversion = convert_at(claim.archive);
  const ExportedModel& exported = *conversion.exported();
  EXPECT_EQ(conversion.program.inputs[0].tokens_min, claim.tokens_min);
  EXPECT_EQ(conversion.program.inputs[0].positions_max, claim.positions_max);
  EXPECT_EQ(exported.causal, claim.causal);
  EXPECT_NE(exported.length.find(claim.words), std::string::npos) << exported.length;
  std::string name = claim.archive;
  name = name.substr(0, name.find("_dyn"));
  const AuthorCheck whole = check(conversion, name);
  EXPECT_LE(whole.largest_difference, kLengthError * whole.largest_value);
  if (claim.tokens_min > 5) {
    EXPECT_TRUE(
        refuses([&] { check(conversion, name + "_5"); }, {"at least 11 tokens a sequence"}));
  } else {
    const AuthorCheck part = check(conversion, name + "_5");
    EXPECT_LE(part.largest_difference, kLengthError * part.largest_value);
  }
}
INSTANTIATE_TEST_SUITE_P(
    Exported, Lengths,
    ::testing::Values(
        Claim{"half_prefix", kTokens, kTokens, false, "5 in op aten.lt.Scalar"},
        Claim{"half_prefix_dyn", kTokens, kTokens, false, "at 16 tokens, the mask of"},
        Claim{"quarter_window", kTokens, kTokens, false, "2 in op aten.le.Scalar"},
        Claim{"quarter_window_dyn", kTokens, kTokens, false, "at 16 tokens, the mask of"},
        Claim{"third_window", kTokens, kTokens, false, "3 in op aten.le.Scalar"},
        Claim{"third_window_dyn", 0, 16, false, "any length up to 16"},
        Claim{"reversed_table", kTokens, kTokens, false, "10 in op aten.arange"},
        Claim{"reversed_table_dyn", kTokens, kTokens, false, "with tables for 16 tokens"},
        Claim{"from_the_end", kTokens, kTokens, false, "10 in op aten.rsub.Scalar"},
        Claim{"from_the_end_dyn", kTokens, kTokens, false, "with tables for 16 tokens"},
        Claim{"shares", kTokens, kTokens, false, "11 in op aten.div.Tensor"},
        Claim{"shares_dyn", kTokens, kTokens, false, "with tables for 16 tokens"},
        Claim{"spread", kTokens, kTokens, false, "what the program computes differ"},
        Claim{"log_scale", kTokens, kTokens, false, "2.3978952727983707 in op aten.mul"},
        Claim{"root_scale", kTokens, kTokens, false, "0.30151134457776363 in op aten.mul"},
        Claim{"as_wide_as_long", kTokens, kTokens, false, "is a size of 'embedding.weight', too"},
        Claim{"shared_keys", 0, 16, true, "any length up to 16"},
        Claim{"shared_keys_dyn", 0, 16, true, "any length up to 16"},
        Claim{"shared_values", 0, 16, true, "any length up to 16"},
        Claim{"shared_both", 0, 16, true, "any length up to 16"},
        Claim{"raw_keys", 0, 16, true, "any length up to 16"},
        Claim{"mean_and_last_dyn", 0, 16, false, "any length up to 16, whole sequences"}),
    [](const auto& info) { return std::string(info.param.archive); });

TEST(Lengths, AreProvedByTheAuthorsOutputs) {
  const Conversion window = convert_at("third_window", {"third_window", "third_window_5"});
  EXPECT_EQ(window.program.inputs[0].tokens_min, 5u);
  EXPECT_EQ(window.program.inputs[0].positions_max, kTokens);
  EXPECT_NE(window.exported()->length.find("from 5 up to 11"), std::string::npos);
  EXPECT_LE(check(window, "third_window_5").largest_difference,
            kLengthError * check(window, "third_window_5").largest_value);
  // What is no constant shows.
  const Conversion prefix = convert_at("half_prefix", {"half_prefix", "half_prefix_5"});
  EXPECT_TRUE(refuses([&] { check(prefix, "half_prefix_5"); },
                      {"half_prefix_5_expected.npy", "5 in op aten.lt.Scalar", "a constant"}));
}

TEST(Lengths, AreSaidWithTheLinesThatExportOthers) {
  const std::string length = convert_at("half_prefix").exported()->length;
  EXPECT_NE(length.find("torch.export.Dim(\"tokens\", min=2, max=1024)"), std::string::npos);
  EXPECT_NE(length.find("(ids,), dynamic_shapes=({1: tokens},)"), std::string::npos) << length;
  EXPECT_EQ(convert_at("half_prefix_dyn").exported()->length.find("Dim"), std::string::npos);
}

TEST(Lengths, OfAContextThatTheModelDoesNotHaveAreRefused) {
  ConvertOptions options;
  options.source.context = 14;
  EXPECT_TRUE(refuses(
      [&] {
        convert_model(convert_fixture("lengths") / "half_prefix.pt2", "m", options,
                      parse_targets("native"));
      },
      {"--context: found 14", "exactly 11 tokens"}));
}

}  // namespace
}  // namespace arenite::convert
