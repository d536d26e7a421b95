// SPDX-License-Identifier: Apache-2.0
// The subset of JSON Schema that describes the program's output: type, properties, items, enum,
// minimum, and additionalProperties, which rejects keys that no table has.
#include "cli/facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cli/commands.h"
#include "cli/process.h"
#include "convert/files/error.h"
#include "core/utf8.h"

namespace arenite::tool {
namespace {

// Inserts the description after the type.
Json described(const Json& type, std::string_view words) {
  Json schema = {{"type", type["type"]}};
  if (!words.empty()) schema["description"] = words;
  schema.update(type);
  return schema;
}

void put_numbers_in_words(Json& json) {
  for (Json& element : json) {
    if (element.is_structured()) put_numbers_in_words(element);
    if (!element.is_number_float() || std::isfinite(element.get<double>())) continue;
    const double value = element.get<double>();
    element = std::isnan(value) ? "not a number" : value < 0.0 ? "minus infinity" : "infinite";
  }
}

}  // namespace

void ObjectSchema::add(const char* key, const char* words, Json type, bool is_required) {
  properties[key] = described(type, words);
  if (is_required) required.push_back(key);
}

Json ObjectSchema::take() {
  Json schema = schema_of_type("object");
  schema["properties"] = std::move(properties);
  schema["required"] = std::move(required);
  schema["additionalProperties"] = false;
  return schema;
}

Json schema_of_type(const char* type) {
  Json schema = Json::object();
  schema["type"] = type;
  return schema;
}

Json schema_of_number(const char* type, double least, std::optional<double> most) {
  Json schema = schema_of_type(type);
  schema["minimum"] = static_cast<uint64_t>(least);
  if (most) schema["maximum"] = static_cast<uint64_t>(*most);
  return schema;
}

Json schema_of_words(const std::vector<std::string>& words) {
  Json schema = schema_of_type("string");
  schema["enum"] = words;
  return schema;
}

Json schema_of_list(Json element, size_t count) {
  Json schema = schema_of_type("array");
  schema["items"] = std::move(element);
  if (count != 0) {
    schema["minItems"] = count;
    schema["maxItems"] = count;
  }
  return schema;
}

Json schema_of_names(Json element) {
  Json schema = schema_of_type("object");
  schema["additionalProperties"] = std::move(element);
  return schema;
}

Json schema_of_each(const std::vector<std::string>& names, const Json& element) {
  ObjectSchema schema;
  for (const std::string& name : names) schema.add(name.c_str(), "", element);
  return schema.take();
}

Json schema_of_either(Json type, const Json& other) {
  Json& types = type["type"];
  if (!types.is_array()) types = Json::array({types});
  types.push_back(other["type"]);
  return type;
}

std::string document(const Json& json, int indent) {
  const std::string text = json.dump(indent, ' ', false, Json::error_handler_t::replace);
  std::string shown;
  for (size_t i = 0; i < text.size();) {
    const CodePoint next = decode_utf8(std::string_view(text).substr(i));
    if (convert::is_unseen(next.value) && next.value != '\n') {
      const std::string one = text.substr(i, next.bytes);  // escaped as in JSON
      const std::string quoted = Json(one).dump(-1, ' ', true);
      shown += quoted.substr(1, quoted.size() - 2);
    } else {
      shown += text.substr(i, next.bytes);
    }
    i += next.bytes;
  }
  return shown;
}

std::string page_document(Json json) {
  put_numbers_in_words(json);
  std::string text = document(json, -1);
  for (size_t at = 0; (at = text.find('<', at)) != std::string::npos;) {
    text.replace(at, 1, "\\u003c");  // '<' could end the HTML element that holds the JSON
  }
  return text;
}

void print_string(const std::string& text) { write_lines(text); }

void print_document(const Json& json) { write_output(document(json) + "\n"); }

// --- The schemas of the commands ---

namespace {

constexpr Schema kSchemas[] = {
    {"bench", "arenite bench --json", "Times of a model, beside the limits of this machine",
     bench_facts},
    {"bundle", "arenite bundle --json", "The folder that was written", bundle_facts},
    {"classify", "arenite classify --json", "The likeliest classes", classify_facts},
    {"convert", "arenite convert --json", "What a conversion made", convert_facts},
    {"embed", "arenite embed --json", "The header that was written", embed_facts},
    {"embed-text", "arenite embed-text --json", "Texts as vectors", embed_text_facts},
    {"generate", "arenite generate --json", "A prompt and its continuation", generate_facts},
    {"inspect", "arenite inspect --json, and --report FILE.json",
     "What a model file holds, and what it needs at the sizes given", inspect_facts},
    {"repack", "arenite repack --json", "The file for other targets", repack_facts},
    {"run", "arenite run --json", "What was run, and where the results are", run_facts},
    {"strip", "arenite strip --json", "The file without its self-test", strip_facts},
    {"tokenize", "arenite tokenize --json", "The tokens of texts", tokenize_facts},
    {"transcribe", "arenite transcribe --json", "The text of a sound", transcribe_facts},
    {"verify", "arenite verify --json", "Checksums and self-test", verify_facts},
};

}  // namespace

std::span<const Schema> schemas() { return kSchemas; }

const Schema* find_schema(std::string_view name) {
  const auto found = std::ranges::find(kSchemas, name, &Schema::name);
  return found == std::end(kSchemas) ? nullptr : found;
}

std::string names_of_schemas() {
  std::string names;
  for (const Schema& schema : kSchemas) {
    names += (names.empty() ? "" : ", ") + std::string(schema.name);
  }
  return names;
}

std::string text_of(const Schema& schema) {
  Json json = {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
               {"title", schema.title}};
  json.update(described(schema.type(), schema.words));
  return document(json, 1) + "\n";
}

}  // namespace arenite::tool
