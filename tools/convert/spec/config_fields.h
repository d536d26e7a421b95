// SPDX-License-Identifier: Apache-2.0
// The fields of a model's config, taken one by one, so that none is ever ignored unseen.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "convert/files/error.h"

namespace arenite::convert {

// What was read is well formed, and not supported this way; another way to convert the same model
// may be.
class UnsupportedError : public InputError {
 public:
  using InputError::InputError;
};

// A field that is null counts as absent, as it does for the programs that write configs. Getters
// throw InputError that names the file, the field and its value when that is not what it should be;
// without a fallback also when the field is absent.
class ConfigFields {
 public:
  // `where` says in messages which file this is, and which object in it.
  ConfigFields(nlohmann::json object, std::string where)
      : object_(std::move(object)), where_(std::move(where)) {}

  const std::string& where() const { return where_; }
  size_t size() const { return object_.size(); }  // all fields, null ones too
  bool has(const std::string& name) const;
  bool is_null(const std::string& name) const;  // there, but null
  bool is_text(const std::string& name) const;
  bool equals(const std::string& name, const nlohmann::json& value) const;
  std::vector<std::string> names() const;

  uint32_t count(const std::string& name, std::optional<uint32_t> fallback = {},
                 uint32_t minimum = 1);
  double positive(const std::string& name, std::optional<double> fallback = {});
  bool flag(const std::string& name, std::optional<bool> fallback = {});
  std::string text(const std::string& name, std::optional<std::string> fallback = {});
  std::vector<uint32_t> ids(const std::string& name);           // one, a list, or none
  std::vector<std::string> texts(const std::string& name);      // a list, or none
  std::optional<ConfigFields> object(const std::string& name);  // nullopt when absent

  // Throws unless the field is absent or `value`; `why` says what any other value would mean.
  void expect(const std::string& name, const nlohmann::json& value, const char* why);
  // Any value will do.
  void pass_over(const std::string& name) { taken_.insert(name); }
  template <size_t kCount>
  void pass_over(const char* const (&names)[kCount]) {
    taken_.insert(names, names + kCount);
  }

  // For values that are well formed but not supported: "<where>: field '<name>' is <value>: <why>".
  // Throws UnsupportedError.
  [[noreturn]] void refuse(const std::string& name, const std::string& why) const;

  // Throws UnsupportedError that lists the fields nobody took. Those that are null do not count,
  // and those that are false or empty only where their name says that this asks for something.
  // Returns the names of the false and empty ones that were passed over.
  std::vector<std::string> finish() const;

 private:
  // nullptr when absent or null; throws where the field must be there.
  const nlohmann::json* take(const std::string& name, bool must_be_there = false);
  const nlohmann::json* find(const std::string& name) const;
  [[noreturn]] void refuse_form(const std::string& name, const std::string& expected) const;

  nlohmann::json object_;
  std::string where_;
  std::set<std::string> taken_;
};

}  // namespace arenite::convert
