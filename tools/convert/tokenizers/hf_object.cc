// SPDX-License-Identifier: Apache-2.0
// Look-ups that throw.
#include "convert/tokenizers/hf_object.h"

#include <algorithm>

#include "convert/files/error.h"
#include "convert/files/json_file.h"

namespace arenite::convert {

using nlohmann::json;

HfObject::HfObject(const json& value, std::string file_name, std::string place)
    : value_(value), file_name_(std::move(file_name)), place_(std::move(place)) {
  if (!value.is_object()) {
    throw InputError("{}, {}: found {}: expected an object", file_name_, place_, show(value));
  }
}

void HfObject::expect_only(std::initializer_list<std::string_view> fields) const {
  for (const auto& [field, found] : value_.items()) {
    if (std::find(fields.begin(), fields.end(), field) != fields.end()) continue;
    throw InputError("{}, {}: field {} is not known here, and may change the tokens", file_name_,
                     place_, quote(field));
  }
}

bool HfObject::has(std::string_view field) const {
  const auto found = value_.find(field);
  return found != value_.end() && !found->is_null();
}

const json& HfObject::at(std::string_view field) const {
  if (!has(field)) throw InputError("{}, {}: field '{}' is missing", file_name_, place_, field);
  return *value_.find(field);
}

std::string HfObject::text(std::string_view field) const {
  if (!at(field).is_string()) refuse(field, "a string");
  return at(field).get<std::string>();
}

bool HfObject::flag(std::string_view field, bool otherwise) const {
  if (!has(field)) return otherwise;
  if (!at(field).is_boolean()) refuse(field, "true or false");
  return at(field).get<bool>();
}

HfObject HfObject::object(std::string_view field) const {
  return HfObject(at(field), file_name_,
                  place_.empty() ? std::string(field) : fmt::format("{}.{}", place_, field));
}

void HfObject::expect(std::string_view field, const json& value, bool may_lack) const {
  if (may_lack && !has(field)) return;
  if (at(field) != value) refuse(field, show(value));
}

void HfObject::refuse(std::string_view field, std::string_view expected) const {
  throw InputError("{}, {}{}{}: found {}: expected {}", file_name_, place_,
                   place_.empty() ? "" : ".", field, has(field) ? show(at(field)) : "nothing",
                   expected);
}

}  // namespace arenite::convert
