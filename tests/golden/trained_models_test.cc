// SPDX-License-Identifier: Apache-2.0
// Compares trained decoders, from prompt to text, with the programs that they were trained for,
// token for token and on every kernel set.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>

#include "convert/files/npy.h"
#include "golden/decoder_case.h"
#include "golden/golden_case.h"
#include "support/compare.h"
#include "support/kernel_sets.h"
#include "support/slow_builds.h"
#include "support/test_data.h"

namespace arenite::test {
namespace {

constexpr double kTrainedError = 2e-5;     // of logits, as a share of the largest
constexpr double kLikelihoodError = 1e-5;  // relative

class TrainedModel : public KernelSetTest {
 protected:
  // Skips the test where the collection is absent.
  void find(const char* folder) {
    folder_ = data_folder() / "real" / folder;
    ARENITE_NEEDS_DATA(folder_);
  }

  // The perplexity of each line on its own, as perplexity.json has it.
  void expect_perplexity(const DecoderCase& decoder, const char* name) const {
    const nlohmann::json expected = read_json(data_folder() / "real" / "perplexity.json").at(name);
    std::ifstream lines(data_folder() / "real" / "eval_stories.txt");
    double sum = 0.0;
    size_t scored = 0;
    for (std::string line; std::getline(lines, line);) {
      const std::vector<TokenId> ids = decoder.encode(line);
      if (scored == 0) {
        EXPECT_EQ(ids, expected.at("first_line_ids").get<std::vector<TokenId>>());
      }
      sum += negative_log_likelihood(decoder.model(), ids);
      scored += ids.size() - 1;
    }
    EXPECT_EQ(scored, expected.at("tokens_scored").get<size_t>());
    const double mean = expected.at("mean_nll").get<double>();
    EXPECT_NEAR(sum / static_cast<double>(scored), mean, kLikelihoodError * mean);
  }

  std::filesystem::path folder_;
};

class Stories260k : public TrainedModel {
 protected:
  void SetUp() override { find("stories260k"); }
  DecoderCase open() const {
    return DecoderCase(folder_ / "stories260K.bin", GetParam(), folder_ / "tok512.bin");
  }
};
ARENITE_FOR_EACH_FLOAT_SET(Stories260k);

TEST_P(Stories260k, ContinuesAsLlama2cDoes) {
  constexpr size_t kSteps = 200;
  const DecoderCase decoder = open();
  const TokenId bos = Tokenizer::of(decoder.model())->bos();
  const nlohmann::json expected = read_json(folder_ / "expected.json").at("greedy_text");
  for (const auto& [prompt, text] : expected.items()) {
    // llama2.c prints what comes after the first token, and ends at the next one of its kind.
    const std::vector<TokenId> ids =
        continue_greedily(decoder.model(), decoder.encode(prompt), kSteps + 1, std::span(&bos, 1));
    EXPECT_EQ(decoder.decode(ids) + "\n", text.get<std::string>());
  }
}

TEST_P(Stories260k, HasThePerplexityOfLlama2c) {
  const DecoderCase decoder = open();
  const nlohmann::json expected = read_json(folder_ / "expected.json").at("perplexity");
  const std::vector<TokenId> ids = decoder.encode(expected.at("sentence").get<std::string>());
  EXPECT_EQ(ids.size(), expected.at("tokens").get<size_t>());
  const double nll = expected.at("nll").get<double>();
  EXPECT_NEAR(negative_log_likelihood(decoder.model(), ids), nll, kLikelihoodError * nll);
  expect_perplexity(decoder, "stories260k");
}

class Story656k : public TrainedModel {
 protected:
  void SetUp() override { find("story-656k"); }
};
ARENITE_FOR_EACH_FLOAT_SET(Story656k);

TEST_P(Story656k, ContinuesAsTransformersDoes) {
  const DecoderCase decoder(folder_, GetParam());
  const nlohmann::json expected = read_json(folder_ / "expected.json");
  ASSERT_FALSE(expected.at("greedy").empty());
  for (const nlohmann::json& item : expected.at("greedy")) {
    const auto prompt_ids = item.at("prompt_ids").get<std::vector<TokenId>>();
    EXPECT_EQ(decoder.encode(item.at("prompt").get<std::string>()), prompt_ids);
    const auto ids = item.at("greedy_ids").get<std::vector<TokenId>>();
    EXPECT_EQ(continue_greedily(decoder.model(), prompt_ids, ids.size()), ids);

    const std::vector<float> logits = run_in_chunks(decoder.model(), prompt_ids, 8).logits;
    const auto last = std::span(logits).last(decoder.model().vocab_size());
    const auto first16 = item.at("last_logits_first16").get<std::vector<double>>();
    const double largest = *std::ranges::max_element(last);
    EXPECT_TRUE(all_near(last.first(16), first16, kTrainedError * largest));
    EXPECT_EQ(best_token(last), item.at("argmax").get<TokenId>());
  }
}

TEST_P(Story656k, HasThePerplexityOfTransformers) {
  const DecoderCase decoder(folder_, GetParam());
  const nlohmann::json expected = read_json(folder_ / "expected.json").at("perplexity");
  const auto ids = expected.at("ids").get<std::vector<TokenId>>();
  EXPECT_EQ(decoder.encode(expected.at("text").get<std::string>()), ids);
  const double mean = expected.at("mean_nll").get<double>();
  EXPECT_NEAR(negative_log_likelihood(decoder.model(), ids) / static_cast<double>(ids.size() - 1),
              mean, kLikelihoodError * mean);
  expect_perplexity(decoder, "story-656k");
}

class SortNanoGpt : public TrainedModel {
 protected:
  void SetUp() override { find("sort-nano-gpt"); }
};
ARENITE_FOR_EACH_FLOAT_SET(SortNanoGpt);

// A slow build takes a sample.
TEST_P(SortNanoGpt, SortsAllInputs) {
  const DecoderCase decoder(folder_, GetParam());
  const convert::NpyArray array = convert::NpyArray::read(folder_ / "greedy_ids.npy");
  const std::vector<int64_t> expected = array.to_i64();
  const size_t count = static_cast<size_t>(array.shape()[1]);
  constexpr size_t kDigits = 6;
  for (size_t i = 0; i < array.shape()[0]; i += kSampled ? 31 : 1) {
    const std::vector<TokenId> ids(expected.begin() + static_cast<ptrdiff_t>(i * count),
                                   expected.begin() + static_cast<ptrdiff_t>((i + 1) * count));
    const std::vector<TokenId> prompt(ids.begin(), ids.begin() + kDigits);
    // The last digit needs no position of its own: it is given out, never fed.
    std::vector<TokenId> found = continue_greedily(decoder.model(), prompt, count - 1);
    const std::vector<float> logits = run_in_chunks(decoder.model(), found, 16).logits;
    found.push_back(best_token(std::span(logits).last(decoder.model().vocab_size())));
    ASSERT_EQ(found, ids) << "input " << i;
  }
}

TEST_P(SortNanoGpt, GivesTheLogitsOfTransformers) {
  const DecoderCase decoder(folder_, GetParam());
  const convert::NpyArray array = convert::NpyArray::read(folder_ / "input_ids.npy");
  const std::vector<int64_t> all = array.to_i64();
  const std::vector<double> logits = convert::NpyArray::read(folder_ / "logits.npy").to_f64();
  const size_t tokens = static_cast<size_t>(array.shape().back());
  const size_t sequences = all.size() / tokens;
  const size_t each = logits.size() / sequences;
  for (size_t s = 0; s < sequences; ++s) {
    const std::vector<TokenId> ids(all.begin() + static_cast<ptrdiff_t>(s * tokens),
                                   all.begin() + static_cast<ptrdiff_t>((s + 1) * tokens));
    const auto expected = std::span(logits).subspan(s * each, each);
    double largest = 0.0;
    for (const double value : expected) largest = std::max(largest, std::abs(value));
    ASSERT_TRUE(
        all_near(run_in_chunks(decoder.model(), ids, 4).logits, expected, kTrainedError * largest));
  }
}

class HomeIntent : public KernelSetTest {
 protected:
  std::filesystem::path folder() const {
    return testing::project_folder() / "models" / "home-intent";
  }
};
ARENITE_FOR_EACH_FLOAT_SET(HomeIntent);

TEST_P(HomeIntent, AnswersThePinnedCommands) {
  const DecoderCase decoder(folder(), GetParam());
  const Tokenizer tokenizer = *Tokenizer::of(decoder.model());
  const TokenId answer = tokenizer.find_special("<|do|>");
  ASSERT_NE(answer, kNoToken);
  const nlohmann::json expected = read_json(folder() / "expected.json");
  ASSERT_FALSE(expected.at("cases").empty());
  for (const nlohmann::json& item : expected.at("cases")) {
    std::vector<TokenId> prompt = decoder.encode(item.at("command").get<std::string>());
    prompt.push_back(answer);
    ASSERT_EQ(prompt, item.at("prompt_ids").get<std::vector<TokenId>>());
    const TokenId end = tokenizer.end();
    std::vector<TokenId> ids = continue_greedily(
        decoder.model(), prompt, decoder.model().positions_max(), std::span(&end, 1));
    ids.erase(ids.begin(), ids.begin() + static_cast<ptrdiff_t>(prompt.size()));
    EXPECT_EQ(decoder.decode(ids), item.at("text").get<std::string>());
    ids.push_back(end);
    EXPECT_EQ(ids, item.at("ids").get<std::vector<TokenId>>());
  }
}

TEST_P(HomeIntent, GivesTheLogitsOfItsReference) {
  const DecoderCase decoder(folder(), GetParam());
  const nlohmann::json expected = read_json(folder() / "expected.json").at("logits");
  const auto ids = expected.at("prompt_ids").get<std::vector<TokenId>>();
  const auto values = expected.at("last_token").get<std::vector<double>>();
  const std::vector<float> logits =
      run_in_chunks(decoder.model(), ids, static_cast<uint32_t>(ids.size())).logits;
  const double largest = *std::ranges::max_element(values);
  EXPECT_TRUE(all_near(std::span(logits).last(values.size()), values, kTrainedError * largest));
}

}  // namespace
}  // namespace arenite::test
