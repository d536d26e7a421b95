// SPDX-License-Identifier: Apache-2.0
// Reads the fields of a model's config and accounts for each: none is ignored silently.
//
//   config.count("n_layer");           // required
//   config.flag("tied", true);         // with a default
//   config.finish();                   // throws for fields that nobody took
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

// The input is valid but unsupported in this form; the model may be convertible in another form.
class UnsupportedError : public InputError {
 public:
  using InputError::InputError;
};

// Getters throw InputError that names the file, the field and its value if the value is invalid
// and, without a fallback, if the field is absent. A null field counts as absent, as in the
// programs that write configs.
class ConfigFields {
 public:
  // `where` names the file, and the object in it, for messages.
  ConfigFields(nlohmann::json object, std::string where)
      : object_(std::move(object)), where_(std::move(where)) {}

  const std::string& where() const { return where_; }
  size_t size() const { return object_.size(); }  // including null fields
  bool has(const std::string& name) const;
  bool is_null(const std::string& name) const;  // present, but null
  bool is_text(const std::string& name) const;
  bool equals(const std::string& name, const nlohmann::json& value) const;
  std::vector<std::string> names() const;

  uint32_t count(const std::string& name, std::optional<uint32_t> fallback = {},
                 uint32_t minimum = 1);
  double positive(const std::string& name, std::optional<double> fallback = {});
  bool flag(const std::string& name, std::optional<bool> fallback = {});
  std::string text(const std::string& name, std::optional<std::string> fallback = {});
  std::vector<uint32_t> ids(const std::string& name);           // one id, a list, or empty
  std::vector<std::string> texts(const std::string& name);      // a list, or empty
  std::vector<double> reals(const std::string& name);           // a list of numbers above 0
  std::optional<ConfigFields> object(const std::string& name);  // nullopt if absent

  // Returns the field as it is; null if absent.
  nlohmann::json value(const std::string& name);

  // Throws unless the field is absent or equals `value`; `why` says what other values mean.
  void expect(const std::string& name, const nlohmann::json& value, const char* why);
  // Accepts and ignores any value.
  void pass_over(const std::string& name) { taken_.insert(name); }
  template <size_t kCount>
  void pass_over(const char* const (&names)[kCount]) {
    taken_.insert(names, names + kCount);
  }

  // Throws UnsupportedError for a valid but unsupported value: "<where>: field '<name>' is <value>:
  // <why>".
  [[noreturn]] void refuse(const std::string& name, const std::string& why) const;

  // Throws UnsupportedError that lists the fields nobody took. Ignores null fields, and false or
  // empty ones unless their name suggests that false changes the computation. Returns the names of
  // ignored false and empty fields.
  std::vector<std::string> finish() const;

 private:
  // Returns nullptr if absent or null; throws if the field is required.
  const nlohmann::json* take(const std::string& name, bool must_be_there = false);
  const nlohmann::json* find(const std::string& name) const;
  [[noreturn]] void refuse_form(const std::string& name, const std::string& expected) const;

  nlohmann::json object_;
  std::string where_;
  std::set<std::string> taken_;
};

}  // namespace arenite::convert
