// SPDX-License-Identifier: Apache-2.0
// Which dimension of an input is that of tokens, how many there are, and what sizes follow of it.
#include "convert/exported/trace/trace_shape.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "support/refusal.h"

namespace arenite::convert {
namespace {

using arenite::testing::refuses;

// A program whose inputs have these types and sizes, and which computes nothing.
std::shared_ptr<const ExportedProgram> program(const std::vector<ExportedValue>& inputs) {
  auto made = std::make_shared<ExportedProgram>();
  made->source = "model.pt2";
  made->tensors = std::make_shared<TensorStore>("model.pt2");
  made->symbols["s1"] = {2, 64};
  for (const ExportedValue& value : inputs) {
    made->inputs.push_back(
        {.value = static_cast<uint32_t>(made->values.size()), .name = value.name});
    made->values.push_back(value);
  }
  return made;
}

ExportedValue ids(std::vector<Extent> sizes) {
  return {.name = "ids", .type = ElementType::kI64, .sizes = std::move(sizes)};
}

ExportedValue features(std::vector<Extent> sizes) {
  return {.name = "x", .type = ElementType::kF32, .sizes = std::move(sizes)};
}

const Extent kSymbol = {.size = 7, .symbol = "s1"};

TEST(TraceShape, HasTheTokensOfTheSecondDimension) {
  const TraceShape shape(program({ids({{2}, {7}})}));
  EXPECT_EQ(shape.tokens(), 7);
  EXPECT_EQ(shape.sizes().sequences, 2u);
  EXPECT_EQ(shape.axis(), 1u);
  EXPECT_TRUE(shape.reads_tokens());
  EXPECT_FALSE(shape.tokens_first());
  EXPECT_FALSE(shape.is_dynamic());
}

TEST(TraceShape, HasTheTokensFirstWhereOneSequenceIsSecond) {
  const TraceShape shape(program({features({{7}, {1}, {16}})}));
  EXPECT_EQ(shape.tokens(), 7);
  EXPECT_TRUE(shape.tokens_first());
  EXPECT_EQ(shape.input_shape(), (Shape{7, 1, 16}));
}

// The input may have as many columns as tokens.
TEST(TraceShape, HasTheColumnsFirstWhereAConvolutionReadsThem) {
  for (const bool is_turned : {false, true}) {
    ExportedProgram made = *program({features({{1}, {5}, {5}})});
    made.values.push_back(features({{5}, {5}, {3}}));  // weights
    made.values.push_back(features({{1}, {5}, {5}}));
    made.nodes.push_back(
        {.op = "transpose",
         .overload = "int",
         .arguments = {{"self", ValueRef{0}}, {"dim0", int64_t{1}}, {"dim1", int64_t{2}}},
         .outputs = {2}});
    made.values.push_back(features({{1}, {5}, {3}}));
    made.nodes.push_back(
        {.op = "conv1d",
         .overload = "default",
         .arguments = {{"input", ValueRef{is_turned ? 2u : 0u}}, {"weight", ValueRef{1}}},
         .outputs = {3}});
    const TraceShape shape(std::make_shared<const ExportedProgram>(std::move(made)));
    EXPECT_EQ(shape.columns_first(), !is_turned);
  }
}

TEST(TraceShape, HasAnyNumberOfTokensThatIsASymbol) {
  const TraceShape shape(program({features({{3}, kSymbol, {16}})}));
  EXPECT_TRUE(shape.is_dynamic());
  EXPECT_EQ(shape.symbol(), "s1");
  EXPECT_EQ(shape.range().min, 1);  // 2 is written where the author gave none
  EXPECT_EQ(shape.range().max, 64);
  const TraceShape other = shape.at(11);
  EXPECT_EQ(other.input_shape(), (Shape{3, 11, 16}));
  EXPECT_EQ(other.traced_tokens(), 7);
  EXPECT_EQ(other.extent(kSymbol), 11);
  EXPECT_EQ(other.extent({.size = 6, .symbol = "Add(Symbol('s1'), Integer(-1))"}), 10);
  EXPECT_EQ(other.extent({16}), 16);
  EXPECT_EQ(other.shape_of(features({{3}, kSymbol})), (Shape{3, 11}));
  // A symbol of something else is known at the length of the example alone.
  const Extent unknown = {.size = 4, .symbol = "s9"};
  EXPECT_EQ(shape.extent(unknown), 4);
  EXPECT_TRUE(refuses([&] { other.extent(unknown); }, {"s9", "more than the number of tokens"}));
}

// Twelve tokens are three steps of four.
TEST(TraceShape, RoundsLengthsDownToItsSteps) {
  const Extent steps = {.size = 12, .symbol = "Mul(Integer(4), Symbol('s1', integer=True))"};
  const TraceShape shape(program({ids({{1}, steps})}));
  EXPECT_EQ(shape.step(), 4);
  for (const auto& [tokens, rounded] :
       {std::pair{11, 8}, {12, 12}, {13, 12}, {15, 12}, {16, 16}, {3, 0}}) {
    EXPECT_EQ(shape.rounded(tokens), rounded) << tokens;
  }
}

TEST(TraceShape, HasTwoColumnsAsTokensIfTheirNumberIsOpen) {
  const TraceShape shape(program({features({{1}, {5}, {2, "s1"}})}));
  EXPECT_FALSE(shape.reads_images());
  EXPECT_TRUE(shape.columns_first());
  EXPECT_EQ(shape.tokens(), 2);
}

TEST(TraceShape, ReadsColumnsAsTokensOfAsManySequencesAsRows) {
  const TraceShape rows = TraceShape(program({features({{7}, {1}, {5}})}));
  ASSERT_TRUE(rows.tokens_first());
  const std::optional<TraceShape> columns = rows.with_columns_first();
  ASSERT_TRUE(columns.has_value());
  EXPECT_EQ(columns->tokens(), 5);
  EXPECT_EQ(columns->sizes().sequences, 7u);
  EXPECT_EQ(columns->input_shape(), (Shape{7, 1, 5}));
}

TEST(TraceShape, MayHaveAnotherNumberOfSequencesWhereItIsOpen) {
  const Extent open = {.size = 2, .symbol = "s2"};
  EXPECT_EQ(TraceShape(program({ids({{2}, kSymbol})})).other_sequences(), 0);
  EXPECT_EQ(TraceShape(program({ids({open, kSymbol})})).other_sequences(), 3);
  EXPECT_EQ(TraceShape(program({features({open, {3}, {8}, {8}})})).other_sequences(), 3);
  EXPECT_EQ(TraceShape(program({features({{2}, {3}, {8}, {8}})})).other_sequences(), 0);
  const auto given = program({ids({{2}, {7}})});
  const TraceShape told(given, {{&given->inputs[0]}, {}, 5});
  EXPECT_EQ(told.other_sequences(), 5);
}

TEST(TraceShape, FourDimensionsAreImages) {
  const TraceShape shape(program({features({{2}, {3}, {8}, {8}})}));
  EXPECT_TRUE(shape.reads_images());
  const TraceShape cut = shape.with_image({.channels = 3, .height = 8, .width = 8});
  EXPECT_EQ(cut.tokens(), 64);
  EXPECT_EQ(cut.sizes().sequences, 2u);
  EXPECT_EQ(cut.input_shape(), (Shape{2, 3, 8, 8}));
}

TEST(TraceShape, RefusesInputsOfOtherShapes) {
  EXPECT_TRUE(refuses([] { TraceShape(program({})); }, {"no input"}));
  EXPECT_TRUE(refuses([] { TraceShape(program({features({{7}})})); }, {"'x'", "1 dimensions"}));
}

TEST(TraceShape, MayBeSequencesOfOneToken) {
  const TraceShape table(program({features({{4}, {5}})}));
  EXPECT_EQ(table.tokens(), 4);
  EXPECT_EQ(table.with_one_token()->tokens(), 1);
  EXPECT_EQ(table.with_one_token()->sizes().sequences, 4u);
  const TraceShape transposed(program({features({{4}, {1}, {5}})}));
  EXPECT_TRUE(transposed.tokens_first());
  EXPECT_FALSE(transposed.with_one_token()->tokens_first());
  EXPECT_EQ(transposed.with_one_token()->input_shape(), (Shape{4, 1, 5}));
  EXPECT_EQ(TraceShape(program({ids({{1}, {1}})})).tokens(), 1);
  EXPECT_FALSE(TraceShape(program({features({{4}, kSymbol, {5}})})).with_one_token());
}

TEST(TraceShape, ProvesTheLengthsOfTheAuthorsArrays) {
  const TraceShape shape(program({features({{1}, {7}, {16}})}));
  EXPECT_EQ(shape.of_arrays({{1, 9, 16}, {4, 16}}), (std::set<int64_t>{4, 7, 9}));
}

// The mean over lines and then over columns of an image.
TEST(NeededPart, MergesMeansOfMeansThatKeepTheirDimensions) {
  const auto part_of = [](std::vector<Extent> sizes, int64_t first, bool keeps) {
    ExportedProgram made = *program({features(std::move(sizes))});
    made.values.push_back(features({{2}, {3}, {1}, {8}}));
    made.values.push_back(features({{2}, {3}, {1}, {1}}));
    made.nodes.push_back({.op = "mean",
                          .arguments = {{"self", ValueRef{0}}, {"dim", Argument::List{first}}},
                          .outputs = {1}});
    if (keeps) made.nodes[0].arguments.push_back({"keepdim", true});
    made.nodes.push_back({.op = "mean",
                          .arguments = {{"self", ValueRef{1}},
                                        {"dim", Argument::List{int64_t{3}}},
                                        {"keepdim", true}},
                          .outputs = {2}});
    return needed_part(made, 2);
  };
  const ExportedProgram merged = part_of({{2}, {3}, {8}, {8}}, -2, true);
  ASSERT_EQ(merged.nodes.size(), 1u);
  EXPECT_EQ(merged.nodes[0].argument("self").as<ValueRef>()->value, 0u);
  EXPECT_EQ(merged.nodes[0].integers("dim"), (std::vector<int64_t>{-2, 3}));
  // The first mean drops a dimension of five, so dimension 3 is another one of its input.
  EXPECT_EQ(part_of({{2}, {3}, {4}, {1}, {8}}, 2, false).nodes.size(), 2u);
}

TEST(SideInputs, HaveRolesByTypeAndName) {
  const auto roles = [](const ExportedValue& second) {
    const auto made = program({ids({{2}, {7}}), second});
    return possible_roles(*made, made->inputs[1]);
  };
  ExportedValue mask = {.name = "attention_mask", .type = ElementType::kBool, .sizes = {{2}, {7}}};
  EXPECT_EQ(roles(mask), (std::vector{SideRole::kKept, SideRole::kHidden}));
  mask.name = "padding_mask";
  EXPECT_EQ(roles(mask), (std::vector{SideRole::kHidden, SideRole::kKept}));
  mask.type = ElementType::kF32;
  EXPECT_EQ(roles(mask).back(), SideRole::kAdded);
  ExportedValue other = {.name = "lengths", .type = ElementType::kI64, .sizes = {{2}}};
  EXPECT_EQ(roles(other).front(), SideRole::kLengths);
  other = {.name = "position_ids", .type = ElementType::kI64, .sizes = {{2}, {7}}};
  EXPECT_EQ(roles(other), (std::vector{SideRole::kPositions}));
  other.name = "token_type_ids";
  EXPECT_EQ(roles(other), (std::vector{SideRole::kTypes}));
}

TEST(SideInputs, AreDescribedByTheirRole) {
  const ExportedInput input = {.value = 1, .name = "mask"};
  const auto described = [&](SideRole role) { return describe({&input, role}, 2); };
  EXPECT_EQ(described(SideRole::kKept), "input 2 (mask) becomes the lengths");
  EXPECT_EQ(described(SideRole::kLengths), "input 2 (mask) becomes the lengths");
  EXPECT_EQ(described(SideRole::kPositions),
            "input 2 (mask) is 0, 1, 2, ..., and is not an input of the model");
  EXPECT_EQ(
      described(SideRole::kMarks),
      "input 2 (mask) becomes the token types, as other ops than attention read rows of padding");
}

TEST(SideInputs, EncodeTheLengthsOfSequences) {
  const std::vector<uint32_t> lengths = {2, 3};
  const auto values = [&](SideRole role, const Shape& shape) {
    return side_values(role, shape, ElementType::kF32, lengths).to_reals();
  };
  EXPECT_EQ(values(SideRole::kKept, {2, 3}), (Array::Reals{1, 1, 0, 1, 1, 1}));
  EXPECT_EQ(values(SideRole::kHidden, {2, 3}), (Array::Reals{0, 0, 1, 0, 0, 0}));
  EXPECT_EQ(values(SideRole::kLengths, {2}), (Array::Reals{2, 3}));
  EXPECT_EQ(values(SideRole::kPositions, {2, 3}), (Array::Reals{0, 1, 2, 0, 1, 2}));
}

}  // namespace
}  // namespace arenite::convert
