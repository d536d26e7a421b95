// SPDX-License-Identifier: Apache-2.0
// Long encoders run their ops block by block of rows: the same bits in less memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "convert/check/pack_model.h"
#include "convert/program/program.h"
#include "convert/program/writer.h"
#include "runtime/session/rows_fixture.h"
#include "support/compare.h"
#include "support/kernel_sets.h"
#include "support/pool.h"
#include "support/smallest_slice.h"
#include "support/test_session.h"

namespace arenite::test {
namespace {

using convert::Graph;
using convert::Program;
using format::OpKind;

Program in_blocks(TensorType type = TensorType::kF32, uint32_t tokens_min = 0) {
  return convert::compile(long_graph(type, tokens_min), "blocks");
}
Program at_once(TensorType type = TensorType::kF32) {
  return convert::compile(long_graph(type), "at once", {"store-keys"});
}

std::vector<float> sound_of(size_t tokens) { return random_floats(tokens * kFeatures, 5); }

uint32_t op_named(const Program& program, const std::string& name) {
  return static_cast<uint32_t>(std::ranges::find(program.ops, name, &convert::ProgramOp::name) -
                               program.ops.begin());
}

class Blocks : public testing::TestWithParam<Target> {
 protected:
  static TestModel load(const Program& program) {
    return TestModel(convert::write_model(program, {GetParam()}).span(), GetParam());
  }
};
ARENITE_FOR_EACH_FLOAT_SET(Blocks);

TEST_P(Blocks, GiveTheSameBitsAsAllRowsAtOnce) {
  Pool pool(3);
  for (const TensorType type : {TensorType::kF32, TensorType::kQ8}) {
    const TestModel model = load(in_blocks(type));
    const TestModel plain = load(at_once(type));
    for (const KvType kv_cache : {KvType::kF32, KvType::kInt8}) {
      SessionOptions options = options_for(kLongRows, 3);
      options.outputs = Outputs::kAll;
      options.kv_cache = kv_cache;
      const TestSession expected(*plain, options);
      for (const bool has_threads : {false, true}) {
        if (has_threads) options.parallel = pool.parallel_for();
        const TestSession found(*model, options);
        for (const uint32_t tokens : {1u, 127u, 128u, 129u, 300u}) {
          const std::vector<float> features = sound_of(tokens);
          EXPECT_TRUE(same_bits(found.run(features), expected.run(features)));
        }
        // Blocks begin and end within sequences, and one block has all of a short one.
        const std::vector<uint32_t> lengths = {100, 3, 290};
        const std::vector<float> features = sound_of(3 * 290);
        EXPECT_TRUE(same_bits(found.run(features, 3, lengths), expected.run(features, 3, lengths)));
      }
    }
  }
}

TEST_P(Blocks, AddPairBiasesThatHeadsShare) {
  const std::vector<float> numbers = random_floats(size_t{kLongRows} * kLongRows, 3);
  const auto pairs = std::make_shared<const convert::AttentionBias>(
      convert::AttentionBias{ScoreTerms::kPairs, 1, kLongRows, {numbers.begin(), numbers.end()}});
  const auto graph = [&] { return long_graph(TensorType::kF32, 0, pairs); };
  const TestModel model = load(convert::compile(graph(), "blocks"));
  const TestModel plain = load(convert::compile(graph(), "at once", {"store-keys"}));
  const TestSession found(*model, options_for(kLongRows)), expected(*plain, options_for(kLongRows));
  for (const uint32_t tokens : {1u, 129u, kLongRows}) {
    EXPECT_TRUE(same_bits(found.run(sound_of(tokens)), expected.run(sound_of(tokens)))) << tokens;
  }
}

TEST_P(Blocks, FitThePlannedArenaAndNeedNoMoreThanWithoutBlocks) {
  const TestModel model = load(in_blocks(TensorType::kQ8));
  const TestModel plain = load(at_once(TensorType::kQ8));
  for (const uint32_t tokens : {1u, 128u, kLongRows}) {
    const size_t bytes = plan_arena(*model, options_for(tokens))->total_bytes;
    const size_t before = plan_arena(*plain, options_for(tokens))->total_bytes;
    // Inner rows are of a block alone, and so are rows in int8.
    if (tokens == kLongRows) {
      EXPECT_LT(bytes, before - (kLongRows - convert::kBlockRows) * kInnerWidth * sizeof(float));
    } else {
      EXPECT_LE(bytes, before + before / 4);
    }
    convert::AlignedBytes arena(bytes);
    Diagnostic why;
    EXPECT_EQ(
        Session::create(*model, options_for(tokens), arena.span().first(bytes - 1), &why).status(),
        Status::kArenaTooSmall);
    EXPECT_EQ(why.bytes_needed, bytes);
    EXPECT_TRUE(Session::create(*model, options_for(tokens), arena.span()).ok());
  }
}

TEST_P(Blocks, RunInSlicesAndCancelAnywhere) {
  const TestModel model = load(in_blocks());
  const TestSession session(*model, options_for(kLongRows));
  const std::vector<float> features = sound_of(kLongRows);
  const std::vector<float> expected = session.run(features);
  const Batch batch = {features, 1, kLongRows};
  uint32_t slices = 0;
  ASSERT_EQ(session->begin_run(batch), Status::kOk);
  for (uint32_t left = 1; left != 0; ++slices) left = *advance_least(*session);
  EXPECT_GT(slices, 2 * model->ops()) << "ops run three times, over a block each";
  EXPECT_TRUE(same_bits({session->output().data, expected.size()}, expected));
  for (uint32_t stop = 1; stop < slices; stop += 1 + slices / 8) {
    ASSERT_EQ(session->begin_run(batch), Status::kOk);
    ASSERT_TRUE(advance_least(*session, stop).ok());
    session->cancel();
    const std::vector<float> few = sound_of(130);
    EXPECT_EQ(session->positions(0), 0u);
    EXPECT_TRUE(session->run(Batch{few, 1, 130}).ok());
  }
  EXPECT_TRUE(same_bits(session.run(features), expected));
}

// Longer lifetimes join block ranges, from an attention op to the keys of the next one.
TEST_P(Blocks, GiveTheSameBitsWhenRunsOfBlocksGrow) {
  Program program = in_blocks();
  const TestModel model = load(program);
  uint32_t offset = 1000;
  for (const auto& [from, to] : {std::pair("0.out", "0.norm2"), std::pair("0.down", "1.norm")}) {
    const format::OpView& own = program.ops[op_named(program, from)].body;
    format::SlotView& slot = program.slots[own.views[format::kOutput].slot];
    slot.last_op = op_named(program, to);
    slot.offset = std::exchange(offset, 2000);
  }
  program.caches.push_back(program.caches[0]);
  for (const char* const name : {"1.attention.store", "1.attention"}) {
    program.ops[op_named(program, name)].body.numbers[format::AttentionOp::kCache] = 1;
  }
  const TestModel longer = load(program);
  const TestSession expected(*model, options_for(kLongRows)),
      found(*longer, options_for(kLongRows));
  EXPECT_TRUE(same_bits(found.run(sound_of(kLongRows)), expected.run(sound_of(kLongRows))));
}

TEST_P(Blocks, AppearInSelfTestsRowByRow) {
  const Program program = in_blocks(TensorType::kF32, 200);
  const convert::AlignedBytes file = convert::pack_model(program, {GetParam()}, "test");
  const TestModel model(file.span(), GetParam());
  ASSERT_GE(model->self_test_tokens(), 200u);
  const TestSession session(*model, options_for(kLongRows));
  const Result<SelfTest> test = session->self_test();
  ASSERT_TRUE(test.ok());
  EXPECT_TRUE(test->passed) << test->op_name;
}

TEST(BlocksOfPrograms, AppearForLongUnmaskedSequencesOnly) {
  const auto has_blocks = [](const Program& program) {
    return std::ranges::any_of(program.axes,
                               [](const Axis& axis) { return axis.kind == AxisKind::kBlocks; });
  };
  EXPECT_TRUE(has_blocks(in_blocks()));
  EXPECT_FALSE(has_blocks(at_once()));
  Graph graph = long_graph(TensorType::kF32);
  graph.inputs[0].positions_max = convert::kBlockRows;
  EXPECT_FALSE(has_blocks(convert::compile(graph, "short")));
  graph = long_graph(TensorType::kF32);
  graph.masks[0] = convert::band_mask(kUnlimited, 0, 0);
  EXPECT_FALSE(has_blocks(convert::compile(graph, "causal")));
}

// ---- files ----

uint32_t op_of_kind(const Program& program, OpKind kind) {
  const auto kind_of = [](const convert::ProgramOp& op) { return op.body.kind; };
  return static_cast<uint32_t>(std::ranges::find(program.ops, kind, kind_of) - program.ops.begin());
}

// Keeps the first layer's keys and values in a slot until they are read.
format::ColumnView keep_keys(Program& program) {
  const format::OpView& store = program.ops[op_of_kind(program, OpKind::kStore)].body;
  format::SlotView& slot = program.slots[store.views[format::kValue].slot];
  slot.last_op = op_of_kind(program, OpKind::kAttention);
  slot.offset = 1000;
  return store.views[format::kValue];
}

struct BrokenBlock {
  const char* name;
  std::function<void(Program&)> break_it;
  const char* field;
  const char* words;
};
const BrokenBlock kBrokenBlocks[] = {
    {"OfNoRows", [](Program& p) { p.axes.back().rows = 0; }, "axes.rows", "no rows"},
    {"OfTooManyRows", [](Program& p) { p.axes.back().rows = 65537; }, "axes.rows", "too many"},
    {"OfNoAxis", [](Program& p) { p.axes.back().source = 9; }, "axes.source",
     "does not precede it"},
    {"OfBlocks",
     [](Program& p) {
       p.axes.push_back(p.axes.back());
       p.axes.back().source = static_cast<uint32_t>(p.axes.size()) - 2;
     },
     "axes.source", "does not precede it"},
    {"ThatAreGivenOut",
     [](Program& p) {
       format::SlotView& output = p.slots[p.functions[0].output_slot];
       output.axis = static_cast<uint32_t>(p.axes.size()) - 1;
       output.offset = 1000;
     },
     "functions.output_slot", "only a block of rows"},
    {"ReadBeforeAllIsStored", [](Program& p) { keep_keys(p); }, "ops.cache",
     "its own block range fills"},
    {"WithNewKeys",
     [](Program& p) {
       const format::ColumnView value = keep_keys(p);
       format::OpView& attention = p.ops[op_of_kind(p, OpKind::kAttention)].body;
       attention.views[format::kKey] = attention.views[format::kValue] = value;
     },
     "ops.kind", "cannot run over blocks"},
    {"OfTokens",
     [](Program& p) {
       format::OpView& up = p.ops[op_named(p, "0.up")].body;
       up = convert::embedding_op(up.views[format::kOutput], {.tokens = 0});
     },
     "ops.kind", "cannot run over blocks"},
    {"IntoARowOfEachSequence",
     [](Program& p) {
       format::OpView& down = p.ops[op_named(p, "0.down")].body;
       p.slots[down.views[format::kOutput].slot].axis = static_cast<uint32_t>(p.axes.size());
       p.axes.push_back({AxisKind::kOne, 0, 0, 0});
       down = convert::embedding_op(down.views[format::kOutput], {.positions = 0});
     },
     "ops.kind", "cannot run over blocks"},
    {"WithTurnsOfTooFewRows",
     [](Program& p) {
       format::OpView& gelu = p.ops[op_named(p, "0.gelu")].body;
       const uint32_t angles = p.add_vector("angles", {0.5f, 0.5f});
       gelu = convert::rope_op(gelu.views[0], gelu.views[format::kOutput], 1, angles);
     },
     "ops.angles", "shorter than the context"},
    {"BesideASlotThatEnds",
     [](Program& p) {
       format::SlotView& input = p.slots[p.inputs[0].slot];
       input.last_op = op_of_kind(p, OpKind::kAttention);
       input.offset = 1000;
     },
     "slots.last_op", "splits a block range"},
    {"BesideASlotThatBegins",
     [](Program& p) {
       const format::OpView& attention = p.ops[op_of_kind(p, OpKind::kAttention)].body;
       format::SlotView& context = p.slots[attention.views[format::kOutput].slot];
       context.axis = 0;
       context.offset = 1000;
     },
     "slots.last_op", "splits a block range"},
    {"WithAHiddenState",
     [](Program& p) {
       const uint32_t attention = op_of_kind(p, OpKind::kAttention);
       const format::OpView& norm = p.ops[op_of_kind(p, OpKind::kNorm)].body;
       p.hidden_states.push_back({attention, p.whole(norm.views[format::kInput].slot)});
     },
     "hidden_states.op", "before all blocks"},
    {"AsAHiddenState",
     [](Program& p) {
       const uint32_t store = op_of_kind(p, OpKind::kStore);
       const format::ColumnView& value = p.ops[store].body.views[format::kValue];
       p.hidden_states.push_back({store, p.whole(value.slot)});
     },
     "hidden_states.view", "a row for each token"},
};

class BrokenBlocks : public testing::TestWithParam<BrokenBlock> {};

TEST_P(BrokenBlocks, AreRefusedAsBadModels) {
  Program program = in_blocks();
  GetParam().break_it(program);
  const convert::AlignedBytes file = convert::write_model(program, {Target::kPortable});
  Diagnostic why;
  const Status status = Model::load(file.span(), &why).status();
  EXPECT_EQ(status, Status::kBadModel) << describe(status, why);
  EXPECT_STREQ(why.field, GetParam().field) << describe(status, why);
  EXPECT_NE(std::string(why.reason).find(GetParam().words), std::string::npos) << why.reason;
}

INSTANTIATE_TEST_SUITE_P(Files, BrokenBlocks, testing::ValuesIn(kBrokenBlocks),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace arenite::test
