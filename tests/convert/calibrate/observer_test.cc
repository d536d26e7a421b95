// SPDX-License-Identifier: Apache-2.0
// The observed inputs are those of the linear layers.
#include "convert/calibrate/sequence_runner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <vector>

#include "convert/files/progress.h"
#include "convert/program/program.h"
#include "convert/program/writer.h"
#include "support/decoder_factory.h"
#include "support/encoder_factory.h"

namespace arenite::convert {
namespace {

using Sequences = std::vector<ModelInput>;

Sequences sequences_of(std::initializer_list<uint32_t> lengths, uint32_t vocab_size) {
  Sequences sequences;
  for (const uint32_t length : lengths) {
    sequences.push_back({test::random_ids(length, vocab_size, length), {}, length});
  }
  return sequences;
}

std::vector<float> weights_of(const ProgramTensor& tensor) {
  return tensor.weights.empty() ? tensor.load().copy() : tensor.weights;
}

// The tensors that linear ops multiply with, in the order of the ops.
std::vector<uint32_t> linear_tensors(const Program& program) {
  std::vector<uint32_t> tensors;
  for (const ProgramOp& op : program.ops) {
    if (op.body.kind != format::OpKind::kLinear) continue;
    tensors.push_back(op.body.numbers[format::LinearOp::kTensor]);
  }
  return tensors;
}

// The last linear op of a decoder makes the logits.
TEST(Observer, TheLogitsAreTheWeightsTimesTheInputs) {
  test::DecoderShape shape = test::all_decoders().front();
  const Program program = test::decoder_program(shape);
  const AlignedBytes file = write_model(program, test::all_targets());
  const uint32_t last = linear_tensors(program).back();
  const std::vector<float> weights = weights_of(program.tensors[last]);
  const uint32_t columns = program.tensors[last].inputs;
  ASSERT_EQ(program.tensors[last].outputs, shape.vocab_size);
  const Sequences sequences = sequences_of({70, 3, 1}, shape.vocab_size);
  std::vector<std::vector<float>> inputs;
  for_each_input(file, sequences, [&](uint32_t tensor, const ConstMatrix& matrix) {
    if (tensor != last) return;
    for (uint32_t row = 0; row < matrix.rows; ++row) {
      inputs.emplace_back(matrix.row(row), matrix.row(row) + matrix.columns);
    }
  });
  ASSERT_EQ(inputs.size(), 74u);
  SequenceRunner runner(file, 70);
  size_t index = 0;
  for (const ModelInput& sequence : sequences) {
    runner.begin(sequence);
    while (runner.advance()) {
      for (size_t row = 0; row < runner.rows(); ++row, ++index) {
        for (uint32_t id = 0; id < shape.vocab_size; ++id) {
          double logit = 0.0;
          for (uint32_t i = 0; i < columns; ++i) {
            logit += double{weights[size_t{id} * columns + i]} * inputs[index][i];
          }
          ASSERT_NEAR(runner.row(row)[id], logit, 1e-5);
        }
      }
    }
  }
  EXPECT_EQ(index, inputs.size());
}

TEST(Observer, AModelOfFeaturesReadsTheFeatures) {
  test::EncoderShape shape = test::encoder_named("sensor");
  ASSERT_EQ(shape.vocab_size, 0u);
  const Program program = test::encoder_program(shape);
  const AlignedBytes file = write_model(program, test::all_targets());
  const uint32_t first = linear_tensors(program).front();
  ModelInput sequence;
  sequence.tokens = 9;
  sequence.features = test::random_floats(size_t{9} * shape.input_features, 4);
  bool seen = false;
  for_each_input(file, {sequence}, [&](uint32_t tensor, const ConstMatrix& matrix) {
    if (tensor != first || seen) return;
    seen = true;
    ASSERT_EQ(matrix.rows, 9u);
    ASSERT_EQ(matrix.columns, shape.input_features);
    for (uint32_t row = 0; row < 9; ++row) {
      EXPECT_EQ(std::memcmp(matrix.row(row), &sequence.features[size_t{row} * matrix.columns],
                            matrix.columns * sizeof(float)),
                0);
    }
  });
  EXPECT_TRUE(seen);
}

TEST(Observer, HessiansAreTheSumsOfAllInputsHoweverFewFitAtOnce) {
  test::DecoderShape shape = test::ring_decoder();
  const Program program = test::decoder_program(shape);
  const AlignedBytes file = write_model(program, test::all_targets());
  const Sequences sequences = sequences_of({200, 70, 130}, shape.vocab_size);
  std::vector<uint32_t> tensors = linear_tensors(program);
  ASSERT_GE(tensors.size(), 6u);
  std::map<uint32_t, std::vector<double>> expected;  // the first row of each
  std::map<uint32_t, uint64_t> rows;
  for_each_input(file, sequences, [&](uint32_t tensor, const ConstMatrix& inputs) {
    expected[tensor].resize(inputs.columns);
    rows[tensor] += inputs.rows;
    for (uint32_t row = 0; row < inputs.rows; ++row) {
      for (uint32_t i = 0; i < inputs.columns; ++i) {
        expected[tensor][i] += double{inputs.row(row)[0]} * inputs.row(row)[i];
      }
    }
  });
  const auto expect_sums = [&](uint64_t bytes_max, std::optional<InputStatistics> known) {
    std::vector<uint32_t> order;
    std::vector<double> shares;
    const size_t runs_known = known ? 1 : 0;
    const size_t in_first_run = InputStatistics(file, tensors, bytes_max).hessians();
    const ProgressListener listener([&](const std::string& stage, double share) {
      EXPECT_EQ(stage, kRounding);
      shares.push_back(share);
    });
    const auto squares = for_each_hessian(
        file, sequences, tensors,
        [&](uint32_t tensor, const Hessian& hessian) {
          order.push_back(tensor);
          EXPECT_EQ(hessian.rows(), rows.at(tensor));
          EXPECT_EQ(hessian.rows(), 400u);
          for (uint32_t i = 0; i < hessian.columns(); ++i) {
            ASSERT_NEAR(hessian.upper().row(0)[i], expected.at(tensor)[i], 1e-3);
          }
          EXPECT_NEAR(hessian.mean_squares()[0], expected[tensor][0] / 400.0, 1e-6);
        },
        std::move(known), bytes_max);
    EXPECT_EQ(order, tensors);
    ASSERT_EQ(squares.size(), program.tensors.size());
    for (size_t i = 0; i < tensors.size(); ++i) {  // of tensors without a Hessian in the first run
      const std::vector<double>& found = squares[tensors[i]];
      ASSERT_EQ(found.size(), i < in_first_run ? 0 : program.tensors[tensors[i]].inputs);
      if (found.empty()) continue;
      EXPECT_NEAR(found[0], expected[tensors[i]][0] / 400.0, 1e-6);
    }
    // The share of progress, over all runs of the text: from nearly 0 to nearly 1.
    EXPECT_GE(shares.size(), (1 - runs_known) * sequences.size() + tensors.size());
    EXPECT_TRUE(std::ranges::is_sorted(shares));
    EXPECT_EQ(shares.front() == 0.0, runs_known == 0);
    EXPECT_GT(shares.back(), 0.8);
    EXPECT_LT(shares.back(), 1.0);
  };
  for (const uint64_t bytes_max : {uint64_t{0}, 2 * Hessian::bytes(20), kHessianBytesMax}) {
    expect_sums(bytes_max, {});
    InputStatistics known(file, tensors, bytes_max);
    for_each_input(file, sequences,
                   [&](uint32_t tensor, const ConstMatrix& inputs) { known.add(tensor, inputs); });
    expect_sums(bytes_max, std::move(known));
  }
}

TEST(Observer, ATensorThatNoLinearOpReadsHasNoInputs) {
  const Program program = test::decoder_program(test::all_decoders().front());
  const AlignedBytes file = write_model(program, test::all_targets());
  uint32_t vector = 0;
  while (program.tensors[vector].layout != format::Layout::kPlain) ++vector;
  const Sequences sequences = sequences_of({20}, 37);
  const auto squares = for_each_hessian(file, sequences, std::vector{vector},
                                        [&](uint32_t tensor, const Hessian& hessian) {
                                          EXPECT_EQ(tensor, vector);
                                          EXPECT_EQ(hessian.rows(), 0u);
                                        });
  EXPECT_TRUE(squares[vector].empty());
}

TEST(Observer, NothingToRunShowsNothing) {
  const AlignedBytes file = test::make_decoder_model(test::all_decoders().front());
  for_each_input(file, {}, [](uint32_t, const ConstMatrix&) { FAIL(); });
}

}  // namespace
}  // namespace arenite::convert
