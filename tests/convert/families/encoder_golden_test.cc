// SPDX-License-Identifier: Apache-2.0
// Compares the reference forward pass with transformers on random encoders, and with other programs
// on trained classifiers of vibrations and of sentences.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <vector>

#include "convert/families/tiny_models.h"
#include "convert/files/npy.h"
#include "support/recognised.h"
#include "support/reference_models.h"
#include "support/test_data.h"
#include "support/transformers_cases.h"

namespace arenite::convert {
namespace {

// The expected files are rounded to float32 once.
constexpr double kEncoderError = 1e-6;

std::vector<uint32_t> row_of(const std::vector<int64_t>& ids, size_t row, size_t columns,
                             size_t length) {
  const auto begin = ids.begin() + static_cast<ptrdiff_t>(row * columns);
  return {begin, begin + static_cast<ptrdiff_t>(length)};
}

class HfEncoderGolden : public ::testing::TestWithParam<testing::TransformersCase> {};
INSTANTIATE_TEST_SUITE_P(Encoders, HfEncoderGolden, ::testing::ValuesIn(testing::kEncoderCases),
                         [](const auto& info) { return test_name(info.param); });

// The values of `array` [sequences, tokens, ...] that belong to visible tokens of sequence `row`.
template <typename Value>
std::vector<Value> visible_of(std::span<const Value> array, std::span<const int64_t> mask,
                              size_t row, size_t rows) {
  const size_t tokens = mask.size() / rows;
  const size_t each = array.size() / mask.size();
  std::vector<Value> found;
  for (size_t t = row * tokens; t < (row + 1) * tokens; ++t) {
    if (mask[t] == 0) continue;
    const std::span<const Value> values = array.subspan(t * each, each);
    found.insert(found.end(), values.begin(), values.end());
  }
  return found;
}

TEST_P(HfEncoderGolden, HiddenStatesAndOutputsEqualThoseOfTransformers) {
  const auto folder = GetParam().folder("encoders");
  if (!GetParam().is_own) {
    ARENITE_NEEDS_DATA(folder);
  }
  const TransformerSpec spec = testing::encoder_at(folder);
  const NpyArray ids = NpyArray::read(folder / "input_ids.npy");
  const std::vector<int64_t> all_ids = ids.to_i64();
  const std::vector<int64_t> mask = NpyArray::read(folder / "attention_mask.npy").to_i64();
  const std::vector<double> states = NpyArray::read(folder / "hidden_states.npy").to_f64();
  const bool has_types = std::filesystem::exists(folder / "token_type_ids.npy");
  const std::vector<int64_t> all_types =
      has_types ? NpyArray::read(folder / "token_type_ids.npy").to_i64() : std::vector<int64_t>();
  const bool has_output = std::filesystem::exists(folder / "output.npy");
  const NpyArray output =
      NpyArray::read(folder / (has_output ? "output.npy" : "last_hidden_state.npy"));
  const std::vector<double> values = output.to_f64();
  const size_t rows = ids.shape()[0];
  for (size_t row = 0; row < rows; ++row) {
    SCOPED_TRACE(row);
    const std::vector<int64_t> own = visible_of<int64_t>(all_ids, mask, row, rows);
    const std::vector<uint32_t> row_ids(own.begin(), own.end());
    std::vector<uint8_t> types;
    if (has_types) {
      for (const int64_t type : visible_of<int64_t>(all_types, mask, row, rows)) {
        types.push_back(static_cast<uint8_t>(type));
      }
    }
    const Evaluation outputs = reference_encoder(spec, row_ids, types);
    ASSERT_EQ(outputs.hidden_states.size(), spec.layers.size() + 1);
    const size_t state_values = states.size() / outputs.hidden_states.size();
    for (size_t i = 0; i < outputs.hidden_states.size(); ++i) {
      const auto state = std::span(states).subspan(i * state_values, state_values);
      EXPECT_TRUE(testing::near(outputs.hidden_states[i],
                                visible_of<double>(state, mask, row, rows), kEncoderError))
          << "state " << i;
    }
    const size_t labels = values.size() / rows;
    const std::vector<double> expected =
        output.shape().size() == 3
            ? visible_of<double>(values, mask, row, rows)
            : std::vector<double>(values.begin() + static_cast<ptrdiff_t>(row * labels),
                                  values.begin() + static_cast<ptrdiff_t>((row + 1) * labels));
    EXPECT_TRUE(testing::near(outputs.values, expected, kEncoderError));
  }
}

TEST(EncoderGolden, VibrationsHaveTheLogitsOfTheirTrainedModel) {
  const auto folder = testing::project_folder() / "models/vibration";
  // The config beside the weights says all that a state dict does not.
  const TransformerSpec spec = testing::encoder_at(folder / "model.safetensors");
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
                              std::span(logits).subspan(row * 5, 5), kEncoderError))
        << row;
  }
}

#ifdef ARENITE_HAVE_LIBZIP
TEST(EncoderGolden, SentencesHaveTheLogitsOfTheirTrainedModel) {
  const auto folder = testing::collection_folder() / "real/sentiment-sst2";
  ARENITE_NEEDS_DATA(folder);
  // config.json says how many heads; the rest stands there in prose only.
  const TransformerSpec spec =
      testing::encoder_at(folder / "model.pt", {.activation = Activation::kGeluErf,
                                                .norm_first = true,
                                                .mask = MaskChoice::kBidirectional,
                                                .embedding_scale = EmbeddingScale{}});
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
    const Evaluation outputs = reference_encoder(spec, row_of(all_ids, row, tokens, length));
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
