// SPDX-License-Identifier: Apache-2.0
// Forms of a batch: padded with lengths, padded with a mask, back to back. All give a sequence the
// same bits.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "runtime/session/encoder_fixture.h"
#include "support/slow_builds.h"

namespace arenite::test {
namespace {

class EncoderBatch : public EncoderTest {};
ARENITE_FOR_EACH_FLOAT_SET(EncoderBatch);

constexpr uint32_t kEncodedTokens = 37;

// One set of sequences in the three forms. The padding holds values that no model may read.
struct Forms {
  EncoderInput padded, dense;
  BatchForm with_lengths, with_mask, back_to_back;
};

Forms forms_of(const EncoderInput& sequences, const std::vector<uint32_t>& lengths) {
  Forms forms;
  const uint32_t count = static_cast<uint32_t>(lengths.size());
  forms.padded.features_per_token = forms.dense.features_per_token = sequences.features_per_token;
  std::vector<uint8_t> visible(size_t{count} * kEncodedTokens, 0);
  for (uint32_t i = 0; i < count; ++i) {
    EncoderInput row = sequences.part(size_t{i} * kEncodedTokens, kEncodedTokens);
    forms.dense.append(row.part(0, lengths[i]));
    std::fill_n(visible.begin() + i * kEncodedTokens, lengths[i], uint8_t{1});
    std::fill(row.ids.begin() + (row.ids.empty() ? 0 : lengths[i]), row.ids.end(), kNoToken);
    std::fill(row.types.begin() + (row.types.empty() ? 0 : lengths[i]), row.types.end(), 255);
    const size_t read = size_t{lengths[i]} * sequences.features_per_token;
    std::fill(row.features.begin() + static_cast<ptrdiff_t>(read), row.features.end(), NAN);
    forms.padded.append(row);
  }
  forms.with_lengths = {count, kEncodedTokens, lengths, {}, false};
  forms.with_mask = {count, kEncodedTokens, {}, visible, false};
  forms.back_to_back = {count, 0, lengths, {}, true};
  return forms;
}

TEST_P(EncoderBatch, SequencesEqualThoseAloneInEveryFormAndOrder) {
  std::vector<uint32_t> lengths = {37, 1, 33, 8, 16};
  const uint32_t count = static_cast<uint32_t>(lengths.size());
  for (const EncoderShape& shape : all_encoders()) {
    const TestModel model = load(shape);
    const TestSession session(*model, options_for(kEncodedTokens, count));
    const EncoderInput input = input_for(shape, count * kEncodedTokens);
    for (int order = 0; order < (kEmulated ? 1 : 3); ++order) {
      std::vector<float> expected;
      for (uint32_t i = 0; i < count; ++i) {
        const std::vector<float> one = alone(*model, input.part(i * kEncodedTokens, lengths[i]));
        expected.insert(expected.end(), one.begin(), one.end());
      }
      const Forms forms = forms_of(input, lengths);
      const auto run = [&](const EncoderInput& of, const BatchForm& form) {
        return values_of(run_batch(*session, of, form));
      };
      ASSERT_TRUE(same_bits(run(forms.padded, forms.with_lengths), expected)) << shape.name;
      ASSERT_TRUE(same_bits(run(forms.padded, forms.with_mask), expected)) << shape.name;
      ASSERT_TRUE(same_bits(run(forms.dense, forms.back_to_back), expected)) << shape.name;
      std::rotate(lengths.begin(), lengths.begin() + 2, lengths.end());
    }
  }
}

// Without position embeddings, hidden tokens might as well be absent.
TEST_P(EncoderBatch, AMaskWithGapsSkipsTokens) {
  const EncoderShape shape = encoder_named("wide");
  const TestModel model = load(shape);
  const TestSession session(*model, options_for(kEncodedTokens));
  const EncoderInput input = input_for(shape, kEncodedTokens);
  std::vector<uint8_t> visible(kEncodedTokens);
  EncoderInput seen;
  seen.features_per_token = shape.input_features;
  for (uint32_t t = 0; t < kEncodedTokens; ++t) {
    visible[t] = t % 3 != 0 || t == 33 ? 1 : 0;
    if (visible[t] != 0) seen.append(input.part(t, 1));
  }
  EXPECT_TRUE(
      same_bits(values_of(run_batch(*session, input, {1, kEncodedTokens, {}, visible, false})),
                alone(*model, seen)));
}

// A key-padding mask hides keys without moving the others, as in PyTorch.
TEST_P(EncoderBatch, TokensAfterAGapKeepTheirPositions) {
  const EncoderShape shape = encoder_named("bert");
  const TestModel model = load(shape);
  const TestSession session(*model, options_for(kEncoderPositions, 2));
  const EncoderInput input = input_for(shape, 2 * kEncodedTokens);
  // The second sequence is padded on its left.
  std::vector<uint8_t> visible(2 * kEncodedTokens, 1);
  for (const uint32_t hidden : {0u, 5u, 6u, 7u, 30u, 36u}) visible[hidden] = 0;
  std::fill_n(visible.begin() + kEncodedTokens, 20, uint8_t{0});
  std::vector<double> expected;
  for (size_t i = 0; i < 2; ++i) {
    EncoderInput seen;
    std::vector<uint32_t> columns;
    for (uint32_t t = 0; t < kEncodedTokens; ++t) {
      if (visible[i * kEncodedTokens + t] == 0) continue;
      seen.append(input.part(i * kEncodedTokens + t, 1));
      columns.push_back(t);
    }
    convert::TransformerSpec spec = make_encoder(shape);
    const convert::Floats table = spec.position_embedding->load();
    spec.position_embedding->load = [table, columns, dim = shape.model_dim] {
      std::vector<float> moved(table.size());
      for (size_t p = 0; p < columns.size(); ++p) {
        std::copy_n(table.begin() + columns[p] * dim, dim,
                    moved.begin() + static_cast<ptrdiff_t>(p * dim));
      }
      return moved;
    };
    const std::vector<double> values = reference(spec, seen).values;
    expected.insert(expected.end(), values.begin(), values.end());
  }
  EXPECT_TRUE(
      all_near(values_of(run_batch(*session, input, {2, kEncodedTokens, {}, visible, false})),
               expected, 300 * 64 * kRounding));
}

// RoBERTa counts the ids that are not padding, hidden ones included; padding has its own row.
TEST_P(EncoderBatch, PositionsWithoutPaddingAreCountedInTheIds) {
  EncoderShape shape = encoder_named("mixture");
  shape.pooling = SelectKind::kAsAsked;
  shape.more_pooling.clear();
  shape.classes = 0;
  const TestModel model = load(shape);
  const TestSession session(*model, options_for(kEncoderPositions, 3));
  EncoderInput input = input_for(shape, 3 * kEncodedTokens);
  for (TokenId& id : input.ids) id = std::max(id, 2u);
  std::vector<uint8_t> visible(3 * kEncodedTokens, 1);
  // Padded on its left; padding within the text, some of it hidden; gaps, with ids that are none.
  for (const size_t padding : {0u, 1u, 2u, 3u, 4u, 40u, 45u, 50u, 73u}) input.ids[padding] = 1;
  for (const size_t hidden : {0u, 1u, 2u, 3u, 4u, 9u, 37u, 45u, 60u, 74u, 80u, 110u})
    visible[hidden] = 0;
  input.ids[80] = kNoToken;
  convert::TransformerSpec spec = make_encoder(shape);
  const convert::Floats table = spec.position_embedding->load();
  std::vector<double> expected;
  for (size_t i = 0; i < 3; ++i) {
    EncoderInput seen;
    std::vector<float> rows(shape.position_offset * shape.model_dim);
    uint32_t counted = 0;
    for (size_t t = i * kEncodedTokens; t < (i + 1) * kEncodedTokens; ++t) {
      const bool is_padding = input.ids[t] == 1;
      if (!is_padding) ++counted;
      if (visible[t] == 0) continue;
      seen.append(input.part(t, 1));
      const uint32_t row = is_padding ? 1 : 1 + counted;
      rows.insert(rows.end(), table.begin() + row * shape.model_dim,
                  table.begin() + (row + 1) * shape.model_dim);
    }
    rows.resize(table.size());
    spec.padding_id.reset();
    spec.position_embedding->load = [rows] { return rows; };
    const std::vector<double> values = reference(spec, seen).values;
    expected.insert(expected.end(), values.begin(), values.end());
  }
  EXPECT_TRUE(
      all_near(values_of(run_batch(*session, input, {3, kEncodedTokens, {}, visible, false})),
               expected, 300 * 64 * kRounding));
}

TEST_P(EncoderBatch, ManyShortSequencesShareACall) {
  const EncoderShape shape = encoder_named("sentences");
  const TestModel model = load(shape);
  std::vector<uint32_t> lengths(67);
  for (size_t i = 0; i < lengths.size(); ++i) lengths[i] = static_cast<uint32_t>(1 + i * i % 9);
  const uint32_t total = std::accumulate(lengths.begin(), lengths.end(), 0u);
  SessionOptions options = options_for(9, 67);
  options.tokens_max = total;
  const TestSession session(*model, options);
  const EncoderInput input = input_for(shape, total);
  const std::vector<float> found =
      values_of(run_batch(*session, input, {67, 0, lengths, {}, true}));
  const size_t width = model->output_features();
  ASSERT_EQ(found.size(), 67 * width);
  size_t begin = 0;
  for (size_t i = 0; i < lengths.size(); ++i) {
    ASSERT_TRUE(same_bits(rows(found, width, i, 1), alone(*model, input.part(begin, lengths[i]))))
        << i;
    begin += lengths[i];
  }
}

}  // namespace
}  // namespace arenite::test
