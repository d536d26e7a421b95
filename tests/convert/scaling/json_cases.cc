// SPDX-License-Identifier: Apache-2.0
// JSON of every shape that is known to slow down or crash parsers.
#include <fmt/format.h>

#include "convert/files/json_file.h"
#include "convert/scaling/reader_cases.h"
#include "convert/spec/config_fields.h"

namespace arenite::testing {
namespace {

InputFiles config(std::string text) { return {{"config.json", std::move(text)}}; }

// {"a": [part, part, ...]}
InputFiles list_of(std::string_view part, size_t size) {
  std::string text = "{\"a\":[";
  for (size_t i = 0; i < size; ++i) text += fmt::format("{}{}", i == 0 ? "" : ",", part);
  return config(text + "]}");
}

// An object of `size` keys.
template <typename KeyOf>
InputFiles object_of(size_t size, std::string_view value, const KeyOf& key_of) {
  std::string text = "{";
  for (size_t i = 0; i < size; ++i) {
    text += fmt::format("{}\"{}\":{}", i == 0 ? "" : ",", key_of(i), value);
  }
  return config(text + "}");
}

InputFiles nested(size_t size) {
  std::string text = "{\"a\":[";
  for (size_t i = 0; i < size; ++i) {
    text += (i == 0 ? "" : ",") + std::string(25, '[') + "{}" + std::string(25, ']');
  }
  return config(text + "]}");
}

void read_config(const std::filesystem::path& file) {
  convert::ConfigFields(convert::read_json_object(file), "it").finish();
}

ReaderCase list_case(const char* shape, size_t size, std::string part) {
  return {"JSON", shape, size, [part](size_t n) { return list_of(part, n); }, read_config};
}

}  // namespace

std::vector<ReaderCase> json_cases() {
  const auto number = [](size_t i) { return fmt::format("{}", i); };
  const auto near = [](size_t i) { return std::string(400, 'a') + fmt::format("{}", i); };
  const auto deep_error = [](size_t size) { return config(std::string(size, '[')); };
  return {
      list_case("many empty objects", 10'000, "{}"),
      list_case("many empty lists", 10'000, "[]"),
      list_case("many numbers", 20'000, "0"),
      list_case("many long numbers", 1000, "0.12345678901234567890123456789012345678901234567890"),
      list_case("many escapes", 5000, R"("\u00e9\n")"),
      list_case("many objects of one key", 5000, R"({"a":{}})"),
      {"JSON", "lists in lists", 200, nested, read_config},
      {"JSON", "lists without an end", 50'000, deep_error, read_config},
      {"JSON", "many keys", 5000, [=](size_t size) { return object_of(size, "0", number); },
       read_config},
      {"JSON", "many long near-equal keys", 500,
       [=](size_t size) { return object_of(size, "null", near); }, read_config},
      {"JSON", "a long string", 100'000,
       [](size_t size) { return config("{\"a\":\"" + std::string(size, 'x') + "\"}"); },
       read_config},
      {"JSON", "a long number", 50'000,
       [](size_t size) { return config("{\"a\":0." + std::string(size, '1') + "}"); }, read_config},
      {"JSON", "many spaces", 100'000,
       [](size_t size) { return config("{" + std::string(size, ' ') + "}"); }, read_config},
  };
}

}  // namespace arenite::testing
