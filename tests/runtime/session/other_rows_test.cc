// SPDX-License-Identifier: Apache-2.0
// Sequences that begin with rows of constants, and those whose tokens are the patches of an image:
// against the reference, in every form of batch, token by token, and with an arena of no byte more.
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
#include "runtime/format/verify_fixture.h"
#include "runtime/session/rows_fixture.h"
#include "support/compare.h"
#include "support/kernel_sets.h"
#include "support/model_factory.h"
#include "support/pool.h"
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

std::vector<float> numbers(size_t count) { return random_floats(count, 7); }

void expect_same_bits(std::span<const float> found, std::span<const float> expected) {
  EXPECT_TRUE(same_bits(found, expected));
}

void expect_near(const std::vector<float>& found, const std::vector<double>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 2e-5) << i;
}

TEST_P(OtherRows, AreThoseOfTheReference) {
  using enum SelectKind;
  for (const Form& form : {Form{}, Form{false, false, kFirst}, Form{false, false, kFirst, 1},
                           Form{false, false, kMean}, Form{false, false, kMean, kPrefix},
                           Form{false, false, kMax, 2}, Form{true}, Form{false, true, kMean, 1}}) {
    const TestModel model = load(form);
    const uint32_t tokens = form.images ? 16 : 11;
    const std::vector<float> fed =
        numbers(form.images ? image_shape(*model).pixels() : tokens * kFeatures);
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
  for (const Form& form : {Form{}, Form{false, false, SelectKind::kMean, 1}}) {
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

// Rows that a mask leaves out keep their place, and the prefix has all of its own.
TEST_P(OtherRows, LeaveGapsOut) {
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
}

TEST_P(OtherRows, ComeOnceWhereTokensComeInSteps) {
  const TestModel model = load({true});
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
  const std::vector<float> rest = session.step(std::span<const float>(fed).subspan(5 * kFeatures));
  expect_same_bits(rest, std::span<const float>(expected).last(rest.size()));
  EXPECT_EQ(session->rewind(0, 0), Status::kOk);
  expect_same_bits(session.step(fed), expected);
  EXPECT_EQ(session->step(std::span<const float>(fed).first(kFeatures)).status(),
            Status::kContextFull);
}

TEST_P(OtherRows, TakeNoByteMoreThanPlanned) {
  for (const Form& form : {Form{}, Form{true}, Form{false, true, SelectKind::kFirst}}) {
    const TestModel model = load(form);
    for (const uint32_t sequences : {1u, 2u, 5u}) {
      for (const uint32_t tokens : {0u, 1u, 16u}) {
        if (form.images && tokens == 1) continue;
        SessionOptions options = options_for(16, sequences);
        options.tokens_max = tokens;
        options.outputs = Outputs::kAll;
        const Result<ArenaPlan> plan = plan_arena(*model, options);
        ASSERT_TRUE(plan.ok());
        const TestSession session(*model, options);  // in as many bytes, before a guard page
        const uint32_t most = tokens == 0 ? 16 * sequences : tokens;
        std::vector<uint32_t> lengths(sequences, most / sequences);
        lengths[0] += most % sequences;
        if (lengths[0] > 16) lengths[0] = 16;
        if (form.images) lengths.clear();
        const uint32_t count = form.images ? most / 16 : sequences;
        const std::vector<float> fed =
            numbers(form.images ? count * image_shape(*model).pixels() : count * 16 * kFeatures);
        EXPECT_TRUE(session->run(Batch{fed, count, 16, lengths}).ok());
        convert::AlignedBytes arena(plan->total_bytes);
        const std::span<std::byte> less = arena.span().first(plan->total_bytes - 1);
        EXPECT_EQ(Session::create(*model, options, less).status(), Status::kArenaTooSmall);
      }
    }
  }
}

TEST_P(OtherRows, ImagesAreSequencesOfTheirOwn) {
  const TestModel model = load({false, true, SelectKind::kMean, kPrefix});
  const ImageShape image = image_shape(*model);
  EXPECT_EQ(image.patches, 16u);
  EXPECT_EQ(image.pixels(), 2u * 9 * 13);
  EXPECT_EQ(model->input_features(), 12u);
  const std::vector<float> fed = numbers(3 * image.pixels());
  const TestSession session(*model, options_for(16, 3));
  const std::vector<float> all = values_of(session->run(Batch{fed, 3}));
  const TestSession alone(*model, options_for(16));
  for (size_t i = 0; i < 3; ++i) {
    alone->reset();
    const auto own = std::span<const float>(fed).subspan(i * image.pixels(), image.pixels());
    const std::vector<float> found = values_of(alone->step(own));
    expect_same_bits(found, std::span<const float>(all).subspan(i * 4, 4));
  }
  Diagnostic why;
  const std::vector<uint32_t> lengths = {16, 16, 4};
  EXPECT_EQ(session->run(Batch{fed, 3, 16, lengths}, &why).status(), Status::kInvalidArgument);
  EXPECT_STREQ(why.field, "batch.lengths");
  const std::vector<uint8_t> visible(3 * 16, 1);
  EXPECT_EQ(session->run(Batch{fed, 3, 16, {}, visible}, &why).status(), Status::kInvalidArgument);
  EXPECT_STREQ(why.field, "batch.lengths");
  EXPECT_EQ(session->run(Batch{fed, 3, 15}, &why).status(), Status::kInvalidArgument);
  EXPECT_STREQ(why.field, "batch.tokens");
  EXPECT_EQ(session->run(Batch{std::span(fed).first(fed.size() - 1), 3}, &why).status(),
            Status::kInvalidArgument);
  EXPECT_STREQ(why.field, "batch.features");
  const std::vector<TokenId> ids(16);
  EXPECT_EQ(session->run(TokenBatch{ids, 1, 16}).status(), Status::kInvalidArgument);
  EXPECT_EQ(session->run(TokenBatch{ids, 1, 0}).status(), Status::kInvalidArgument);
  EXPECT_EQ(image_shape(*load({})).channels, 0u);
}

// ---- files that say otherwise ----

struct BrokenRow {
  const char* name;
  Form form;
  const char* op;
  std::vector<std::pair<uint32_t, uint32_t>> numbers;  // place and value
  const char* field;
  const char* words;
  const char* refused_at = nullptr;  // where that is another op
};

class BrokenRows : public testing::TestWithParam<BrokenRow> {};

TEST_P(BrokenRows, AreRefused) {
  const BrokenRow& broken = GetParam();
  convert::Program program = convert::compile(graph_of(broken.form), "rows");
  const auto index_of = [&](const std::string& name) {
    uint32_t index = 0;
    while (program.ops.at(index).name != name) ++index;
    return index;
  };
  for (const auto& [place, value] : broken.numbers) {
    program.ops[index_of(broken.op)].body.numbers[place] = value;
  }
  const uint32_t index = index_of(broken.refused_at != nullptr ? broken.refused_at : broken.op);
  expect_refusal(convert::write_model(program, {Target::kPortable}).span(),
                 {broken.field, broken.words, index});
}

constexpr Form kPooled = {false, false, SelectKind::kMean, 1};
constexpr Form kBare = {false, false, SelectKind::kMean, 1, false};
constexpr Form kPictures = {false, true, SelectKind::kMean, 1};
INSTANTIATE_TEST_SUITE_P(
    Verify, BrokenRows,
    testing::Values(
        BrokenRow{"Tensor", kPooled, "class", {{0, 99}}, "ops.prefix", "not there"},
        BrokenRow{"Matrix", kPooled, "class", {{0, 0}}, "ops.prefix", "another layout"},
        BrokenRow{"LaterTensor", kPooled, "register", {{0, 99}}, "ops.prefix", "not there"},
        BrokenRow{"Tables", kPooled, "register", {{1, 3}}, "ops.positions", "shorter", "positions"},
        BrokenRow{
            "Overflow", kPooled, "register", {{1, ~0u}}, "ops.positions", "shorter", "positions"},
        BrokenRow{"Many", kBare, "register", {{1, 65536}}, "ops.prefix", "more rows"},
        BrokenRow{"Most", kBare, "register", {{1, ~0u}}, "ops.prefix", "more rows"},
        BrokenRow{"PassesOver", kPooled, "rows", {{1, 4}}, "ops.first_row", "not of the prefix"},
        BrokenRow{"OfTokens", {true}, "rows", {{1, 1}}, "ops.first_row", "not of the prefix"},
        BrokenRow{"NoChannels", kPictures, "features", {{0, 0}}, "ops.height", "no patches"},
        BrokenRow{"NoPatch", kPictures, "features", {{3, 0}}, "ops.height", "no patches"},
        BrokenRow{"TallPatch", kPictures, "features", {{3, 10}}, "ops.height", "no patches"},
        BrokenRow{"NoWidth", kPictures, "features", {{4, 0}}, "ops.height", "no patches"},
        BrokenRow{"WidePatch", kPictures, "features", {{4, 14}}, "ops.height", "no patches"},
        BrokenRow{"Large", kPictures, "features", {{1, UINT32_MAX}}, "ops.height", "too large"},
        BrokenRow{"Count", kPictures, "features", {{2, 100}}, "ops.patch_height", "positions"},
        BrokenRow{"Width", kPictures, "features", {{0, 3}}, "ops.output", "another width"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(OtherRowsOfFiles, HaveAPlaceForEachRow) {
  convert::Program program = convert::compile(graph_of(kBare), "rows");
  program.positions_max = UINT32_MAX - 2;
  expect_refusal(convert::write_model(program, {Target::kPortable}).span(),
                 {"signature.positions_max",
                  "no position is left",
                  1,
                  {{UINT32_MAX - 2, UINT32_MAX - kPagePositions - kPrefixRowsMax}}});
}

TEST(OtherRowsOfFiles, AreCutOnceAndFirst) {
  convert::Program program = convert::compile(graph_of(kPictures), "rows");
  convert::Program tokens = program;
  tokens.vocab_size = 7;
  expect_refusal(convert::write_model(tokens, {Target::kPortable}).span(),
                 {"ops.kind", "instead of tokens", 0});
  const uint32_t last = static_cast<uint32_t>(program.ops.size());
  program.slots[program.output_slot].last_op = last;
  program.slots.push_back({program.slots[program.input_slot].width, 500, last, last});
  format::OpView again = program.ops[0].body;
  again.views[format::kOutput].slot = static_cast<uint32_t>(program.slots.size()) - 1;
  program.ops.push_back({"again", again});
  expect_refusal(convert::write_model(program, {Target::kPortable}).span(),
                 {"ops.kind", "by the first op", last});
}

TEST(OtherRowsOfFiles, ArePutIntoColumnsOfTheirOwnWidth) {
  convert::Program program = convert::compile(graph_of(kBare), "rows");
  uint32_t index = 0;
  while (program.ops.at(index).name != "class") ++index;
  program.ops[index].body.views[format::kOutput] = {static_cast<uint32_t>(program.slots.size()), 0,
                                                    kWidth - 1};
  program.slots.push_back({kWidth - 1, 500, index, index});
  expect_refusal(convert::write_model(program, {Target::kPortable}).span(),
                 {"ops.output", "another width", index});
  convert::ProgramTensor& rows = program.tensors[program.ops[index].body.numbers[0]];
  rows.inputs = kWidth + 1;
  rows.load = [] { return std::vector<float>(kPrefix * (kWidth + 1)); };
  expect_refusal(convert::write_model(program, {Target::kPortable}).span(),
                 {"ops.input", "another width", index});
}

TEST(OtherRowsOfFiles, PassTheirSelfTest) {
  for (const Form& form : {kPooled, Form{true}, kPictures, Form{false, true}, Form{true, true},
                           Form{true, false, SelectKind::kMean}}) {
    const convert::Program program = convert::compile(graph_of(form), "rows");
    const TestModel model(convert::pack_model(program, {Target::kPortable}, "rows").span(),
                          Target::kPortable);
    const TestSession session(
        *model,
        options_for(kPositions > model->positions_max() ? model->positions_max() : kPositions));
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
  expect_refusal(file.file(), {"self_test.tokens", "is an image"});
}

// A prefix and the tokens of a call are counted together, in 32 bits.
TEST(OtherRowsOfPlans, AreNoMoreThanCanBeCounted) {
  convert::Program program =
      convert::compile(graph_of({true, false, SelectKind::kAsAsked, 0, false}), "rows");
  program.positions_max = 0;
  const TestModel model(convert::write_model(program, {Target::kPortable}).span(),
                        Target::kPortable);
  SessionOptions options = options_for(1u << 30, 4);
  options.tokens_max = UINT32_MAX - 1;
  Diagnostic why;
  EXPECT_EQ(plan_arena(*model, options, &why).status(), Status::kInvalidArgument);
  EXPECT_STREQ(why.field, "options.tokens_max");
  EXPECT_EQ(why.index, 0u);
}

}  // namespace
}  // namespace arenite::test
