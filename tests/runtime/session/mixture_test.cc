// SPDX-License-Identifier: Apache-2.0
// Compares a model with experts with the reference, in calls and slices of any size, and tests
// inconsistent files.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "convert/check/pack_model.h"
#include "convert/graph/interpreter.h"
#include "convert/program/program.h"
#include "convert/program/weights.h"
#include "convert/program/writer.h"
#include "runtime/format/verify_fixture.h"
#include "runtime/session/mixture_fixture.h"
#include "support/compare.h"
#include "support/kernel_sets.h"
#include "support/pool.h"
#include "support/smallest_slice.h"
#include "support/test_session.h"

namespace arenite::test {
namespace {

using convert::Program;

constexpr TensorType kTypes[] = {TensorType::kF32, TensorType::kW8, TensorType::kQ8,
                                 TensorType::kQ4};

class Mixture : public testing::TestWithParam<Target> {
 protected:
  static TestModel load(TensorType type) {
    const Program program = convert::compile(mixture(type), "mixture");
    return TestModel(convert::write_model(program, {GetParam()}).span(), GetParam());
  }
};
ARENITE_FOR_EACH_KERNEL_SET(Mixture);

std::vector<float> frames(uint32_t tokens) { return random_floats(tokens * kFeatures, 7); }

SessionOptions all_rows(uint32_t positions, uint32_t sequences = 1) {
  SessionOptions options = options_for(positions, sequences);
  options.outputs = Outputs::kAll;
  return options;
}

TEST_P(Mixture, AgreesWithTheReference) {
  for (const TensorType type : kTypes) {
    const TestModel model = load(type);
    for (const uint32_t tokens : {1u, 4u, 31u}) {
      const std::vector<float> fed = frames(tokens);
      const TestSession session(*model, all_rows(tokens));
      const std::vector<float> found = session.run(fed);
      const convert::Evaluation expected =
          convert::evaluate(convert::with_stored_weights(mixture(type)), {{}, {}, fed});
      ASSERT_EQ(found.size(), expected.values.size());
      // A number that is rounded to another int8 changes a sum by one part in 255.
      const double tolerance =
          (weight_type(type).rounds_inputs ? 1e-2 : 1e-5) * expected.largest_value;
      for (size_t i = 0; i < found.size(); ++i) {
        ASSERT_NEAR(found[i], expected.values[i], tolerance) << name(type) << " " << tokens;
      }
    }
  }
}

TEST_P(Mixture, GivesTheSameBitsInCallsSlicesAndBatchesOfAnySize) {
  constexpr uint32_t kTokens = 26;
  for (const TensorType type : kTypes) {
    const TestModel model = load(type);
    const std::vector<float> fed = frames(3 * kTokens);
    const auto of_sequence = [&](size_t i) {
      return std::span(fed).subspan(i * kTokens * kFeatures, size_t{kTokens} * kFeatures);
    };
    const TestSession alone(*model, all_rows(kTokens));
    std::vector<float> expected;
    for (size_t i = 0; i < 3; ++i) {
      const std::vector<float> one = alone.run(of_sequence(i));
      expected.insert(expected.end(), one.begin(), one.end());
      for (const uint32_t tokens : {1u, 7u, 20u}) {
        alone->reset();
        EXPECT_TRUE(same_bits(alone.steps_of(tokens, of_sequence(i)), one)) << tokens;
      }
    }
    Pool pool(3);
    SessionOptions options = all_rows(kTokens, 3);
    const TestSession single(*model, options);
    options.parallel = pool.parallel_for();
    const TestSession together(*model, options);
    EXPECT_TRUE(same_bits(together.run(fed, 3), expected));
    ASSERT_EQ(single->begin_run(Batch{fed, 3, kTokens}), Status::kOk);
    uint32_t slices = 0;
    for (uint32_t left = 1; left != 0; ++slices) left = *advance_least(*single);
    EXPECT_GT(slices, model->ops());
    EXPECT_TRUE(same_bits({single->output().data, expected.size()}, expected));
  }
}

TEST_P(Mixture, NeedsEachByteOfItsArena) {
  for (const TensorType type : kTypes) {
    const TestModel model = load(type);
    const SessionOptions options = all_rows(9, 2);
    const Result<ArenaPlan> plan = plan_arena(*model, options);
    ASSERT_TRUE(plan.ok());
    convert::AlignedBytes arena(plan->total_bytes);
    const std::span<std::byte> less = arena.span().first(plan->total_bytes - 1);
    EXPECT_EQ(Session::create(*model, options, less).status(), Status::kArenaTooSmall);
  }
}

// Changes the op with this name, and expects that loading refuses the field.
void expect_refused(const std::string& op_name,
                    const std::function<void(Program&, uint32_t)>& change, const char* field,
                    const char* words) {
  Program program = convert::compile(mixture(), "mixture");
  uint32_t index = 0;
  while (program.ops.at(index).name != op_name) ++index;
  change(program, index);
  expect_refusal(convert::write_model(program, {Target::kPortable}).span(), {field, words, index});
}

TEST(MixtureFiles, WithOtherNumbersOrShapesAreRefused) {
  const auto with_count = [](uint32_t count) {
    return [count](Program& p, uint32_t op) {
      p.ops[op].body.numbers[format::ExpertsOp::kCount] = count;
    };
  };
  const auto with_width = [](uint32_t view, uint32_t width) {
    return [=](Program& p, uint32_t op) { p.ops[op].body.views[view].width = width; };
  };
  expect_refused("up", with_count(0), "ops.experts", "do not divide the outputs");
  expect_refused("up", with_count(3), "ops.experts", "do not divide the outputs");
  expect_refused("up", with_count(kExperts * kHidden + 1), "ops.experts", "do not divide");
  expect_refused("up", with_count(kExperts * kHidden), "ops.output", "wrong width");
  expect_refused("up", with_width(format::kInput, kHidden - 1), "ops.input", "wrong width");
  expect_refused("down", with_width(format::kInput, 2 * kHidden), "ops.input", "wrong width");
  expect_refused("up", with_width(format::kIds, kChosen - 1), "ops.output", "wrong width");
  expect_refused("best", with_width(format::kInput, kChosen - 1), "ops.output", "wrong width");
  expect_refused(
      "best",
      [](Program& p, uint32_t op) {
        p.slots[p.ops[op].body.views[format::kOutput].slot].width = 2 * kChosen + 1;
        p.ops[op].body.views[format::kOutput].width = 2 * kChosen + 1;
      },
      "ops.output", "wrong width");
  expect_refused(  // three are chosen
      "up", [](Program& p, uint32_t op) { p.ops[op].body.numbers[format::ExpertsOp::kCount] = 2; },
      "ops.ids", "wrong width");
  expect_refused(
      "up", [](Program& p, uint32_t op) { p.ops[op].body.numbers[0] = 4096; }, "ops.tensor",
      "does not exist");
}

}  // namespace
}  // namespace arenite::test
