// SPDX-License-Identifier: Apache-2.0
// Slots with overlapping lifetimes do not overlap in the arena; others share memory.
#include "convert/program/program.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "convert/convert.h"
#include "support/decoder_factory.h"
#include "support/model_factory.h"
#include "support/random.h"

namespace arenite::test {
namespace {

using convert::Program;
using format::SlotView;

void add_linear(Program& program, uint32_t from, uint32_t to) {
  program.ops.push_back({"op", convert::linear_op({from, 0, program.slots[from].width},
                                                  {to, 0, program.slots[to].width}, 0)});
}

Program with_slots(const std::vector<uint32_t>& widths) {
  Program program;
  for (const uint32_t width : widths) program.slots.push_back({width, 0, 0, 0});
  program.functions[0].output_slot = static_cast<uint32_t>(widths.size()) - 1;
  return program;
}

std::vector<uint32_t> columns(const Program& program) {
  std::vector<uint32_t> all;
  for (const SlotView& slot : program.slots) all.push_back(slot.offset);
  return all;
}

uint32_t width_of(const Program& program) {
  uint32_t end = 0;
  for (const SlotView& slot : program.slots) end = std::max(end, slot.offset + slot.width);
  return end;
}

::testing::AssertionResult none_overlap(const Program& program) {
  for (size_t a = 0; a < program.slots.size(); ++a) {
    for (size_t b = 0; b < a; ++b) {
      const SlotView& x = program.slots[a];
      const SlotView& y = program.slots[b];
      const bool in_time = x.first_op <= y.last_op && y.first_op <= x.last_op;
      const bool in_space = x.offset < y.offset + y.width && y.offset < x.offset + x.width;
      if (in_time && in_space) return ::testing::AssertionFailure() << "slots " << b << ", " << a;
    }
  }
  return ::testing::AssertionSuccess();
}

TEST(Planner, LetsEverySecondSlotOfAChainShare) {
  Program program = with_slots({4, 10, 6, 3, 8});
  for (uint32_t i = 0; i < 4; ++i) add_linear(program, i, i + 1);
  convert::place_slots(program);
  EXPECT_EQ(program.slots[0].first_op, 0u);
  EXPECT_EQ(program.slots[0].last_op, 0u);
  EXPECT_EQ(program.slots[2].first_op, 1u);
  EXPECT_EQ(program.slots[2].last_op, 2u);
  EXPECT_EQ(program.slots[4].last_op, 3u);
  // Slots by width: 1 [10] at 0; 4 [8] at 0, as their lifetimes do not meet; 2 [6] beside 1; 0 [4]
  // beside 1, before 2 begins; 3 [3] at 16, as the gap from 8 on between 4 and 2 is only 2 wide.
  EXPECT_EQ(columns(program), (std::vector<uint32_t>{10, 0, 10, 16, 0}));
  EXPECT_EQ(width_of(program), 19u);
}

TEST(Planner, KeepsASlotThatIsReadLater) {
  Program program = with_slots({4, 4, 4, 4});
  add_linear(program, 0, 1);
  add_linear(program, 1, 2);
  add_linear(program, 0, 3);
  convert::place_slots(program);
  EXPECT_EQ(program.slots[0].last_op, 2u);
  EXPECT_EQ(columns(program), (std::vector<uint32_t>{0, 4, 8, 4}));
}

TEST(Planner, SeesAllOfAnAttentionOp) {
  Program program = with_slots({5, 9, 6, 2});
  add_linear(program, 0, 1);
  // The value comes straight from the input.
  const convert::AttentionParts parts = {{1, 0, 3}, {1, 3, 3}, {0, 0, 5}, {2, 0, 6}};
  program.ops.push_back({"attention", convert::attention_op(parts)});
  add_linear(program, 2, 3);
  convert::place_slots(program);
  EXPECT_EQ(program.slots[0].last_op, 1u);
  EXPECT_EQ(columns(program), (std::vector<uint32_t>{15, 0, 9, 0}));
}

TEST(Planner, IgnoresColumnsThatAreAbsent) {
  Program program = with_slots({5, 5});
  const convert::AttentionParts parts = {{1, 0, 0}, {}, {0, 0, 5}, {1, 0, 5}};
  program.ops.push_back({"attention", convert::attention_op(parts)});
  convert::place_slots(program);
  EXPECT_EQ(columns(program), (std::vector<uint32_t>{0, 5}));
}

TEST(Planner, KeepsInputFromTheStartAndOutputToTheEnd) {
  // The input is read by the second op alone; the output is written by the first.
  Program program = with_slots({3, 3, 3, 3});
  program.functions[0].output_slot = 1;
  add_linear(program, 2, 1);
  add_linear(program, 0, 3);
  convert::place_slots(program);
  EXPECT_EQ(program.slots[0].first_op, 0u);
  EXPECT_EQ(program.slots[0].last_op, 1u);
  EXPECT_EQ(program.slots[1].first_op, 0u);
  EXPECT_EQ(program.slots[1].last_op, 1u);
  EXPECT_EQ(program.slots[2].last_op, 0u);
  EXPECT_EQ(program.slots[3].first_op, 1u);
  EXPECT_TRUE(none_overlap(program));
  EXPECT_EQ(width_of(program), 9u);
}

TEST(Planner, NeverLetsSlotsOverlap) {
  Random random(3);
  for (int round = 0; round < 300; ++round) {
    std::vector<uint32_t> widths(2 + random.below(12));
    for (uint32_t& width : widths) width = 1 + random.below(40);
    Program program = with_slots(widths);
    for (uint32_t to = 1; to < widths.size(); ++to) add_linear(program, random.below(to), to);
    convert::place_slots(program);
    ASSERT_TRUE(none_overlap(program)) << round;
  }
}

TEST(Planner, NeedsNoMoreThanTheWidestMomentOfAnyModule) {
  for (const ModuleSpec& spec : all_specs()) {
    const Program program = convert::compile(convert::build_graph(make_module(spec)), spec.name);
    EXPECT_TRUE(none_overlap(program)) << spec.name;
    uint32_t widest = 0;
    for (uint32_t op = 0; op < program.ops.size(); ++op) {
      uint32_t alive = 0;
      for (const SlotView& slot : program.slots) {
        if (slot.first_op <= op && op <= slot.last_op) alive += slot.width;
      }
      widest = std::max(widest, alive);
    }
    EXPECT_EQ(width_of(program), widest) << spec.name;
  }
}

// Rows of tokens and rows of outputs lie in areas of their own.
TEST(Planner, LetsSlotsOfOutputsShareColumnsWithSlotsOfTokens) {
  Program program = with_slots({4, 6, 9});
  program.axes.push_back({AxisKind::kAsked, 0, 0, 0});
  program.slots[1].axis = program.slots[2].axis = 1;
  program.ops.push_back({"select", convert::select_op({0, 0, 4}, {1, 0, 4}, SelectKind::kAsAsked)});
  add_linear(program, 1, 2);
  convert::place_slots(program);
  EXPECT_EQ(columns(program), (std::vector<uint32_t>{0, 9, 0}));
}

// The inputs of a concatenation of rows lie in place, within its result.
TEST(Planner, LetsSlotsOfJoinedRowsAndOfTheirPartsShareAnArea) {
  Program program = with_slots({4, 6, 4});
  program.axes.push_back({AxisKind::kConstants, 0, 0, 3});
  program.axes.push_back({AxisKind::kJoined, 1, 0, 0});
  program.slots[1].axis = 1;
  program.slots[2].axis = 2;
  program.ops.push_back({"constants", convert::embedding_op({1, 0, 4}, {})});
  program.ops.push_back({"join", convert::join_op({1, 0, 4}, {0, 0, 4}, {2, 0, 4})});
  program.functions[0].output_slot = 2;
  convert::place_slots(program);
  EXPECT_EQ(columns(program), (std::vector<uint32_t>{6, 0, 10}));
}

// An op in place keeps a slot alive, and the input slot of a model of tokens is none.
TEST(Planner, CountsSlotsUpdatedInPlace) {
  Program program = with_slots({4, 4, 4});
  program.inputs[0].vocab_size = 10;
  program.ops.push_back({"embedding", convert::embedding_op({1, 0, 4}, {})});
  add_linear(program, 1, 0);
  program.ops.push_back({"add", convert::sum_op({1, 0, 4}, {0, 0, 4}, {1, 0, 4})});
  add_linear(program, 1, 2);
  convert::place_slots(program);
  EXPECT_EQ(program.slots[0].first_op, 1u);
  EXPECT_EQ(program.slots[1].last_op, 3u);
  EXPECT_EQ(columns(program), (std::vector<uint32_t>{0, 4, 0}));
}

TEST(Planner, LetsNoSlotsOfADecoderOverlap) {
  for (const DecoderShape& shape : all_decoders()) {
    const Program program = decoder_program(shape);
    for (const uint32_t axis : {0u, 1u}) {
      Program of_kind = program;
      std::erase_if(of_kind.slots, [&](const SlotView& s) { return s.axis != axis; });
      EXPECT_TRUE(none_overlap(of_kind)) << shape.name;
    }
  }
}

}  // namespace
}  // namespace arenite::test
