// SPDX-License-Identifier: Apache-2.0
// Compares encoders with PyTorch on every kernel set: padded with a mask, packed, alone, in any
// order.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <tuple>

#include "convert/files/npy.h"
#include "golden/converted.h"
#include "golden/golden_case.h"
#include "support/compare.h"
#include "support/kernel_sets.h"
#include "support/slow_builds.h"
#include "support/test_data.h"
#include "support/test_session.h"
#include "support/transformers_cases.h"

namespace arenite::test {
namespace {

namespace fs = std::filesystem;

// Share of the largest value.
constexpr double kEncoderError = 2e-5;

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

::testing::AssertionResult near(std::span<const float> found, const std::vector<double>& expected) {
  double largest = 0.0;
  for (const double value : expected) largest = std::max(largest, std::abs(value));
  return all_near(found, expected, kEncoderError * largest);
}

using arenite::testing::kEncoderCases;
using arenite::testing::TransformersCase;
using Parameter = std::tuple<TransformersCase, Target>;

// A batch with padding, as transformers had it. Arrays are [sequences, tokens].
struct PaddedCase {
  std::vector<TokenId> ids;
  std::vector<uint8_t> visible;
  std::vector<uint8_t> types;  // empty: the model knows one type
  uint32_t sequences = 0;
  uint32_t tokens = 0;
};

template <typename Value>
std::vector<Value> read_whole(const fs::path& file) {
  std::vector<Value> values;
  for (const int64_t value : convert::NpyArray::read(file).to_i64()) {
    values.push_back(static_cast<Value>(value));
  }
  return values;
}

PaddedCase read_padded(const fs::path& folder) {
  PaddedCase padded;
  padded.ids = read_whole<TokenId>(folder / "input_ids.npy");
  padded.visible = read_whole<uint8_t>(folder / "attention_mask.npy");
  if (fs::exists(folder / "token_type_ids.npy")) {
    padded.types = read_whole<uint8_t>(folder / "token_type_ids.npy");
  }
  const convert::NpyArray ids = convert::NpyArray::read(folder / "input_ids.npy");
  padded.sequences = static_cast<uint32_t>(ids.shape()[0]);
  padded.tokens = static_cast<uint32_t>(ids.shape()[1]);
  return padded;
}

class EncoderGolden : public ::testing::TestWithParam<Parameter> {
 protected:
  void SetUp() override {
    folder_ = std::get<0>(GetParam()).folder("encoders");
    if (!std::get<0>(GetParam()).is_own) {
      ARENITE_NEEDS_DATA(folder_);
    }
    padded_ = read_padded(folder_);
  }

  Target target() const { return std::get<1>(GetParam()); }
  SessionOptions options() const { return options_for(padded_.tokens, padded_.sequences); }

  std::vector<float> run_padded(const TestSession& session) const {
    Diagnostic why;
    return values_of(session->run(TokenBatch{padded_.ids,
                                             padded_.sequences,
                                             padded_.tokens,
                                             {},
                                             padded_.visible,
                                             false,
                                             padded_.types},
                                  &why),
                     why);
  }

  std::vector<uint32_t> in_order() const {
    std::vector<uint32_t> order(padded_.sequences);
    std::iota(order.begin(), order.end(), 0u);
    return order;
  }

  // The visible tokens of the sequences that `order` names, back to back.
  std::vector<float> run_packed(const TestSession& session, std::span<const uint32_t> order) const {
    std::vector<TokenId> ids;
    std::vector<uint8_t> types;
    std::vector<uint32_t> lengths;
    for (const uint32_t sequence : order) {
      const size_t before = ids.size();
      for (size_t i = sequence * padded_.tokens; i < (sequence + 1) * padded_.tokens; ++i) {
        if (padded_.visible[i] == 0) continue;
        ids.push_back(padded_.ids[i]);
        if (!padded_.types.empty()) types.push_back(padded_.types[i]);
      }
      lengths.push_back(static_cast<uint32_t>(ids.size() - before));
    }
    return values_of(session->run(
        TokenBatch{ids, static_cast<uint32_t>(order.size()), 0, lengths, {}, true, types}));
  }

  // Values of [sequences, tokens, ...], of the visible tokens alone; values of sequences as they
  // are.
  std::vector<double> expected(const convert::NpyArray& array) const {
    const std::vector<double> all = array.to_f64();
    if (array.shape().size() == 2) return all;
    return visible_rows(all, padded_.visible, all.size() / padded_.visible.size());
  }

  void expect_states(const States& states, size_t width) const {
    const std::vector<double> all = convert::NpyArray::read(folder_ / "hidden_states.npy").to_f64();
    const size_t each = padded_.visible.size() * width;
    ASSERT_EQ(all.size(), states.values.size() * each);
    for (size_t i = 0; i < states.values.size(); ++i) {
      const std::span state = std::span(all).subspan(i * each, each);
      EXPECT_TRUE(near(states.values[i], visible_rows(state, padded_.visible, width))) << i;
    }
  }

  std::vector<double> expected_output() const {
    const fs::path with_head = folder_ / "output.npy";
    const fs::path alone = folder_ / "last_hidden_state.npy";
    return expected(convert::NpyArray::read(fs::exists(with_head) ? with_head : alone));
  }

  fs::path folder_;
  PaddedCase padded_;
};
INSTANTIATE_TEST_SUITE_P(Transformers, EncoderGolden,
                         ::testing::Combine(::testing::ValuesIn(kEncoderCases),
                                            ::testing::ValuesIn(float_targets_in_tests())),
                         [](const ::testing::TestParamInfo<Parameter>& info) {
                           return test_name(std::get<0>(info.param)) + "_" +
                                  kernel_set_name(std::get<1>(info.param));
                         });

TEST_P(EncoderGolden, GivesTheHiddenStatesAndOutputOfTransformers) {
  const TestModel model = open(folder_, target());
  States states;
  SessionOptions with_states = options();
  with_states.hidden_states = states.hook();
  const TestSession session(*model, with_states);
  EXPECT_TRUE(near(run_padded(session), expected_output()));
  ASSERT_EQ(states.values.size(), model->hidden_states());
  const nlohmann::json config = nlohmann::json::parse(std::ifstream(folder_ / "config.json"));
  expect_states(states, config.value("hidden_size", config.value("dim", size_t{0})));
}

TEST_P(EncoderGolden, GivesTheSameBitsPackedAloneAndInReverse) {
  const TestModel model = open(folder_, target());
  const TestSession session(*model, options());
  const std::vector<float> all = run_padded(session);
  std::vector<uint32_t> order = in_order();
  EXPECT_TRUE(same_bits(run_packed(session, order), all));
  std::vector<float> one_by_one, reversed;
  for (const uint32_t sequence : order) {
    const std::vector<float> one = run_packed(session, std::span(&sequence, 1));
    one_by_one.insert(one_by_one.end(), one.begin(), one.end());
    reversed.insert(reversed.begin(), one.begin(), one.end());
  }
  EXPECT_TRUE(same_bits(one_by_one, all));
  std::ranges::reverse(order);
  EXPECT_TRUE(same_bits(run_packed(session, order), reversed));
}

class RobertaGolden : public KernelSetTest {};
ARENITE_FOR_EACH_FLOAT_SET(RobertaGolden);

// Padding on the left, gaps, and the padding token within texts: positions depend on them.
TEST_P(RobertaGolden, GivesTheHiddenStatesOfTextsWithGaps) {
  const fs::path data = testing::project_folder() / "tests/convert/data/encoders/roberta_masked";
  const TestModel model = open(data, GetParam());
  const PaddedCase padded = read_padded(data);
  States states;
  SessionOptions options = options_for(padded.tokens, padded.sequences);
  options.hidden_states = states.hook();
  const TestSession session(*model, options);
  const TokenBatch batch{padded.ids, padded.sequences, padded.tokens, {}, padded.visible};
  ASSERT_TRUE(session->run(batch).ok());
  const size_t width = model->output_features();
  const std::vector<double> expected = convert::NpyArray::read(data / "hidden_states.npy").to_f64();
  const size_t state_size = padded.visible.size() * width;
  ASSERT_EQ(expected.size(), states.values.size() * state_size);
  for (size_t i = 0; i < states.values.size(); ++i) {
    const std::span state = std::span(expected).subspan(i * state_size, state_size);
    EXPECT_TRUE(near(states.values[i], visible_rows(state, padded.visible, width))) << i;
  }
}

class SentimentGolden : public KernelSetTest {};
ARENITE_FOR_EACH_FLOAT_SET(SentimentGolden);

// Trained by others: all sentences of the validation set, a hundred in a call. A slow build takes
// the first call.
TEST_P(SentimentGolden, GivesTheLogitsAndHiddenStatesOfPyTorch) {
  const fs::path data = data_folder() / "real/sentiment-sst2";
  ARENITE_NEEDS_DATA(data);
  const TestModel model =
      open(data / "model.pt", GetParam(), {"gelu", "norm_first", "bidirectional", "unscaled"});
  const std::vector<int64_t> ids = convert::NpyArray::read(data / "input_ids.npy").to_i64();
  const std::vector<int64_t> lengths = convert::NpyArray::read(data / "lengths.npy").to_i64();
  const std::vector<int64_t> labels = convert::NpyArray::read(data / "labels.npy").to_i64();
  std::vector<double> logits = convert::NpyArray::read(data / "logits.npy").to_f64();
  const std::vector<double> hidden = convert::NpyArray::read(data / "hidden_first4.npy").to_f64();
  const size_t tokens = ids.size() / lengths.size();
  constexpr size_t kGroup = 100;
  const size_t sentences = kSampled ? kGroup : lengths.size();
  logits.resize(2 * sentences);
  States states;
  SessionOptions options = options_for(static_cast<uint32_t>(tokens), kGroup);
  options.hidden_states = states.hook();
  const TestSession session(*model, options);
  std::vector<float> found;
  for (size_t first = 0; first < sentences; first += kGroup) {
    std::vector<TokenId> group_ids;
    std::vector<uint32_t> group_lengths;
    for (size_t s = first; s < std::min(first + kGroup, sentences); ++s) {
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
  for (size_t s = 0; s < sentences; ++s) {
    right += (found[2 * s + 1] > found[2 * s] ? 1 : 0) == labels[s] ? 1 : 0;
  }
  EXPECT_EQ(right, kSampled ? 80u : 711u);

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
