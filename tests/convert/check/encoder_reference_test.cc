// SPDX-License-Identifier: Apache-2.0
// Reads every family of encoders and compares the reference forward pass with PyTorch's results
// (data/make_encoders.py, make_encoder_heads.py). PyTorch ran padded and masked batches; here each
// sequence runs alone.
#include "support/reference_models.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "convert/families/encoder_fixture.h"
#include "convert/files/checkpoint.h"
#include "support/recognised.h"
#include "support/refusal.h"

namespace arenite::convert {
namespace {

using namespace testing;

// Both sides compute in double precision, from the same float32 weights.
constexpr double kReferenceError = 1e-12;
// Where the only token type is added to positions, the sums are float32 and normalised afterwards.
constexpr double kFoldedRelativeError = 1e-7;

class EncoderFixture : public ::testing::TestWithParam<const char*> {};

TEST_P(EncoderFixture, StatesAndOutputsEqualThoseOfPyTorch) {
  const TransformerSpec spec = encoder_at(encoder_fixture(GetParam()));
  const double error =
      GetParam() == std::string_view("roberta_sequence") ? kFoldedRelativeError : kReferenceError;
  const Checkpoint expected =
      Checkpoint::read(encoder_fixture(GetParam()) / "expected.safetensors");
  const CheckpointTensor& states = *expected.find("states");  // [layers + 1, batch, tokens, dim]
  const std::vector<double> all_states = states.to_f64();
  const std::vector<double> all_values = expected.find("values")->to_f64();
  const std::vector<int64_t> lengths = expected.find("lengths")->to_i64();
  const size_t batch = lengths.size();
  const size_t state_values = states.shape[2] * states.shape[3];
  for (size_t row = 0; row < batch; ++row) {
    const Evaluation outputs = run_row(spec, GetParam(), row);
    ASSERT_EQ(outputs.hidden_states.size(), states.shape[0]);
    for (size_t i = 0; i < outputs.hidden_states.size(); ++i) {
      const std::vector<double>& found = outputs.hidden_states[i];
      ASSERT_EQ(found.size(), static_cast<size_t>(lengths[row]) * states.shape[3]);
      const auto state =
          std::span(all_states).subspan((i * batch + row) * state_values, found.size());
      EXPECT_TRUE(near(found, state, error)) << "row " << row << ", state " << i;
    }
    const size_t row_values = all_values.size() / batch;
    const auto values = std::span(all_values).subspan(row * row_values, outputs.values.size());
    EXPECT_TRUE(near(outputs.values, values, error)) << "row " << row;
  }
}

INSTANTIATE_TEST_SUITE_P(Families, EncoderFixture,
                         ::testing::Values("bert_sequence", "bert_tokens", "distilbert_sequence",
                                           "roberta_sequence", "electra_sequence", "sentence",
                                           "torch_tokens", "torch_features", "bert_masked_lm",
                                           "distilbert_masked_lm", "roberta_masked_lm",
                                           "electra_masked_lm", "sentence_concatenated"),
                         [](const auto& info) { return std::string(info.param); });

TEST(EncoderReference, RefusesInputsThatDoNotFit) {
  const TransformerSpec tokens = encoder_at(encoder_fixture("bert_sequence"));
  const std::vector<uint32_t> ids = {1, 2};
  EXPECT_TRUE(refuses([&] { reference_encoder(tokens, std::vector<uint32_t>(10, 1)); },
                      {"10 tokens", "at most 9"}));
  EXPECT_TRUE(refuses([&] { reference_encoder(tokens, std::vector<uint32_t>{13}); },
                      {"token 13", "less than 13"}));
  EXPECT_TRUE(refuses([&] { reference_encoder(tokens, std::vector<uint32_t>{}); }, {"no tokens"}));
  EXPECT_TRUE(refuses(
      [&] {
        reference_encoder(tokens, ids, std::vector<uint8_t>{1, 2});
      },
      {"token type 2"}));
  EXPECT_TRUE(refuses([&] { reference_encoder(tokens, ids, std::vector<uint8_t>{0}); },
                      {"1 token types for 2 tokens"}));
  EXPECT_TRUE(refuses([&] { reference_encoder(tokens, std::vector<float>{1}); }, {"token ids"}));
  const TransformerSpec features = encoder_at(encoder_fixture("torch_features"));
  EXPECT_TRUE(refuses([&] { reference_encoder(features, std::vector<float>(6)); },
                      {"6 values", "rows of 5"}));
  EXPECT_TRUE(refuses([&] { reference_encoder(features, ids); }, {"takes features"}));
}

}  // namespace
}  // namespace arenite::convert
