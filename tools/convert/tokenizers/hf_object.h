// SPDX-License-Identifier: Apache-2.0
// Fields of the objects in a tokenizer.json, with errors that name them.
#pragma once

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace arenite::convert {

// An object of the file, and where it stands, such as "pre_tokenizer.pretokenizers[1]".
class HfObject {
 public:
  // Throws InputError unless `value` is an object.
  HfObject(const nlohmann::json& value, std::string file_name, std::string place);

  const std::string& file_name() const { return file_name_; }  // in quotes
  const std::string& place() const { return place_; }
  std::string type() const { return text("type"); }

  // Throws InputError for a field that is not among these.
  void expect_only(std::initializer_list<std::string_view> fields) const;

  bool has(std::string_view field) const;  // and it is not null
  const nlohmann::json& at(std::string_view field) const;
  std::string text(std::string_view field) const;
  bool flag(std::string_view field, bool otherwise) const;
  HfObject object(std::string_view field) const;

  // Throws InputError unless the field has this value, or is absent where that means the same.
  void expect(std::string_view field, const nlohmann::json& value, bool may_lack = false) const;

  // Says that `field` cannot be read as it is, and what is expected.
  [[noreturn]] void refuse(std::string_view field, std::string_view expected) const;

 private:
  const nlohmann::json& value_;
  std::string file_name_;
  std::string place_;
};

}  // namespace arenite::convert
