// SPDX-License-Identifier: Apache-2.0
// Models with an input that marks padding, which the runtime replaces by lengths. The expected
// outputs are of a sequence in a batch with padding.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "convert/check/converted_model.h"
#include "convert/exported/compare_program.h"
#include "convert/files/npy.h"
#include "support/refusal.h"
#include "support/temp_folder.h"
#include "support/test_data.h"

namespace arenite::convert {
namespace {

using arenite::testing::convert_fixture;
using arenite::testing::refuses;

struct Padded {
  const char* name;
  const char* archive;
  const char* given;  // expected in the report of the second input
};

Conversion convert_padded(const std::string& archive) {
  return convert_program(convert_fixture("padded"), archive);
}
AuthorCheck check_padded(const Conversion& conversion, const std::string& name) {
  return check_program(conversion, convert_fixture("padded"), name);
}

class PaddedModels : public ::testing::TestWithParam<Padded> {};

TEST_P(PaddedModels, TakeLengthsInsteadOfMasks) {
  const Padded& padded = GetParam();
  const Conversion conversion = convert_padded(padded.archive);
  const ExportedModel& exported = *conversion.exported();
  EXPECT_GE(exported.compared_inputs, 4u);  // the example, a random one, and two with padding
  EXPECT_LE(exported.largest_difference, kGraphError * exported.largest_value);
  EXPECT_EQ(conversion.account.given.at(0), padded.given);
  EXPECT_TRUE(is_as_pytorch(check_padded(conversion, padded.name)));
}

INSTANTIATE_TEST_SUITE_P(
    Exported, PaddedModels,
    ::testing::Values(
        Padded{"kept", "kept", "input 2 (attention_mask) becomes the lengths"},
        Padded{"kept_rows", "kept_rows", "input 2 (attention_mask) becomes the lengths"},
        Padded{"kept_rows", "kept_rows_dyn", "input 2 (attention_mask) becomes the lengths"},
        Padded{"maximum", "maximum", "input 2 (attention_mask) becomes the lengths"},
        Padded{"encoder", "encoder", "input 2 (src_key_padding_mask) becomes the lengths"},
        Padded{"lengths", "lengths", "input 2 (n) becomes the lengths"},
        Padded{"added", "added", "input 2 (mask) becomes the lengths"},
        Padded{"bert", "bert", "input 2 (attention_mask) becomes the lengths"}),
    [](const ::testing::TestParamInfo<Padded>& info) { return std::string(info.param.archive); });

TEST(PaddedModel, BertTakesTypesAndPositions) {
  const Conversion conversion = convert_padded("bert");
  EXPECT_EQ(conversion.graph.inputs[0].token_types, 2u);
  EXPECT_EQ(conversion.account.given.at(1), "input 3 (token_type_ids) becomes the token types");
  EXPECT_EQ(conversion.account.given.at(2),
            "input 4 (position_ids) is 0, 1, 2, ..., and is not an input of the model");
}

// Arrays [tokens, 1, width] and [tokens, sequences, width].
TEST(TokensFirst, AreComparedInTheAxisOrderOfTheProgram) {
  const Conversion conversion = convert_padded("tokens_first");
  for (const std::string name : {"tokens_first", "tokens_first_batch"}) {
    const AuthorCheck check = check_padded(conversion, name);
    EXPECT_EQ(check.tokens, 6u);
    EXPECT_EQ(check.sequences, name == "tokens_first" ? 1u : 2u);
    EXPECT_TRUE(is_as_pytorch(check));
  }
}

// The example has two sequences, which are second.
TEST(TokensFirst, MayHaveSeveralSequences) {
  const Conversion conversion = convert_padded("tokens_first_two");
  const AuthorCheck check = check_padded(conversion, "tokens_first_two");
  EXPECT_EQ(check.tokens, 6u);
  EXPECT_EQ(check.sequences, 2u);
  EXPECT_TRUE(is_as_pytorch(check));
}

TEST(PaddedModel, OtherUsesOfTheMaskAreRefused) {
  EXPECT_TRUE(refuses([] { convert_padded("misused"); }, {"differs from the program"}));
}

Conversion expect_marks(const std::string& archive, uint32_t token_types,
                        const std::string& given) {
  Conversion conversion = convert_padded(archive);
  const ExportedModel& exported = *conversion.exported();
  EXPECT_EQ(conversion.graph.inputs[0].token_types, token_types);
  EXPECT_EQ(conversion.account.given.at(0), given);
  EXPECT_LE(exported.largest_difference, kGraphError * exported.largest_value);
  return conversion;
}

// Types of tokens say which keys are hidden, and rows of padding stay.
TEST(PaddedModel, WhoseRowsOfPaddingAreReadHasTypes) {
  const Conversion conversion = expect_marks("partly", 2,
                                             "input 2 (padding_mask) becomes the token types, as "
                                             "other ops than attention read rows of padding");
  const std::filesystem::path folder = convert_fixture("padded");
  const AuthorFiles files = {folder / "partly_input.npy",
                             folder / "partly_expected.npy",
                             {},
                             {(folder / "partly_mask.npy").string()}};
  EXPECT_TRUE(is_as_pytorch(check_against_author(conversion, files, "partly.pt2")));
}

// The second sequence is padded in front: rows of padding are not compared.
TEST(PaddedModel, IsComparedWithTheMaskOfTheProgram) {
  const arenite::testing::TempFolder folder;
  const NpyArray ids = NpyArray::read(convert_fixture("padded/kept_rows_input.npy"));
  const NpyArray rows = NpyArray::read(convert_fixture("padded/kept_rows_expected.npy"));
  const uint64_t tokens = ids.shape().back(), padded = tokens + 2, width = rows.shape().back();
  std::vector<int32_t> batch, mask;
  std::vector<float> expected;
  for (const bool is_first : {false, true}) {
    for (uint64_t t = 0; t < padded; ++t) {
      const uint64_t of = is_first ? t - 2 : t;
      mask.push_back(of < tokens ? 1 : 0);
      batch.push_back(of < tokens ? static_cast<int32_t>(ids.to_i64()[of]) : 0);
      const std::vector<float> row =
          of < tokens ? rows.to_f32(of * width, width) : std::vector<float>(width, 9.0f);
      expected.insert(expected.end(), row.begin(), row.end());
    }
  }
  const std::vector<uint64_t> shape = {2, padded};
  write_npy(folder.path() / "ids.npy", shape, std::span<const int32_t>(batch));
  write_npy(folder.path() / "mask.npy", shape, std::span<const int32_t>(mask));
  write_npy(folder.path() / "rows.npy", std::vector<uint64_t>{2, padded, width},
            std::span<const float>(expected));
  AuthorFiles files = {folder.path() / "ids.npy",
                       folder.path() / "rows.npy",
                       {},
                       {"attention_mask=" + (folder.path() / "mask.npy").string()}};
  const Conversion conversion = convert_padded("kept_rows_dyn");
  EXPECT_TRUE(is_as_pytorch(check_against_author(conversion, files, "kept_rows.pt2")));
  files.lengths = {fmt::format("{},{}", tokens, tokens)};
  EXPECT_TRUE(refuses([&] { check_against_author(conversion, files, "kept_rows.pt2"); },
                      {"--expect-lengths", "mask.npy' says which tokens count"}));
}

// Beside features, the mask is a column of 0 and 1.
TEST(PaddedModel, WhoseRowsOfPaddingAreReadHasAColumn) {
  expect_marks("partly_features", 0,
               "inputs are concatenated along the columns: x is columns 0 to 7, padding_mask is "
               "columns 8 to 8");
}

}  // namespace
}  // namespace arenite::convert
