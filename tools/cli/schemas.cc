// SPDX-License-Identifier: Apache-2.0
// Schemas are read as the few words of JSON Schema that ours have: type, properties, items, enum,
// anyOf, additionalProperties, and $ref to a definition.
#include "cli/schemas.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <iterator>

#include "cli/help.h"

namespace arenite::tool {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kShared = "report";
constexpr std::string_view kReference = "report.schema.json#/$defs/";
constexpr const char* kDefinition = "#/$defs/";
constexpr size_t kKeyColumn = 30;  // where descriptions begin

// Makes references to what is shared into those to a definition of its own.
void take_over(Json& json, const Json& shared, Json& definitions) {
  if (json.is_array() || json.is_object()) {
    for (Json& part : json) take_over(part, shared, definitions);
  }
  if (!json.is_object() || !json.contains("$ref")) return;
  const std::string reference = json["$ref"];
  if (!reference.starts_with(kReference) && !reference.starts_with(kDefinition)) return;
  const std::string name = reference.substr(reference.rfind('/') + 1);
  json["$ref"] = kDefinition + name;
  if (definitions.contains(name)) return;
  definitions[name] = shared.at(name);
  Json definition = shared.at(name);
  take_over(definition, shared, definitions);
  definitions[name] = std::move(definition);
}

Json whole(const Schema& schema) {
  const Json shared = Json::parse(find_schema(kShared)->text)["$defs"];
  Json json = Json::parse(schema.text);
  Json definitions = Json::object();
  take_over(json, shared, definitions);
  if (!definitions.empty()) json["$defs"] = std::move(definitions);
  return json;
}

class Outline {
 public:
  Outline(const Json& schema, size_t columns) : schema_(schema), columns_(columns) {}

  std::string text() {
    add_keys(schema_, 0);
    return text_;
  }

 private:
  const Json& resolved(const Json& json) const {
    if (!json.contains("$ref")) return json;
    const std::string reference = json["$ref"];
    return resolved(schema_.at(Json::json_pointer(reference.substr(1))));
  }

  // What is there where it is not null.
  const Json& without_null(const Json& json) const {
    const Json& found = resolved(json);
    if (!found.contains("anyOf")) return found;
    for (const Json& choice : found["anyOf"]) {
      if (resolved(choice).value("type", Json()) != "null") return resolved(choice);
    }
    return found;
  }

  std::string type_of(const Json& json) const {
    const Json& found = without_null(json);
    const Json types = found.value("type", Json("object"));
    std::string type;
    for (const Json& word : types.is_array() ? types : Json::array({types})) {
      type += (type.empty() ? "" : " or ") + word.get<std::string>();
    }
    if (type == "array") type = "array of " + type_of(found["items"]);
    return resolved(json).contains("anyOf") ? type + " or null" : type;
  }

  void add_keys(const Json& json, size_t depth) {
    const Json& found = without_null(json);
    if (found.contains("items")) return add_keys(found["items"], depth);
    const auto properties = found.find("properties");
    if (properties != found.end()) {
      for (const auto& [key, value] : properties->items()) add_key(key, value, depth);
    }
    if (found.contains("additionalProperties") && found["additionalProperties"].is_object()) {
      add_key("NAME", found["additionalProperties"], depth);
    }
  }

  // The key, and what it is beside it or, where the key is long, below.
  void add_key(const std::string& key, const Json& json, size_t depth) {
    std::string line(2 + 2 * depth, ' ');
    line += key;
    if (line.size() + 2 > kKeyColumn) {
      line += '\n' + std::string(kKeyColumn, ' ');
    } else {
      line.resize(kKeyColumn, ' ');
    }
    const std::string what = json.value("description", "");
    const std::string type = type_of(json);
    text_ += line + wrapped(what.empty() ? type : type + ": " + what, columns_, kKeyColumn) + "\n";
    add_keys(json, depth + 1);
  }

  const Json& schema_;
  size_t columns_;
  std::string text_;
};

}  // namespace

const Schema* find_schema(std::string_view name) {
  const std::span<const Schema> all = schemas();
  const auto found = std::ranges::find(all, name, &Schema::name);
  return found == all.end() ? nullptr : &*found;
}

std::vector<Schema> schemas_of_commands() {
  std::vector<Schema> result;
  std::ranges::copy_if(schemas(), std::back_inserter(result),
                       [](const Schema& schema) { return schema.name != kShared; });
  return result;
}

std::string names_of_schemas() {
  std::string names;
  for (const Schema& schema : schemas_of_commands()) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", schema.name);
  }
  return names;
}

std::string text_of(const Schema& schema) { return whole(schema).dump(1) + "\n"; }

std::string outline_of(const Schema& schema, size_t columns) {
  const Json json = whole(schema);
  return Outline(json, columns).text();
}

}  // namespace arenite::tool
