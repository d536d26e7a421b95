// SPDX-License-Identifier: Apache-2.0
// Models with an input that marks padding, which the runtime replaces by lengths. The expected
// outputs are of a sequence in a batch with padding.
#include <gtest/gtest.h>

#include <string>

#include "convert/exported/compare_program.h"
#include "support/refusal.h"
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
  EXPECT_EQ(conversion.account.given.at(1), "input 3 (token_type_ids) becomes the types of tokens");
  EXPECT_EQ(conversion.account.given.at(2),
            "input 4 (position_ids) is 0, 1, 2, ..., and is not asked for");
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

// Types of tokens say which keys are hidden, and rows of padding stay.
TEST(PaddedModel, WhoseRowsOfPaddingAreReadHasTypes) {
  const Conversion conversion = convert_padded("partly");
  const ExportedModel& exported = *conversion.exported();
  EXPECT_EQ(conversion.graph.inputs[0].token_types, 2u);
  EXPECT_EQ(conversion.account.given.at(0),
            "input 2 (padding_mask) becomes the types of tokens, as some ops read rows of padding");
  EXPECT_LE(exported.largest_difference, kGraphError * exported.largest_value);
}

TEST(PaddedModel, WhoseRowsOfPaddingAreReadNeedsIds) {
  EXPECT_TRUE(refuses([] { convert_padded("partly_features"); },
                      {"Input 'padding_mask' is read as a padding mask, but some op reads rows "
                       "that it hides",
                       "give it to all attention"}));
}

}  // namespace
}  // namespace arenite::convert
