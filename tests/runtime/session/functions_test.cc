// SPDX-License-Identifier: Apache-2.0
// Models with several inputs and functions: an encoder whose keys and values a decoder attends to,
// and two inputs of one function. Compares all ways of calling them with the reference.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "arenite/image.h"
#include "convert/check/pack_model.h"
#include "convert/graph/interpreter.h"
#include "convert/program/program.h"
#include "convert/program/weights.h"
#include "convert/program/writer.h"
#include "runtime/format/verify_fixture.h"
#include "runtime/session/functions_fixture.h"
#include "support/compare.h"
#include "support/kernel_sets.h"
#include "support/model_factory.h"
#include "support/pool.h"
#include "support/smallest_slice.h"
#include "support/test_session.h"

namespace arenite::test {
namespace {

using convert::Graph;
using convert::Program;

SessionOptions options_of(uint32_t memory, uint32_t text, uint32_t sequences = 1) {
  SessionOptions options = options_for(memory, sequences);
  options.others[0].positions_max = text;
  return options;
}

std::vector<float> features_of(size_t tokens, uint64_t seed = 3) {
  return random_floats(tokens * kFeatures, seed);
}
std::vector<TokenId> text(size_t tokens, uint32_t seed = 0) {
  std::vector<TokenId> ids(tokens);
  for (size_t i = 0; i < tokens; ++i) ids[i] = static_cast<TokenId>((i * 7 + seed) % kVocabulary);
  return ids;
}

class Functions : public testing::TestWithParam<Target> {
 protected:
  static TestModel load(const FunctionParts& parts, TensorType kv_cache = TensorType::kF32) {
    Program program = convert::compile(functions_graph(parts), "functions");
    program.kv_cache = kv_cache;
    return TestModel(convert::write_model(program, {GetParam()}).span(), GetParam());
  }

  static Result<Output> encode(Session& session, std::span<const float> memory,
                               uint32_t sequences = 1, std::span<const uint32_t> lengths = {}) {
    const auto tokens = static_cast<uint32_t>(memory.size() / kFeatures / sequences);
    const Input input = Batch{memory, sequences, tokens, lengths};
    return session.run(kEncode, {&input, 1});
  }
  static Result<Output> step(Session& session, std::span<const TokenId> ids, uint32_t sequences = 1,
                             std::span<const uint32_t> lengths = {}) {
    const auto tokens = static_cast<uint32_t>(ids.size() / sequences);
    const Input input = TokenBatch{ids, sequences, tokens, lengths};
    return session.step(kStep, {&input, 1});
  }
  // The rows of one sequence by itself.
  static std::vector<float> alone(const Model& model, std::span<const float> memory,
                                  std::span<const TokenId> ids, KvType kv = KvType::kOfModel) {
    SessionOptions options = options_of(static_cast<uint32_t>(memory.size() / kFeatures),
                                        static_cast<uint32_t>(ids.size()));
    options.outputs = Outputs::kAll;
    options.kv_cache = kv;
    const TestSession session(model, options);
    EXPECT_TRUE(encode(*session, memory).ok());
    return values_of(step(*session, ids));
  }
};
ARENITE_FOR_EACH_FLOAT_SET(Functions);

void expect_close(const std::vector<float>& found, const std::vector<double>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  double largest = 0.0;
  for (const double value : expected) largest = std::max(largest, std::fabs(value));
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 2e-6 * largest) << i;
}

void expect_equal_bits(const std::vector<float>& found, std::span<const float> expected) {
  EXPECT_TRUE(same_bits(found, expected));
}

void expect_invalid(Status status, const Diagnostic& why, const char* field, const char* words) {
  EXPECT_EQ(status, Status::kInvalidArgument) << describe(status, why);
  ASSERT_NE(why.field, nullptr);
  EXPECT_STREQ(why.field, field);
  EXPECT_NE(std::string(why.reason).find(words), std::string::npos) << why.reason;
}

TEST_P(Functions, AgreeWithTheReference) {
  for (const FunctionParts& parts :
       {FunctionParts{}, FunctionParts{true}, FunctionParts{.whole_text = true}, kWindowed,
        FunctionParts{.whole_text = true, .windows = true, .pooled = true}}) {
    const TestModel model = load(parts);
    const Graph reference = convert::with_stored_weights(functions_graph(parts));
    // More than a page of keys, and a part of a panel.
    for (const uint32_t tokens : {1u, 9u, 530u}) {
      const std::vector<float> memory = features_of(tokens);
      const std::vector<TokenId> ids = text(13);
      const convert::SequenceInput fed[] = {{{}, {}, memory}, {ids}};
      expect_close(alone(*model, memory, ids), convert::evaluate(reference, fed).values);
    }
  }
}

TEST_P(Functions, AddABiasForEachPairOfTokensOfTwoInputs) {
  const FunctionParts parts{.pairs = true};
  const TestModel model = load(parts);
  const Graph reference = convert::with_stored_weights(functions_graph(parts));
  for (const uint32_t tokens : {1u, 9u, kMemoryOfPairs}) {
    const std::vector<float> memory = features_of(tokens);
    const std::vector<TokenId> ids = text(13);
    const convert::SequenceInput fed[] = {{{}, {}, memory}, {ids}};
    expect_close(alone(*model, memory, ids), convert::evaluate(reference, fed).values);
  }
}

TEST_P(Functions, OneFunctionTakesTwoInputs) {
  const FunctionParts parts{.together = true};
  const TestModel model = load(parts);
  ASSERT_EQ(model->functions(), 1u);
  EXPECT_EQ(model->function(0).inputs, 3u);
  EXPECT_FALSE(model->function(0).causal);
  const Graph reference = convert::with_stored_weights(functions_graph(parts));
  const std::vector<uint32_t> memory_lengths = {3, 0, 7}, lengths = {5, 0, 2};
  const std::vector<float> memory = features_of(3 * 7);
  const std::vector<TokenId> ids = text(3 * 5);
  std::vector<double> expected;
  for (const size_t s : {0u, 2u}) {
    const convert::SequenceInput fed[] = {
        {{}, {}, std::span(memory).subspan(s * 7 * kFeatures, memory_lengths[s] * kFeatures)},
        {std::span(ids).subspan(s * 5, lengths[s])}};
    const std::vector<double> rows = convert::evaluate(reference, fed).values;
    expected.insert(expected.end(), rows.begin(), rows.end());
  }
  SessionOptions options = options_of(7, 5, 3);
  options.outputs = Outputs::kAll;
  const TestSession session(*model, options);
  const Input inputs[] = {Batch{memory, 3, 7, memory_lengths}, TokenBatch{ids, 3, 5, lengths}};
  expect_close(values_of(session->run(0, inputs)), expected);
  EXPECT_EQ(session->positions(2, kMemory), 7u);
  EXPECT_EQ(session->positions(2, kText), 2u);
  Diagnostic why;
  EXPECT_EQ(session->step(0, inputs, &why).status(), Status::kUnsupported) << "whole sequences";
}

TEST_P(Functions, ReadImages) {
  const FunctionParts parts{.image = true};
  const TestModel model = load(parts);
  const ImageShape image = image_shape(*model, kMemory);
  EXPECT_EQ(image.tokens(), kImagePixels);
  EXPECT_EQ(image_shape(*model, kText).channels, 0u);
  EXPECT_EQ(model->input(kMemory).features, kImageChannels);
  const std::vector<float> pixels = random_floats(size_t{kImagePixels} * kImageChannels, 5);
  const std::vector<TokenId> ids = text(6);
  SessionOptions options = options_of(kImagePixels, 6);
  options.outputs = Outputs::kAll;
  const TestSession session(*model, options);
  const Input input = Batch{pixels, 1, kImagePixels};
  ASSERT_TRUE(session->run(kEncode, {&input, 1}).ok());
  const convert::SequenceInput fed[] = {{{}, {}, pixels}, {ids}};
  const Graph reference = convert::with_stored_weights(functions_graph(parts));
  expect_close(values_of(step(*session, ids)), convert::evaluate(reference, fed).values);
}

TEST_P(Functions, DescribeThemselves) {
  const TestModel model = load({});
  ASSERT_EQ(model->inputs(), 2u);
  EXPECT_STREQ(model->input(kMemory).name, "memory");
  EXPECT_EQ(model->input(kMemory).features, kFeatures);
  EXPECT_EQ(model->input(kMemory).positions_max, 0u);
  EXPECT_STREQ(model->input(kText).name, "text");
  EXPECT_EQ(model->input(kText).vocab_size, kVocabulary);
  EXPECT_EQ(model->input(kText).positions_max, kTextPositions);
  ASSERT_EQ(model->functions(), 2u);
  const FunctionInfo encoder = model->function(kEncode), decoder = model->function(kStep);
  EXPECT_STREQ(encoder.name, "encode");
  EXPECT_EQ(encoder.inputs, 1u);
  EXPECT_EQ(encoder.inputs_read, 0u);
  EXPECT_FALSE(encoder.causal);
  EXPECT_EQ(encoder.output_features, kWidth);
  EXPECT_EQ(decoder.inputs, 2u);
  EXPECT_EQ(decoder.inputs_read, 1u);
  EXPECT_TRUE(decoder.causal);
  EXPECT_EQ(decoder.output_features, kVocabulary);
  EXPECT_EQ(decoder.first_op, encoder.ops);
  EXPECT_EQ(encoder.ops + decoder.ops, model->ops());
  EXPECT_EQ(model->find_function("step"), kStep);
  for (const char* const none : {"run", "ste", "steps", "shop", ""}) {
    EXPECT_EQ(model->find_function(none), 2u) << none;
  }
  EXPECT_FALSE(format::ModelReader(model->file()).has_one_function());
  const TestModel one(make_model(spec_named("causal")).span(), Target::kPortable);
  EXPECT_TRUE(format::ModelReader(one->file()).has_one_function());
}

TEST_P(Functions, StepsTokenByTokenEqualOnePass) {
  for (const auto& [parts, kv] :
       {std::pair(FunctionParts{}, TensorType::kF32), std::pair(FunctionParts{}, TensorType::kInt8),
        std::pair(kWindowed, TensorType::kF32)}) {
    const TestModel model = load(parts, kv);
    const std::vector<float> memory = features_of(37);
    const std::vector<TokenId> ids = text(kTextPositions);
    const std::vector<float> expected = alone(*model, memory, ids);
    SessionOptions options = options_of(40, kTextPositions);
    options.outputs = Outputs::kAll;
    const TestSession session(*model, options);
    ASSERT_TRUE(encode(*session, memory).ok());
    EXPECT_EQ(session->output(kEncode).rows, 37u);
    for (const size_t chunk : {1u, 5u}) {
      ASSERT_EQ(session->rewind_input(kText, 0, 0), Status::kOk);
      std::vector<float> found;
      for (size_t i = 0; i < ids.size(); i += chunk) {
        const size_t count = std::min(chunk, ids.size() - i);
        const std::vector<float> rows = values_of(step(*session, std::span(ids).subspan(i, count)));
        found.insert(found.end(), rows.begin(), rows.end());
      }
      expect_equal_bits(found, expected);
    }
    EXPECT_EQ(session->output(kEncode).rows, 0u) << "the last call was another's";
    EXPECT_EQ(session->output(kStep).rows, session->output().rows);
    EXPECT_EQ(session->positions(0, kText), kTextPositions);
    EXPECT_EQ(step(*session, text(1)).status(), Status::kContextFull);
  }
}

TEST_P(Functions, ACausalEncoderTakesTokensInSteps) {
  const TestModel model = load({true});
  const std::vector<float> memory = features_of(20);
  const std::vector<TokenId> ids = text(6);
  const std::vector<float> expected = alone(*model, memory, ids);
  SessionOptions options = options_of(20, 6);
  options.outputs = Outputs::kAll;
  const TestSession session(*model, options);
  for (uint32_t i = 0; i < 20; i += 5) {
    const Input input = Batch{std::span(memory).subspan(i * kFeatures, 5 * kFeatures), 1, 5};
    ASSERT_TRUE(session->step(kEncode, {&input, 1}).ok());
  }
  expect_equal_bits(values_of(step(*session, ids)), expected);
}

// Rows after the kept ones hold old data, which must not matter.
TEST_P(Functions, RewindDropsTheLastRowsOfAMemory) {
  const TestModel model = load({true});
  const std::vector<float> memory = features_of(514);
  SessionOptions options = options_of(514, 4);
  options.outputs = Outputs::kAll;
  for (const KvType kv : {KvType::kF32, KvType::kInt8}) {
    options.kv_cache = kv;
    for (const uint32_t left : {513u, 512u, 511u, 40u, 1u}) {
      const std::span<const float> rest = std::span(memory).first(left * kFeatures);
      const std::vector<float> expected = alone(*model, rest, text(4), kv);
      for (const int fill : {0x00, 0x55, 0xFF}) {
        const TestSession session(*model, options, Guard::kBehind, static_cast<uint8_t>(fill));
        ASSERT_TRUE(encode(*session, memory).ok());
        ASSERT_EQ(session->rewind_input(kMemory, 0, left), Status::kOk);
        EXPECT_TRUE(same_bits(values_of(step(*session, text(4))), expected)) << left << " " << fill;
      }
    }
  }
}

TEST_P(Functions, EachSequenceSeesItsOwnMemory) {
  for (const KvType kv : {KvType::kF32, KvType::kInt8}) {
    const TestModel model = load({});
    const std::vector<uint32_t> memory_lengths = {5, 1, 33}, lengths = {4, 9, 2};
    const std::vector<float> memory = features_of(3 * 33);
    const std::vector<TokenId> ids = text(3 * 9, 4);
    std::vector<float> expected;
    for (size_t s = 0; s < 3; ++s) {
      const std::vector<float> rows = alone(
          *model, std::span(memory).subspan(s * 33 * kFeatures, memory_lengths[s] * kFeatures),
          std::span(ids).subspan(s * 9, lengths[s]), kv);
      expected.insert(expected.end(), rows.begin(), rows.end());
    }
    for (const uint32_t threads : {1u, 3u}) {
      Pool pool(threads);
      SessionOptions options = options_of(33, 9, 4);
      options.outputs = Outputs::kAll;
      options.kv_cache = kv;
      options.parallel = pool.parallel_for();
      const TestSession session(*model, options);
      ASSERT_TRUE(encode(*session, memory, 3, memory_lengths).ok());
      expect_equal_bits(values_of(step(*session, ids, 3, lengths)), expected);
      // One of them alone goes on, and another begins anew with the memory of the first.
      ASSERT_EQ(session->copy_sequence(0, 1), Status::kOk);
      EXPECT_EQ(session->positions(1, kMemory), 5u);
      EXPECT_EQ(session->positions(1, kText), 4u);
      const std::vector<TokenId> next = text(2, 9);
      const std::vector<float> both = values_of(step(*session, next, 2, std::vector{1u, 1u}));
      const std::vector<TokenId> same = {next[0], next[0]};
      ASSERT_EQ(session->rewind_input(kText, 0, 4), Status::kOk);
      ASSERT_EQ(session->rewind_input(kText, 1, 4), Status::kOk);
      const std::vector<float> twice = values_of(step(*session, same, 2, std::vector{1u, 1u}));
      expect_equal_bits(std::vector(twice.begin(), twice.begin() + kVocabulary),
                        std::span(both).first(kVocabulary));
      expect_equal_bits(std::vector(twice.begin() + kVocabulary, twice.end()),
                        std::span(both).first(kVocabulary));
    }
  }
}

TEST_P(Functions, RefuseADecoderBeforeItsEncoder) {
  const TestModel model = load({});
  const TestSession session(*model, options_of(8, 8, 2));
  Diagnostic why;
  const std::vector<TokenId> ids = text(3);
  const Input tokens = TokenBatch{ids, 1, 3};
  expect_invalid(session->step(kStep, {&tokens, 1}, &why).status(), why, "inputs",
                 "of which the sequence has no tokens");
  expect_invalid(session->run(kStep, {&tokens, 1}, &why).status(), why, "function", "step it");
  expect_invalid(session->run(2, {&tokens, 1}, &why).status(), why, "function", "no such function");
  expect_invalid(session->run(kEncode, {}, &why).status(), why, "inputs", "number of inputs");
  expect_invalid(session->run(kEncode, {&tokens, 1}, &why).status(), why, "batch", "not tokens");
  expect_invalid(session->run(TokenBatch{ids, 1, 3}, &why).status(), why, "function", "name one");
  expect_invalid(session->begin_step(TokenBatch{ids, 1, 3}, &why), why, "function", "name one");

  const std::vector<float> memory = features_of(4);
  ASSERT_TRUE(encode(*session, memory).ok());
  const std::vector<TokenId> two = text(2);
  const Input both = TokenBatch{two, 2, 1};
  expect_invalid(session->step(kStep, {&both, 1}, &why).status(), why, "inputs",
                 "of which the sequence has no tokens");
  EXPECT_EQ(why.index, 1u);
  EXPECT_EQ(session->positions(0, kText), 0u) << "nothing has changed";
  const std::vector<float> expected = values_of(step(*session, ids));
  expect_invalid(session->run(kStep, {&tokens, 1}, &why).status(), why, "function", "step it");
  EXPECT_EQ(session->positions(0, kMemory), 4u);
  // Rewinding the memory input also forgets the text positions computed from it.
  ASSERT_EQ(session->rewind_input(kMemory, 0, 0), Status::kOk);
  EXPECT_EQ(session->positions(0, kText), 0u);
  EXPECT_FALSE(step(*session, ids).ok());
  expect_invalid(session->rewind_input(2, 0, 0, &why), why, "input", "no such input");
  expect_invalid(session->rewind_input(kText, 2, 0, &why), why, "sequence", "no such sequence");
  expect_invalid(session->copy_sequence(0, 2, &why), why, "sequence", "no such sequence");
  ASSERT_TRUE(encode(*session, memory).ok());
  expect_equal_bits(values_of(step(*session, ids)), expected);
}

// Refused calls leave no trace: what follows has the bits of a session that they were not made in.
TEST_P(Functions, RefusedCallsLeaveNoTrace) {
  const TestModel model = load({});
  const std::vector<float> memory = features_of(8), longer = features_of(9);
  const std::vector<TokenId> ids = text(6);
  SessionOptions options = options_of(8, 6);
  options.outputs = Outputs::kAll;
  const TestSession session(*model, options);
  ASSERT_TRUE(encode(*session, memory).ok());
  std::vector<float> found = values_of(step(*session, std::span(ids).first(2)));
  EXPECT_EQ(encode(*session, longer).status(), Status::kContextFull);
  const Input fed = Batch{memory, 1, 8};
  Diagnostic why;
  EXPECT_EQ(session->step(kEncode, {&fed, 1}, &why).status(), Status::kContextFull);
  const std::vector<TokenId> many = text(5);
  EXPECT_EQ(step(*session, many).status(), Status::kContextFull);
  const Input tokens = TokenBatch{ids, 1, 6}, twice[] = {tokens, tokens};
  expect_invalid(session->step(2, {&tokens, 1}, &why).status(), why, "function", "no such");
  expect_invalid(session->begin_step(UINT32_MAX, {&tokens, 1}, &why), why, "function", "no such");
  expect_invalid(session->step(kStep, twice, &why).status(), why, "inputs", "number of inputs");
  expect_invalid(session->step(kStep, {&fed, 1}, &why).status(), why, "batch", "not features");
  EXPECT_EQ(step(*session, ids, 1, std::vector{7u}).status(), Status::kInvalidArgument);
  EXPECT_EQ(session->positions(0, kMemory), 8u);
  EXPECT_EQ(session->positions(0, kText), 2u);
  const std::vector<float> rest = values_of(step(*session, std::span(ids).subspan(2)));
  found.insert(found.end(), rest.begin(), rest.end());
  expect_equal_bits(found, alone(*model, memory, ids));
}

TEST_P(Functions, RefuseInputsThatDoNotFit) {
  const TestModel model = load({.together = true});
  const TestSession session(*model, options_of(8, 8, 2));
  Diagnostic why;
  const std::vector<float> memory = features_of(2 * 8);
  const std::vector<TokenId> ids = text(2 * 8);
  const Batch first{memory, 2, 8};
  const auto run = [&](const Batch& batch, const TokenBatch& tokens) {
    const Input inputs[] = {batch, tokens};
    return session->run(0, inputs, &why).status();
  };
  EXPECT_EQ(run(first, {ids, 2, 8}), Status::kOk);
  const std::vector<float> before = {session->output().data,
                                     session->output().data + 2 * kVocabulary};
  expect_invalid(run(first, {ids, 1, 16}), why, "batch.sequences", "different numbers");
  const std::vector<uint32_t> gap = {8, 0};
  expect_invalid(run(first, {ids, 2, 8, gap}), why, "inputs", "of one input and none of another");
  expect_invalid(run({memory, 2, 8, gap}, {ids, 2, 8}), why, "inputs", "none of another");
  const std::vector<TokenId> longer = text(2 * 9);
  EXPECT_EQ(run(first, {longer, 2, 9}), Status::kContextFull);
  const std::vector<uint8_t> visible(16, 1);
  EXPECT_EQ(run(first, {ids, 2, 8, {}, visible}), Status::kUnsupported);
  EXPECT_STREQ(why.field, "batch.visible");
  const Output output = session->output();
  expect_invalid(run({{output.data, 2 * kFeatures}, 2, 1}, {ids, 2, 8}), why, "batch.features",
                 "in the arena");
  const Input one = first;
  expect_invalid(session->run(0, {&one, 1}, &why).status(), why, "inputs", "number of inputs");
  expect_equal_bits(before, {session->output().data, 2 * kVocabulary});
  EXPECT_EQ(session->positions(1, kMemory), 8u);
}

// With both inputs in one function, rows of the text attend to all rows of the encoder.
TEST_P(Functions, JointOnesTakeWholeSequences) {
  Program program = convert::compile(functions_graph({true}), "one");
  program.functions[0].inputs = 3;
  program.functions[0].output_slot = program.functions[1].output_slot;
  program.functions.resize(1);
  const TestModel model(convert::write_model(program, {GetParam()}).span(), GetParam());
  EXPECT_FALSE(model->causal());
  // Where they see nothing of each other, no row depends on later ones.
  for (convert::CompiledMask& mask : program.masks) mask.lookahead = 0;
  uint32_t square = 0;
  while (program.tensors[square].outputs != kWidth || program.tensors[square].inputs != kWidth) {
    ++square;
  }
  for (convert::ProgramOp& own : program.ops) {
    const format::ColumnView* const views = own.body.views;
    if (own.body.kind != format::OpKind::kAttention || views[format::kValue].width != 0) continue;
    own.body = convert::linear_op(views[format::kQuery], views[format::kOutput], square);
  }
  const TestModel apart(convert::pack_model(program, {GetParam()}, "apart").span(), GetParam());
  EXPECT_TRUE(apart->causal());
  const TestSession session(*apart, options_of(16, kTextPositions));
  const Result<SelfTest> test = session->self_test();
  ASSERT_TRUE(test.ok());
  EXPECT_TRUE(test->passed) << test->op_name;
}

TEST_P(Functions, TakePairsOfOneOfTheirInputs) {
  Program program = convert::compile(functions_graph({}), "pairs");
  for (convert::CompiledMask& mask : program.masks) {
    if (mask.lookahead == 0) mask = convert::pair_mask(true);
  }
  const TestModel model(convert::write_model(program, {GetParam()}).span(), GetParam());
  EXPECT_FALSE(model->input(kMemory).takes_pairs);
  ASSERT_TRUE(model->input(kText).takes_pairs);
  const std::vector<float> memory = features_of(9);
  const std::vector<TokenId> ids = text(5);
  SessionOptions options = options_of(9, 5);
  options.outputs = Outputs::kAll;
  const TestSession session(*model, options);
  ASSERT_TRUE(encode(*session, memory).ok());
  std::vector<uint8_t> pairs(25, 1);
  TokenBatch batch{ids, 1, 5};
  batch.pairs = pairs;
  const Input input = batch;
  const std::vector<float> expected = alone(*load({}), memory, ids);
  expect_close(values_of(session->step(kStep, {&input, 1})), {expected.begin(), expected.end()});
  std::fill_n(pairs.begin() + 10, 3, uint8_t{0});
  ASSERT_EQ(session->rewind_input(kText, 0, 0), Status::kOk);
  Diagnostic why;
  expect_invalid(session->step(kStep, {&input, 1}, &why).status(), why, "batch.pairs",
                 "hide every key");
}

TEST_P(Functions, RunInSlices) {
  const TestModel model = load({});
  const std::vector<float> memory = features_of(9);
  const std::vector<TokenId> ids = text(4);
  const TestSession session(*model, options_of(9, 9));
  ASSERT_TRUE(encode(*session, memory).ok());
  const std::vector<float> expected = values_of(step(*session, ids));
  const Input fed = Batch{memory, 1, 9};
  const Input tokens = TokenBatch{ids, 1, 4};
  ASSERT_EQ(session->begin_run(kEncode, {&fed, 1}), Status::kOk);
  for (auto left = advance_least(*session); *left != 0; left = advance_least(*session)) {
    EXPECT_EQ(session->copy_sequence(0, 0), Status::kInvalidArgument);
    EXPECT_EQ(session->step(kStep, {&tokens, 1}).status(), Status::kInvalidArgument);
  }
  // A step that is cancelled leaves nothing, and an encoder that is leaves nothing to see.
  ASSERT_EQ(session->begin_step(kStep, {&tokens, 1}), Status::kOk);
  ASSERT_TRUE(advance_least(*session, 3).ok());
  session->cancel();
  EXPECT_EQ(session->positions(0, kText), 0u);
  expect_equal_bits(values_of(step(*session, ids)), expected);
  ASSERT_EQ(session->begin_run(kEncode, {&fed, 1}), Status::kOk);
  ASSERT_TRUE(advance_least(*session, 2).ok());
  session->cancel();
  EXPECT_FALSE(step(*session, ids).ok());
}

TEST_P(Functions, RunInSlicesByThreadsInAnyOrder) {
  const TestModel model = load({});
  const std::vector<float> memory = features_of(400);
  for (const KvType kv : {KvType::kF32, KvType::kInt8}) {
    Pool pool(2, Order::kReversed);
    SessionOptions options = options_of(400, 4);
    options.outputs = Outputs::kAll;
    options.kv_cache = kv, options.parallel = pool.parallel_for();
    const TestSession session(*model, options);
    ASSERT_EQ(session->begin_run(kEncode, std::array{Input(Batch{memory, 1, 400})}), Status::kOk);
    ASSERT_TRUE(session->advance(UINT64_MAX - 1).ok());
    expect_equal_bits(values_of(step(*session, text(4))), alone(*model, memory, text(4), kv));
  }
}

// Not a number in a row of the memory reaches all that see it, and nothing else.
TEST_P(Functions, NaNReachesTheRowsThatSeeIt) {
  const TestModel model = load({});
  const std::vector<uint32_t> lengths = {6, 6};
  std::vector<float> memory = features_of(2 * 6);
  const std::vector<TokenId> ids = text(2 * 3);
  SessionOptions options = options_of(6, 3, 2);
  options.outputs = Outputs::kAll;
  const TestSession session(*model, options);
  ASSERT_TRUE(encode(*session, memory, 2, lengths).ok());
  const std::vector<float> sound = values_of(step(*session, ids, 2));
  memory[2 * kFeatures] = std::numeric_limits<float>::quiet_NaN();
  ASSERT_TRUE(encode(*session, memory, 2, lengths).ok());
  const std::vector<float> found = values_of(step(*session, ids, 2));
  const size_t half = found.size() / 2;
  for (size_t i = 0; i < half; ++i) EXPECT_TRUE(std::isnan(found[i])) << i;
  expect_equal_bits(std::vector(found.begin() + static_cast<ptrdiff_t>(half), found.end()),
                    std::span(sound).subspan(half));
}

TEST_P(Functions, StayWithinThePlannedArena) {
  for (const FunctionParts& parts : {FunctionParts{}, FunctionParts{.together = true}}) {
    const TestModel model = load(parts);
    for (const uint32_t sequences : {1u, 3u}) {
      for (const uint32_t tokens : {0u, 5u}) {
        SessionOptions options = options_of(37, 11, sequences);
        options.tokens_max = tokens;
        options.others[0].tokens_max = tokens;
        options.outputs = Outputs::kAll;
        const Result<ArenaPlan> plan = plan_arena(*model, options);
        ASSERT_TRUE(plan.ok());
        const format::ModelReader reader(model->file());
        const SessionSizes sizes = {.positions_max = 37,
                                    .tokens_max = tokens != 0 ? tokens : 37 * sequences,
                                    .sequences_max = sequences,
                                    .all_rows = true,
                                    .others = {{11, tokens != 0 ? tokens : 11 * sequences}}};
        EXPECT_EQ(plan->total_bytes, arena_bytes(reader.formula(0), reader.axes(), sizes));
        const TestSession session(*model, options);  // in as many bytes, before a guard page
        const uint32_t own = tokens != 0 ? tokens / sequences : 11;
        const std::vector<float> memory = features_of(sequences * own);
        const std::vector<TokenId> ids = text(sequences * own);
        const Input inputs[] = {Batch{memory, sequences, own}, TokenBatch{ids, sequences, own}};
        if (parts.together) {
          EXPECT_TRUE(session->run(0, inputs).ok());
        } else {
          EXPECT_TRUE(session->run(kEncode, {&inputs[0], 1}).ok());
          EXPECT_TRUE(session->step(kStep, {&inputs[1], 1}).ok());
        }
        convert::AlignedBytes arena(plan->total_bytes);
        EXPECT_EQ(
            Session::create(*model, options, arena.span().first(plan->total_bytes - 1)).status(),
            Status::kArenaTooSmall);
      }
    }
    SessionOptions options = options_of(37, kTextPositions + 1);
    Diagnostic why;
    EXPECT_EQ(plan_arena(*model, options).status(), Status::kInvalidArgument);
    expect_invalid(plan_arena(*model, options, &why).status(), why, "options.positions_max",
                   "more positions than the model's context");
    EXPECT_EQ(why.index, 1u);
  }
}

TEST_P(Functions, PassTheirSelfTest) {
  for (const FunctionParts& parts :
       {FunctionParts{}, FunctionParts{true}, FunctionParts{.together = true},
        FunctionParts{.image = true}}) {
    const Program program = convert::compile(functions_graph(parts), "functions");
    const convert::AlignedBytes file = convert::pack_model(program, {GetParam()}, "functions");
    const TestModel model(file.span(), GetParam());
    SessionOptions options = options_of(parts.image ? kImagePixels : 16, kTextPositions);
    for (const KvType kv : {KvType::kF32, KvType::kInt8}) {
      options.kv_cache = kv;
      const TestSession session(*model, options);
      Diagnostic why;
      const Result<SelfTest> test = session->self_test(&why);
      ASSERT_TRUE(test.ok()) << describe(test.status(), why);
      EXPECT_TRUE(test->passed) << test->op_name << " " << test->difference;
      EXPECT_EQ(session->positions(0, kText), 0u);
    }
    options.others[0].positions_max = 1;
    const TestSession small(*model, options);
    Diagnostic why;
    expect_invalid(small->self_test(&why).status(), why, "options.positions_max", "too small");
    EXPECT_EQ(why.index, 1u);
    // Damage is found in whatever function it is; caches in int8 are allowed more.
    options.kv_cache = KvType::kF32;
    for (const uint32_t of : {0u, model->functions() - 1}) {
      convert::AlignedBytes damaged(file.span().size());
      std::ranges::copy(file.span(), damaged.data());
      const format::ModelReader reader(damaged.span());
      const uint64_t place =
          reader.self_test().segment.begin() +
          format::self_test_layout(reader, reader.self_test().tokens).outputs[of];
      float* const number = reinterpret_cast<float*>(damaged.data() + place) + 2;
      *number += 1e4f;
      const Result<Model> unverified =
          Model::load(damaged.span(), nullptr,
                      {.force_target = true, .target = GetParam(), .checksums = Checksums::kSkip});
      ASSERT_TRUE(unverified.ok());
      options.others[0].positions_max = kTextPositions;
      const TestSession session(*unverified, options);
      const Result<SelfTest> test = session->self_test();
      ASSERT_TRUE(test.ok());
      EXPECT_FALSE(test->passed);
      EXPECT_EQ(test->op_index, model->ops());
    }
  }
}

TEST_P(Functions, StateIsEmptyAfterASelfTestThatDoesNotFit) {
  const Program program = convert::compile(functions_graph({.whole_text = true}), "functions");
  const TestModel model(convert::pack_model(program, {GetParam()}, "functions").span(), GetParam());
  SessionOptions options = options_of(16, kTextPositions);
  options.others[0].tokens_max = 1;
  const TestSession session(*model, options);
  Diagnostic why;
  expect_invalid(session->self_test(&why).status(), why, "batch.tokens", "than one call takes");
  EXPECT_EQ(session->positions(0, kMemory), 0u);
}

}  // namespace
}  // namespace arenite::test
