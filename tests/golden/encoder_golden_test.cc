// SPDX-License-Identifier: Apache-2.0
// Encoders against what PyTorch computed, on every kernel set: padded with a mask, packed, alone,
// in any order.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "convert/npy.h"
#include "golden/converted.h"
#include "golden/golden_case.h"
#include "support/compare.h"
#include "support/kernel_sets.h"
#include "support/test_session.h"

namespace arenite::test {
namespace {

namespace fs = std::filesystem;

// Share of the largest value.
constexpr double kRelativeError = 2e-5;

TestModel open(const fs::path& path, Target target, std::vector<std::string> options = {}) {
  options.insert(options.begin(), name(target));
  return TestModel(converted("encoder", path, options).span(), target);
}

struct States {
  std::vector<std::vector<float>> values;  // [rows, features] each

  HiddenStateHook hook() {
    return {[](void* context, uint32_t, const float* data, uint32_t rows, uint32_t features) {
              static_cast<States*>(context)->values.emplace_back(data,
                                                                 data + size_t{rows} * features);
            },
            this};
  }
};

// Rows [tokens, width] of an array [sequences, tokens, width], for the tokens that are visible.
std::vector<double> visible_rows(std::span<const double> all, std::span<const uint8_t> visible,
                                 size_t width) {
  std::vector<double> seen;
  for (size_t t = 0; t < visible.size(); ++t) {
    if (visible[t] == 0) continue;
    const std::span row = all.subspan(t * width, width);
    seen.insert(seen.end(), row.begin(), row.end());
  }
  return seen;
}

testing::AssertionResult near(std::span<const float> found, const std::vector<double>& expected) {
  double largest = 0.0;
  for (const double value : expected) largest = std::max(largest, std::abs(value));
  return all_near(found, expected, kRelativeError * largest);
}

class EncoderGolden : public testing::TestWithParam<Target> {
 protected:
  // The folder of the data, or nothing with the test skipped.
  static fs::path folder(const char* name) {
    const fs::path path = data_folder() / name;
    if (fs::exists(path)) return path;
    [&] { GTEST_SKIP() << path << " is not there; set ARENITE_TEST_DATA"; }();
    return {};
  }
};
ARENITE_FOR_EACH_KERNEL_SET(EncoderGolden);

// A batch with padding, as transformers had it.
struct PaddedCase {
  std::vector<TokenId> ids;      // [sequences, tokens]
  std::vector<uint8_t> visible;  // [sequences, tokens]
  uint32_t sequences = 0;
  uint32_t tokens = 0;
};

PaddedCase read_padded(const fs::path& folder) {
  PaddedCase padded;
  const convert::NpyArray ids = convert::NpyArray::read(folder / "input_ids.npy");
  const convert::NpyArray mask = convert::NpyArray::read(folder / "attention_mask.npy");
  for (const int64_t id : ids.to_i64()) padded.ids.push_back(static_cast<TokenId>(id));
  for (const int64_t bit : mask.to_i64()) padded.visible.push_back(static_cast<uint8_t>(bit));
  padded.sequences = static_cast<uint32_t>(ids.shape()[0]);
  padded.tokens = static_cast<uint32_t>(ids.shape()[1]);
  return padded;
}

// The states in a folder's hidden_states.npy. Returns what the session gives out, for the tokens
// that are visible.
std::vector<float> expect_states(const TestModel& model, const fs::path& data,
                                 const PaddedCase& padded) {
  States states;
  SessionOptions options = options_for(padded.tokens, padded.sequences);
  options.hidden_states = states.hook();
  const TestSession session(*model, options);
  Diagnostic why;
  const std::vector<float> last = values_of(
      session->run(
          TokenBatch{padded.ids, padded.sequences, padded.tokens, {}, padded.visible, false, {}},
          &why),
      why);
  const size_t width = model->output_features();
  const std::vector<double> expected = convert::NpyArray::read(data / "hidden_states.npy").to_f64();
  EXPECT_EQ(states.values.size(), model->hidden_states());
  const size_t state_size = padded.visible.size() * width;
  EXPECT_EQ(expected.size(), states.values.size() * state_size);
  for (size_t i = 0; i < states.values.size(); ++i) {
    const std::span state = std::span(expected).subspan(i * state_size, state_size);
    EXPECT_TRUE(near(states.values[i], visible_rows(state, padded.visible, width))) << i;
  }
  return last;
}

TEST_P(EncoderGolden, BertGivesTheHiddenStatesOfTransformers) {
  const fs::path data = folder("goldens/hf-bert-tiny");
  if (data.empty()) return;
  const TestModel model = open(data, GetParam());
  const PaddedCase padded = read_padded(data);
  const std::vector<float> last = expect_states(model, data, padded);
  const std::vector<double> expected_last =
      convert::NpyArray::read(data / "last_hidden_state.npy").to_f64();
  EXPECT_TRUE(near(last, visible_rows(expected_last, padded.visible, model->output_features())));
}

// Padding on the left, gaps, and the padding token within texts: positions depend on them.
TEST_P(EncoderGolden, RobertaGivesTheHiddenStatesOfPaddedTexts) {
  const fs::path data = fs::path(ARENITE_SOURCE_DIR) / "tests/convert/data/encoders/roberta_masked";
  const TestModel model = open(data, GetParam());
  expect_states(model, data, read_padded(data));
}

TEST_P(EncoderGolden, BertGivesTheSameBitsPackedAloneAndInReverse) {
  const fs::path data = folder("goldens/hf-bert-tiny");
  if (data.empty()) return;
  const TestModel model = open(data, GetParam());
  const PaddedCase padded = read_padded(data);
  const TestSession session(*model, options_for(padded.tokens, padded.sequences));
  const std::vector<float> expected = values_of(session->run(
      TokenBatch{padded.ids, padded.sequences, padded.tokens, {}, padded.visible, false, {}}));
  // The mask of this case is ones, then zeros.
  std::vector<std::vector<TokenId>> sequences;
  for (uint32_t s = 0; s < padded.sequences; ++s) {
    const auto begin = padded.ids.begin() + s * padded.tokens;
    const auto mask = padded.visible.begin() + s * padded.tokens;
    const auto count = std::accumulate(mask, mask + padded.tokens, 0);
    ASSERT_EQ(std::find(mask, mask + padded.tokens, 0) - mask, count);
    sequences.emplace_back(begin, begin + count);
  }
  const auto run_packed = [&](const std::vector<std::vector<TokenId>>& some) {
    std::vector<TokenId> ids;
    std::vector<uint32_t> lengths;
    for (const std::vector<TokenId>& sequence : some) {
      ids.insert(ids.end(), sequence.begin(), sequence.end());
      lengths.push_back(static_cast<uint32_t>(sequence.size()));
    }
    return values_of(session->run(
        TokenBatch{ids, static_cast<uint32_t>(some.size()), 0, lengths, {}, true, {}}));
  };
  EXPECT_TRUE(same_bits(run_packed(sequences), expected));
  std::vector<float> one_by_one, reversed;
  for (const std::vector<TokenId>& sequence : sequences) {
    const std::vector<float> one = run_packed({sequence});
    one_by_one.insert(one_by_one.end(), one.begin(), one.end());
    reversed.insert(reversed.begin(), one.begin(), one.end());
  }
  EXPECT_TRUE(same_bits(one_by_one, expected));
  std::ranges::reverse(sequences);
  EXPECT_TRUE(same_bits(run_packed(sequences), reversed));
}

// Trained by others: all sentences of the validation set, a hundred in a call.
TEST_P(EncoderGolden, SentimentGivesTheLogitsAndHiddenStatesOfPyTorch) {
  const fs::path data = folder("real/sentiment-sst2");
  if (data.empty()) return;
  const TestModel model =
      open(data / "model.pt", GetParam(), {"gelu", "norm_first", "bidirectional", "unscaled"});
  const std::vector<int64_t> ids = convert::NpyArray::read(data / "input_ids.npy").to_i64();
  const std::vector<int64_t> lengths = convert::NpyArray::read(data / "lengths.npy").to_i64();
  const std::vector<int64_t> labels = convert::NpyArray::read(data / "labels.npy").to_i64();
  const std::vector<double> logits = convert::NpyArray::read(data / "logits.npy").to_f64();
  const std::vector<double> hidden = convert::NpyArray::read(data / "hidden_first4.npy").to_f64();
  const size_t tokens = ids.size() / lengths.size();
  constexpr size_t kGroup = 100;
  States states;
  SessionOptions options = options_for(static_cast<uint32_t>(tokens), kGroup);
  options.hidden_states = states.hook();
  const TestSession session(*model, options);
  std::vector<float> found;
  for (size_t first = 0; first < lengths.size(); first += kGroup) {
    std::vector<TokenId> group_ids;
    std::vector<uint32_t> group_lengths;
    for (size_t s = first; s < std::min(first + kGroup, lengths.size()); ++s) {
      group_lengths.push_back(static_cast<uint32_t>(lengths[s]));
      for (size_t t = 0; t < group_lengths.back(); ++t) {
        group_ids.push_back(static_cast<TokenId>(ids[s * tokens + t]));
      }
    }
    const std::vector<float> rows = values_of(session->run(TokenBatch{
        group_ids, static_cast<uint32_t>(group_lengths.size()), 0, group_lengths, {}, true, {}}));
    found.insert(found.end(), rows.begin(), rows.end());
  }
  EXPECT_TRUE(near(found, logits));
  size_t right = 0;
  for (size_t s = 0; s < labels.size(); ++s) {
    right += (found[2 * s + 1] > found[2 * s] ? 1 : 0) == labels[s] ? 1 : 0;
  }
  EXPECT_EQ(right, 711u);

  const size_t width = hidden.size() / 4 / tokens;
  std::vector<uint8_t> visible(4 * tokens, 0);
  size_t rows = 0;
  for (size_t s = 0; s < 4; ++s) {
    std::fill_n(visible.begin() + static_cast<ptrdiff_t>(s * tokens), lengths[s], uint8_t{1});
    rows += static_cast<size_t>(lengths[s]);
  }
  // The last state of the first call.
  const std::vector<float>& state = states.values[model->hidden_states() - 1];
  EXPECT_TRUE(near(std::span(state).first(rows * width), visible_rows(hidden, visible, width)));
}

}  // namespace
}  // namespace arenite::test
