// SPDX-License-Identifier: Apache-2.0
// Sequences with a prefix of constant rows, and images cut into patches: compared with the
// reference in every form of batch and token by token, in an arena of exactly the planned size.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "arenite/image.h"
#include "convert/check/pack_model.h"
#include "convert/graph/interpreter.h"
#include "convert/program/program.h"
#include "convert/program/weights.h"
#include "convert/program/writer.h"
#include "core/views.h"
#include "ops/rows.h"
#include "runtime/format/verify_fixture.h"
#include "runtime/session/rows_fixture.h"
#include "support/compare.h"
#include "support/kernel_sets.h"
#include "support/model_factory.h"
#include "support/pool.h"
#include "support/smallest_slice.h"
#include "support/test_session.h"

namespace arenite::test {
namespace {

class OtherRows : public testing::TestWithParam<Target> {
 protected:
  static TestModel load(const Form& form) {
    const convert::Program program = convert::compile(graph_of(form), "rows");
    return TestModel(convert::write_model(program, {GetParam()}).span(), GetParam());
  }
};
ARENITE_FOR_EACH_KERNEL_SET(OtherRows);

// The program pools in the middle.
constexpr Form kMiddle = {false, false, SelectKind::kAsAsked, 0, true, true};
// Multiplies across 32 rows, a block of q4.
constexpr Form kFixed = {.fixed = 32 - kPrefix};

std::vector<float> numbers(size_t count) { return random_floats(count, 7); }

void expect_same_bits(std::span<const float> found, std::span<const float> expected) {
  EXPECT_TRUE(same_bits(found, expected));
}

void expect_near(const std::vector<float>& found, const std::vector<double>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 2e-5) << i;
}

TEST(OtherRowsFile, RefusesPairMasksOnRowsOfNoInput) {
  convert::Program program = convert::compile(graph_of({}), "rows");
  program.masks[0] = convert::pair_mask(false);
  expect_refusal(convert::write_model(program, {Target::kPortable}).span(),
                 {"masks.kind", "not an input's rows"});
}

TEST_P(OtherRows, AgreeWithTheReference) {
  using enum SelectKind;
  for (const Form& form : {Form{},
                           Form{false, false, kFirst},
                           Form{false, false, kFirst, 1},
                           Form{false, false, kMean},
                           Form{false, false, kMean, 2},
                           Form{false, false, kMax, 1},
                           Form{true},
                           Form{false, true, kMean, 1},
                           kMiddle,
                           Form{false, false, kFirst, 2, true, true},
                           Form{false, true, kMean, 1, true, true},
                           Form{.turns = 3},
                           Form{.causal = true, .turns = 2},
                           Form{.rows = kMean, .without = 1, .constants = true},
                           Form{.query_terms = true},
                           Form{.query_terms = true, .key_terms = true},
                           Form{.causal = true, .query_terms = true},
                           kFixed,
                           Form{.fixed = 1},
                           Form{.rows = kMean, .without = 2, .fixed = 37}}) {
    const TestModel model = load(form);
    const uint32_t tokens = form.tokens(11);
    const std::vector<float> fed = numbers(tokens * model->input_features());
    SessionOptions options = options_for(tokens);
    options.outputs = Outputs::kAll;
    const TestSession session(*model, options);
    const Result<Output> output = session->run(Batch{fed, 1, tokens});
    const convert::Evaluation expected =
        convert::evaluate(convert::with_stored_weights(graph_of(form)), {{}, {}, fed});
    expect_near(values_of(output), expected.values);
    EXPECT_EQ(output->rows, form.rows != kAsAsked ? 1 : tokens + kPrefix);
    EXPECT_EQ(session->positions(0), tokens);
  }
}

TEST_P(OtherRows, GiveTheSameBitsInEveryFormOfBatch) {
  for (const Form& form :
       {Form{}, Form{false, false, SelectKind::kMean, 1}, kMiddle,
        Form{false, false, SelectKind::kMax, 2, true, true}, Form{.turns = 3},
        Form{.query_terms = true}, Form{.query_terms = true, .key_terms = true}}) {
    const TestModel model = load(form);
    constexpr uint32_t kTokens = 9;
    const std::vector<uint32_t> lengths = {4, 0, 9, 1};
    std::vector<float> padded = numbers(4 * kTokens * kFeatures);
    std::vector<float> packed, expected;
    std::vector<uint8_t> visible;
    const TestSession alone(*model, options_for(kTokens));
    for (size_t s = 0; s < lengths.size(); ++s) {
      const auto own =
          std::span<const float>(padded).subspan(s * kTokens * kFeatures, lengths[s] * kFeatures);
      packed.insert(packed.end(), own.begin(), own.end());
      if (lengths[s] == 0) continue;
      const std::vector<float> rows = alone.run(own);
      expected.insert(expected.end(), rows.begin(), rows.end());
    }
    for (const uint32_t threads : {1u, 3u}) {
      Pool pool(threads);
      SessionOptions options = options_for(kTokens, 4);
      options.parallel = pool.parallel_for();
      const TestSession session(*model, options);
      expect_same_bits(values_of(session->run(Batch{padded, 4, kTokens, lengths})), expected);
      Batch back_to_back{packed, 4, 0, lengths};
      back_to_back.back_to_back = true;
      expect_same_bits(values_of(session->run(back_to_back)), expected);
    }
  }
}

// Each sequence is multiplied by itself, with bits that do not depend on the others.
TEST_P(OtherRows, AreMultipliedAcrossEachSequence) {
  for (const TensorType type :
       {TensorType::kF32, TensorType::kW8, TensorType::kQ8, TensorType::kQ4}) {
    Form form = kFixed;
    form.mixed_by = type;
    const TestModel model = load(form);
    const std::vector<float> fed = numbers(4 * kFixed.fixed * kFeatures);
    const TestSession alone(*model, options_for(kFixed.fixed));
    std::vector<float> expected;
    for (const size_t s : {0u, 2u, 3u}) {
      const std::vector<float> rows = alone.run(std::span<const float>(fed).subspan(
          s * kFixed.fixed * kFeatures, kFixed.fixed * kFeatures));
      expected.insert(expected.end(), rows.begin(), rows.end());
    }
    const std::vector<uint32_t> lengths = {kFixed.fixed, 0, kFixed.fixed, kFixed.fixed};
    for (const uint32_t threads : {1u, 3u}) {
      Pool pool(threads);
      SessionOptions options = options_for(kFixed.fixed, 4);
      options.parallel = pool.parallel_for();
      const TestSession session(*model, options);
      expect_same_bits(values_of(session->run(Batch{fed, 4, kFixed.fixed, lengths})), expected);
      Diagnostic why;
      const std::vector<uint32_t> fewer = {kFixed.fixed, 0, kFixed.fixed - 1, kFixed.fixed};
      EXPECT_EQ(session->run(Batch{fed, 4, kFixed.fixed, fewer}, &why).status(),
                Status::kInvalidArgument);
      EXPECT_STREQ(why.field, "batch.lengths");
    }
  }
}

// Rows that a mask leaves out keep their place, and the prefix has all of its own.
TEST_P(OtherRows, SkipGaps) {
  const TestModel model = load({});
  const std::vector<float> fed = numbers(2 * 5 * kFeatures);
  const std::vector<uint8_t> all = {1, 1, 1, 1, 1, 1, 1, 1, 0, 0};
  const std::vector<uint32_t> lengths = {5, 3};
  const TestSession session(*model, options_for(5, 2));
  const std::vector<float> expected = values_of(session->run(Batch{fed, 2, 5, lengths}));
  expect_same_bits(values_of(session->run(Batch{fed, 2, 5, {}, all})), expected);
  const std::vector<uint8_t> gaps = {1, 0, 1, 1, 1, 1, 1, 1, 0, 0};
  const Result<Output> output = session->run(Batch{fed, 2, 5, {}, gaps});
  ASSERT_TRUE(output.ok());
  EXPECT_EQ(output->rows, 2 * kPrefix + 7);
  // Rows in turn are counted without gaps.
  const TestModel turns = load({.turns = 3});
  const TestSession other(*turns, options_for(5, 2));
  EXPECT_EQ(other->run(Batch{fed, 2, 5, {}, gaps}).status(), Status::kUnsupported);
}

TEST_P(OtherRows, AppearOnceWhenTokensComeInSteps) {
  for (const Form& form :
       {Form{true}, Form{.causal = true, .turns = 3}, Form{.causal = true, .query_terms = true}}) {
    const TestModel model = load(form);
    constexpr uint32_t kTokens = 13;
    const std::vector<float> fed = numbers(kTokens * kFeatures);
    SessionOptions options = options_for(kTokens);
    options.outputs = Outputs::kAll;
    const TestSession session(*model, options);
    const std::vector<float> expected = session.run(fed);
    for (const uint32_t tokens : {1u, 4u}) {
      session->reset();
      expect_same_bits(session.steps_of(tokens, fed), expected);
      EXPECT_EQ(session->positions(0), kTokens);
    }
    EXPECT_EQ(session->rewind(0, 5), Status::kOk);
    EXPECT_EQ(session->positions(0), 5u);
    const auto later = std::span<const float>(fed).subspan(5 * kFeatures);
    const std::vector<float> rest = session.step(later);
    expect_same_bits(rest, std::span<const float>(expected).last(rest.size()));
    EXPECT_EQ(session->rewind(0, 0), Status::kOk);
    expect_same_bits(session.step(fed), expected);
    EXPECT_EQ(session->step(std::span<const float>(fed).first(kFeatures)).status(),
              Status::kContextFull);
  }
}

TEST_P(OtherRows, StayWithinThePlannedArena) {
  for (const Form& form : {Form{}, Form{true}, Form{false, true, SelectKind::kFirst}, kMiddle,
                           Form{.causal = true, .turns = 3}, kFixed}) {
    const TestModel model = load(form);
    for (const uint32_t sequences : {1u, 2u, 5u}) {
      const uint32_t each = form.tokens(16);
      const bool is_whole = form.images || form.fixed != 0;
      for (const uint32_t tokens : {0u, 1u, each}) {
        if (is_whole && tokens == 1) continue;
        SessionOptions options = options_for(each, sequences);
        options.tokens_max = tokens;
        options.outputs = Outputs::kAll;
        const Result<ArenaPlan> plan = plan_arena(*model, options);
        ASSERT_TRUE(plan.ok());
        const TestSession session(*model, options);  // in as many bytes, before a guard page
        const uint32_t most = tokens == 0 ? each * sequences : tokens;
        std::vector<uint32_t> lengths(sequences, most / sequences);
        lengths[0] += most % sequences;
        if (lengths[0] > each) lengths[0] = each;
        if (is_whole) lengths.clear();
        const uint32_t count = is_whole ? most / each : sequences;
        const std::vector<float> fed = numbers(size_t{count} * each * model->input_features());
        EXPECT_TRUE(session->run(Batch{fed, count, each, lengths}).ok());
        convert::AlignedBytes arena(plan->total_bytes);
        const std::span<std::byte> less = arena.span().first(plan->total_bytes - 1);
        EXPECT_EQ(Session::create(*model, options, less).status(), Status::kArenaTooSmall);
      }
    }
  }
}

// A slice copies sixteen rows at a time; each counts one multiply-add per element.
TEST_P(OtherRows, AreCopiedInSlices) {
  const TestModel model = load({});
  const TestSession session(*model, options_for(kPositions));
  const std::vector<float> fed = numbers(3 * kFeatures);
  ASSERT_EQ(session->begin_run(Batch{fed, 1, 3}), Status::kOk);
  Diagnostic why;
  while (std::string(model->op_name(why.index)) != "register") {
    ASSERT_TRUE(advance_least(*session).ok());
    ASSERT_EQ(session->advance(0, &why).status(), Status::kInvalidArgument);
  }
  EXPECT_EQ(why.expected, kOpWork + kTaskWork + 16 * kWidth);
  session->cancel();
}

TEST_P(OtherRows, ImagesAreSequencesOfTheirOwn) {
  const TestModel model = load({false, true, SelectKind::kMean, 2});
  const ImageShape image = image_shape(*model);
  EXPECT_EQ(image.channels, kImageChannels);
  EXPECT_EQ(image.height, 9u);
  EXPECT_EQ(image.width, 13u);
  EXPECT_EQ(image.tokens(), kImagePixels);
  EXPECT_EQ(model->input_features(), kImageChannels);
  EXPECT_EQ(model->tokens_min(), kImagePixels);
  constexpr size_t kEach = kImagePixels * kImageChannels;
  const std::vector<float> fed = numbers(3 * kEach);
  const TestSession session(*model, options_for(kImagePixels, 3));
  const std::vector<float> all = values_of(session->run(Batch{fed, 3, kImagePixels}));
  const TestSession alone(*model, options_for(kImagePixels));
  for (size_t i = 0; i < 3; ++i) {
    alone->reset();
    const auto own = std::span<const float>(fed).subspan(i * kEach, kEach);
    const std::vector<float> found = values_of(alone->step(own));
    expect_same_bits(found, std::span<const float>(all).subspan(i * 4, 4));
  }
  Diagnostic why;
  const std::vector<uint32_t> lengths = {kImagePixels, kImagePixels, 4};
  EXPECT_EQ(session->run(Batch{fed, 3, kImagePixels, lengths}, &why).status(),
            Status::kInvalidArgument);
  EXPECT_STREQ(why.field, "batch.lengths");
  const std::vector<uint8_t> visible(3 * kImagePixels, 1);
  EXPECT_EQ(session->run(Batch{fed, 3, kImagePixels, {}, visible}).status(), Status::kUnsupported);
  EXPECT_EQ(
      session->run(Batch{std::span(fed).first(kEach - kImageChannels), 1, kImagePixels - 1}, &why)
          .status(),
      Status::kInvalidArgument);
  EXPECT_STREQ(why.field, "batch.lengths");
  EXPECT_EQ(
      session->run(Batch{std::span(fed).first(fed.size() - 1), 3, kImagePixels}, &why).status(),
      Status::kInvalidArgument);
  EXPECT_STREQ(why.field, "batch.features");
  const std::vector<TokenId> ids(16);
  EXPECT_EQ(session->run(TokenBatch{ids, 1, 16}).status(), Status::kInvalidArgument);
  EXPECT_EQ(session->run(TokenBatch{ids, 1, 0}).status(), Status::kInvalidArgument);
  EXPECT_EQ(image_shape(*load({})).channels, 0u);
}

// ---- files that say otherwise ----

uint32_t index_of(const convert::Program& program, const std::string& name) {
  uint32_t index = 0;
  while (program.ops.at(index).name != name) ++index;
  return index;
}
format::OpView& op(convert::Program& program, const std::string& name) {
  return program.ops[index_of(program, name)].body;
}

struct BrokenRow {
  const char* name;
  Form form;
  void (*break_it)(convert::Program&);
  const char* field;
  const char* words;
  uint32_t index = 0;
  const char* op = nullptr;  // instead of the index
};

class BrokenRows : public testing::TestWithParam<BrokenRow> {};

TEST_P(BrokenRows, AreRefused) {
  const BrokenRow& broken = GetParam();
  convert::Program program = convert::compile(graph_of(broken.form), "rows");
  const uint32_t index = broken.op == nullptr ? broken.index : index_of(program, broken.op);
  broken.break_it(program);
  expect_refusal(convert::write_model(program, {Target::kPortable}).span(),
                 {broken.field, broken.words, index});
}

using convert::Program;
constexpr Form kPooled = {false, false, SelectKind::kMean, 1};
constexpr Form kBare = {false, false, SelectKind::kMean, 1, false};
constexpr Form kTurns = {.rows = SelectKind::kMean, .without = 1, .positions = false, .turns = 3};
constexpr Form kPictures = {false, true, SelectKind::kMean, 1};

// 0 tokens, 1 one constant, 2 these, 3 two constants, 4 all, 5 one for each sequence, or asked.
const BrokenRow kAxesThatAreNone[] = {
    {"None", kBare, [](Program& p) { p.axes.clear(); }, "axes", "too short"},
    {"Many", kBare, [](Program& p) { p.axes.resize(kAxesMax + 1, p.axes[5]); }, "axes", "too long"},
    {"UnknownKind", kBare, [](Program& p) { p.axes[5].kind = AxisKind{9}; }, "axes.kind",
     "a kind of axis is unknown", 5},
    {"SecondInput", kBare, [](Program& p) { p.axes[1].kind = AxisKind::kInput; }, "axes.source",
     "does not precede it", 1},
    {"NoInput", kBare, [](Program& p) { p.axes[0].kind = AxisKind::kOne; }, "axes.kind",
     "the first axis is not", 0},
    {"InputOfAnother", kBare, [](Program& p) { p.axes[0].source = 1; }, "axes.source",
     "does not precede it", 0},
    {"Cycle", kBare, [](Program& p) { p.axes[2].source = 4; }, "axes.source", "does not precede it",
     2},
    {"Itself", kBare, [](Program& p) { p.axes[2].other = 2; }, "axes.source", "does not precede it",
     2},
    {"NoAxis", kBare, [](Program& p) { p.axes[5].source = 8; }, "axes.source",
     "does not precede it", 5},
    {"OtherOfConstants", kBare, [](Program& p) { p.axes[3].other = 1; }, "axes.source",
     "does not precede it", 3},
    {"OfAsked",
     {true},
     [](Program& p) {
       p.axes.push_back({AxisKind::kOne, 5, 0, 0});
     },
     "axes.source",
     "does not precede it",
     6},
    {"NoRows", kBare, [](Program& p) { p.axes[1].rows = 0; }, "axes.rows", "no rows, or too many",
     1},
    {"ManyRows", kBare, [](Program& p) { p.axes[1].rows = 65537; }, "axes.rows",
     "no rows, or too many", 1},
    {"RowsOfJoined", kBare, [](Program& p) { p.axes[2].rows = 1; }, "axes.rows",
     "no rows, or too many", 2},
    {"NotCounted", kBare, [](Program& p) { p.inputs[0].positions_max = UINT32_MAX - 2; },
     "axes.rows", "more rows than can be counted", 2},
    // The fifth is of 3 rows for each of the one before.
    {"NoTurns", kTurns, [](Program& p) { p.axes[5].rows = 0; }, "axes.rows", "no rows, or too many",
     5},
    {"ManyTurns", kTurns, [](Program& p) { p.axes[5].rows = 65537; }, "axes.rows",
     "no rows, or too many", 5},
    {"TurnsNotCounted", kTurns, [](Program& p) { p.inputs[0].positions_max = 1u << 31; },
     "axes.rows", "more rows than can be counted", 5},
    {"TokensBeforeConstants", kBare,
     [](Program& p) { std::swap(p.axes[2].source, p.axes[2].other); }, "ops.output",
     "not made of its inputs' axes", 0, "register"},
    {"TurnsOfThemselves", kTurns, [](Program& p) { p.axes[5].source = 5; }, "axes.source",
     "does not precede it", 5},
    {"SlotOnNone", kBare, [](Program& p) { p.slots[0].axis = 6; }, "slots.axis", "does not exist",
     0},
};
const BrokenRow kOpsOnOthers[] = {
    {"JoinTheWrongWay", kBare,
     [](Program& p) { std::swap(op(p, "class").views[0], op(p, "class").views[1]); }, "ops.output",
     "not made of its inputs' axes", 0, "class"},
    {"JoinOtherTokens", kBare, [](Program& p) { p.axes[4].other = 0; }, "ops.output",
     "not made of its inputs' axes", 0, "class"},
    {"JoinIntoOne", kBare,
     [](Program& p) {
       p.axes[4] = {AxisKind::kOne, 0, 0, 0};
     },
     "ops.output", "not made of its inputs' axes", 0, "class"},
    {"JoinLessOfOthers", kBare,
     [](Program& p) { op(p, "class").views[format::kOther].width = kWidth - 1; }, "ops.other",
     "wrong width", 0, "class"},
    {"JoinLessColumns", kBare,
     [](Program& p) { op(p, "class").views[format::kInput].width = kWidth - 1; }, "ops.input",
     "wrong width", 0, "class"},
    {"FewerTurns", kTurns, [](Program& p) { p.axes[5].rows = 2; }, "ops.input", "wrong width", 0,
     "turns"},
    {"TurnsOfAPart", kTurns,
     [](Program& p) { op(p, "turns").views[format::kInput].width = kWidth; }, "ops.input",
     "wrong width", 0, "turns"},
    {"TurnsOfOthers", kTurns, [](Program& p) { p.axes[5].source = 2; }, "ops.rows",
     "does not fit its kind", 0, "turns"},
    {"BesideRowsOfOthers", kTurns,
     [](Program& p) { p.slots[op(p, "beside").views[format::kOutput].slot].axis = 2; }, "ops.rows",
     "does not fit its kind", 0, "beside"},
    {"BesideOthers", kTurns,
     [](Program& p) { op(p, "beside").numbers[0] = static_cast<uint32_t>(SelectKind::kSum); },
     "ops.rows", "does not fit its kind", 0, "beside"},
    {"PartInTurn", kTurns,
     [](Program& p) { op(p, "part").numbers[0] = static_cast<uint32_t>(SelectKind::kTurns); },
     "ops.rows", "does not fit its kind", 0, "part"},
    {"TransposedOfAnyLength", kFixed, [](Program& p) { p.inputs[0].tokens_min = 28; }, "ops.output",
     "wrong width", 0, "columns"},
    {"TransposedOfLongerOnes", Form{.positions = false, .fixed = 29},
     [](Program& p) { p.inputs[0].positions_max = 0; }, "ops.rows", "does not fit its kind", 0,
     "columns"},
    {"TransposedToMoreRows", kFixed,
     [](Program& p) { ++p.axes[p.slots[op(p, "columns").views[format::kOutput].slot].axis].rows; },
     "ops.rows", "does not fit its kind", 0, "columns"},
    {"TransposedOfAPart", kFixed,
     [](Program& p) { --op(p, "columns").views[format::kInput].width; }, "ops.rows",
     "does not fit its kind", 0, "columns"},
    {"TakenBeyondTheSequence", kFixed, [](Program& p) { p.taken_rows[31] = 32; }, "ops.rows",
     "does not fit its kind", 0, "taken"},
    {"TakenByTooShortAList", kFixed, [](Program& p) { p.taken_rows.pop_back(); }, "ops.rows",
     "does not fit its kind", 0, "taken"},
    {"TakenByNoList", kFixed, [](Program& p) { p.taken_rows.clear(); }, "ops.rows",
     "does not fit its kind", 0, "taken"},
    {"TakenFromTheMiddleOfAList", kFixed,
     [](Program& p) { op(p, "taken").numbers[format::SelectOp::kFirstTaken] = 1; }, "ops.rows",
     "does not fit its kind", 0, "taken"},
    {"TakenFromBehindTheLists", kFixed,
     [](Program& p) { op(p, "taken").numbers[format::SelectOp::kFirstTaken] = UINT32_MAX; },
     "ops.rows", "does not fit its kind", 0, "taken"},
    {"TakenOfAnyLength", kFixed,
     [](Program& p) {
       op(p, "columns").numbers[0] = static_cast<uint32_t>(SelectKind::kTaken);
       p.inputs[0].tokens_min = 28;
     },
     "ops.rows", "does not fit its kind", 0, "columns"},
    {"PoolOfAPart", kBare,
     [](Program& p) { op(p, "part").numbers[0] = static_cast<uint32_t>(SelectKind::kMean); },
     "ops.rows", "does not fit its kind", 0, "part"},
    {"FirstForLast", kBare,
     [](Program& p) { op(p, "part").numbers[0] = static_cast<uint32_t>(SelectKind::kFirst); },
     "ops.rows", "does not fit its kind", 0, "part"},
    {"LastIntoConstants", kBare,
     [](Program& p) { p.slots[op(p, "part").views[format::kOutput].slot].axis = 3; }, "ops.rows",
     "does not fit its kind", 0, "part"},
    {"FirstOfAsked",
     {true},
     [](Program& p) {
       format::OpView& head = op(p, "head");
       head = convert::select_op(head.views[0], head.views[format::kOutput], SelectKind::kFirst);
       p.slots[head.views[format::kOutput].slot].axis = static_cast<uint32_t>(p.axes.size());
       p.axes.push_back({AxisKind::kOne, 0, 0, 0});
     },
     "ops.rows",
     "does not fit its kind",
     0,
     "head"},
    {"WindowsOfAsked",
     {true},
     [](Program& p) { op(p, "head").kind = format::OpKind::kConvolution; },
     "ops.output",
     "not on the axis of its windows",
     0,
     "head"},
    {"TokensOfConstants", kBare,
     [](Program& p) {
       uint32_t* const numbers = op(p, "register.rows").numbers;
       numbers[format::EmbeddingOp::kTokens] = numbers[format::EmbeddingOp::kPositions];
     },
     "ops.output", "not on an input's axis", 0, "register.rows"},
    {"AskedOfSequences", kBare,
     [](Program& p) { op(p, "rows").numbers[0] = static_cast<uint32_t>(SelectKind::kAsAsked); },
     "ops.rows", "does not fit its kind", 0, "rows"},
    {"AddTheWrongWay", kMiddle,
     [](Program& p) { std::swap(op(p, "shift").views[0], op(p, "shift").views[1]); }, "ops.input",
     "mixes rows", 0, "shift"},
    {"MultiplyTheWrongWay", kMiddle,
     [](Program& p) { std::swap(op(p, "gated").views[0], op(p, "gated").views[1]); }, "ops.input",
     "mixes rows", 0, "gated"},
    {"CacheOnAnother", kBare, [](Program& p) { p.caches[0].axis = 0; }, "caches.axis",
     "different axes", 0},
    {"FewConstants", kBare, [](Program& p) { p.axes[1].rows = 2; }, "ops.positions", "shorter", 0,
     "register.rows"},
    {"NarrowConstants", kBare,
     [](Program& p) {
       op(p, "register.rows").numbers[format::EmbeddingOp::kPositions] =
           p.add_vector("narrow", std::vector<float>(3 * (kWidth - 1)));
       p.tensors.back().outputs = 3, p.tensors.back().inputs = kWidth - 1;
     },
     "ops.positions", "wrong width", 0, "register.rows"},
    {"FewPositions", kPooled, [](Program& p) { p.axes[3].rows = 3; }, "ops.positions", "shorter", 0,
     "class.rows"},
    {"SmallMask", kBare, [](Program& p) { p.masks[0].positions = kPositions; }, "masks.positions",
     "smaller than", 0},
    {"StateOfSequences", kBare,
     [](Program& p) {
       const uint32_t rows = index_of(p, "rows");
       p.hidden_states = {{rows, p.ops[rows].body.views[format::kOutput]}};
     },
     "hidden_states.view", "a row for each token", 0},
};
// 0 pixels, 1 patches; numbers of "embed" are its tensor, dilation, before and columns.
const BrokenRow kImagesThatAreNone[] = {
    {"NoWholeLines", kPictures, [](Program& p) { p.axes[0].other = 14; }, "axes.rows",
     "whole lines"},
    {"NoLines", kPictures, [](Program& p) { p.axes[0].other = 0; }, "axes.rows", "whole lines"},
    {"ManyPixels", kPictures, [](Program& p) { p.axes[0].rows = UINT32_MAX; }, "axes.rows",
     "too large"},
    {"OtherPositions", kPictures, [](Program& p) { p.inputs[0].positions_max = kImagePixels + 1; },
     "axes.rows", "a whole sequence"},
    {"Parts", kPictures, [](Program& p) { p.inputs[0].tokens_min = kImagePixels - 1; }, "axes.rows",
     "a whole sequence"},
    {"OfAnyLength", kPictures, [](Program& p) { p.inputs[0].tokens_min = 1; }, "axes.rows",
     "a whole sequence"},
    {"OfTokens", kPictures, [](Program& p) { p.inputs[0].vocab_size = 7; }, "axes.rows",
     "a whole sequence"},
    {"OfNoImage", kPictures, [](Program& p) { p.axes[0].rows = p.axes[0].other = 0; },
     "axes.source", "not over an image", 1},
    {"NoPatches", kPictures, [](Program& p) { p.axes[1].rows = 0; }, "axes.rows", "whole lines", 1},
    {"LinesWithoutStride", kPictures, [](Program& p) { p.axes[1].stride = 3 << 16; }, "axes.stride",
     "0 or too large", 1},
    {"ColumnsWithoutStride", kPictures, [](Program& p) { p.axes[1].stride = 2; }, "axes.stride",
     "0 or too large", 1},
    {"Window", kPictures, [](Program& p) { p.axes[1].window = 1; }, "axes.stride", "its kind lacks",
     1},
    {"WindowsOfOneLine", kPictures,
     [](Program& p) { p.axes[1] = {.kind = AxisKind::kWindows, .stride = 2, .window = 2}; },
     "axes.source", "over the pixels of an image", 1},
    {"FewLines", kPictures, [](Program& p) { p.axes[1].rows = 12; }, "ops.dilation",
     "do not fit their axis", 0, "embed"},
    {"ManyLines", kPictures, [](Program& p) { p.axes[1].rows = 4 << 20; }, "ops.dilation",
     "do not fit their axis", 0, "embed"},
    {"FewColumns", kPictures, [](Program& p) { p.axes[1].rows = 12, p.axes[1].other = 3; },
     "ops.dilation", "do not fit their axis", 0, "embed"},
    {"NoDilation", kPictures, [](Program& p) { op(p, "embed").numbers[1] = 1; }, "ops.dilation",
     "do not fit their axis", 0, "embed"},
    {"ColumnsFarApart", kPictures, [](Program& p) { op(p, "embed").numbers[1] = 0xFFFF0001; },
     "ops.dilation", "do not fit their axis", 0, "embed"},
    {"ManyZeros", kPictures, [](Program& p) { op(p, "embed").numbers[2] = 0x20000; },
     "ops.dilation", "do not fit their axis", 0, "embed"},
    {"NoColumns", kPictures, [](Program& p) { op(p, "embed").numbers[3] = 0; }, "ops.columns",
     "not made of whole lines", 0, "embed"},
    {"PartsOfLines", kPictures, [](Program& p) { op(p, "embed").numbers[3] = 4; }, "ops.columns",
     "not made of whole lines", 0, "embed"},
    {"OtherRows", kPictures, [](Program& p) { p.axes[1].source = 1; }, "axes.source",
     "does not precede it", 1},
};
constexpr auto name_of_row = [](const auto& info) { return std::string(info.param.name); };
INSTANTIATE_TEST_SUITE_P(Axes, BrokenRows, testing::ValuesIn(kAxesThatAreNone), name_of_row);
INSTANTIATE_TEST_SUITE_P(Ops, BrokenRows, testing::ValuesIn(kOpsOnOthers), name_of_row);
INSTANTIATE_TEST_SUITE_P(Images, BrokenRows, testing::ValuesIn(kImagesThatAreNone), name_of_row);

TEST(OtherRowsOfFiles, PassTheirSelfTest) {
  for (const Form& form : {kPooled, Form{true}, kPictures, Form{false, true}, Form{true, true},
                           Form{true, false, SelectKind::kMean}, kMiddle, kTurns, kFixed}) {
    const convert::Program program = convert::compile(graph_of(form), "rows");
    const TestModel model(convert::pack_model(program, {Target::kPortable}, "rows").span(),
                          Target::kPortable);
    const TestSession session(*model, options_for(form.tokens(kPositions)));
    const Result<SelfTest> test = session->self_test();
    ASSERT_TRUE(test.ok());
    EXPECT_TRUE(test->passed) << test->op_name;
    EXPECT_EQ(test->difference, 0.0f);
  }
}

TEST(OtherRowsOfFiles, TestThemselvesWithAWholeImage) {
  const convert::Program program = convert::compile(graph_of(kPictures), "rows");
  const convert::AlignedBytes sound = convert::pack_model(program, {Target::kPortable}, "rows");
  ModelSurgery file(sound.span());
  format::SelfTestView record = format::ModelReader(file.file()).self_test();
  --record.tokens;
  file.overwrite(file.model().self_test(), record);
  file.repair();
  expect_refusal(file.file(), {"self_test.tokens", "a length that the model does not take"});
}

// A prefix and the tokens of a call are counted together, in 32 bits.
TEST(OtherRowsOfPlans, RefuseCountsBeyond32Bits) {
  convert::Program program =
      convert::compile(graph_of({true, false, SelectKind::kAsAsked, 0, false}), "rows");
  program.inputs[0].positions_max = 0;
  const TestModel model(convert::write_model(program, {Target::kPortable}).span(),
                        Target::kPortable);
  SessionOptions options = options_for(1u << 30, 4);
  options.tokens_max = UINT32_MAX - 1;
  Diagnostic why;
  EXPECT_EQ(plan_arena(*model, options, &why).status(), Status::kInvalidArgument);
  EXPECT_STREQ(why.field, "options.tokens_max");
  EXPECT_EQ(why.index, 0u);
  options = options_for(kPositionsLimit - 1);
  options.tokens_max = 1;
  EXPECT_EQ(plan_arena(*model, options, &why).status(), Status::kInvalidArgument);
  EXPECT_STREQ(why.field, "options.positions_max");
  EXPECT_EQ(why.found, kPositionsLimit - 1);
  EXPECT_EQ(why.expected, kPositionsLimit);
}

// The inputs of a concatenation of rows lie in place, within its result, and take no memory of
// their own.
TEST(OtherRowsOfPlans, PartsShareTheAreaOfTheirConcatenation) {
  const convert::Program program = convert::compile(graph_of({}), "rows");
  const TestModel model(convert::write_model(program, {Target::kPortable}).span(),
                        Target::kPortable);
  const format::ModelReader reader(model->file());
  uint32_t parts = 0;
  for (uint32_t axis = 0; axis < reader.axes().size(); ++axis) {
    if (reader.area_of(axis) == axis) continue;
    ++parts;
    EXPECT_EQ(reader.formula(0).axes[axis].activations, 0u) << axis;
  }
  EXPECT_GT(parts, 0u);
}

}  // namespace
}  // namespace arenite::test
