// SPDX-License-Identifier: Apache-2.0
// Sessions of decoders whose attention has a slope or a sink for each head, a table of biases or a
// soft cap: the values reach the op, and chunks change no bit.
#include <gtest/gtest.h>

#include <cmath>

#include "convert/program/writer.h"
#include "runtime/session/decoder_fixture.h"
#include "support/compare.h"

namespace arenite::test {
namespace {

class DecoderSlopes : public DecoderTest {
 protected:
  static convert::Program program() {
    DecoderShape shape = decoder_named("gpt2");
    shape.windows = {0, 0};
    shape.kv_heads = 2;
    return decoder_program(shape);
  }

  static uint32_t heads_of(const convert::Program& program, const convert::ProgramOp& op) {
    const uint32_t cache = op.body.numbers[format::AttentionOp::kCache];
    return op.body.views[format::kOutput].width / program.caches[cache].shape.value_dim;
  }

  // Gives every attention op `slope` for each of its heads, or with `by_head` a multiple of it.
  static convert::Program with_slopes(float slope, bool by_head) {
    convert::Program program = DecoderSlopes::program();
    for (convert::ProgramOp& op : program.ops) {
      if (op.body.kind != format::OpKind::kAttention) continue;
      convert::ProgramTensor slopes;
      slopes.name = op.name + ".slopes";
      slopes.outputs = 1;
      slopes.inputs = heads_of(program, op);
      slopes.layout = format::Layout::kPlain;
      for (uint32_t h = 0; h < slopes.inputs; ++h) {
        slopes.weights.push_back(by_head ? slope * static_cast<float>(h + 1) : slope);
      }
      op.body.numbers[format::AttentionOp::kTerms] = static_cast<uint32_t>(program.tensors.size());
      program.tensors.push_back(slopes);
    }
    return program;
  }

  // Returns the program with the slope as a table of biases, shared by all heads or, with
  // `by_head`, one for each.
  static convert::Program with_tables(float slope, ScoreTerms by, bool by_head) {
    convert::Program program = DecoderSlopes::program();
    const uint32_t positions = program.inputs[0].positions_max;
    const bool by_pair = by == ScoreTerms::kPairs;
    for (convert::ProgramOp& op : program.ops) {
      if (op.body.kind != format::OpKind::kAttention) continue;
      const uint32_t heads = by_head || !by_pair ? heads_of(program, op) : 1;
      convert::ProgramTensor terms;
      terms.name = op.name + ".terms";
      terms.outputs = by_pair ? heads * positions : heads;
      terms.inputs = by_pair ? positions : 2 * positions - 1;
      terms.layout = format::Layout::kPlain;
      for (uint32_t i = 0; i < terms.outputs * terms.inputs; ++i) {
        const uint32_t query = by_pair ? i / positions % positions : positions - 1;
        const int64_t distance = int64_t{i % terms.inputs} - query;
        const uint32_t head = i / terms.inputs / (by_pair ? positions : 1);
        const float of_head = by_head ? slope * static_cast<float>(head + 1) : slope;
        terms.weights.push_back(of_head * static_cast<float>(distance));
      }
      op.body.numbers[format::AttentionOp::kTerms] = static_cast<uint32_t>(program.tensors.size());
      op.body.numbers[format::AttentionOp::kTermsBy] = static_cast<uint32_t>(by);
      program.tensors.push_back(terms);
    }
    return program;
  }

  static convert::Program with_cap(float cap) {
    convert::Program program = with_slopes(0.25f, true);
    for (convert::ProgramOp& op : program.ops) {
      if (op.body.kind == format::OpKind::kAttention) {
        op.body.reals[format::AttentionOp::kScoreCap] = cap;
      }
    }
    return program;
  }

  static convert::Program with_sinks(float sink) {
    convert::Program program = DecoderSlopes::program();
    for (convert::ProgramOp& op : program.ops) {
      if (op.body.kind != format::OpKind::kAttention) continue;
      op.body.numbers[format::AttentionOp::kSinks] = static_cast<uint32_t>(program.tensors.size());
      program.add_vector(op.name + ".sinks", std::vector<float>(heads_of(program, op), sink));
    }
    return program;
  }

  // Returns the program with the slope of all heads in the masks.
  static convert::Program with_strips(float slope) {
    convert::Program program = DecoderSlopes::program();
    for (convert::CompiledMask& mask : program.masks) {
      const uint32_t positions = program.inputs[0].positions_max;
      mask.kind = MaskKind::kStrip;
      mask.positions = positions;
      mask.lookback = positions - 1;
      mask.lookahead = 0;
      mask.values.assign(2 * size_t{positions} - 1, -INFINITY);
      for (uint32_t back = 0; back < positions; ++back) {
        mask.values[positions - 1 - back] = -slope * static_cast<float>(back);
      }
    }
    return program;
  }

  static TestModel model_of(const convert::Program& program) {
    return TestModel(convert::write_model(program, {GetParam()}).span(), GetParam());
  }
};
ARENITE_FOR_EACH_FLOAT_SET(DecoderSlopes);

TEST_P(DecoderSlopes, EqualAMaskOfDistances) {
  const TestModel slopes = model_of(with_slopes(0.25f, false));
  const TestModel strips = model_of(with_strips(0.25f));
  const TestModel plain = model_of(program());
  const std::vector<TokenId> tokens = ids(*slopes, 33);
  const SessionOptions options = all_outputs(options_for(kDecoderPositions));
  const std::vector<float> found = TestSession(*slopes, options).run(tokens);
  EXPECT_TRUE(same_bits(found, TestSession(*strips, options).run(tokens)));
  EXPECT_FALSE(same_bits(found, TestSession(*plain, options).run(tokens)));
  for (const ScoreTerms by : {ScoreTerms::kDistances, ScoreTerms::kPairs}) {
    const TestModel tables = model_of(with_tables(0.25f, by, false));
    EXPECT_TRUE(same_bits(found, TestSession(*tables, options).run(tokens))) << name(by);
    EXPECT_TRUE(same_bits(found, TestSession(*tables, options).steps_of(7, tokens))) << name(by);
  }
}

TEST_P(DecoderSlopes, EqualATableForEachHead) {
  const TestModel slopes = model_of(with_slopes(0.25f, true));
  const std::vector<TokenId> tokens = ids(*slopes, 33);
  const SessionOptions options = all_outputs(options_for(kDecoderPositions));
  const std::vector<float> found = TestSession(*slopes, options).run(tokens);
  for (const ScoreTerms by : {ScoreTerms::kDistances, ScoreTerms::kPairs}) {
    const TestModel tables = model_of(with_tables(0.25f, by, true));
    EXPECT_TRUE(same_bits(found, TestSession(*tables, options).run(tokens))) << name(by);
  }
}

TEST_P(DecoderSlopes, CapScores) {
  const TestModel slopes = model_of(with_slopes(0.25f, true));
  const TestModel high = model_of(with_cap(1e4f));
  const TestModel low = model_of(with_cap(0.5f));
  const std::vector<TokenId> tokens = ids(*slopes, 33);
  const SessionOptions options = all_outputs(options_for(kDecoderPositions));
  const std::vector<float> plain = TestSession(*slopes, options).run(tokens);
  const std::vector<float> barely = TestSession(*high, options).run(tokens);
  const std::vector<float> capped = TestSession(*low, options).run(tokens);
  EXPECT_TRUE(all_near(barely, std::vector<double>(plain.begin(), plain.end()), 1e-4));
  EXPECT_FALSE(all_near(capped, std::vector<double>(plain.begin(), plain.end()), 1e-4));
  EXPECT_TRUE(same_bits(TestSession(*low, options).steps_of(1, tokens), capped));
}

TEST_P(DecoderSlopes, SinksTakePartInTheSum) {
  const TestModel none = model_of(program());
  const TestModel low = model_of(with_sinks(-200.0f));
  const TestModel plus_one = model_of(with_sinks(0.0f));
  const std::vector<TokenId> tokens = ids(*none, 33);
  const SessionOptions options = all_outputs(options_for(kDecoderPositions));
  const std::vector<float> plain = TestSession(*none, options).run(tokens);
  const std::vector<float> barely = TestSession(*low, options).run(tokens);
  const std::vector<float> found = TestSession(*plus_one, options).run(tokens);
  EXPECT_TRUE(all_near(barely, std::vector<double>(plain.begin(), plain.end()), 1e-4));
  EXPECT_FALSE(all_near(found, std::vector<double>(plain.begin(), plain.end()), 1e-4));
  for (const uint32_t chunk : {1u, 7u}) {
    EXPECT_TRUE(same_bits(TestSession(*plus_one, options).steps_of(chunk, tokens), found)) << chunk;
  }
}

TEST_P(DecoderSlopes, GiveTheSameBitsStepByStep) {
  const TestModel model = model_of(with_slopes(0.125f, true));
  const std::vector<TokenId> tokens = ids(*model, 40);
  const SessionOptions options = all_outputs(options_for(kDecoderPositions));
  const std::vector<float> whole = TestSession(*model, options).run(tokens);
  for (const uint32_t chunk : {1u, 7u}) {
    EXPECT_TRUE(same_bits(TestSession(*model, options).steps_of(chunk, tokens), whole)) << chunk;
  }
  const TestModel same_for_all = model_of(with_slopes(0.125f, false));
  EXPECT_FALSE(same_bits(TestSession(*same_for_all, options).run(tokens), whole));
}

}  // namespace
}  // namespace arenite::test
