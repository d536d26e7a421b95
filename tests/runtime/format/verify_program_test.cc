// SPDX-License-Identifier: Apache-2.0
// The verifier's rules about slots and ops, each violated alone in a file with valid checksums.
#include "runtime/format/verify_fixture.h"
#include "support/repair.h"

namespace arenite::test {
namespace {

using convert::Program;

format::OpView& linear(Program& program, size_t op) { return program.ops[op].body; }
format::OpView& attention(Program& program) { return program.ops[1].body; }

void resize_tensor(Program& program, size_t index, uint32_t outputs, uint32_t inputs) {
  convert::ProgramTensor& tensor = program.tensors[index];
  tensor.outputs = outputs;
  tensor.inputs = inputs;
  tensor.weights.assign(size_t{outputs} * inputs, 1.0f);
  tensor.bias.clear();
}

// Slot 1 becomes slot 2, and the other way round.
void swap_slots(Program& program) {
  std::swap(program.slots[1], program.slots[2]);
  for (convert::ProgramOp& op : program.ops) {
    for (format::ColumnView& view : op.body.views) {
      if (view.width != 0 && (view.slot == 1 || view.slot == 2)) view.slot = 3 - view.slot;
    }
  }
}

const ProgramRule kSlotRules[] = {
    {"SlotWithoutWidth", [](Program& p) { p.slots[3].width = 0; }, {"slots.width", "no width", 3}},
    {"SlotThatEndsBeforeItBegins",
     [](Program& p) { p.slots[2].first_op = 2, p.slots[2].last_op = 1; },
     {"slots.last_op", "lifetime", 2}},
    {"SlotThatOutlivesTheProgram",
     [](Program& p) { p.slots[2].last_op = 3; },
     {"slots.last_op", "lifetime", 2}},
    {"SlotsThatOverlap",
     [](Program& p) { p.slots[1].offset = p.slots[0].offset; },
     {"slots.offset", "overlap", 1}},
    {"SlotsThatOverlapInOneOp",
     [](Program& p) { p.slots[2].offset = p.slots[1].offset; },
     {"slots.offset", "overlap", 2}},
    {"SlotsThatOverlapInOneOpTheOtherWayRound",
     [](Program& p) { swap_slots(p), p.slots[1].offset = p.slots[2].offset; },
     {"slots.offset", "overlap", 2}},
    {"InputSlotThatIsNotThere",
     [](Program& p) { p.inputs[0].slot = 4; },
     {"inputs.slot", "does not exist", 0, {{4, 3}}}},
    {"OutputSlotThatIsNotThere",
     [](Program& p) { p.functions[0].output_slot = 4; },
     {"functions.output_slot", "does not exist"}},
    {"InputThatBeginsLater",
     [](Program& p) { p.inputs[0].slot = 3; },
     {"slots.first_op", "alive from the first op", 3}},
    {"InputThatComesLate",
     [](Program& p) { p.slots[0].first_op = 1, p.slots[0].last_op = 1, p.slots[0].offset = 99; },
     {"slots.first_op", "from the first op", 0}},
    {"OutputThatEndsEarly",
     [](Program& p) { p.slots[3].first_op = 1, p.slots[3].last_op = 1, p.slots[3].offset = 99; },
     {"slots.last_op", "until the last op", 3}},
    {"SlotThatIsReadBeforeItIsFull",
     [](Program& p) { linear(p, 0).views[format::kOutput].width = 25, resize_tensor(p, 0, 25, 6); },
     {"ops.query", "before it is full", 1}},
    {"SlotThatIsFilledWithAGap",
     [](Program& p) {
       linear(p, 0).views[format::kOutput] = {1, 1, 25}, resize_tensor(p, 0, 25, 6);
     },
     {"ops.output", "column by column", 0}},
    {"SlotThatIsFilledTwice",
     [](Program& p) {
       p.slots[0].last_op = 2, p.slots[0].offset = 99, linear(p, 2).views[format::kOutput].slot = 0;
     },
     {"ops.output", "column by column", 2}},
    {"SlotThatIsNeverFilled",
     [](Program& p) { p.slots[3].width = 5; },
     {"slots", "never filled", 3}},
};

const ProgramRule kLinearRules[] = {
    {"LinearWithoutInput",
     [](Program& p) { linear(p, 0).views[format::kInput].width = 0; },
     {"ops.input", "wrong width", 0}},
    {"LinearWithoutOutput",
     [](Program& p) { linear(p, 2).views[format::kOutput].width = 0; },
     {"ops.output", "wrong width", 2}},
    {"LinearInputSlotThatIsNotThere",
     [](Program& p) { linear(p, 2).views[format::kInput].slot = 4; },
     {"ops.input", "does not exist", 2}},
    {"LinearOutputSlotThatIsNotThere",
     [](Program& p) { linear(p, 2).views[format::kOutput].slot = UINT32_MAX; },
     {"ops.output", "does not exist", 2}},
    {"LinearInputBeyondItsSlot",
     [](Program& p) { linear(p, 0).views[format::kInput].column = 1; },
     {"ops.input", "beyond the width", 0, {{1 + 6, 6}}}},
    {"LinearInputFarBeyondItsSlot",
     [](Program& p) { linear(p, 0).views[format::kInput].column = UINT32_MAX; },
     {"ops.input", "beyond the width", 0}},
    {"LinearOutputBeyondItsSlot",
     [](Program& p) { linear(p, 0).views[format::kOutput].width = UINT32_MAX; },
     {"ops.output", "beyond the width", 0}},
    {"LinearInputOutsideItsLife",
     [](Program& p) {
       linear(p, 2).views[format::kInput] = {0, 0, 6};
     },
     {"ops.input", "outside its lifetime", 2}},
    {"LinearOutputOutsideItsLife",
     [](Program& p) {
       linear(p, 0).views[format::kOutput] = {3, 0, 4};
     },
     {"ops.output", "outside its lifetime", 0}},
    {"LinearOverItsOwnInput",
     [](Program& p) {
       linear(p, 2).views[format::kOutput] = {2, 2, 4};
     },
     {"ops.output", "own input", 2}},
    {"LinearTensorThatIsNotThere",
     [](Program& p) { linear(p, 2).numbers[format::LinearOp::kTensor] = 2; },
     {"ops.tensor", "does not exist", 2}},
    {"WeightsThatDoNotFitTheInput",
     [](Program& p) { resize_tensor(p, 1, 4, 5); },
     {"ops.input", "wrong width", 2}},
    {"WeightsThatDoNotFitTheOutput",
     [](Program& p) { resize_tensor(p, 1, 5, 6); },
     {"ops.output", "wrong width", 2}},
};

const ProgramRule kAttentionRules[] = {
    {"CachesOfATypeOfWeights",
     [](Program& p) { p.kv_cache = TensorType::kQ8; },
     {"kv_cache",
      "cannot be of this type",
      0,
      {{static_cast<uint64_t>(TensorType::kQ8), static_cast<uint64_t>(TensorType::kInt8)}}}},
    {"AttentionQueryBeyondItsSlot",
     [](Program& p) { attention(p).views[format::kQuery].column = 20; },
     {"ops.query", "beyond the width", 1}},
    {"AttentionKeySlotThatIsNotThere",
     [](Program& p) { attention(p).views[format::kKey].slot = 9; },
     {"ops.key", "does not exist", 1}},
    {"AttentionValueOutsideItsLife",
     [](Program& p) {
       attention(p).views[format::kValue] = {0, 0, 6};
     },
     {"ops.value", "outside its lifetime", 1}},
    {"AttentionOutputOutsideItsLife",
     [](Program& p) {
       attention(p).views[format::kOutput] = {3, 0, 4};
     },
     {"ops.output", "outside its lifetime", 1}},
    {"AttentionOverItsOwnQuery",
     [](Program& p) {
       attention(p).views[format::kOutput] = {1, 0, 6};
     },
     {"ops.output", "own input", 1}},
    {"AttentionOverItsOwnKey",
     [](Program& p) {
       attention(p).views[format::kOutput] = {1, 14, 6};
     },
     {"ops.output", "own input", 1}},
    {"AttentionOverItsOwnValue",
     [](Program& p) {
       attention(p).views[format::kOutput] = {1, 20, 6};
     },
     {"ops.output", "own input", 1}},
    {"CacheOfAnotherNumber",
     [](Program& p) {
       attention(p).numbers[format::AttentionOp::kCache] = 1, p.caches.push_back(p.caches[0]);
     },
     {"ops.cache", "do not take the caches in order", 1}},
    {"CacheThatIsNotThere",
     [](Program& p) { p.caches.clear(); },
     {"ops.cache", "does not exist", 1}},
    {"CacheTooMany",
     [](Program& p) { p.caches.push_back(p.caches[0]); },
     {"caches", "no attention op", 1}},
    {"MaskThatIsNotThere",
     [](Program& p) { attention(p).numbers[format::AttentionOp::kMask] = 1; },
     {"ops.mask", "does not exist", 1}},
    {"NoHeads",
     [](Program& p) { p.caches[0].shape.value_dim = 100; },
     {"ops.output", "multiple", 1}},
    {"NoKeyHeads",
     [](Program& p) { p.caches[0].shape.kv_heads = 0; },
     {"ops.output", "multiple", 1}},
    {"HeadsThatKeyHeadsDoNotDivide",
     [](Program& p) { p.caches[0].shape.kv_heads = 4; },
     {"ops.output", "multiple", 1}},
    {"NoValueDimension",
     [](Program& p) { p.caches[0].shape.value_dim = 0; },
     {"caches.value_dim", "no values", 1}},
    {"QueryOfAnotherWidth",
     [](Program& p) { attention(p).views[format::kQuery].width = 9; },
     {"ops.query", "wrong width", 1}},
    {"QueryWithoutKeys",
     [](Program& p) { p.caches[0].shape.head_dim = 0; },
     {"ops.query", "without dimensions", 1, {{2 * 5, 0}}}},
    {"QueryMissing",
     [](Program& p) { attention(p).views[format::kQuery].width = 0; },
     {"ops.query", "wrong width", 1}},
    {"KeyOfAnotherWidth",
     [](Program& p) { attention(p).views[format::kKey].width = 11; },
     {"ops.key", "wrong width", 1}},
    {"ValueOfAnotherWidth",
     [](Program& p) { attention(p).views[format::kValue].width = 5; },
     {"ops.value", "wrong width", 1}},
    {"ValueMissing",
     [](Program& p) { attention(p).views[format::kValue].width = 0; },
     {"ops.cache", "no earlier op has stored", 1}},
    {"ContextOfAnotherWidth",
     [](Program& p) {
       attention(p).views[format::kOutput].width = 7, p.slots[2].width = 7,
       linear(p, 2).views[format::kInput].width = 7;
     },
     {"ops.output", "wrong width", 1}},
    {"ContextThatIsNotFull",
     [](Program& p) { attention(p).views[format::kOutput].width = 5; },
     {"ops.input", "before it is full", 2}},
    {"TermsOfAnyContext",
     [](Program& p) {
       p.inputs[0].positions_max = 0;
       attention(p).numbers[format::AttentionOp::kTermsBy] =
           static_cast<uint32_t>(ScoreTerms::kDistances);
       attention(p).numbers[format::AttentionOp::kTerms] = 2;
       p.tensors.push_back({"terms", 1, 3, {1, 2, 3}, {}, format::Layout::kPlain});
     },
     {"ops.terms", "shorter than the context", 1}},
    // The slot of a view without width is no slot that was checked.
    {"ContextMissing",
     [](Program& p) {
       attention(p).views[format::kOutput] = {1u << 30, 0, 0};
       linear(p, 2).views[format::kInput] = {1, 0, 6};
       p.slots[1].last_op = 2, p.slots[1].offset = 99;
       p.slots.pop_back(), p.slots[2] = {4, 0, 2, 2}, p.functions[0].output_slot = 2;
       linear(p, 2).views[format::kOutput].slot = 2;
     },
     {"ops.output", "wrong width", 1}},
};

class VerifyProgram : public testing::TestWithParam<ProgramRule> {};
INSTANTIATE_TEST_SUITE_P(Slots, VerifyProgram, testing::ValuesIn(kSlotRules), rule_name<Program>);
INSTANTIATE_TEST_SUITE_P(Linear, VerifyProgram, testing::ValuesIn(kLinearRules),
                         rule_name<Program>);
INSTANTIATE_TEST_SUITE_P(Attention, VerifyProgram, testing::ValuesIn(kAttentionRules),
                         rule_name<Program>);

TEST_P(VerifyProgram, RefusesEachBrokenRule) { expect_program_refusal(GetParam(), "causal"); }

// The values overflow the arena formula, so the converter cannot write them.
template <typename Record, typename Change>
void expect_refusal_of(const Record& (format::ModelReader::*record)(uint32_t) const, uint32_t index,
                       Change change, const Expected& expected) {
  ModelSurgery file(write_model(sound_program(), {Target::kPortable}).span());
  Record changed = (format::ModelReader(file.file()).*record)(index);
  change(changed);
  file.overwrite(&(format::ModelReader(file.file()).*record)(index), changed);
  repair_checksums_and_formulas(file.file());
  expect_refusal(file.file(), expected);
}

TEST(VerifyProgramSizes, RefusesSizesThatOverflow) {
  using format::CacheView;
  using format::SlotView;
  const auto slot = &format::ModelReader::slot;
  expect_refusal_of(slot, 2, [](SlotView& s) { s.offset = UINT32_MAX; },
                    {"slots.width", "offset is too large", 2});
  expect_refusal_of(slot, 2, [](SlotView& s) { s.offset = 1u << 30; },
                    {"packed.formula", "larger than", 0});
  expect_refusal_of(slot, 1, [](SlotView& s) { s.axis = 1; }, {"slots.axis", "does not exist", 1});
  expect_refusal_of(slot, 1, [](SlotView& s) { s.axis = kAxesMax; },
                    {"slots.axis", "does not exist", 1});
  expect_refusal_of(&format::ModelReader::tensor, 1,
                    [](format::TensorShape& t) { t.type = TensorType::kInt8; },
                    {"tensors.type", "unknown or holds no weights", 1});
  expect_refusal_of(&format::ModelReader::cache, 0,
                    [](CacheView& c) { c.shape.head_dim = UINT32_MAX; },
                    {"ops.query", "wrong width", 1});
}

// Numbers and columns that an op's row does not have are zero.
TEST(VerifyProgramSizes, RefusesFieldsThatAnOpLacks) {
  const auto op = &format::ModelReader::op;
  using format::OpView;
  expect_refusal_of(op, 0,
                    [](OpView& o) {
                      o.views[1] = {0, 0, 1};
                    },
                    {"ops.views", "its kind lacks", 0});
  expect_refusal_of(op, 0, [](OpView& o) { o.numbers[4] = 1; }, {"", "does not exist", 0});
  expect_refusal_of(op, 0, [](OpView& o) { o.reals[0] = 1.0f; }, {"", "out of range", 0});
  expect_refusal_of(op, 0,
                    [](OpView& o) { o.kind = static_cast<format::OpKind>(format::kOpKinds); },
                    {"ops.kind", "unknown kind", 0, {{format::kOpKinds, format::kOpKinds - 1}}});
}

TEST(VerifyProgramSizes, RefusesAKeyWithoutDimensions) {
  Program program = sound_program("mask_only");
  uint32_t index = 0;
  while (program.ops[index].body.kind != format::OpKind::kAttention) ++index;
  program.ops[index].body.views[format::kKey] = program.ops[index].body.views[format::kValue];
  expect_refusal(write_model(program, {Target::kPortable}).span(),
                 {"ops.query", "without dimensions", index});
}

TEST(VerifyProgramSound, AcceptsSlotsInAnyOrder) {
  Program program = sound_program();
  swap_slots(program);
  EXPECT_TRUE(Model::load(write_model(program, {Target::kPortable}).span()).ok());
}

// Lists of names may be shorter than what they name.
TEST(VerifyProgramSound, AcceptsUnnamedOps) {
  ModelSurgery file(make_model(spec_named("causal")).span());
  EXPECT_STRNE(format::ModelReader(file.file()).op_name(1), "");
  file.set_count(file.model().op_names(), 1);
  file.repair();
  ASSERT_TRUE(Model::load(file.file()).ok());
  EXPECT_STRNE(format::ModelReader(file.file()).op_name(0), "");
  EXPECT_STREQ(format::ModelReader(file.file()).op_name(1), "");
}

// Every op of such a module reads and writes a single column.
TEST(VerifyProgramSound, AcceptsColumnsOfOne) {
  ModuleSpec spec = spec_named("causal");
  spec.features = spec.heads = spec.head_dim = spec.value_dim = spec.output_features = 1;
  Diagnostic why;
  const auto file = make_model(spec);
  const Status status = Model::load(file.span(), &why).status();
  EXPECT_EQ(status, Status::kOk) << describe(status, why);
}

TEST(VerifyProgramSound, AcceptsEverySpec) {
  for (const ModuleSpec& spec : all_specs()) {
    Diagnostic why;
    const auto file = make_model(spec);
    const Status status = Model::load(file.span(), &why).status();
    EXPECT_EQ(status, Status::kOk) << spec.name << describe(status, why);
  }
}

}  // namespace
}  // namespace arenite::test
