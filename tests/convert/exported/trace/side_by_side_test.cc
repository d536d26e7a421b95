// SPDX-License-Identifier: Apache-2.0
// Programs whose inputs are rewritten: concatenated, read as numbers, or cut to a few sequences.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "convert/exported/aten/interpret.h"
#include "convert/exported/trace/trace_shape.h"

namespace arenite::convert {
namespace {

// Adds an input, with the example if it has elements.
void add_input(ExportedProgram& program, ExportedValue value, Array::Reals example = {}) {
  program.inputs.push_back(
      {.value = static_cast<uint32_t>(program.values.size()), .name = value.name});
  if (!example.empty()) {
    program.sample_inputs.push_back(Array::real(value.shape(), std::move(example)).to(value.type));
  }
  program.values.push_back(std::move(value));
}

ExportedProgram empty_program() {
  ExportedProgram program;
  program.source = "model.pt2";
  program.tensors = std::make_shared<TensorStore>("model.pt2");
  return program;
}

void add_node(ExportedProgram& program, Call node, ExportedValue result) {
  node.outputs = {static_cast<uint32_t>(program.values.size())};
  program.values.push_back(std::move(result));
  program.nodes.push_back(std::move(node));
}

// The rows of x [1, 2, 3] and y [1, 2, 2] become rows of five columns.
TEST(InputsSideBySide, HaveTheExamplesOfAllInTheirRows) {
  ExportedProgram program = empty_program();
  add_input(program, {.name = "x", .sizes = {{1}, {2}, {3}}}, {1, 2, 3, 4, 5, 6});
  add_input(program, {.name = "y", .sizes = {{1}, {2}, {2}}}, {10, 20, 30, 40});
  const InputsSideBySide joined = inputs_side_by_side(program, Columns::kFeatures);
  ASSERT_NE(joined.program, nullptr);
  EXPECT_EQ(joined.words,
            "inputs are concatenated along the columns: x is columns 0 to 2, y is columns 3 to 4");
  ASSERT_EQ(joined.program->sample_inputs.size(), 1u);
  const Array& example = joined.program->sample_inputs[0];
  EXPECT_EQ(example.shape(), (Shape{1, 2, 5}));
  EXPECT_EQ(example.to_reals(), (Array::Reals{1, 2, 3, 10, 20, 4, 5, 6, 30, 40}));
}

// The program still computes x + 100 y of the columns that were x and y.
TEST(InputsSideBySide, AreCutFromTheirRowsAgain) {
  ExportedProgram program = empty_program();
  const std::vector<Extent> sizes = {{1}, {2}, {2}};
  add_input(program, {.name = "x", .sizes = sizes});
  add_input(program, {.name = "y", .sizes = sizes});
  add_node(
      program,
      {.op = "add", .arguments = {{"self", ValueRef{0}}, {"other", ValueRef{1}}, {"alpha", 100.0}}},
      {.name = "sum", .sizes = sizes});
  program.outputs = {ValueRef{2}};
  const InputsSideBySide joined = inputs_side_by_side(program, Columns::kFeatures);
  ASSERT_NE(joined.program, nullptr);
  const Array rows = Array::real({1, 2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});
  EXPECT_EQ(interpret(*joined.program, std::vector<Array>{rows}).at(0).to_reals(),
            (Array::Reals{301, 402, 705, 806}));
}

// Integers that are only computed with are read as float32, unless they may be a mask.
TEST(RealInputs, AreIntegersThatAreNoMask) {
  ExportedProgram program = empty_program();
  add_input(program, {.name = "x", .type = ElementType::kI64, .sizes = {{2}, {7}, {5}}});
  add_input(program, {.name = "mask", .type = ElementType::kI64, .sizes = {{2}, {1}, {7}}});
  for (const uint32_t input : {0u, 1u}) {
    add_node(program,
             {.op = "to", .arguments = {{"self", ValueRef{input}}, {"dtype", ElementType::kF32}}},
             {.name = "real", .sizes = program.values[input].sizes});
  }
  const auto real = with_real_inputs(std::make_shared<const ExportedProgram>(std::move(program)));
  EXPECT_EQ(real->values[0].type, ElementType::kF32);
  EXPECT_EQ(real->values[1].type, ElementType::kI64);
}

// The example has three sequences, of which the first repeats in the fourth.
TEST(FewSequences, AreAsManyAsNoOtherDimension) {
  ExportedProgram program = empty_program();
  add_input(program, {.name = "x", .sizes = {{3, "s0"}, {2}, {1}}}, {1, 2, 3, 4, 5, 6});
  const FewSequences few = with_sequences(program, 0);
  ASSERT_NE(few.program, nullptr);
  EXPECT_TRUE(few.program->has_any_batch);
  EXPECT_EQ(few.program->values[0].shape(), (Shape{4, 2, 1}));
  EXPECT_EQ(few.other, 5);
  EXPECT_EQ(few.program->sample_inputs[0].to_reals(), (Array::Reals{1, 2, 3, 4, 5, 6, 1, 2}));
}

}  // namespace
}  // namespace arenite::convert
