// SPDX-License-Identifier: Apache-2.0
// Tests JSON files that no real model has.
#include "convert/files/json_file.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "convert/files/input_limits.h"
#include "support/refusal.h"
#include "support/temp_folder.h"

namespace arenite::convert {
namespace {

class JsonFile : public ::testing::Test {
 protected:
  nlohmann::json read(const std::string& text) {
    return read_json_value(folder_.write("c.json", text));
  }
  ::testing::AssertionResult refuses(const std::string& text,
                                     std::initializer_list<std::string_view> parts) {
    const auto names_file = testing::refuses([&] { read(text); }, {"c.json'"});
    return names_file ? testing::refuses([&] { read(text); }, parts) : names_file;
  }

  testing::TempFolder folder_;
};

std::string nested(size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); }

TEST_F(JsonFile, ReadsEveryTypeOfValue) {
  const nlohmann::json value = read(R"({"a":[1,-2,0.5,true,null,"x\u00e9"],"b":{"a":{}}} )");
  EXPECT_EQ(value["a"].size(), 6u);
  EXPECT_EQ(value["a"][5], "x\xc3\xa9");
  EXPECT_TRUE(value["b"]["a"].empty());
  EXPECT_EQ(read("7"), 7);
}

TEST_F(JsonFile, RefusesAKeyThatStandsTwiceInOneObjectOnly) {
  EXPECT_TRUE(refuses(R"({"a":1,"b":2,"a":3})", {"'a' occurs twice"}));
  EXPECT_TRUE(refuses(R"([{"a":1},{"b":{"c":1,"c":1}}])", {"'c' occurs twice"}));
  EXPECT_TRUE(refuses(R"({"\u0061":1,"a":3})", {"'a' occurs twice"}));
  read(R"([{"a":{"a":1}},{"a":[{"a":2}]}])");
}

TEST_F(JsonFile, RefusesDeepNesting) {
  read(nested(kJsonDepthMax));
  EXPECT_TRUE(refuses(nested(kJsonDepthMax + 1), {"nested more than 32 deep"}));
  EXPECT_TRUE(refuses(std::string(1'000'000, '['), {"nested more than 32 deep"}));
}

TEST_F(JsonFile, RefusesMoreValuesThanAnyModelHas) {
  std::string text = "[0";
  for (size_t i = 0; i < kJsonValuesMax; ++i) text += ",0";
  EXPECT_TRUE(refuses(text + "]", {"more than 4194304 values"}));
}

TEST_F(JsonFile, SaysWhereTheTextIsNoJson) {
  EXPECT_TRUE(refuses("{\"a\":1} x", {"not valid JSON at its byte 9"}));
  EXPECT_TRUE(refuses("", {"not valid JSON"}));
  EXPECT_TRUE(refuses("[1e999]", {"a number in it is out of range"}));
  EXPECT_TRUE(refuses(std::string("[1]\0", 4), {"byte 3", "a zero byte"}));
}

// A parser that walks a list again at each element would take an hour.
TEST_F(JsonFile, ReadsAMillionEmptyObjects) {
  std::string text = "[{}";
  for (int i = 1; i < 1'000'000; ++i) text += ",{}";
  EXPECT_EQ(read(text + "]").size(), 1'000'000u);
}

}  // namespace
}  // namespace arenite::convert
