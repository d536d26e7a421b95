// SPDX-License-Identifier: Apache-2.0
// Bytes go to the layers where they reduce the loss most: the chosen types lose less than other
// choices of the same size.
#include "convert/choose_by_loss.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "convert/convert.h"
#include "convert/program/writer.h"
#include "support/decoder_factory.h"
#include "support/refusal.h"
#include "support/test_data.h"

namespace arenite::convert {
namespace {

std::filesystem::path model_folder(const char* name) {
  return testing::project_folder() / "models" / name;
}

Conversion convert_intent(const ConvertOptions& options) {
  return convert_model(model_folder("home-intent"), "m", options, parse_targets("native"));
}

Conversion convert_to(TensorType type, std::vector<WeightRule> keep = {}) {
  ConvertOptions options;
  options.weights = {type, std::move(keep)};
  return convert_intent(options);
}

Conversion spend(const WeightBudget& budget, std::vector<WeightRule> keep = {}) {
  ConvertOptions options;
  options.weights.keep = std::move(keep);
  options.budget = budget;
  return convert_intent(options);
}

std::map<std::string, TensorType> types_of(const Conversion& conversion) {
  std::map<std::string, TensorType> types;
  for (const ProgramTensor& tensor : conversion.program.tensors) {
    if (tensor.layout == format::Layout::kGemm) types[tensor.name] = tensor.type;
  }
  return types;
}

// Sanitized builds skip tests of several searches; the tests of one search run the same code.
constexpr const char* kSearches = "under a sanitizer several searches take too long";

TEST(ChooseByLoss, LosesLessThanOtherChoicesOfTheSameSize) {
  if (testing::kSanitized) GTEST_SKIP() << kSearches;
  // Compares the usual choice with one of equal size in layer order.
  const Conversion usual = convert_to(TensorType::kQ4, parse_weight_rules("", TensorType::kQ4));
  const Conversion as_small =
      spend({.max_bytes = usual.file.size(), .max_perplexity_increase = {}});
  EXPECT_LE(as_small.file.size(), usual.file.size());
  EXPECT_LE(as_small.quantization->evaluation->mean_kl, usual.quantization->evaluation->mean_kl);

  const std::vector<WeightRule> first_layers = {{"2", TensorType::kQ8},
                                                {"3", TensorType::kQ8},
                                                {"logits", TensorType::kQ8},
                                                {"embedding", TensorType::kQ8}};
  const Conversion in_order = convert_to(TensorType::kQ4, first_layers);
  const Conversion chosen =
      spend({.max_bytes = in_order.file.size(), .max_perplexity_increase = {}});
  EXPECT_LE(chosen.file.size(), in_order.file.size());
  EXPECT_GE(chosen.file.size(), in_order.file.size() * 97 / 100);
  EXPECT_LT(chosen.quantization->evaluation->mean_kl, in_order.quantization->evaluation->mean_kl);
}

TEST(ChooseByLoss, StaysWithinTheBudget) {
  if (testing::kSanitized) GTEST_SKIP() << kSearches;
  const uint64_t floats = convert_to(TensorType::kF32).file.size();
  const uint64_t q8 = convert_to(TensorType::kQ8).file.size();
  // Everything, between float32 and q8, and between q8 and q4.
  for (const uint64_t bytes : {floats, (floats + q8) / 2, q8, q8 * 9 / 10}) {
    const Conversion conversion = spend({.max_bytes = bytes, .max_perplexity_increase = {}});
    EXPECT_LE(conversion.file.size(), bytes);
    EXPECT_GE(conversion.file.size(), bytes * 95 / 100);
    EXPECT_FALSE(conversion.choices.empty());
    for (const TypeChoice& choice : conversion.choices) EXPECT_FALSE(choice.reason.empty());
  }
  EXPECT_FALSE(spend({.max_bytes = floats, .max_perplexity_increase = {}}).quantization);
}

TEST(ChooseByLoss, GivesTheSameFileAgain) {
  const WeightBudget budget = {.max_bytes = 230000, .max_perplexity_increase = {}};
  const Conversion once = spend(budget);
  const Conversion again = spend(budget);
  EXPECT_TRUE(std::ranges::equal(once.file.span(), again.file.span()));
}

TEST(ChooseByLoss, GoesAsFarAsThePerplexityAllows) {
  if (testing::kSanitized) GTEST_SKIP() << kSearches;
  uint64_t before = UINT64_MAX;
  for (const double increase : {0.0005, 0.01, 1.0}) {
    const Conversion conversion = spend({.max_bytes = {}, .max_perplexity_increase = increase});
    EXPECT_LE(conversion.quantization->evaluation->perplexity_increase(), increase);
    EXPECT_LT(conversion.file.size(), before) << increase;
    before = conversion.file.size();
  }
  EXPECT_EQ(before, convert_to(TensorType::kQ4).file.size());  // all that there is
}

TEST(ChooseByLoss, RulesKeepTheirTypes) {
  const std::vector<WeightRule> keep = {{"1.down", TensorType::kF32}, {"gate", TensorType::kQ4}};
  const Conversion conversion = spend({.max_bytes = 250000, .max_perplexity_increase = {}}, keep);
  const auto types = types_of(conversion);
  EXPECT_EQ(types.at("1.down"), TensorType::kF32);
  std::set<std::string> chosen;
  for (const TypeChoice& choice : conversion.choices) chosen.insert(choice.name);
  EXPECT_FALSE(chosen.contains("1.down"));
  EXPECT_TRUE(chosen.contains("0.down"));
  for (const auto& [name, type] : types) {
    if (!name.ends_with("gate")) continue;
    EXPECT_EQ(type, TensorType::kQ4) << name;
  }
  EXPECT_TRUE(testing::refuses(
      [&] {
        spend({.max_bytes = 250000, .max_perplexity_increase = {}}, {{"nosuch", TensorType::kQ8}});
      },
      {"--keep", "nosuch", "0.gate"}));
}

TEST(ChooseByLoss, ReportsTheSmallestReachableSize) {
  const uint64_t least = convert_to(TensorType::kQ4).file.size();
  const auto with = [&](uint64_t bytes) {
    return spend({.max_bytes = bytes, .max_perplexity_increase = {}});
  };
  EXPECT_TRUE(testing::refuses([&] { with(least - 1); },
                               {"home-intent", "--max-bytes", std::to_string(least)}));
  EXPECT_EQ(with(least).file.size(), least);
}

TEST(ChooseByLoss, EncodersWithoutTextAreMeasuredOnMadeUpInput) {
  const auto with = [](const WeightBudget& budget) {
    ConvertOptions options;
    options.budget = budget;
    return convert_model(model_folder("vibration"), "m", options, parse_targets("native"));
  };
  const Conversion conversion = with({.max_bytes = 90000, .max_perplexity_increase = {}});
  EXPECT_LE(conversion.file.size(), 90000u);
  const auto& notes = conversion.quantization->notes;
  EXPECT_TRUE(std::ranges::any_of(notes, [](const std::string& note) {
    return note.find("random input: pass --calibrate") != std::string::npos;
  }));
  EXPECT_TRUE(testing::refuses([&] { with({.max_bytes = {}, .max_perplexity_increase = 0.1}); },
                               {"--max-perplexity-increase", "no text", "--max-bytes"}));
}

TEST(ModelBytes, EqualTheBytesOfTheFile) {
  for (const test::DecoderShape& shape : test::all_decoders()) {
    const Program program = test::decoder_program(shape);
    for (const uint32_t tokens : {0u, 4u}) {
      EXPECT_EQ(model_bytes(program, parse_targets("all"), tokens),
                write_model(program, parse_targets("all"), tokens).size());
    }
  }
}

}  // namespace
}  // namespace arenite::convert
