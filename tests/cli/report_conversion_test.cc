// SPDX-License-Identifier: Apache-2.0
// Tests of the part of a report about the conversion, with invented facts.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "cli/report_facts.h"
#include "cli/report_page.h"
#include "support/decoder_factory.h"

namespace arenite::testing {
namespace {

using nlohmann::json;
using tool::ConversionFacts;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

ConversionFacts made_up() {
  ConversionFacts facts;
  facts.source = "models/<tiny>, Hugging Face";
  facts.weights = "q4, keeping output=q8";
  facts.calibration = "64 texts of 128 tokens that the model wrote";
  facts.limits = {{"--max-kl", 0.05, 0.0731, "nats", false, {"0.down", "1.down"}},
                  {"--max-bytes", 1e6, 654321, "bytes", true, {}}};
  facts.outputs = {"eval.txt", 4096, 0.0731, 0.8125, 20.0, 21.0};
  facts.hidden_states = {
      {"embedding", 1.0, 1.0}, {"layer 0", 0.9991, 0.985}, {"layer 1", 0.9975, 0.96}};
  facts.tensors = {{"0.qkv", TensorType::kQ4, "GPTQ", 21.5, 4000, 700},
                   {"0.down", TensorType::kQ8, "rounding", 41.25, 4000, 1100},
                   {"1.down", TensorType::kQ4, "taken over", kInfinity, 4000, 700}};
  facts.notes = {
      {"fell back", "2 matrices", "172 inputs are not multiples of 32: q8", {"0.v", "1.v"}},
      {"taken over", "", "scales went from fp16 to bf16: 58 dB"}};
  return facts;
}

std::string page_of(const ConversionFacts& facts) {
  const convert::AlignedBytes model = test::make_decoder_model(test::decoder_named("llama"));
  return tool::report_as_html(tool::gather_report(
      tool::gather_facts(tool::VerifiedFile("m.arn", model.span()), {}), facts));
}

TEST(ConversionReport, IsAPageWithTheFindingsOfTheConversion) {
  const std::string page = page_of(made_up());
  ASSERT_TRUE(is_page(page));
  const json found = facts_in(page)["report"]["conversion"];
  EXPECT_EQ(found["source"], "models/<tiny>, Hugging Face");
  EXPECT_EQ(found["outputs"]["quantized_perplexity"], 21.0);
  EXPECT_EQ(found["hidden_states"][2]["least_cosine"], 0.96);
  EXPECT_EQ(found["notes"][0]["tensors"], json({"0.v", "1.v"}));
}

TEST(ConversionReport, OmitsWhatWasNotMeasured) {
  ConversionFacts one;
  one.outputs.emplace();
  one.outputs->tokens = 7;
  one.outputs->mean_kl = 0.25;
  const json found = facts_in(page_of(one))["report"]["conversion"];
  EXPECT_EQ(found["outputs"]["mean_kl"], 0.25);
  EXPECT_EQ(found["outputs"]["top1_agreement"], nullptr);
  for (const char* const list : {"limits", "hidden_states", "tensors", "notes"}) {
    EXPECT_EQ(found[list], json::array()) << list;
  }
  EXPECT_EQ(facts_in(page_of({}))["report"]["conversion"]["outputs"], nullptr);
}

// JSON has no numbers that are not finite: a page has words for them, and a file null.
TEST(ConversionReport, NamesNonFiniteValues) {
  ConversionFacts facts = made_up();
  facts.hidden_states = {{"embedding", kNan, kNan}};
  facts.tensors = {{"a", TensorType::kQ4, "GPTQ", kNan, 1, 1},
                   {"b", TensorType::kQ4, "GPTQ", -kInfinity, 1, 1}};
  facts.outputs->quantized_perplexity = kInfinity;
  const std::string page = page_of(facts);
  ASSERT_TRUE(is_page(page));
  const json found = facts_in(page)["report"]["conversion"];
  EXPECT_EQ(found["hidden_states"][0]["mean_cosine"], "not a number");
  EXPECT_EQ(found["tensors"][1]["signal_to_noise_db"], "minus infinity");
  EXPECT_EQ(found["outputs"]["quantized_perplexity"], "infinite");
}

TEST(ConversionReport, HasTheSameFactsAsJson) {
  const convert::AlignedBytes model = test::make_decoder_model(test::decoder_named("llama"));
  const tool::VerifiedFile file("m.arn", model.span());
  const json whole = json::parse(
      tool::document(tool::facts_of(tool::gather_report(tool::gather_facts(file, {}), made_up()))),
      nullptr, false);
  ASSERT_TRUE(whole.is_object());
  const json& facts = whole["report"]["conversion"];
  EXPECT_EQ(facts["limits"][0]["option"], "--max-kl");
  EXPECT_EQ(facts["limits"][0]["is_met"], false);
  EXPECT_EQ(facts["limits"][0]["offenders"], json({"0.down", "1.down"}));
  EXPECT_EQ(facts["outputs"]["quantized_perplexity"], 21.0);
  EXPECT_EQ(facts["hidden_states"][2]["least_cosine"], 0.96);
  EXPECT_EQ(facts["tensors"][0]["signal_to_noise_db"], 21.5);
  EXPECT_EQ(facts["tensors"][2]["signal_to_noise_db"], nullptr);
  EXPECT_EQ(facts["notes"][1]["text"], "scales went from fp16 to bf16: 58 dB");
}

}  // namespace
}  // namespace arenite::testing
