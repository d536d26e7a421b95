// SPDX-License-Identifier: Apache-2.0
// The reference forward pass against what other programs computed for a random BERT and for
// trained classifiers of vibrations and of sentences.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <vector>

#include "convert/decoders/tiny_models.h"
#include "convert/encoders/encoder_reference.h"
#include "convert/encoders/encoder_source.h"
#include "convert/npy.h"
#include "support/test_data.h"

namespace arenite::convert {
namespace {

// The expected files are rounded to float32 once.
constexpr double kRelativeError = 1e-6;

std::vector<uint32_t> row_of(const std::vector<int64_t>& ids, size_t row, size_t columns,
                             size_t length) {
  const auto begin = ids.begin() + static_cast<ptrdiff_t>(row * columns);
  return {begin, begin + static_cast<ptrdiff_t>(length)};
}

TEST(EncoderGolden, StatesOfBertAreThoseOfTransformers) {
  const auto folder = testing::collection_folder() / "goldens/hf-bert-tiny";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no golden at " << folder;
  const EncoderSpec spec = open_encoder(folder).spec;
  const NpyArray ids = NpyArray::read(folder / "input_ids.npy");
  const std::vector<int64_t> all_ids = ids.to_i64();
  const std::vector<int64_t> mask = NpyArray::read(folder / "attention_mask.npy").to_i64();
  const std::vector<double> states = NpyArray::read(folder / "hidden_states.npy").to_f64();
  const size_t rows = ids.shape()[0];
  const size_t tokens = ids.shape()[1];
  for (size_t row = 0; row < rows; ++row) {
    const auto seen = mask.begin() + static_cast<ptrdiff_t>(row * tokens);
    const auto length =
        static_cast<size_t>(std::count(seen, seen + static_cast<ptrdiff_t>(tokens), 1));
    const EncoderOutputs outputs = reference_encoder(spec, row_of(all_ids, row, tokens, length));
    ASSERT_EQ(outputs.hidden_states.size(), spec.layers.size() + 1);
    for (size_t i = 0; i < outputs.hidden_states.size(); ++i) {
      const auto expected = std::span(states).subspan((i * rows + row) * tokens * spec.model_dim,
                                                      length * spec.model_dim);
      EXPECT_TRUE(testing::near(outputs.hidden_states[i], expected, kRelativeError))
          << "row " << row << ", state " << i;
    }
    EXPECT_EQ(outputs.values, outputs.hidden_states.back());
  }
}

TEST(EncoderGolden, VibrationsHaveTheLogitsOfTheirTrainedModel) {
  const auto folder = std::filesystem::path(ARENITE_SOURCE_DIR) / "models/vibration";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no model at " << folder;
  // The config beside the weights says all that a state dict does not.
  const EncoderSpec spec = open_encoder(folder / "model.safetensors").spec;
  EXPECT_EQ(spec.labels.size(), 5u);
  const NpyArray input = NpyArray::read(folder / "input.npy");
  const std::vector<double> windows = input.to_f64();
  const std::vector<double> logits = NpyArray::read(folder / "expected_logits.npy").to_f64();
  const size_t values = input.shape()[1] * input.shape()[2];
  for (size_t row = 0; row < input.shape()[0]; ++row) {
    const auto begin = windows.begin() + static_cast<ptrdiff_t>(row * values);
    std::vector<float> window;
    std::transform(begin, begin + static_cast<ptrdiff_t>(values), std::back_inserter(window),
                   [](double value) { return static_cast<float>(value); });
    EXPECT_TRUE(testing::near(reference_encoder(spec, window).values,
                              std::span(logits).subspan(row * 5, 5), kRelativeError))
        << row;
  }
}

#ifdef ARENITE_HAVE_LIBZIP
TEST(EncoderGolden, SentencesHaveTheLogitsOfTheirTrainedModel) {
  const auto folder = testing::collection_folder() / "real/sentiment-sst2";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no collection at " << folder;
  // config.json says how many heads; the rest stands there in prose only.
  const EncoderSpec spec = open_encoder(folder / "model.pt", {.activation = Activation::kGeluErf,
                                                              .norm_first = true,
                                                              .mask = MaskChoice::kBidirectional,
                                                              .embedding_scale = EmbeddingScale{}})
                               .spec;
  EXPECT_EQ(spec.heads, 2u);
  const NpyArray ids = NpyArray::read(folder / "input_ids.npy");
  const std::vector<int64_t> all_ids = ids.to_i64();
  const std::vector<int64_t> lengths = NpyArray::read(folder / "lengths.npy").to_i64();
  const std::vector<double> states = NpyArray::read(folder / "hidden_first4.npy").to_f64();
  const std::vector<double> logits = NpyArray::read(folder / "logits.npy").to_f64();
  const size_t tokens = ids.shape()[1];
  constexpr size_t kRows = 12;
  for (size_t row = 0; row < kRows; ++row) {
    const auto length = static_cast<size_t>(lengths[row]);
    const EncoderOutputs outputs = reference_encoder(spec, row_of(all_ids, row, tokens, length));
    EXPECT_TRUE(testing::near(outputs.values, std::span(logits).subspan(row * 2, 2), 2e-5)) << row;
    if (row >= 4) continue;
    const auto expected =
        std::span(states).subspan(row * tokens * spec.model_dim, length * spec.model_dim);
    EXPECT_TRUE(testing::near(outputs.hidden_states.back(), expected, 2e-5)) << row;
  }
}
#endif

}  // namespace
}  // namespace arenite::convert
