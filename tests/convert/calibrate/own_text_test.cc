// SPDX-License-Identifier: Apache-2.0
// Decoders generate their own calibration text: the same on every run, and sampled from the model's
// own distribution.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "arenite/tokenizer.h"
#include "convert/calibrate/calibration_set.h"
#include "convert/calibrate/evaluation.h"
#include "convert/calibrate/own_text.h"
#include "convert/calibrate/sequence_runner.h"
#include "convert/convert.h"
#include "convert/program/writer.h"
#include "support/decoder_factory.h"
#include "support/encoder_factory.h"
#include "support/refusal.h"
#include "support/test_data.h"

namespace arenite::convert {
namespace {

using TextSequences = std::vector<ModelInput>;

std::vector<std::vector<TokenId>> all_ids(const CalibrationSet& set) {
  std::vector<std::vector<TokenId>> ids;
  for (const auto* sequences : {&set.fitted, &set.held_out}) {
    for (const ModelInput& sequence : *sequences) ids.push_back(sequence.ids);
  }
  return ids;
}

TEST(OwnText, IsReproducibleAndWithoutRepeatedTexts) {
  const AlignedBytes file = test::make_decoder_model(test::all_decoders().front());
  const CalibrationSet set = write_own_text(file);
  EXPECT_EQ(all_ids(set), all_ids(write_own_text(file)));
  const auto ids = all_ids(set);
  EXPECT_EQ(std::set(ids.begin(), ids.end()).size(), ids.size());
  EXPECT_EQ(longest_of(set.fitted)[0], 70u);  // its context
  const uint64_t tokens = CalibrationSet::tokens_of(set.fitted);
  const uint64_t held_out = CalibrationSet::tokens_of(set.held_out);
  EXPECT_GE(tokens + held_out, kOwnTokens);
  EXPECT_LE(tokens + held_out, kOwnTokens + 1000);
  EXPECT_NEAR(static_cast<double>(held_out) / static_cast<double>(tokens), 0.25, 0.05);
  for (const ModelInput& sequence : set.fitted) {
    EXPECT_EQ(sequence.tokens, sequence.ids.size());
    EXPECT_GE(sequence.tokens, 2u);
    for (const TokenId id : sequence.ids) EXPECT_LT(id, 37u);
  }
  // A model without a begin token starts texts with many different tokens.
  std::set<TokenId> starts;
  for (const auto& one : ids) starts.insert(one[0]);
  EXPECT_GT(starts.size(), 20u);
}

double sum_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

// The last token of a text is not read again.
TEST(OwnText, PassesTheInputsOfTheTextsThatAreNotHeldOut) {
  const AlignedBytes file = test::make_decoder_model(test::all_decoders().front());
  MeanSquares written(file), of_fitted(file), of_held_out(file);
  const CalibrationSet set = write_own_text(
      file, kOwnTokensMin,
      [&](uint32_t tensor, const ConstMatrix& inputs) { written.add(tensor, inputs); });
  const auto run = [&](const std::vector<ModelInput>& texts, MeanSquares& squares) {
    for_each_input(file, texts, [&](uint32_t tensor, const ConstMatrix& inputs) {
      squares.add(tensor, inputs);
    });
  };
  run(set.fitted, of_fitted);
  run(set.held_out, of_held_out);
  const auto found = written.values(), fitted = of_fitted.values(), held_out = of_held_out.values();
  double difference = 0.0, difference_of_held_out = 0.0;
  for (size_t tensor = 0; tensor < found.size(); ++tensor) {
    ASSERT_EQ(found[tensor].size(), fitted[tensor].size());
    EXPECT_NEAR(sum_of(found[tensor]), sum_of(fitted[tensor]), 0.02 * sum_of(fitted[tensor]));
    for (size_t i = 0; i < found[tensor].size(); ++i) {
      difference += std::fabs(found[tensor][i] - fitted[tensor][i]);
      difference_of_held_out += std::fabs(found[tensor][i] - held_out[tensor][i]);
    }
  }
  EXPECT_LT(difference, 0.5 * difference_of_held_out);
}

TEST(OwnText, OnlyDecodersWrite) {
  for (const test::DecoderShape& shape : test::all_decoders()) {
    const AlignedBytes file = test::make_decoder_model(shape);
    EXPECT_TRUE(can_write_text(load_best(file))) << shape.name;
    EXPECT_GT(write_own_text(file).fitted.size(), 10u) << shape.name;
  }
  for (const test::EncoderShape& shape : test::all_encoders()) {
    const AlignedBytes file = test::make_encoder_model(shape);
    EXPECT_FALSE(can_write_text(load_best(file))) << shape.name;
  }
  const AlignedBytes module = test::make_model({});
  EXPECT_FALSE(can_write_text(load_best(module)));
}

// Temperature 1 means that tokens come as often as the model says: the text is as surprising to the
// model as it expects.
TEST(OwnText, HasThePerplexityThatTheModelExpects) {
  const AlignedBytes file = test::make_decoder_model(test::all_decoders().front());
  const CalibrationSet set = write_own_text(file);
  const Perplexity found = perplexity_of(file, set.fitted);
  SequenceRunner runner(file, 70);
  double entropy = 0.0;
  uint64_t rows = 0;
  for (const ModelInput& sequence : set.fitted) {
    runner.begin(sequence);
    while (runner.advance()) {
      for (size_t row = 0; row < runner.rows(); ++row) {
        if (runner.first_token() + row + 1 == sequence.tokens) continue;
        double total = 0.0;
        double sum = 0.0;
        for (const float logit : runner.row(row)) {
          total += std::exp(double{logit});
          sum += logit * std::exp(double{logit});
        }
        entropy += std::log(total) - sum / total;
        ++rows;
      }
    }
  }
  EXPECT_EQ(found.tokens, rows);
  // Three standard deviations of the sample mean.
  EXPECT_NEAR(found.mean_nll, entropy / static_cast<double>(rows), 3.0 / std::sqrt(8000.0));
}

TEST(OwnText, LogitsThatAreNotFiniteAreRefused) {
  Program program = test::decoder_program(test::all_decoders().front());
  for (ProgramTensor& tensor : program.tensors) {
    if (tensor.layout != format::Layout::kGemm) continue;
    if (tensor.load) tensor.weights = tensor.load().copy();
    tensor.weights[0] = std::numeric_limits<float>::quiet_NaN();
  }
  const AlignedBytes file = write_model(program, parse_targets("native"));
  EXPECT_TRUE(testing::refuses([&] { write_own_text(file); }, {"not finite", "--calibrate FILE"}));
}

TEST(OwnText, BeginsAndEndsAsTheTokenizerSays) {
  const std::filesystem::path folder = testing::collection_folder() / "real" / "story-656k";
  ARENITE_NEEDS_DATA(folder);
  const Conversion conversion = convert_model(folder, "story", {}, parse_targets("native"));
  const CalibrationSet set = write_own_text(conversion.file);
  for (const std::vector<TokenId>& ids : all_ids(set)) {
    EXPECT_EQ(ids[0], 1u);
    for (size_t i = 1; i + 1 < ids.size(); ++i) ASSERT_NE(ids[i], 2u) << "goes on after its end";
  }
  // The text is plausible, not noise: its perplexity is about that of a text by another author, or
  // less.
  EXPECT_LT(perplexity_of(conversion.file, set.held_out).value(), 30.0);
}

}  // namespace
}  // namespace arenite::convert
