// SPDX-License-Identifier: Apache-2.0
// Numbers and strings are written as nlohmann's library writes them.
#include "cli/facts.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace arenite::tool {

void JsonWriter::new_line() {
  if (form_ == Form::kLines) text_ += '\n' + std::string(depth_ * indent_, ' ');
}

void JsonWriter::begin(char open) {
  text_ += open;
  ++depth_;
  is_empty_ = true;
}

void JsonWriter::end(char close) {
  --depth_;
  if (!is_empty_) new_line();
  text_ += close;
  is_empty_ = false;
}

void JsonWriter::element() {
  if (!is_empty_) text_ += ',';
  new_line();
  is_empty_ = false;
}

void JsonWriter::key(std::string_view key) {
  element();
  string(key);
  text_ += form_ == Form::kLines ? ": " : ":";
}

void JsonWriter::real(double value) {
  if (form_ == Form::kPage && !std::isfinite(value)) {
    return string(std::isnan(value) ? "not a number" : value < 0.0 ? "minus infinity" : "infinite");
  }
  text_ += nlohmann::json(value).dump();
}

void JsonWriter::string(std::string_view value) {
  std::string quoted = json_string(value);
  if (form_ == Form::kPage) {  // nothing may end the element that holds it
    for (size_t at = 0; (at = quoted.find('<', at)) != std::string::npos;) {
      quoted.replace(at, 1, "\\u003c");
    }
  }
  text_ += quoted;
}

std::string json_string(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

FactType plain_type(const char* type) {
  FactType result;
  result.types = {type};
  return result;
}

FactType number_type(const char* type, double least, std::optional<double> most) {
  FactType result = plain_type(type);
  result.least = least;
  result.most = most;
  return result;
}

FactType words_type(std::vector<std::string> words) {
  FactType result = plain_type("string");
  result.words = std::move(words);
  return result;
}

FactType object_type(std::vector<FactKey> keys) {
  FactType result = plain_type("object");
  result.keys = std::move(keys);
  return result;
}

FactType list_type(FactType element, size_t count) {
  FactType result = plain_type("array");
  result.element.push_back(std::move(element));
  result.count = count;
  return result;
}

FactType names_type(FactType element) {
  FactType result = plain_type("object");
  result.element.push_back(std::move(element));
  return result;
}

FactType each_type(const std::vector<std::string>& names, const FactType& element) {
  FactType result = plain_type("object");
  for (const std::string& name : names) result.keys.push_back({name, "", true, element});
  return result;
}

FactType or_type(FactType type, const FactType& other) {
  type.types.insert(type.types.end(), other.types.begin(), other.types.end());
  return type;
}

void print_string(const std::string& text) { fmt::print("{}", text); }

}  // namespace arenite::tool
