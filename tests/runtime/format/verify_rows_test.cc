// SPDX-License-Identifier: Apache-2.0
// The verifier's rules about token rows, output rows, rings and hidden states, each violated alone
// in a file with valid checksums; and valid files that it must accept.
#include "convert/program/program.h"
#include "runtime/format/verify_decoder_fixture.h"

namespace arenite::test {
namespace {

using convert::Program;
using format::Layout;
using format::OpView;

void change_rows_of(Program& program, uint32_t op_index, uint32_t axis) {
  format::SlotView& slot = program.slots[op(program, op_index).views[format::kOutput].slot];
  slot.axis = axis;
  slot.offset = 200;
}

const ProgramRule kRowRules[] = {
    {"SelectIntoRowsOfTokens",
     [](Program& p) { change_rows_of(p, kSelect, 0); },
     {"ops.input", "mixes rows", kLogits}},
    {"LinearFromOutputsToTokens",
     [](Program& p) { change_rows_of(p, kLogits, 0); },
     {"ops.input", "mixes rows", kLogits}},
    {"NormFromTokensToOutputs",
     [](Program& p) { change_rows_of(p, kAttentionNorm, 1); },
     {"ops.input", "mixes rows", kAttentionNorm}},
};

const ProgramRule kRingRules[] = {
    {"ForgetfulRing",
     [](Program& p) { p.caches[0].lookback = 18; },
     {"caches.lookback", "forgets", 0}},
    {"RingThatForgetsAll",
     [](Program& p) { p.caches[0].lookback = 0; },
     {"caches.lookback", "forgets"}},
    {"RingWithAMaskOfLaterKeys",
     [](Program& p) { p.masks[0].lookahead = 1; },
     {"caches.lookback", "forgets"}},
    {"RingWithAMaskOfAllKeys",
     [](Program& p) { p.masks[0].lookback = kUnlimited; },
     {"caches.lookback", "forgets"}},
    {"RingWithAMaskThatIsNoBand",
     [](Program& p) {
       p.masks[0] = mask_where(70, [](uint32_t query, uint32_t key) {
         return key <= query && query - key < 4 && query - key != 2;
       });
     },
     {"caches.lookback", "forgets"}},
};

const ProgramRule kStateRules[] = {
    {"StateOfNoOp",
     [](Program& p) { p.hidden_states[1].op = 16; },
     {"hidden_states.op", "in op order", 1}},
    {"StatesOutOfOrder",
     [](Program& p) { p.hidden_states.push_back(p.hidden_states[0]); },
     {"hidden_states.op", "in op order", 2}},
    {"StateOfNothing",
     [](Program& p) { p.hidden_states[1].view.width = 0; },
     {"hidden_states.view", "empty", 1}},
    {"StateOfNoSlot",
     [](Program& p) { p.hidden_states[1].view.slot = 11; },
     {"hidden_states.view", "does not exist", kFinalNorm}},
    {"StateBeyondItsSlot",
     [](Program& p) { p.hidden_states[1].view.column = 1; },
     {"hidden_states.view", "beyond the width", kFinalNorm}},
    {"StateOutsideTheLifeOfItsSlot",
     [](Program& p) { p.hidden_states[1].op = kSoftCap; },
     {"hidden_states.view", "outside its lifetime", kSoftCap}},
    {"StateOfRowsOfOutputs",
     [](Program& p) {
       p.hidden_states[1] = {kLogits, op(p, kLogits).views[format::kOutput]};
     },
     {"hidden_states.view", "a row for each token", 1}},
};

class VerifyDecoder : public testing::TestWithParam<ProgramRule> {};
INSTANTIATE_TEST_SUITE_P(Rows, VerifyDecoder, testing::ValuesIn(kRowRules), rule_name<Program>);
INSTANTIATE_TEST_SUITE_P(Rings, VerifyDecoder, testing::ValuesIn(kRingRules), rule_name<Program>);
INSTANTIATE_TEST_SUITE_P(States, VerifyDecoder, testing::ValuesIn(kStateRules), rule_name<Program>);
TEST_P(VerifyDecoder, RefusesEachBrokenRule) { expect_decoder_refusal(GetParam(), gated_shape()); }

TEST(VerifyDecoderSound, AcceptsEveryDecoder) {
  for (const DecoderShape& shape : all_decoders()) {
    Diagnostic why;
    const auto file = make_decoder_model(shape);
    const Status status = Model::load(file.span(), &why).status();
    EXPECT_EQ(status, Status::kOk) << shape.name << describe(status, why);
  }
}

Status load_status(const Program& program) {
  Diagnostic why;
  return Model::load(write_model(program, {Target::kPortable}).span(), &why).status();
}

TEST(VerifyDecoderSound, AcceptsRingsThatHoldMoreThanTheMaskShows) {
  Program program = decoder_program(gated_shape());
  program.caches[0].lookback = 30;
  EXPECT_EQ(load_status(program), Status::kOk);
}

TEST(VerifyDecoderSound, IgnoresTheInputSlotWhereTokensGoIn) {
  Program program = decoder_program(gated_shape());
  program.inputs[0].slot = 99;
  EXPECT_EQ(load_status(program), Status::kOk);
}

// Slots of tokens and slots of outputs lie in areas of their own.
TEST(VerifyDecoderSound, AcceptsSlotsOfBothKindsAtTheSameColumns) {
  Program program = decoder_program(gated_shape());
  for (format::SlotView& slot : program.slots) {
    if (slot.axis == 0) slot.offset += 50;
  }
  EXPECT_EQ(load_status(program), Status::kOk);
}

// Embedding, select, and an op that needs rows with positions but gets those that are asked for. A
// select op that reads these would read beyond them.
TEST(VerifyRows, RefusesOpsThatNeedPositions) {
  const OpView rope = convert::rope_op({1, 0, 12}, {1, 0, 12}, 2, 1);
  const OpView attention =
      convert::attention_op({{1, 0, 4}, {1, 4, 4}, {1, 8, 4}, {2, 0, 4}, 0, 0});
  const OpView select = convert::select_op({1, 0, 12}, {2, 0, 12}, SelectKind::kAsAsked);
  const struct {
    OpView op;
    uint32_t width;  // of what it writes; 0: nothing
    const char* field;
    const char* words;
  } cases[] = {{rope, 0, "ops.output", "have positions"},
               {attention, 4, "ops.output", "have positions"},
               {select, 12, "ops.rows", "does not fit its kind"}};
  for (const auto& last : cases) {
    Program program = decoder_program(gated_shape());
    program.hidden_states.clear();
    ASSERT_EQ(program.axes[1].kind, AxisKind::kAsked);
    program.slots = {{12, 0, 0, 1}, {12, 0, 1, 2, 1}};
    if (last.width != 0) program.slots.push_back({last.width, 12, 2, 2, 1});
    program.functions[0].output_slot = static_cast<uint32_t>(program.slots.size()) - 1;
    program.caches.clear();
    if (last.op.kind == format::OpKind::kAttention) program.caches.push_back({{1, 4, 4}});
    const OpView first = convert::select_op({0, 0, 12}, {1, 0, 12}, SelectKind::kAsAsked);
    program.ops = {program.ops[kEmbedding], {"select", first}, {"last", last.op}};
    const auto file = write_model(program, {Target::kPortable});
    expect_refusal(file.span(), {last.field, last.words, 2});
  }
}

TEST(VerifyRows, RefusesAnInputOfRowsOfOutputs) {
  Program program = sound_program();
  program.axes.push_back({AxisKind::kAsked, 0, 0, 0});
  program.slots[0].axis = 1;
  const auto file = write_model(program, {Target::kPortable});
  expect_refusal(file.span(), {"slots.first_op", "on its axis", 0});
}

// The attention modules have no vocabulary: an embedding has nothing to look up.
TEST(VerifyRows, RefusesAnEmbeddingWithoutAVocabulary) {
  Program program = sound_program();
  program.slots.push_back({4, 99, 3, 3});
  program.slots[3].last_op = 3;
  convert::EmbeddingParts parts;
  parts.tokens = 2;
  const OpView embedding = convert::embedding_op({4, 0, 4}, parts);
  program.ops.push_back({"embedding", embedding});
  program.tensors.push_back({"table", 1, 4, {1, 2, 3, 4}, {}, Layout::kPlain});
  const auto file = write_model(program, {Target::kPortable});
  expect_refusal(file.span(), {"ops.tokens", "fewer rows", 3});
}

TEST(VerifyStates, RefusesAStateOfASlotThatIsNotFull) {
  Program program = sound_program("head_masks");  // heads of different masks fill one slot
  uint32_t last = 0;
  for (uint32_t op = 0; op < program.ops.size(); ++op) {
    if (program.ops[op].body.kind == format::OpKind::kAttention) last = op;
  }
  const uint32_t slot = program.ops[last].body.views[format::kOutput].slot;
  uint32_t refused = 0;
  for (uint32_t op = 0; op <= last; ++op) {
    if (program.ops[op].body.views[format::kOutput].slot != slot) continue;
    program.hidden_states = {{op, {slot, 0, program.slots[slot].width}}};
    const auto file = write_model(program, {Target::kPortable});
    if (op == last) {
      EXPECT_TRUE(Model::load(file.span()).ok());
    } else {
      expect_refusal(file.span(), {"hidden_states.view", "before it is full", 0});
      ++refused;
    }
  }
  EXPECT_GT(refused, 0u);
}

}  // namespace
}  // namespace arenite::test
