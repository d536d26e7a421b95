// SPDX-License-Identifier: Apache-2.0
// The lengths at which a conversion is the author's model: those that the archive allows by ranges
// and guards, as long as the program is one model at all of them.
// tests/convert/data/lengths/make_lengths.py made the programs.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "convert/exported/compare_program.h"
#include "convert/exported/exported_model.h"
#include "convert/exported/read/exported_program.h"
#include "support/refusal.h"
#include "support/test_data.h"

namespace arenite::convert {
namespace {

using arenite::testing::convert_fixture;
using arenite::testing::refuses;

constexpr uint32_t kTokens = 11;  // of the examples

Conversion convert_at(const std::string& archive, ConvertOptions options = {},
                      const char* folder = "lengths") {
  return convert_program(convert_fixture(folder), archive, options);
}

ConvertOptions expecting(const std::vector<std::string>& expected) {
  ConvertOptions options;
  for (const std::string& name : expected) {
    options.expect.push_back(author_files(convert_fixture("lengths"), name));
  }
  return options;
}

ConvertOptions any_length() {
  ConvertOptions options;
  options.source.any_length = true;
  return options;
}

AuthorCheck check(const Conversion& conversion, const std::string& name) {
  return check_program(conversion, convert_fixture("lengths"), name);
}

struct Claim {
  const char* archive;
  uint32_t tokens_min, positions_max;
  bool causal;
  const char* words;  // expected in the report
};

class Lengths : public ::testing::TestWithParam<Claim> {};
TEST_P(Lengths, FollowTheRangesOfTheArchive) {
  const Claim& claim = GetParam();
  const Conversion conversion = convert_at(claim.archive);
  const ExportedModel& exported = *conversion.exported();
  EXPECT_EQ(conversion.program.inputs[0].tokens_min, claim.tokens_min) << exported.length;
  EXPECT_EQ(conversion.program.inputs[0].positions_max, claim.positions_max) << exported.length;
  EXPECT_EQ(exported.causal, claim.causal);
  EXPECT_NE(exported.length.find(claim.words), std::string::npos) << exported.length;
  std::string name = claim.archive;
  name = name.substr(0, name.find("_dyn"));
  EXPECT_TRUE(is_as_pytorch(check(conversion, name)));
  if (claim.tokens_min > 5) {
    EXPECT_TRUE(refuses([&] { check(conversion, name + "_5"); },
                        {fmt::format("at least {} tokens a sequence", claim.tokens_min)}));
  } else {
    EXPECT_TRUE(is_as_pytorch(check(conversion, name + "_5")));
  }
}
INSTANTIATE_TEST_SUITE_P(
    Exported, Lengths,
    ::testing::Values(
        Claim{"half_prefix", kTokens, kTokens, false, "exactly 11 tokens a call: it was exported"},
        Claim{"half_prefix_dyn", kTokens, kTokens, false, "at 16 tokens, the mask of"},
        Claim{"quarter_window_dyn", kTokens, kTokens, false, "at 16 tokens, the mask of"},
        Claim{"third_window", kTokens, kTokens, false, "exactly 11 tokens a call: it was exported"},
        Claim{"third_window_dyn", 0, 16, false, "any length up to 16"},
        Claim{"reversed_table_dyn", kTokens, kTokens, false, "with tables for 16 tokens"},
        Claim{"from_the_end_dyn", kTokens, kTokens, false, "with tables for 16 tokens"},
        Claim{"shares_dyn", kTokens, kTokens, false, "with tables for 16 tokens"},
        Claim{"shared_keys_dyn", 0, 16, true, "any length up to 16"},
        Claim{"shared_values_dyn", 0, 16, true, "any length up to 16"},
        Claim{"shared_both_dyn", 0, 16, true, "any length up to 16"},
        Claim{"raw_keys_dyn", 0, 16, true, "any length up to 16"},
        Claim{"mean_and_last_dyn", 0, 16, false, "any length up to 16, whole sequences"},
        Claim{"above_eight_dyn", 9, 0, false, "any length from 9, whole sequences"},
        Claim{"but_three_dyn", 4, 0, false, "any length from 4, whole sequences"},
        Claim{"no_fourths_dyn", 9, kTokens, false, "any length from 9 up to 11"},
        Claim{"second_eighth_dyn", 8, 15, false, "any length from 8 up to 15"},
        Claim{"steps_dyn", 0, 27, true, "each length was computed, since op _operator.floordiv"}),
    [](const auto& info) { return std::string(info.param.archive); });

TEST(Lengths, MayGrowInSteps) {
  const Conversion fourfold = convert_at("fourfold_dyn");
  EXPECT_EQ(fourfold.program.inputs[0].tokens_min, 8u);
  EXPECT_EQ(fourfold.program.inputs[0].positions_max, 16u);
  EXPECT_EQ(fourfold.program.inputs[0].tokens_step, 4u);
  EXPECT_TRUE(refuses([&] { check(fourfold, "half_prefix"); },
                      {"8 tokens a sequence, or 4 more, 8 more and so on; found 11 tokens"}));
  const std::string length = fourfold.exported()->length;
  EXPECT_TRUE(length.starts_with("any length from 8 up to 16, whole sequences")) << length;
  EXPECT_NE(length.find("it was exported for multiples of 4 only"), std::string::npos) << length;
  for (const std::string name : {"fourfold", "fourfold_8"}) {
    EXPECT_TRUE(is_as_pytorch(check(fourfold, name))) << name;
  }
}

TEST(Lengths, AnUnknownGuardFixesThemToTheExample) {
  const auto program = std::make_shared<ExportedProgram>(
      read_exported(convert_fixture("lengths") / "above_eight_dyn.pt2"));
  program->guards.push_back(
      read_guard("torch.sym_ite(L['ids'].size()[1] > 8, 1, 0) == 1", *program));
  const ExportedModel model = read_exported_model(program, {});
  EXPECT_EQ(model.graph.inputs[0].tokens_min, kTokens);
  EXPECT_EQ(model.graph.inputs[0].positions_max, kTokens);
  EXPECT_NE(model.length.find("its guard 'torch.sym_ite"), std::string::npos) << model.length;
}

// A dynamic size that an op, such as a view, left one value.
TEST(Lengths, TheGuardThatLeftOneLengthIsNamed) {
  const auto program = std::make_shared<ExportedProgram>(
      read_exported(convert_fixture("lengths") / "third_window.pt2"));
  program->guards.push_back(read_guard("8*L['ids'].size()[1] == 88", *program));
  const std::string length = read_exported_model(program, {}).length;
  EXPECT_NE(length.find("torch.export fixed the example's number, for its guard '8*L["),
            std::string::npos)
      << length;
}

TEST(Lengths, AGuardAcrossInputsFixesThemUnlessItAlwaysHolds) {
  const auto length = [](const char* guard) {
    const auto program = std::make_shared<ExportedProgram>(
        read_exported(convert_fixture("several_inputs") / "translation.pt2"));
    program->guards.push_back(read_guard(guard, *program));
    return read_exported_model(program, {}).length;
  };
  EXPECT_NE(
      length("L['source'].size()[1] != L['target'].size()[1]").find("relates several lengths"),
      std::string::npos);
  EXPECT_EQ(length("L['source'].size()[1]*L['target'].size()[1] >= 1").find("exactly"),
            std::string::npos);
}

TEST(Lengths, AreProvedByTheAuthorsOutputs) {
  const Conversion window =
      convert_at("third_window", expecting({"third_window", "third_window_5"}));
  EXPECT_EQ(window.program.inputs[0].tokens_min, 5u);
  EXPECT_EQ(window.program.inputs[0].positions_max, kTokens);
  EXPECT_NE(window.exported()->length.find("from 5 up to 11"), std::string::npos);
  EXPECT_TRUE(is_as_pytorch(check(window, "third_window_5")));
  // A value that is not constant shows.
  const Conversion prefix = convert_at("half_prefix", expecting({"half_prefix", "half_prefix_5"}));
  EXPECT_TRUE(refuses([&] { check(prefix, "half_prefix_5"); }, {"half_prefix_5_expected.npy"}));
}

TEST(Lengths, AnyLengthIsReportedAsClaimed) {
  const Conversion window = convert_at("third_window", any_length());
  EXPECT_EQ(window.program.inputs[0].tokens_min, 0u);
  EXPECT_EQ(window.program.inputs[0].positions_max, 0u);
  EXPECT_EQ(window.program.array_flags & kLengthsClaimed, kLengthsClaimed);
  EXPECT_NE(
      window.exported()->length.find("any length, whole sequences: as claimed by --any-length"),
      std::string::npos)
      << window.exported()->length;
  for (const std::string name : {"third_window", "third_window_5"}) {
    EXPECT_TRUE(is_as_pytorch(check(window, name))) << name;
  }
  // Rotations need an end, and have a default.
  const Conversion rotated = convert_at("complex", any_length(), "exported");
  EXPECT_EQ(rotated.program.inputs[0].positions_max, 128u);
  // A mask that is no rule ends with the example.
  const Conversion prefix = convert_at("half_prefix", any_length());
  EXPECT_EQ(prefix.program.inputs[0].positions_max, kTokens);
}

// [sequences, tokens], whether the archive or the user says that the tokens vary.
TEST(Lengths, VaryTheRowExtentOfTheOutput) {
  const std::vector<uint32_t> shape = {kSequencesExtent, kOtherExtent};
  for (const auto& [archive, options] :
       {std::pair("token_scores", any_length()), std::pair("token_scores_dyn", ConvertOptions())}) {
    const Conversion scores = convert_at(archive, options);
    EXPECT_EQ(scores.program.output_shape, shape) << archive;
    EXPECT_TRUE(is_as_pytorch(check(scores, "token_scores_5"))) << archive;
  }
}

TEST(Lengths, AnyLengthIsRefusedWhereTheProgramContradicts) {
  const auto refuses_to = [](const char* folder, const char* archive, const char* why) {
    return refuses([&] { convert_at(archive, any_length(), folder); }, {"--any-length", why});
  };
  EXPECT_TRUE(refuses_to("exported_zoo", "token_mixer", "values for each pair of rows"));
  EXPECT_TRUE(refuses_to("exported", "fixed_bias", "does not follow from distances"));
  EXPECT_TRUE(refuses_to("exported", "vit", "images have one size"));
  EXPECT_TRUE(refuses_to("lengths", "third_window_dyn", "has dynamic sizes"));
}

TEST(Lengths, FixedSizesAreReportedWithTheLinesThatFreeThem) {
  const std::string length = convert_at("half_prefix").exported()->length;
  EXPECT_NE(length.find("tokens = torch.export.Dim.AUTO"), std::string::npos);
  EXPECT_NE(length.find("(ids,), dynamic_shapes=({1: tokens},)"), std::string::npos) << length;
  EXPECT_EQ(convert_at("half_prefix_dyn").exported()->length.find("Dim"), std::string::npos);
  // A batch of any size stays one.
  for (const auto& [archive, shapes] :
       {std::pair("ids", "(x,), dynamic_shapes=({0: batch, 1: tokens},)"),
        std::pair("tokens_first", "dynamic_shapes=({1: batch, 0: tokens},)")}) {
    const std::string lines = convert_at(archive, {}, "batches").exported()->length;
    EXPECT_NE(lines.find("batch = tokens = torch.export.Dim.AUTO"), std::string::npos) << lines;
    EXPECT_NE(lines.find(shapes), std::string::npos) << lines;
  }
  // Rows without a sequence have no length.
  EXPECT_EQ(convert_at("row", {}, "batches").exported()->length.find("Dim"), std::string::npos);
}

TEST(Lengths, SplitRangesAreReportedWithTheirGuard) {
  const auto length = [](const char* archive) { return convert_at(archive).exported()->length; };
  EXPECT_NE(length("but_three_dyn").find("!= 3' splits the range of lengths"), std::string::npos);
  EXPECT_NE(length("no_fourths_dyn").find("% 4) != 0' splits the range of lengths"),
            std::string::npos);
  EXPECT_EQ(length("half_prefix_dyn").find("splits the range of lengths"), std::string::npos);
}

// A trace at 65,536 tokens would not fit: masks of pairs alone have 2^32 elements there.
TEST(Lengths, LargeRangesAreAccepted) {
  auto program = std::make_shared<ExportedProgram>(
      *read_exported_model(convert_fixture("masks") / "left.pt2", {}).program);
  for (auto& [symbol, range] : program->symbols) range.max = 65536;
  const std::string length = read_exported_model(program, {}, {}, true).length;
  EXPECT_EQ(length.find("any length up to 65536"), 0u) << length;
}

TEST(Lengths, AContextThatTheModelDoesNotHaveIsRefused) {
  ConvertOptions options;
  options.source.context = 14;
  EXPECT_TRUE(refuses([&] { convert_at("half_prefix", options); },
                      {"--context: found 14", "exactly 11 tokens"}));
}

}  // namespace
}  // namespace arenite::convert
