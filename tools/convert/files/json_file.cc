// SPDX-License-Identifier: Apache-2.0
// Scans the whole text first, so that values are only built from text known to be harmless.
#include "convert/files/json_file.h"

#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "convert/files/error.h"
#include "convert/files/input_limits.h"
#include "convert/files/memory.h"

namespace arenite::convert {
namespace {

using nlohmann::json;

constexpr size_t kShownCharactersMax = 80;

// Validates a text and enforces limits without building values. The building parser's callback
// could do the same checks, but would scan an array again at each of its elements.
class JsonCheck : public json::json_sax_t {
 public:
  explicit JsonCheck(const std::string& name) : name_(name) {}

  bool null() override { return count_value(); }
  bool boolean(bool) override { return count_value(); }
  bool number_integer(json::number_integer_t) override { return count_value(); }
  bool number_unsigned(json::number_unsigned_t) override { return count_value(); }
  bool number_float(json::number_float_t, const std::string&) override { return count_value(); }
  bool string(std::string&) override { return count_value(); }
  bool binary(json::binary_t&) override { return count_value(); }
  bool start_object(std::size_t) override { return open(); }
  bool start_array(std::size_t) override { return open(); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(std::string& value) override {
    const auto [place, is_new] = keys_.back().insert(std::move(value));
    if (is_new) return true;
    throw InputError("{}: key {} occurs twice in one object: expected each key once", name_,
                     quote(*place));
  }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    refuse_if(dynamic_cast<const json::out_of_range*>(&error) != nullptr,
              "{} is not valid JSON: a number in it is out of range", name_);
    throw InputError("{} is not valid JSON at its byte {}: the file is damaged", name_, position);
  }

 private:
  bool count_value() {
    if (++values_ <= kJsonValuesMax) return true;
    throw InputError("{} holds more than {} values: no model has as many", name_, kJsonValuesMax);
  }

  bool open() {
    refuse_if(keys_.size() == kJsonDepthMax, "{} is nested more than {} deep: no model is", name_,
              kJsonDepthMax);
    keys_.emplace_back();
    return count_value();
  }

  bool close() {
    keys_.pop_back();
    return true;
  }

  const std::string& name_;
  size_t values_ = 0;
  std::vector<std::set<std::string>> keys_;  // of each open object, the innermost last
};

}  // namespace

json parse_json(std::string_view text, const std::string& name) {
  // The parser takes a zero byte for the end of the text, so anything could hide after it.
  if (const size_t zero = text.find('\0'); zero != std::string_view::npos) {
    throw InputError("{} is not valid JSON at its byte {}: it is a zero byte", name, zero);
  }
  JsonCheck check(name);
  json::sax_parse(text.begin(), text.end(), &check);
  return json::parse(text.begin(), text.end());
}

json read_json_value(const std::filesystem::path& file) {
  const FileMap map(file, kJsonBytesMax);
  return parse_json(map.text(), quote(file.string()));
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
