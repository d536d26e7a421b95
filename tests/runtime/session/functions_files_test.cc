// SPDX-License-Identifier: Apache-2.0
// Files of models with several inputs and functions: damaged ones are refused by name, and each
// store is in the file once.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "convert/program/program.h"
#include "convert/program/writer.h"
#include "format/reader.h"
#include "runtime/format/verify_fixture.h"
#include "runtime/session/functions_fixture.h"
#include "support/model_factory.h"

namespace arenite::test {
namespace {

using convert::Program;

uint32_t op_of(const Program& program, format::OpKind kind, uint32_t skip = 0) {
  for (uint32_t i = 0; i < program.ops.size(); ++i) {
    if (program.ops[i].body.kind == kind && skip-- == 0) return i;
  }
  return UINT32_MAX;
}
format::OpView& body_of(Program& program, format::OpKind kind, uint32_t skip = 0) {
  return program.ops[op_of(program, kind, skip)].body;
}
// Ordinals of attention ops: the encoder's is 0; a layer has one to the text, one to the memory.
constexpr uint32_t kSelf = 1, kCross = 2;

struct BrokenFunction {
  const char* name;
  std::function<void(Program&)> break_it;
  const char* field;
  const char* words;
  FunctionParts parts = {};
};
using format::OpKind;
const BrokenFunction kFunctionsThatAreNone[] = {
    {"NoFunction", [](Program& p) { p.functions.clear(); }, "functions", "too short"},
    {"Many", [](Program& p) { p.functions.resize(5); }, "functions", "too long"},
    {"NoInput", [](Program& p) { p.inputs.clear(); }, "inputs", "too short"},
    {"ManyInputs", [](Program& p) { p.inputs.resize(5); }, "inputs", "too long"},
    {"LeaveOut", [](Program& p) { p.functions[0].first_op = 1; }, "functions.ops", "omit ops"},
    {"Overlap", [](Program& p) { p.functions[1].first_op = UINT32_MAX; }, "functions.ops",
     "omit ops"},
    {"WithoutOps", [](Program& p) { p.functions[1].first_op = 0; }, "functions.ops", "omit ops"},
    {"WithoutInputs", [](Program& p) { p.functions[1].inputs = 0; }, "functions.inputs",
     "unknown or taken"},
    {"InputOfNoNumber", [](Program& p) { p.functions[1].inputs = 4; }, "functions.inputs",
     "unknown or taken"},
    {"InputOfTwo", [](Program& p) { p.functions[1].inputs = 3; }, "functions.inputs",
     "unknown or taken"},
    {"InputOfNone",
     [](Program& p) {
       p.functions.resize(1);
       p.functions[0].inputs = 1;
     },
     "functions", "omit ops or inputs"},
    {"AxisOfNoInput", [](Program& p) { p.inputs[1].axis = 9; }, "inputs.axis",
     "not on its own axis"},
    {"AxisOfAnother", [](Program& p) { p.inputs[1].axis = 0; }, "inputs.axis",
     "not on its own axis"},
    {"AxisOfNoTokens", [](Program& p) { p.inputs[1].axis = 2; }, "inputs.axis",
     "not on its own axis"},
    {"InputOfNoAxis", [](Program& p) { p.axes[1].source = 0; }, "inputs.axis",
     "not on its own axis"},
    {"SlotOfTwo",
     [](Program& p) { p.slots[p.functions[0].output_slot].last_op = p.functions[1].first_op; },
     "slots.last_op", "spans several functions"},
    {"RowsOfAnother", [](Program& p) { p.slots[p.functions[0].output_slot].axis = 1; },
     "slots.axis", "does not take"},
    {"OutputOfNoSlot", [](Program& p) { p.functions[0].output_slot = 99; }, "functions.output_slot",
     "does not exist"},
    {"OutputOfAnother", [](Program& p) { p.functions[0].output_slot = p.functions[1].output_slot; },
     "slots.last_op", "alive until the last op"},
    {"ReadBeforeStored", [](Program& p) { body_of(p, OpKind::kAttention, kCross).numbers[0] = 2; },
     "ops.cache", "no earlier op has stored"},
    {"StoredTwice", [](Program& p) { body_of(p, OpKind::kStore, 1).numbers[0] = 0; }, "ops.cache",
     "do not take the caches in order"},
    {"StoredAndFilled", [](Program& p) { body_of(p, OpKind::kAttention, kSelf).numbers[0] = 1; },
     "ops.cache", "do not take the caches in order"},
    {"StoresOnAnotherAxis", [](Program& p) { p.caches[0].axis = 1; }, "caches.axis",
     "different axes"},
    {"StoresWithoutHeads", [](Program& p) { p.caches[0].shape.kv_heads = 0; }, "caches.value_dim",
     "no values"},
    {"StoresValuesOfNoWidth", [](Program& p) { p.caches[0].shape.value_dim = 0; },
     "caches.value_dim", "no values"},
    {"ReadsByKeysThatAreNotThere",
     [](Program& p) {
       p.caches[0].shape.head_dim = 0;
       body_of(p, OpKind::kStore).views[format::kKey] = {};
     },
     "ops.query", "without dimensions"},
    {"StoresOtherKeys", [](Program& p) { p.caches[0].shape.head_dim = 2; }, "ops.key",
     "wrong width"},
    {"StoresKeysWithoutDimensions", [](Program& p) { p.caches[0].shape.head_dim = 0; }, "ops.key",
     "without dimensions"},
    {"StoresNoValues", [](Program& p) { body_of(p, OpKind::kStore).views[2] = {}; }, "ops.value",
     "wrong width"},
    {"KeysWithoutValues",
     [](Program& p) {
       format::OpView& cross = body_of(p, OpKind::kAttention, kCross);
       cross.views[format::kKey] = cross.views[format::kQuery];
     },
     "ops.key", "without values"},
    {"HidesKeysOfAnotherAxis",
     [](Program& p) {
       body_of(p, OpKind::kAttention, kCross).numbers[1] =
           body_of(p, OpKind::kAttention, kSelf).numbers[1];
     },
     "ops.mask", "hides keys of another axis"},
    {"AddsToKeysOfAnotherAxis",
     [](Program& p) {
       body_of(p, OpKind::kAttention, kCross).numbers[2] =
           p.add_vector("slopes", std::vector<float>(2, 1.0f));
     },
     "ops.terms", "takes biases by pair only"},
    {"NoPairsOfKeysOfAnotherAxis",
     [](Program& p) {
       body_of(p, OpKind::kAttention, kCross).numbers[format::AttentionOp::kTermsBy] =
           static_cast<uint32_t>(ScoreTerms::kPairs);
     },
     "ops.terms", "does not exist"},
    {"PairsOfFewerKeys",
     [](Program& p) { p.inputs[kMemory].positions_max = kMemoryOfPairs + 1; },
     "ops.terms",
     "shorter than the context",
     {.pairs = true}},
    {"PairsOfFewerQueries",
     [](Program& p) {
       // The table of fewer heads and more keys has as many numbers.
       const uint32_t table =
           body_of(p, OpKind::kAttention, kCross).numbers[format::AttentionOp::kTerms];
       p.tensors[table].outputs /= 2;
       p.tensors[table].inputs *= 2;
     },
     "ops.terms",
     "shorter than the context",
     {.pairs = true}},
    {"BringsTermsToKeysOfAnotherAxis",
     [](Program& p) {
       body_of(p, OpKind::kAttention, kCross).numbers[format::AttentionOp::kTermsBy] =
           static_cast<uint32_t>(ScoreTerms::kQueries);
     },
     "ops.terms", "takes biases by pair only"},
    // The verifier follows functions with windows before it has checked their ops.
    {"WindowsOfAll",
     [](Program& p) {
       p.functions[1].first_op = static_cast<uint32_t>(p.ops.size()) + 1;
       p.functions[0].inputs = 2;
     },
     "functions.ops", "omit ops", kWindowed},
    {"WindowsAndNoSlot",
     [](Program& p) { body_of(p, OpKind::kAttention, kCross).views[format::kOutput].slot = 99; },
     "ops.output", "does not exist", kWindowed},
    {"WindowsAndNoAxis",
     [](Program& p) {
       p.slots[body_of(p, OpKind::kAttention, kCross).views[format::kOutput].slot].axis = 99;
     },
     "slots.axis", "does not exist", kWindowed},
    {"WindowsAndNoCache",
     [](Program& p) { body_of(p, OpKind::kAttention, kCross).numbers[0] = 99; }, "ops.cache",
     "no earlier op has stored", kWindowed},
    {"WindowsAndNoMask", [](Program& p) { body_of(p, OpKind::kAttention, kSelf).numbers[1] = 99; },
     "ops.mask", "does not exist", kWindowed},
    {"TokensOfFeatures", [](Program& p) { p.inputs[1].vocab_size = 0; }, "inputs.slot", ""},
};

class BrokenFunctions : public testing::TestWithParam<BrokenFunction> {};

TEST_P(BrokenFunctions, AreRefused) {
  Program program = convert::compile(functions_graph(GetParam().parts), "functions");
  ASSERT_EQ(program.functions.size(), 2u);
  GetParam().break_it(program);
  const convert::AlignedBytes file = convert::write_model(program, {Target::kPortable});
  Diagnostic why;
  const Status status = Model::load(file.span(), &why).status();
  EXPECT_EQ(status, Status::kBadModel) << describe(status, why);
  if (std::string(GetParam().words).empty()) return;
  EXPECT_STREQ(why.field, GetParam().field) << describe(status, why);
  EXPECT_NE(std::string(why.reason).find(GetParam().words), std::string::npos)
      << describe(status, why);
}

constexpr auto name_of_function = [](const auto& info) { return std::string(info.param.name); };
INSTANTIATE_TEST_SUITE_P(Files, BrokenFunctions, testing::ValuesIn(kFunctionsThatAreNone),
                         name_of_function);

// Types are those of an input's own tokens, and a self-test has as many as there may be.
TEST(FunctionsOfPrograms, CountTypesAndTokensOfEachInput) {
  Program program = convert::compile(functions_graph({}), "functions");
  uint32_t* const numbers = body_of(program, OpKind::kEmbedding).numbers;
  std::swap(numbers[format::EmbeddingOp::kTypes], numbers[format::EmbeddingOp::kPositions]);
  program.inputs[kText].positions_max = 0;
  const convert::AlignedBytes file = convert::write_model(program, {Target::kPortable});
  ASSERT_TRUE(Model::load(file.span()).ok());
  const format::ModelReader reader(file.span());
  EXPECT_EQ(reader.token_types(kMemory), 0u);
  EXPECT_EQ(reader.token_types(kText), kTextPositions);
  EXPECT_EQ(format::self_test_tokens(reader, kText, 99), 99u);
}

// Equal keys and values are stored once, separately for each layer.
TEST(FunctionsOfPrograms, StoreKeysAndValuesOnce) {
  const Program program = convert::compile(functions_graph({}), "functions");
  EXPECT_EQ(
      std::ranges::count_if(
          program.ops, [](const convert::ProgramOp& op) { return op.body.kind == OpKind::kStore; }),
      2);
  EXPECT_EQ(program.caches.size(), 2u + 1 + 2);
  EXPECT_EQ(program.axes.size(), 3u);
  const convert::AlignedBytes file = convert::write_model(program, {Target::kPortable});
  const Program again = convert::read_model(file.span(), 0);
  EXPECT_EQ(again.functions.size(), 2u);
  EXPECT_EQ(again.inputs[1].name, "text");
  const convert::AlignedBytes same = convert::write_model(again, {Target::kPortable});
  EXPECT_TRUE(std::ranges::equal(same.span(), file.span()));
}

}  // namespace
}  // namespace arenite::test
