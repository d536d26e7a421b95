// SPDX-License-Identifier: Apache-2.0
// Tests of the tables that produce JSON and its schema, with a struct that has every type of value.
#include "cli/facts.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

namespace arenite::testing {

std::vector<std::string> test_words() { return {"one", "two"}; }

struct PartFacts {
  uint32_t number = 7;
};

struct TestFacts {
  bool flag = true;
  double real = 0.5;
  std::string text = "a \"b\"\n\xff";
  std::optional<double> nothing{};
  tool::Sometimes<uint32_t> left_out{};
  tool::OneOf<test_words> word{"two"};
  std::vector<PartFacts> list{{}, {}};
  std::array<tool::Positive, 2> pair{};
  std::vector<tool::Named<uint64_t>> by_name{{"x", 1}, {"y", 2}};
  tool::ForEach<test_words, PartFacts> each{{{1}, {2}}};
  std::vector<std::string> empty{};
};

}  // namespace arenite::testing

namespace arenite::tool {

using testing::PartFacts;
using testing::TestFacts;

template <>
constexpr auto kFacts<PartFacts> = std::tuple(Fact("number", "A number", &PartFacts::number));

template <>
constexpr auto kFacts<TestFacts> = std::tuple(
    Fact("flag", &TestFacts::flag), Fact("real", &TestFacts::real), Fact("text", &TestFacts::text),
    Fact("nothing", &TestFacts::nothing), Fact("left_out", &TestFacts::left_out),
    Fact("word", &TestFacts::word),
    part("inner", "Of the same", Fact("list", &TestFacts::list), Fact("pair", &TestFacts::pair)),
    Fact("by_name", &TestFacts::by_name), Fact("each", &TestFacts::each),
    Fact("empty", &TestFacts::empty));

}  // namespace arenite::tool

namespace arenite::testing {
namespace {

using nlohmann::ordered_json;

TEST(Facts, AreTheJsonThatTheTableSays) {
  const ordered_json expected = {
      {"flag", true},
      {"real", 0.5},
      {"text", "a \"b\"\n\xef\xbf\xbd"},
      {"nothing", nullptr},
      {"word", "two"},
      {"inner", {{"list", {{{"number", 7}}, {{"number", 7}}}}, {"pair", {1, 1}}}},
      {"by_name", {{"x", 1}, {"y", 2}}},
      {"each", {{"one", {{"number", 1}}}, {"two", {{"number", 2}}}}},
      {"empty", ordered_json::array()}};
  EXPECT_EQ(tool::document(tool::json_of(TestFacts{})), expected.dump(2));
}

TEST(Facts, AreSafeInAPage) {
  TestFacts facts;
  facts.text = "</script><!--";
  facts.real = std::nan("");
  facts.nothing = -std::numeric_limits<double>::infinity();
  const std::string page = tool::page_document(tool::json_of(facts));
  EXPECT_EQ(page.find('<'), page.npos);
  const auto json = nlohmann::json::parse(page);
  EXPECT_EQ(json["text"], "</script><!--");
  EXPECT_EQ(json["real"], "not a number");
  EXPECT_EQ(json["nothing"], "minus infinity");
  EXPECT_EQ(nlohmann::json::parse(tool::document(tool::json_of(facts)))["real"], nullptr);
}

TEST(Facts, HaveTheSchemaThatTheTableSays) {
  const tool::Schema schema = {"test", "a title", "what it is", tool::schema_of<TestFacts>};
  const auto json = nlohmann::json::parse(tool::text_of(schema));
  EXPECT_EQ(json["description"], "what it is");
  EXPECT_EQ(json["additionalProperties"], false);
  EXPECT_EQ(json["required"].size(), 9u);  // all but the one that may be left out
  const auto& keys = json["properties"];
  EXPECT_EQ(keys["nothing"]["type"], nlohmann::json({"number", "null"}));
  EXPECT_EQ(keys["left_out"], nlohmann::json({{"type", "integer"}, {"minimum", 0}}));
  EXPECT_EQ(keys["word"]["enum"], nlohmann::json({"one", "two"}));
  EXPECT_EQ(keys["inner"]["properties"]["pair"]["minItems"], 2);
  EXPECT_EQ(keys["inner"]["properties"]["pair"]["items"]["minimum"], 1);
  EXPECT_EQ(keys["inner"]["properties"]["list"]["items"]["properties"]["number"]["description"],
            "A number");
  EXPECT_EQ(keys["by_name"]["additionalProperties"]["type"], "integer");
  EXPECT_EQ(keys["each"]["required"], nlohmann::json({"one", "two"}));
}

}  // namespace
}  // namespace arenite::testing
