// SPDX-License-Identifier: Apache-2.0
// Compares models with convolutions with the reference, in calls of any size, and tests
// inconsistent files.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "convert/check/pack_model.h"
#include "convert/graph/interpreter.h"
#include "convert/program/program.h"
#include "convert/program/weights.h"
#include "convert/program/writer.h"
#include "runtime/format/verify_fixture.h"
#include "runtime/session/windows_fixture.h"
#include "support/compare.h"
#include "support/kernel_sets.h"
#include "support/pool.h"
#include "support/repair.h"
#include "support/smallest_slice.h"
#include "support/test_session.h"

namespace arenite::test {
namespace {

using convert::Graph;
using convert::Program;
using convert::ValueId;

class WindowsOfTokens : public testing::TestWithParam<Target> {
 protected:
  static TestModel load(const Stem& stem) {
    const Program program = convert::compile(stem_graph(stem), "stem");
    return TestModel(convert::write_model(program, {GetParam()}).span(), GetParam());
  }
};
ARENITE_FOR_EACH_FLOAT_SET(WindowsOfTokens);

std::vector<float> frames(uint32_t tokens) { return random_floats(tokens * kFeatures, 7); }

SessionOptions all_rows(uint32_t positions, uint32_t sequences = 1) {
  SessionOptions options = options_for(positions, sequences);
  options.outputs = Outputs::kAll;
  return options;
}

TEST_P(WindowsOfTokens, AgreeWithTheReference) {
  for (const Stem& stem : {kCausalStem, kWholeStem, kPooledStem}) {
    const TestModel model = load(stem);
    for (const uint32_t tokens : {3u, 4u, 5u, 18u, 31u}) {
      const std::vector<float> fed = frames(tokens);
      const TestSession session(*model, all_rows(tokens));
      const Result<Output> output = session->run(Batch{fed, 1, tokens});
      const convert::Evaluation expected =
          convert::evaluate(convert::with_stored_weights(stem_graph(stem)), {{}, {}, fed});
      const std::vector<float> found = values_of(output);
      ASSERT_EQ(found.size(), expected.values.size());
      for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected.values[i], 2e-5);
      EXPECT_EQ(output->rows, stem.pools ? 1 : stem.causal ? tokens : (tokens - 1) / 2);
    }
  }
}

TEST_P(WindowsOfTokens, ImagesAgreeWithTheReference) {
  const Graph graph = image_graph({false, true});
  ASSERT_GE(graph.axes.size(), 2u);
  EXPECT_EQ(graph.axes[1].rows, 3u * 5) << "the first windows have the rows that there are";
  for (const TensorType type : {TensorType::kF32, TensorType::kW8, TensorType::kQ8}) {
    const Stem stem = {false, true, type};
    const Program program = convert::compile(image_graph(stem), "image");
    const TestModel model(convert::write_model(program, {GetParam()}).span(), GetParam());
    const std::vector<float> fed = frames(3 * kStemPixels);
    Pool pool(3);
    SessionOptions options = all_rows(kStemPixels, 3);
    options.parallel = pool.parallel_for();
    const TestSession session(*model, options);  // in as many bytes as planned, before a guard page
    const std::vector<float> found = values_of(session->run(Batch{fed, 3, kStemPixels}));
    ASSERT_EQ(found.size(), 3u * 4);
    const TestSession alone(*model, all_rows(kStemPixels));
    for (size_t i = 0; i < 3; ++i) {
      const auto own = std::span<const float>(fed).subspan(i * kStemPixels * kFeatures,
                                                           size_t{kStemPixels} * kFeatures);
      alone->reset();
      const std::vector<float> one = values_of(alone->step(own));
      EXPECT_TRUE(same_bits(one, std::span<const float>(found).subspan(i * 4, 4)));
      const convert::Evaluation expected =
          convert::evaluate(convert::with_stored_weights(image_graph(stem)), {{}, {}, own});
      for (size_t c = 0; c < 4; ++c) EXPECT_NEAR(one[c], expected.values[c], 1e-4);
    }
    const Result<ArenaPlan> plan = plan_arena(*model, options);
    ASSERT_TRUE(plan.ok());
    convert::AlignedBytes arena(plan->total_bytes);
    const std::span<std::byte> less = arena.span().first(plan->total_bytes - 1);
    EXPECT_EQ(Session::create(*model, options, less).status(), Status::kArenaTooSmall);
  }
}

// Narrows all views of an op's output slot by one column.
void narrow_output(Program& program, const std::string& name) {
  uint32_t index = 0;
  while (program.ops.at(index).name != name) ++index;
  const uint32_t slot = program.ops[index].body.views[format::kOutput].slot;
  const uint32_t width = --program.slots[slot].width;
  for (convert::ProgramOp& op : program.ops) {
    for (format::ColumnView& view : op.body.views) {
      if (view.slot == slot && view.width > width) view.width = width;
    }
  }
}

TEST(MaxPools, EmptyRowsAndOtherWindowsAreRefused) {
  using Numbers = std::optional<std::pair<uint64_t, uint64_t>>;
  const auto refused = [](uint32_t number, uint32_t value, const char* field, const char* words,
                          Numbers numbers = {}) {
    Program program = convert::compile(image_graph({false, true}), "image");
    uint32_t index = 0;
    while (program.ops.at(index).name != "largest") ++index;
    program.ops[index].body.numbers[number] = value;
    expect_refusal(convert::write_model(program, {Target::kPortable}).span(),
                   {field, words, index, numbers});
  };
  refused(format::MaxPoolOp::kKernel, 0, "ops.kernel", "no rows");
  refused(format::MaxPoolOp::kKernel, 65537, "ops.kernel", "too many", {{65537, 65536}});
  refused(format::MaxPoolOp::kKernel, 5, "ops.columns", "not made of whole lines");
  refused(format::MaxPoolOp::kColumns, 0, "ops.columns", "not made of whole lines");
  refused(format::MaxPoolOp::kDilation, 1, "ops.dilation", "do not fit their axis");
  refused(format::MaxPoolOp::kBefore, 5, "ops.dilation", "do not fit their axis");
  Program narrow = convert::compile(image_graph({false, true}), "image");
  narrow_output(narrow, "largest");
  uint32_t index = 0;
  while (narrow.ops.at(index).name != "largest") ++index;
  expect_refusal(convert::write_model(narrow, {Target::kPortable}).span(),
                 {"ops.output", "wrong width", index});
}

TEST_P(WindowsOfTokens, GiveTheSameBitsInCallsOfAnySizeAndWeightsOfAnyType) {
  for (const TensorType type : {TensorType::kF32, TensorType::kW8, TensorType::kQ8}) {
    const TestModel model = load({true, false, type});
    const std::vector<float> fed = frames(33);
    const TestSession session(*model, all_rows(33));
    const std::vector<float> expected = session.run(fed);
    for (const uint32_t tokens : {1u, 2u, 7u, 20u}) {
      session->reset();
      EXPECT_TRUE(same_bits(session.steps_of(tokens, fed), expected)) << tokens;
    }
  }
}

// Each sequence gives the same bits as alone, also after a cancelled call.
TEST_P(WindowsOfTokens, GiveTheSameBitsInBatchesAndAfterACancelledCall) {
  const TestModel model = load(kCausalStem);
  const std::vector<float> fed = frames(2 * 24);
  const std::span<const float> first = std::span(fed).first(24 * kFeatures);
  const std::span<const float> second = std::span(fed).last(24 * kFeatures);
  const TestSession alone(*model, all_rows(24));
  const std::vector<float> of_first = alone.run(first), of_second = alone.run(second);
  Pool pool(3);
  SessionOptions options = all_rows(24, 2);
  options.parallel = pool.parallel_for();
  const TestSession both(*model, options);
  std::vector<float> found_first, found_second;
  for (uint32_t at = 0, call = 0; at < 24; ++call) {
    const uint32_t tokens = std::min(1 + call % 5, 24 - at);
    std::vector<float> rows(first.begin() + at * kFeatures,
                            first.begin() + (at + tokens) * kFeatures);
    rows.insert(rows.end(), second.begin() + at * kFeatures,
                second.begin() + (at + tokens) * kFeatures);
    const std::vector<float> wrong(tokens * kFeatures * 2, 9.0f);
    ASSERT_EQ(both->begin_step(Batch{wrong, 2, tokens}), Status::kOk);
    while (*advance_least(*both, 2) != 0 && call % 3 != 0) continue;
    if (call % 3 == 0) {
      both->cancel();
    } else {
      ASSERT_EQ(both->rewind(0, at), Status::kOk);
      ASSERT_EQ(both->rewind(1, at), Status::kOk);
    }
    const std::vector<float> found = values_of(both->step(Batch{rows, 2, tokens}));
    const auto middle = found.begin() + static_cast<ptrdiff_t>(found.size() / 2);
    found_first.insert(found_first.end(), found.begin(), middle);
    found_second.insert(found_second.end(), middle, found.end());
    at += tokens;
  }
  EXPECT_TRUE(same_bits(found_first, of_first));
  EXPECT_TRUE(same_bits(found_second, of_second));
}

TEST_P(WindowsOfTokens, RewindOneCallOrToTheStart) {
  const TestModel model = load(kCausalStem);
  const std::vector<float> fed = frames(20);
  const TestSession session(*model, all_rows(20));
  const std::vector<float> expected = session.run(fed);
  session->reset();
  const auto part = [&](uint32_t begin, uint32_t end) {
    return std::span(fed).subspan(begin * kFeatures, (end - begin) * kFeatures);
  };
  session.step(part(0, 8));
  session.step(part(8, 12));
  session.step(part(12, 15));
  Diagnostic why;
  EXPECT_EQ(session->rewind(0, 8, &why), Status::kInvalidArgument);
  EXPECT_NE(std::string(why.reason).find("only the last call"), std::string::npos);
  EXPECT_EQ(session->rewind(0, 13, &why), Status::kInvalidArgument);
  EXPECT_EQ(session->positions(0), 15u);
  ASSERT_EQ(session->rewind(0, 12), Status::kOk);
  const std::vector<float> rest = session.step(part(12, 20));
  EXPECT_TRUE(same_bits(rest, std::span(expected).last(rest.size())));
  ASSERT_EQ(session->rewind(0, 0), Status::kOk);
  EXPECT_TRUE(same_bits(session.step(fed), expected));
}

// A copy includes the rows that convolutions keep; a convolution over one row keeps none.
TEST_P(WindowsOfTokens, ContinueInACopyOfASequence) {
  for (const bool has_rows : {true, false}) {
    Program program = convert::compile(has_rows ? stem_graph(kCausalStem) : graph_of({true}), "a");
    const auto load_it = [&] {
      return TestModel(convert::write_model(program, {GetParam()}).span(), GetParam());
    };
    const TestModel plain = load_it();
    if (!has_rows) {
      format::OpView& embed = program.ops[0].body;
      ASSERT_EQ(embed.kind, format::OpKind::kLinear);
      embed.kind = format::OpKind::kConvolution;
      embed.numbers[format::ConvolutionOp::kDilation] = 1;
    }
    const TestModel model = load_it();
    ASSERT_TRUE(model->causal());
    const std::vector<float> fed = frames(17);
    const std::span<const float> first = std::span(fed).first(12 * kFeatures);
    const std::span<const float> rest = std::span(fed).subspan(12 * kFeatures);
    const TestSession alone(*plain, all_rows(17)), session(*model, all_rows(17, 3));
    const std::vector<float> whole = alone.run(fed);
    session.step(first);
    ASSERT_EQ(session->copy_sequence(0, 2), Status::kOk);
    ASSERT_EQ(session->copy_sequence(2, 2), Status::kOk);
    const std::vector<float> other(rest.size(), 2.0f);
    session.step(other);
    EXPECT_EQ(session->rewind(0, 12), Status::kOk);
    const uint32_t lengths[] = {0, 0, 5};
    const std::vector<float> found = values_of(session->step(Batch{rest, 3, 0, lengths, {}, true}));
    EXPECT_TRUE(same_bits(found, std::span(whole).last(5 * 4)));
  }
}

TEST_P(WindowsOfTokens, NonCausalOnesRefuseSteps) {
  const TestModel model = load(kWholeStem);
  EXPECT_FALSE(model->causal());
  EXPECT_EQ(model->tokens_min(), 3u);
  const std::vector<float> fed = frames(9);
  const TestSession session(*model, all_rows(20));
  EXPECT_TRUE(session->step(Batch{fed, 1, 9}).ok());
  Diagnostic why;
  EXPECT_EQ(session->step(Batch{fed, 1, 9}, &why).status(), Status::kUnsupported);
  EXPECT_NE(std::string(why.reason).find("whole sequences"), std::string::npos);
  EXPECT_EQ(session->run(Batch{std::span(fed).first(2 * kFeatures), 1, 2}, &why).status(),
            Status::kInvalidArgument);
  EXPECT_STREQ(why.field, "batch.lengths");
  const std::vector<uint8_t> visible = {1, 1, 1, 1, 0, 1, 1, 1, 1};
  EXPECT_EQ(session->run(Batch{fed, 1, 9, {}, visible}, &why).status(), Status::kUnsupported);
  ASSERT_TRUE(session->run(Batch{fed, 1, 9}).ok());
  EXPECT_EQ(session->copy_sequence(0, 0), Status::kOk);
  EXPECT_EQ(session->rewind(0, 4), Status::kOk) << "nothing is kept that could be missing";
  // A row later in each window.
  Program program = convert::compile(stem_graph(kCausalStem), "stem");
  --program.ops[0].body.numbers[format::ConvolutionOp::kBefore];
  const TestModel later(convert::write_model(program, {GetParam()}).span(), GetParam());
  EXPECT_FALSE(later->causal());
}

TEST_P(WindowsOfTokens, StayWithinThePlannedArena) {
  for (const Stem& stem :
       {kCausalStem, kWholeStem, kPooledStem, Stem{true, false, TensorType::kQ8}}) {
    const TestModel model = load(stem);
    for (const uint32_t sequences : {1u, 2u, 5u}) {
      for (const uint32_t tokens : {0u, 3u, 16u}) {
        SessionOptions options = all_rows(16, sequences);
        options.tokens_max = tokens;
        const Result<ArenaPlan> plan = plan_arena(*model, options);
        ASSERT_TRUE(plan.ok());
        const TestSession session(*model, options);  // in as many bytes, before a guard page
        const uint32_t most = tokens == 0 ? 16 * sequences : tokens;
        const uint32_t count = std::min(sequences, most / 3);
        std::vector<uint32_t> lengths(count, 3);
        lengths[0] = std::min(16u, most - 3 * (count - 1));
        EXPECT_TRUE(session->run(Batch{frames(count * 16), count, 16, lengths}).ok());
        EXPECT_EQ(session->step(Batch{frames(count), count, 1}).ok(),
                  stem.causal && most >= count && lengths[0] < 16);
        convert::AlignedBytes arena(plan->total_bytes);
        const std::span<std::byte> less = arena.span().first(plan->total_bytes - 1);
        EXPECT_EQ(Session::create(*model, options, less).status(), Status::kArenaTooSmall);
      }
    }
  }
}

// ---- files that say otherwise ----

uint32_t place_of(const Program& program, const std::string& name) {
  uint32_t index = 0;
  while (program.ops.at(index).name != name) ++index;
  return index;
}
format::OpView& body_of(Program& program, const char* name) {
  return program.ops[place_of(program, name)].body;
}

struct BrokenWindows {
  const char* name;
  void (*break_it)(Program&);
  const char* field;
  const char* words;
  const char* op = nullptr;  // whose index is told; null: that of an axis or a slot
  uint32_t index = 2;
};

// 0 tokens, 1 the first convolution's windows, 2 the second one's.
const BrokenWindows kBrokenWindows[] = {
    {"NoStride", [](Program& p) { p.axes[2].stride = 0; }, "axes.stride", "0 or too large"},
    {"Stride", [](Program& p) { p.axes[2].stride = 65537; }, "axes.stride", "0 or too large"},
    {"Window", [](Program& p) { p.axes[2].window = 65537; }, "axes.window", "too large"},
    {"Zeros", [](Program& p) { p.axes[2].window = -131073; }, "axes.window", "too large"},
    {"Long", [](Program& p) { p.axes[2].window = 2; }, "axes.window", "the shortest sequence"},
    {"OfOneToken",
     [](Program& p) {
       p.axes[1].window = 2;
       p.inputs[0].tokens_min = 0;
     },
     "axes.window", "the shortest sequence", nullptr, 1},
    {"OfAnyLength", [](Program& p) { p.inputs[0].tokens_min = 1; }, "axes.window",
     "the shortest sequence", nullptr, 1},
    {"RowsOnNoAxis",
     [](Program& p) { p.slots[body_of(p, "second").views[format::kInput].slot].axis = 99; },
     "slots.axis", "does not exist", nullptr, 1},
    {"WindowsOnNoAxis",
     [](Program& p) { p.slots[body_of(p, "second").views[format::kOutput].slot].axis = 99; },
     "slots.axis", "does not exist", nullptr, 2},
    {"NoRowsToSee", [](Program& p) { body_of(p, "second").views[format::kInput].width = 0; },
     "ops.input", "wrong width", "second"},
    {"RowsOfNoSlot", [](Program& p) { body_of(p, "second").views[format::kInput].slot = 99; },
     "ops.input", "does not exist", "second"},
    {"WindowsOfNoSlot", [](Program& p) { body_of(p, "second").views[format::kOutput].slot = 99; },
     "ops.output", "does not exist", "second"},
    {"Columns", [](Program& p) { body_of(p, "second").numbers[3] = 1; }, "ops.columns",
     "no image as input", "second"},
    {"Span", [](Program& p) { body_of(p, "second").numbers[1] = 65536; }, "ops.dilation",
     "no rows, or too many", "second"},
    {"FarAfter", [](Program& p) { p.axes[2].window = -70000; }, "ops.before",
     "does not fit its windows", "second"},
    {"Outputs", [](Program& p) { body_of(p, "second").numbers[0] = body_of(p, "head").numbers[0]; },
     "ops.output", "wrong width", "second"},
    {"OutputsOfTaps", [](Program& p) { narrow_output(p, "taps"); }, "ops.output", "wrong width",
     "taps"},
    {"Cycle", [](Program& p) { p.axes[2].source = 2; }, "axes.source", "does not precede it"},
    {"OtherAxis", [](Program& p) { p.axes[2].other = 1; }, "axes.source", "does not precede it"},
    {"Rows", [](Program& p) { p.axes[2].rows = 1; }, "axes.rows", "no rows, or too many"},
    {"StrideOfConstants",
     [](Program& p) { p.axes[2] = {.kind = AxisKind::kConstants, .rows = 1, .stride = 1}; },
     "axes.stride", "its kind lacks"},
    {"OtherSource", [](Program& p) { p.axes[2].source = 0; }, "ops.output",
     "not on the axis of its windows", "second"},
    {"NoDilation", [](Program& p) { body_of(p, "second").numbers[1] = 0; }, "ops.dilation",
     "no rows, or too many", "second"},
    {"Dilation", [](Program& p) { body_of(p, "second").numbers[1] = 1u << 31; }, "ops.dilation",
     "no rows, or too many", "second"},
    {"Before", [](Program& p) { body_of(p, "second").numbers[2] = 4; }, "ops.before",
     "does not fit its windows", "second"},
    {"FarBefore", [](Program& p) { body_of(p, "taps").numbers[2] = UINT32_MAX; }, "ops.before",
     "does not fit its windows", "taps"},
    {"Channels", [](Program& p) { body_of(p, "second").views[0].width = 5; }, "ops.input",
     "wrong width", "second"},
    {"Taps", [](Program& p) { body_of(p, "taps").numbers[0] = body_of(p, "taps").numbers[4]; },
     "ops.before", "does not fit its windows", "taps"},
    {"TapsOfOthers", [](Program& p) { body_of(p, "taps").views[0].width = 5; }, "ops.input",
     "wrong width", "taps"},
    {"Bias", [](Program& p) { body_of(p, "taps").numbers[4] = body_of(p, "taps").numbers[0]; },
     "ops.bias", "wrong length", "taps"},
    {"NoTensor", [](Program& p) { body_of(p, "first").numbers[0] = 99; }, "ops.tensor",
     "does not exist", "first"},
    {"Layout", [](Program& p) { body_of(p, "first").numbers[0] = body_of(p, "taps").numbers[0]; },
     "ops.tensor", "wrong layout", "first"},
};

class WindowsInFiles : public testing::TestWithParam<BrokenWindows> {};

TEST_P(WindowsInFiles, AreRefused) {
  const BrokenWindows& broken = GetParam();
  Program program = convert::compile(stem_graph(kWholeStem), "stem");
  const uint32_t index = broken.op == nullptr ? broken.index : place_of(program, broken.op);
  broken.break_it(program);
  expect_refusal(convert::write_model(program, {Target::kPortable}).span(),
                 {broken.field, broken.words, index});
}

TEST(WindowsInFiles, WeightsOfAnUnknownTypeAreRefused) {
  const Program program = convert::compile(stem_graph(kWholeStem), "stem");
  ModelSurgery file(convert::write_model(program, {Target::kPortable}).span());
  const format::ModelReader reader(file.file());
  const uint32_t index = program.ops[0].body.numbers[format::ConvolutionOp::kTensor];
  format::TensorShape shape = reader.tensor(index);
  shape.type = TensorType::kInt8;
  file.overwrite(&reader.tensor(index), shape);
  repair_checksums_and_formulas(file.file());
  expect_refusal(file.file(), {"tensors.type", "unknown or holds no weights", index});
}

INSTANTIATE_TEST_SUITE_P(Broken, WindowsInFiles, testing::ValuesIn(kBrokenWindows),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace arenite::test
