// SPDX-License-Identifier: Apache-2.0
// Parses with a callback that sees each key and level before anything is built from it.
#include "convert/models/json_file.h"

#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "convert/error.h"
#include "convert/file_map.h"

namespace arenite::convert {
namespace {

using nlohmann::json;

constexpr size_t kJsonBytesMax = size_t{64} << 20;  // an index of many shards has a few
constexpr int kJsonDepthMax = 32;
constexpr size_t kShownCharactersMax = 80;

}  // namespace

json read_json_value(const std::filesystem::path& file) {
  const FileMap map(file);
  const std::string_view text(reinterpret_cast<const char*>(map.bytes().data()),
                              map.bytes().size());
  const std::string name = quote(file.string());
  if (text.size() > kJsonBytesMax) {
    throw InputError("{} has {} bytes: at most {} are accepted", name, text.size(), kJsonBytesMax);
  }
  // The parser takes a zero byte for the end of the text; behind it anything could hide.
  if (const size_t zero = text.find('\0'); zero != std::string_view::npos) {
    throw InputError("{} is not valid JSON at its byte {}: it is a zero byte", name, zero);
  }
  std::vector<std::set<std::string>> keys;  // of each open object, the innermost last
  const auto check = [&](int depth, json::parse_event_t event, json& parsed) {
    if (depth > kJsonDepthMax) {
      throw InputError("{} is nested more than {} deep: it is no model's", name, kJsonDepthMax);
    }
    if (event == json::parse_event_t::object_start) keys.emplace_back();
    if (event == json::parse_event_t::object_end) keys.pop_back();
    if (event == json::parse_event_t::key) {
      const auto key = parsed.get<std::string>();
      if (!keys.back().insert(key).second) {
        throw InputError("{}: key {} stands twice in one object: expected each key once", name,
                         quote(key));
      }
    }
    return true;
  };
  try {
    return json::parse(text.begin(), text.end(), check);
  } catch (const json::parse_error& error) {
    throw InputError("{} is not valid JSON at its byte {}: the file is damaged", name, error.byte);
  } catch (const json::out_of_range&) {
    throw InputError("{} is not valid JSON: a number in it is out of range", name);
  }
}

json read_json_object(const std::filesystem::path& file) {
  json value = read_json_value(file);
  if (!value.is_object()) {
    throw InputError("{} holds {}: expected a JSON object", quote(file.string()), show(value));
  }
  return value;
}

std::string show(const json& value) {
  std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
  if (text.size() > kShownCharactersMax) text = text.substr(0, kShownCharactersMax) + "...";
  return text;
}

}  // namespace arenite::convert
