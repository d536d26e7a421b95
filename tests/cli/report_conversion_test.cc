// SPDX-License-Identifier: Apache-2.0
// Tests of what a report says of a conversion, with made-up facts.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "cli/report.h"
#include "cli/report_page.h"
#include "cli/report_sections.h"
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
  facts.tensors = {{"0.qkv", "q4", "GPTQ", 21.5, 4000, 700},
                   {"0.down", "q8", "rounding", 41.25, 4000, 1100},
                   {"1.down", "q4", "taken over", kInfinity, 4000, 700}};
  facts.notes = {
      {"fell back", "2 matrices", "172 inputs are no multiple of 32: q8", {"0.v", "1.v"}},
      {"taken over", "", "scales went from fp16 to bf16: 58 dB"}};
  return facts;
}

std::string page_of(const ConversionFacts& facts) {
  const convert::AlignedBytes model = test::make_decoder_model(test::decoder_named("llama"));
  return tool::report_as_html(
      tool::gather_report(tool::VerifiedFile("m.arn", model.span()), {}, facts));
}

TEST(ConversionReport, ShowsEverySectionThatThereIsSomethingOf) {
  const std::string page = page_of(made_up());
  EXPECT_TRUE(is_page(page));
  for (const char* const part : {"models/&lt;tiny&gt;",
                                 "q4, keeping output=q8",
                                 "that the model wrote",
                                 "--max-kl",
                                 "0.0731 nats",
                                 ">broken<",
                                 "0.down, 1.down",
                                 "654,321 bytes",
                                 ">met<",
                                 "perplexity",
                                 "+5.00 %",
                                 "81.25 %",
                                 "4,096 tokens: eval.txt",
                                 "0.9975",
                                 "0.960000",
                                 "21.5 dB",
                                 "GPTQ",
                                 "infinite",
                                 "2 matrices",
                                 "no multiple of 32: q8: 0.v, 1.v",
                                 "the model",
                                 "58 dB"}) {
    EXPECT_TRUE(holds(page, part)) << part;
  }
}

TEST(ConversionReport, ShowsNothingThatThereIsNothingOf) {
  EXPECT_EQ(tool::conversion_sections({}), "");
  ConversionFacts one;
  one.outputs.emplace();
  one.outputs->tokens = 7;
  one.outputs->mean_kl = 0.25;
  const std::string html = tool::conversion_sections(one);
  EXPECT_TRUE(holds(html, "0.25 nats"));
  for (const char* const part : {"perplexity", "probable token", "id=\"limits\"", "id=\"layers\"",
                                 "id=\"quantization\"", "id=\"notes\"", "id=\"conversion\""}) {
    EXPECT_FALSE(holds(html, part)) << part;
  }
}

TEST(ConversionReport, ListsTheWorstTensorsFirst) {
  const std::string html = tool::conversion_sections(made_up());
  const size_t table = html.find("the worst first</caption>");
  ASSERT_NE(table, html.npos);
  EXPECT_LT(html.find(">0.qkv<", table), html.find(">0.down<", table));
  EXPECT_LT(html.find(">0.down<", table), html.find(">1.down<", table));
}

TEST(ConversionReport, StaysSmallForManyLayersAndTensors) {
  ConversionFacts facts = made_up();
  const std::string longest(65535, '<');  // what a file can name a tensor
  for (uint32_t i = 0; i < 4096; ++i) {
    const std::string name = i < 20 ? longest : "tensor " + std::to_string(i);
    facts.tensors.push_back({name, "q4", "GPTQ", 20.0 + i, 4000, 700});
    facts.notes.push_back({"fell back", name, name});
    facts.limits[0].offenders.push_back(name);
  }
  for (uint32_t i = 0; i < 1000; ++i) facts.hidden_states.push_back({"layer", 0.99, 0.9});
  const std::string html = tool::conversion_sections(facts);
  EXPECT_LT(html.size(), 1000000u);
  EXPECT_TRUE(holds(html, "and 3,899 more"));
  EXPECT_TRUE(holds(html, "and 803 more"));
  EXPECT_TRUE(is_page(page_of(facts)));
}

TEST(ConversionReport, DrawsWhatIsFiniteAndNamesTheRest) {
  ConversionFacts facts = made_up();
  facts.hidden_states = {{"embedding", kNan, kNan}};
  facts.tensors = {{"a", "q4", "GPTQ", kNan, 1, 1}, {"b", "q4", "GPTQ", -kInfinity, 1, 1}};
  facts.outputs->quantized_perplexity = kInfinity;
  facts.limits[0].found = kNan;
  const std::string page = page_of(facts);
  EXPECT_TRUE(is_page(page));
  EXPECT_TRUE(holds(page, "not a number"));
  EXPECT_TRUE(holds(page, "infinite"));
  for (size_t at = page.find(" d=\""); at != page.npos; at = page.find(" d=\"", at + 1)) {
    const std::string shape = page.substr(at + 4, page.find('"', at + 4) - at - 4);
    EXPECT_EQ(shape.find("nan"), shape.npos);
    EXPECT_EQ(shape.find("inf"), shape.npos);
  }
}

TEST(ConversionReport, HasTheSameFactsAsJson) {
  const convert::AlignedBytes model = test::make_decoder_model(test::decoder_named("llama"));
  const tool::VerifiedFile file("m.arn", model.span());
  const json whole =
      json::parse(tool::report_as_json(tool::gather_report(file, {}, made_up())), nullptr, false);
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
