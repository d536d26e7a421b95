// SPDX-License-Identifier: Apache-2.0
// Compares trained models with their reference programs: tokens, texts, logits and perplexities.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "convert/files/npy.h"
#include "support/recognised.h"
#include "support/reference_models.h"
#include "support/temp_folder.h"
#include "support/test_data.h"

namespace arenite::convert {
namespace {

nlohmann::json read_json(const std::filesystem::path& file) {
  return nlohmann::json::parse(testing::read_bytes(file));
}

uint32_t argmax(std::span<const double> logits) {
  return static_cast<uint32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

// Sum over positions of -log p(next token).
double negative_log_likelihood(const TransformerSpec& spec, const std::vector<uint32_t>& ids) {
  const std::vector<double> logits = reference_decoder(spec, ids).values;
  double sum = 0.0;
  for (size_t t = 0; t + 1 < ids.size(); ++t) {
    const auto row = std::span(logits).subspan(t * spec.vocab_size, spec.vocab_size);
    const double max = *std::max_element(row.begin(), row.end());
    double total = 0.0;
    for (const double logit : row) total += std::exp(logit - max);
    sum += max + std::log(total) - row[ids[t + 1]];
  }
  return sum;
}

// Returns the first position from `start` on at which the most likely token is not the next token;
// the last position if there is none.
size_t first_deviation(const TransformerSpec& spec, const std::vector<uint32_t>& ids,
                       size_t start) {
  const std::vector<double> logits = reference_decoder(spec, ids).values;
  size_t t = start;
  while (t + 1 < ids.size() &&
         argmax(std::span(logits).subspan(t * spec.vocab_size, spec.vocab_size)) == ids[t + 1]) {
    ++t;
  }
  return t;
}

class RealModel : public ::testing::Test {
 protected:
  std::filesystem::path folder(const char* name) const {
    return testing::collection_folder() / "real" / name;
  }
};

TEST_F(RealModel, Story656kChoosesTheTokensOfTransformers) {
  ARENITE_NEEDS_DATA(folder("story-656k"));
  const TransformerSpec spec = testing::decoder_at(folder("story-656k"));
  EXPECT_FALSE(spec.output.has_value());
  EXPECT_EQ(spec.token_embedding->name, "lm_head.weight");
  EXPECT_EQ(spec.bos_id, 1u);
  EXPECT_EQ(spec.eos_ids, std::vector<uint32_t>{2});
  const nlohmann::json expected = read_json(folder("story-656k") / "expected.json");
  for (const nlohmann::json& text : expected["greedy"]) {
    const auto prompt = text["prompt_ids"].get<std::vector<uint32_t>>();
    const auto ids = text["greedy_ids"].get<std::vector<uint32_t>>();
    EXPECT_EQ(first_deviation(spec, ids, prompt.size() - 1), ids.size() - 1);

    const std::vector<double> logits = reference_decoder(spec, prompt).values;
    const auto last = std::span(logits).last(spec.vocab_size);
    EXPECT_EQ(argmax(last), text["argmax"].get<uint32_t>());
    for (size_t i = 0; i < text["last_logits_first16"].size(); ++i) {
      EXPECT_NEAR(last[i], text["last_logits_first16"][i].get<double>(), 2e-5) << i;
    }
  }
  const auto ids = expected["perplexity"]["ids"].get<std::vector<uint32_t>>();
  EXPECT_NEAR(negative_log_likelihood(spec, ids) / static_cast<double>(ids.size() - 1),
              expected["perplexity"]["mean_nll"].get<double>(), 1e-5);
}

TEST_F(RealModel, SortNanoGptSortsEveryInput) {
  ARENITE_NEEDS_DATA(folder("sort-nano-gpt"));
  const TransformerSpec spec = testing::decoder_at(folder("sort-nano-gpt"));
  const NpyArray greedy = NpyArray::read(folder("sort-nano-gpt") / "greedy_ids.npy");
  const std::vector<int64_t> all = greedy.to_i64();
  const size_t length = greedy.shape()[1];
  for (size_t row = 0; row < greedy.shape()[0]; ++row) {
    // The last token is chosen at position 11 of 11, so it is not fed.
    const auto begin = all.begin() + static_cast<ptrdiff_t>(row * length);
    const std::vector<uint32_t> ids(begin, begin + static_cast<ptrdiff_t>(length));
    const std::vector<double> logits =
        reference_decoder(spec, std::span(ids).first(length - 1)).values;
    for (size_t t = 5; t + 1 < length; ++t) {
      ASSERT_EQ(argmax(std::span(logits).subspan(t * 3, 3)), ids[t + 1]) << row << ", " << t;
    }
  }
  const std::vector<int64_t> input =
      NpyArray::read(folder("sort-nano-gpt") / "input_ids.npy").to_i64();
  const NpyArray logits = NpyArray::read(folder("sort-nano-gpt") / "logits.npy");
  const std::vector<double> expected = logits.to_f64();
  const size_t rows = logits.shape()[0];
  const size_t tokens = input.size() / rows;
  for (size_t row = 0; row < rows; ++row) {
    const auto begin = input.begin() + static_cast<ptrdiff_t>(row * tokens);
    const std::vector<uint32_t> ids(begin, begin + static_cast<ptrdiff_t>(tokens));
    const std::vector<double> found = reference_decoder(spec, ids).values;
    const size_t values = expected.size() / rows;
    for (size_t i = 0; i < values; ++i) {
      EXPECT_NEAR(found[found.size() - values + i], expected[row * values + i], 2e-5);
    }
  }
}

// Encodes with llama2.c's tokenizer.bin as llama2.c does: characters first, then the best pair is
// merged until none is left.
class Llama2cVocabulary {
 public:
  explicit Llama2cVocabulary(const std::filesystem::path& file) {
    const std::string bytes = testing::read_bytes(file);
    size_t at = 4;  // the longest piece's length
    while (at < bytes.size()) {
      float score = 0;
      int32_t length = 0;
      std::memcpy(&score, bytes.data() + at, 4);
      std::memcpy(&length, bytes.data() + at + 4, 4);
      pieces_.push_back(bytes.substr(at + 8, static_cast<size_t>(length)));
      scores_.push_back(score);
      at += 8 + static_cast<size_t>(length);
    }
  }

  std::vector<uint32_t> encode(const std::string& text) const {
    std::vector<uint32_t> ids = {1};
    if (!text.empty()) ids.push_back(find(" ").value());
    for (const char c : text) {  // a character without a piece is its byte's token, from 3 on
      ids.push_back(find(std::string(1, c)).value_or(static_cast<unsigned char>(c) + 3u));
    }
    while (true) {
      std::optional<uint32_t> best;
      size_t best_at = 0;
      for (size_t i = 0; i + 1 < ids.size(); ++i) {
        const auto merged = find(pieces_[ids[i]] + pieces_[ids[i + 1]]);
        if (merged && (!best || scores_[*merged] > scores_[*best])) {
          best = merged;
          best_at = i;
        }
      }
      if (!best) return ids;
      ids[best_at] = *best;
      ids.erase(ids.begin() + static_cast<ptrdiff_t>(best_at) + 1);
    }
  }

 private:
  std::optional<uint32_t> find(const std::string& piece) const {
    const auto found = std::find(pieces_.begin(), pieces_.end(), piece);
    if (found == pieces_.end()) return std::nullopt;
    return static_cast<uint32_t>(found - pieces_.begin());
  }

  std::vector<std::string> pieces_;
  std::vector<float> scores_;
};

TEST_F(RealModel, Stories260kWritesTheTextOfLlama2c) {
  ARENITE_NEEDS_DATA(folder("stories260k"));
  const TransformerSpec spec = testing::decoder_at(folder("stories260k") / "stories260K.bin");
  const Llama2cVocabulary vocabulary(folder("stories260k") / "tok512.bin");
  const nlohmann::json expected = read_json(folder("stories260k") / "expected.json");
  for (const auto& [prompt, text] : expected["greedy_text"].items()) {
    // The program ends its output with a newline. All it wrote is encoded as it was chosen.
    const std::string written = text;
    const std::vector<uint32_t> ids = vocabulary.encode(written.substr(0, written.size() - 1));
    EXPECT_EQ(first_deviation(spec, ids, vocabulary.encode(prompt).size() - 1), ids.size() - 1);
    EXPECT_GT(ids.size(), 180u);
  }
  const nlohmann::json& perplexity = expected["perplexity"];
  const std::vector<uint32_t> ids = vocabulary.encode(perplexity["sentence"]);
  EXPECT_NEAR(negative_log_likelihood(spec, ids), perplexity["nll"].get<double>(), 1e-4);
}

TEST_F(RealModel, Stories260kHasTheExpectedPerplexityOfManyLines) {
  const std::filesystem::path real = testing::collection_folder() / "real";
  ARENITE_NEEDS_DATA(real / "perplexity.json");
  const TransformerSpec spec = testing::decoder_at(real / "stories260k/stories260K.bin");
  const Llama2cVocabulary vocabulary(real / "stories260k/tok512.bin");
  const nlohmann::json expected = read_json(real / "perplexity.json")["stories260k"];
  std::ifstream lines(real / "eval_stories.txt");
  double sum = 0.0;
  size_t scored = 0;
  for (std::string line; std::getline(lines, line);) {
    const std::vector<uint32_t> ids = vocabulary.encode(line);
    if (scored == 0) {
      EXPECT_EQ(nlohmann::json(ids), expected["first_line_ids"]);
    }
    sum += negative_log_likelihood(spec, ids);
    scored += ids.size() - 1;
  }
  EXPECT_EQ(scored, expected["tokens_scored"].get<size_t>());
  EXPECT_NEAR(sum / static_cast<double>(scored), expected["mean_nll"].get<double>(), 1e-6);
}

}  // namespace
}  // namespace arenite::convert
