// SPDX-License-Identifier: Apache-2.0
// Bounds the quantization loss of trained models, on every kernel set: perplexity of
// texts by other authors, and commands and windows outside the training data.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "convert/files/npy.h"
#include "format/reader.h"
#include "golden/converted.h"
#include "golden/decoder_case.h"
#include "golden/golden_case.h"
#include "support/kernel_sets.h"
#include "support/slow_builds.h"
#include "support/test_data.h"

namespace arenite::test {
namespace {

// A model, converted when it is first asked for. `rounding` is "calibrated" or "rounded".
std::span<const std::byte> few_bits(const std::filesystem::path& model, const std::string& weights,
                                    const std::string& rounding,
                                    const std::filesystem::path& tokenizer = {}) {
  static std::map<std::vector<std::string>, convert::AlignedBytes> converted_once;
  std::vector<std::string> options = {targets_for(targets_in_tests()), weights, rounding};
  if (!tokenizer.empty()) options.push_back(tokenizer.string());
  std::vector<std::string> key = options;
  key.push_back(model.string());
  const auto found = converted_once.find(key);
  if (found != converted_once.end()) return found->second.span();
  return converted_once.emplace(key, converted("few_bits", model, options)).first->second.span();
}

// ---- float32 ----

// Conversions to float32 keep the checksums of earlier releases.
TEST(FloatWeights, KeepTheChecksumsOfEarlierReleases) {
  const std::filesystem::path models = testing::project_folder() / "models";
  const auto checksums = [&](const char* kind, const char* model, const char* last) {
    const convert::AlignedBytes file =
        converted(kind, models / model, {"portable,x86-64-v3", last});
    const format::ModelReader reader(file.span());
    return std::pair(reader.packed(0).segment.crc32c, reader.packed(1).segment.crc32c);
  };
  EXPECT_EQ(checksums("decoder", "home-intent", ""), std::pair(3608450426u, 895678712u));
  EXPECT_EQ(checksums("encoder", "vibration", "norm_first"), std::pair(891062312u, 2943047868u));
}

// ---- decoders that write stories: in an emulator they take minutes ----

#ifndef ARENITE_TESTS_ARE_EMULATED

// A model and the file of its tokenizer, which may be in the model's folder.
struct StoryModel {
  const char* name;
  const char* file;
  const char* tokenizer;
};
constexpr StoryModel kStories260k = {"stories260k", "stories260k/stories260K.bin",
                                     "stories260k/tok512.bin"};
constexpr StoryModel kStory656k = {"story-656k", "story-656k", ""};

// Logarithms of probabilities, from logits [tokens, width].
std::vector<double> log_probabilities(const std::vector<float>& logits, size_t width) {
  std::vector<double> logs(logits.begin(), logits.end());
  for (size_t begin = 0; begin < logs.size(); begin += width) {
    const auto row = std::span(logs).subspan(begin, width);
    const double largest = *std::ranges::max_element(row);
    double total = 0.0;
    for (const double log : row) total += std::exp(log - largest);
    for (double& log : row) log -= largest + std::log(total);
  }
  return logs;
}

class StoriesInFewBits : public KernelSetTest {
 protected:
  void SetUp() override { ARENITE_NEEDS_DATA(real() / "eval_stories.txt"); }

  static std::filesystem::path real() { return data_folder() / "real"; }

  static DecoderCase open(const StoryModel& model, const char* weights, const char* rounding) {
    const std::filesystem::path tokenizer =
        *model.tokenizer == '\0' ? std::filesystem::path() : real() / model.tokenizer;
    return DecoderCase(few_bits(real() / model.file, weights, rounding, tokenizer), GetParam());
  }

  // Results of a model for all lines.
  struct Run {
    std::vector<std::vector<TokenId>> lines;
    std::vector<std::vector<double>> logs;  // of probabilities, [tokens, vocabulary]
    size_t width = 0;
  };

  static Run run(const StoryModel& model, const char* weights, const char* rounding) {
    const DecoderCase decoder = open(model, weights, rounding);
    Run run;
    run.lines = lines_of(decoder);
    run.width = decoder.model().vocab_size();
    for (const std::vector<TokenId>& ids : run.lines) {
      run.logs.push_back(
          log_probabilities(run_in_chunks(decoder.model(), ids, 16).logits, run.width));
    }
    return run;
  }

  // The share by which the perplexity is above that of the model in float64.
  static double perplexity_increase(const StoryModel& model, const Run& run) {
    const nlohmann::json expected = read_json(real() / "perplexity.json").at(model.name);
    double nll = 0.0;
    size_t scored = 0;
    for (size_t line = 0; line < run.lines.size(); ++line) {
      const std::vector<TokenId>& ids = run.lines[line];
      for (size_t t = 0; t + 1 < ids.size(); ++t) {
        nll -= run.logs[line][t * run.width + ids[t + 1]];
      }
      scored += ids.size() - 1;
    }
    EXPECT_EQ(scored, expected.at("tokens_scored").get<size_t>());
    return std::expm1(nll / static_cast<double>(scored) - expected.at("mean_nll").get<double>());
  }

  // Mean KL divergence over all tokens of all lines.
  static double mean_kl(const Run& reference, const Run& other) {
    double sum = 0.0;
    size_t rows = 0;
    for (size_t line = 0; line < reference.lines.size(); ++line) {
      const std::vector<double>& p = reference.logs[line];
      for (size_t i = 0; i < p.size(); ++i) sum += std::exp(p[i]) * (p[i] - other.logs[line][i]);
      rows += reference.lines[line].size();
    }
    return sum / static_cast<double>(rows);
  }

  // Each bar in one place for both models.
  static void expect_small_loss(const StoryModel& model) {
    const Run calibrated = run(model, "q4", "calibrated");
    const double q8 = perplexity_increase(model, run(model, "q8", "calibrated"));
    const double q4 = perplexity_increase(model, calibrated);
    EXPECT_LE(q8, 0.004);
    EXPECT_LE(q4, 0.07);
    const double int8_cache = perplexity_increase(model, run(model, "f32+int8", "rounded"));
    EXPECT_LE(int8_cache, 0.002);
    const Run reference = run(model, "f32", "rounded");
    const double kl = mean_kl(reference, calibrated);
    const double kl_of_rounding = mean_kl(reference, run(model, "q4", "rounded"));
    EXPECT_LE(kl, 0.8 * kl_of_rounding);
    RecordProperty("figures", "q8 " + std::to_string(100.0 * q8) + " %, q4 " +
                                  std::to_string(100.0 * q4) + " %, int8 cache " +
                                  std::to_string(100.0 * int8_cache) + " %, KL " +
                                  std::to_string(kl) + " of " + std::to_string(kl_of_rounding));
  }

 private:
  static std::vector<std::vector<TokenId>> lines_of(const DecoderCase& decoder) {
    std::vector<std::vector<TokenId>> lines;
    std::ifstream file(real() / "eval_stories.txt");
    for (std::string line; std::getline(file, line);) lines.push_back(decoder.encode(line));
    return lines;
  }
};
ARENITE_FOR_EACH_KERNEL_SET(StoriesInFewBits);

TEST_P(StoriesInFewBits, KeepThePerplexityOf260000Parameters) { expect_small_loss(kStories260k); }

TEST_P(StoriesInFewBits, KeepThePerplexityOf656000Parameters) { expect_small_loss(kStory656k); }
#endif

// ---- models/home-intent ----

struct Command {
  std::string text;
  std::string action;
};

class CommandsInFewBits : public KernelSetTest {
 protected:
  static std::filesystem::path folder() {
    return testing::project_folder() / "models" / "home-intent";
  }

  // Those that training has not seen; in a slow build one of kEvery.
  static std::vector<Command> commands() {
    std::vector<Command> all;
    std::ifstream file(folder() / "held_out.tsv");
    size_t number = 0;
    for (std::string line; std::getline(file, line); ++number) {
      const size_t tab = line.find('\t');
      if (number % kEvery == 0) all.push_back({line.substr(0, tab), line.substr(tab + 1)});
    }
    return all;
  }

  // Returns the share of commands for which greedy decoding gives the whole action. A single step
  // suffices: each token of the action must be the most probable after its predecessors.
  static double share_answered(const DecoderCase& decoder) {
    const Tokenizer tokenizer = *Tokenizer::of(decoder.model());
    SessionOptions options = options_for(decoder.model().positions_max());
    options.tokens_max = options.positions_max;
    options.outputs = Outputs::kAll;
    const TestSession session(decoder.model(), options);
    size_t right = 0;
    const std::vector<Command> asked = commands();
    for (const Command& command : asked) {
      std::vector<TokenId> ids = decoder.encode(command.text);
      const size_t begin = ids.size();  // of what is to be answered, less one
      ids.push_back(tokenizer.find_special("<|do|>"));
      std::ranges::copy(decoder.encode(command.action), std::back_inserter(ids));
      ids.push_back(tokenizer.end());
      session->reset();
      Diagnostic why;
      const std::vector<float> logits =
          values_of(session->step(std::span<const TokenId>(ids).first(ids.size() - 1), &why), why);
      const size_t width = decoder.model().vocab_size();
      bool is_right = true;
      for (size_t at = begin; at + 1 < ids.size(); ++at) {
        is_right =
            is_right && best_token(std::span(logits).subspan(at * width, width)) == ids[at + 1];
      }
      right += is_right ? 1 : 0;
    }
    EXPECT_EQ(asked.size(), 4000 / kEvery);
    return static_cast<double>(right) / static_cast<double>(asked.size());
  }

  static double share_answered(const char* weights) {
    return share_answered(DecoderCase(few_bits(folder(), weights, "calibrated"), GetParam()));
  }

  static constexpr size_t kEvery = kSampled ? 40 : 1;
};
ARENITE_FOR_EACH_KERNEL_SET(CommandsInFewBits);

TEST_P(CommandsInFewBits, ReachTheirShareOfRightAnswers) {
  const double q8 = share_answered("q8");
  const double q4 = share_answered("q4");
  EXPECT_GE(q8, 0.994);
  EXPECT_GE(q4, 0.985);
  RecordProperty("figures", "q8 " + std::to_string(100.0 * q8) + " %, q4 " +
                                std::to_string(100.0 * q4) + " %");
}

// ---- models/vibration ----

// close_calls.npy has those of 5,000 held-out windows at which the best class is least ahead: all
// others it leads by 2.0 and more, and quantization moves logits by less than 0.5.
class WindowsInFewBits : public KernelSetTest {
 protected:
  static constexpr double kHeldOut = 5000.0;

  static std::filesystem::path folder() {
    return testing::project_folder() / "models" / "vibration";
  }

  static size_t right_answers(const char* weights) {
    const convert::NpyArray array = convert::NpyArray::read(folder() / "close_calls.npy");
    const std::vector<double> frames = array.to_f64();
    const std::vector<float> features(frames.begin(), frames.end());
    const std::vector<int64_t> labels =
        convert::NpyArray::read(folder() / "close_calls_labels.npy").to_i64();
    const TestModel model(few_bits(folder(), weights, "rounded"), GetParam());
    const uint32_t windows = static_cast<uint32_t>(array.shape()[0]);
    const TestSession session(*model,
                              options_for(static_cast<uint32_t>(array.shape()[1]), windows));
    const std::vector<float> logits = session.run(features, windows);
    const size_t classes = logits.size() / windows;
    size_t right = 0;
    for (size_t i = 0; i < windows; ++i) {
      const auto row = std::span(logits).subspan(i * classes, classes);
      right += std::ranges::max_element(row) - row.begin() == labels[i] ? 1 : 0;
    }
    return right;
  }
};
ARENITE_FOR_EACH_KERNEL_SET(WindowsInFewBits);

TEST_P(WindowsInFewBits, KeepTheAccuracyOfFloatsWithin0Point3Points) {
  const double before = static_cast<double>(right_answers("f32"));
  for (const char* weights : {"q8", "q4"}) {
    const double lost = before - static_cast<double>(right_answers(weights));
    EXPECT_LE(100.0 * std::abs(lost) / kHeldOut, 0.3) << weights;
    RecordProperty(weights, std::to_string(lost));
  }
}

}  // namespace
}  // namespace arenite::test
