// SPDX-License-Identifier: Apache-2.0
// Compares the reference forward pass with transformers on tiny random models.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "convert/files/npy.h"
#include "support/recognised.h"
#include "support/reference_models.h"
#include "support/temp_folder.h"
#include "support/transformers_cases.h"

namespace arenite::convert {
namespace {

// The expected files are rounded to float32 once, and transformers takes sines and cosines of
// float32 angles also in a float64 model.
constexpr double kDecoderError = 1e-6;

double largest(std::span<const double> values) {
  double max = 0.0;
  for (const double value : values) max = std::max(max, std::abs(value));
  return max;
}

double largest_difference(std::span<const double> found, std::span<const double> expected) {
  double max = 0.0;
  for (size_t i = 0; i < found.size(); ++i) max = std::max(max, std::abs(found[i] - expected[i]));
  return max;
}

class HfGolden : public ::testing::TestWithParam<testing::TransformersCase> {
 protected:
  void SetUp() override {
    folder_ = GetParam().folder("decoders");
    if (!GetParam().is_own) {
      ARENITE_NEEDS_DATA(folder_);
    }
  }
  std::filesystem::path folder_;
};

TEST_P(HfGolden, HiddenStatesAndLogitsEqualThoseOfTransformers) {
  const TransformerSpec spec = testing::decoder_at(folder_);
  const NpyArray ids = NpyArray::read(folder_ / "input_ids.npy");
  const std::vector<int64_t> all_ids = ids.to_i64();
  const std::vector<double> all_states = NpyArray::read(folder_ / "hidden_states.npy").to_f64();
  const std::vector<double> all_logits = NpyArray::read(folder_ / "logits.npy").to_f64();
  const size_t rows = ids.shape()[0];
  const size_t tokens = ids.shape()[1];
  const size_t state_values = tokens * spec.model_dim;
  for (size_t row = 0; row < rows; ++row) {
    const std::vector<uint32_t> row_ids(
        all_ids.begin() + static_cast<ptrdiff_t>(row * tokens),
        all_ids.begin() + static_cast<ptrdiff_t>((row + 1) * tokens));
    const Evaluation outputs = reference_decoder(spec, row_ids);
    ASSERT_EQ(outputs.hidden_states.size(), spec.layers.size() + 1);
    for (size_t i = 0; i < outputs.hidden_states.size(); ++i) {
      const auto expected =
          std::span(all_states).subspan((i * rows + row) * state_values, state_values);
      EXPECT_LE(largest_difference(outputs.hidden_states[i], expected),
                kDecoderError * largest(expected))
          << "row " << row << ", state " << i;
    }
    const auto expected =
        std::span(all_logits).subspan(row * tokens * spec.vocab_size, tokens * spec.vocab_size);
    EXPECT_LE(largest_difference(outputs.values, expected), kDecoderError * largest(expected));
  }
}

TEST_P(HfGolden, ChoosesTheTokensOfTransformers) {
  const TransformerSpec spec = testing::decoder_at(folder_);
  const size_t prompt_tokens = NpyArray::read(folder_ / "input_ids.npy").shape()[1];
  const auto ids = nlohmann::json::parse(testing::read_bytes(folder_ / "greedy.json"))
                       .get<std::vector<uint32_t>>();
  ASSERT_GT(ids.size(), prompt_tokens);
  const std::vector<double> logits = reference_decoder(spec, ids).values;
  for (size_t t = prompt_tokens - 1; t + 1 < ids.size(); ++t) {
    const auto row = logits.begin() + static_cast<ptrdiff_t>(t * spec.vocab_size);
    EXPECT_EQ(std::max_element(row, row + spec.vocab_size) - row, ids[t + 1]) << "token " << t + 1;
  }
}

INSTANTIATE_TEST_SUITE_P(Decoders, HfGolden, ::testing::ValuesIn(testing::kDecoderCases),
                         [](const auto& info) { return test_name(info.param); });

}  // namespace
}  // namespace arenite::convert
