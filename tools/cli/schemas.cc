// SPDX-License-Identifier: Apache-2.0
// JSON Schema in the few of its words that describe our output: type, properties, items, enum,
// minimum, and additionalProperties, which refuses what no table names.
#include "cli/facts.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/commands.h"
#include "cli/help.h"

namespace arenite::tool {
namespace {

constexpr size_t kKeyColumn = 30;  // where descriptions begin

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
    {"verify", "arenite verify --json", "Checksums and self-test", verify_facts},
};

void write_type(JsonWriter& json, const FactType& type, std::string_view words);

void write_strings(JsonWriter& json, const std::vector<std::string>& strings) {
  write_list(json, strings);
}

void write_object(JsonWriter& json, const FactType& type) {
  if (!type.element.empty()) {
    json.key("additionalProperties");
    return write_type(json, type.element[0], "");
  }
  std::vector<std::string> required;
  json.key("properties");
  json.begin('{');
  for (const FactKey& key : type.keys) {
    json.key(key.key);
    write_type(json, key.type, key.words);
    if (key.is_required) required.push_back(key.key);
  }
  json.end('}');
  json.key("required");
  write_strings(json, required);
  json.key("additionalProperties");
  json.boolean(false);
}

void write_number(JsonWriter& json, const char* key, double value) {
  json.key(key);
  json.integer(static_cast<uint64_t>(value));
}

void write_members(JsonWriter& json, const FactType& type, std::string_view words) {
  json.key("type");
  type.types.size() == 1 ? json.string(type.types[0]) : write_strings(json, type.types);
  if (!words.empty()) {
    json.key("description");
    json.string(words);
  }
  if (type.least) write_number(json, "minimum", *type.least);
  if (type.most) write_number(json, "maximum", *type.most);
  if (!type.words.empty()) {
    json.key("enum");
    write_strings(json, type.words);
  }
  if (std::ranges::count(type.types, "object") != 0) return write_object(json, type);
  if (type.element.empty()) return;
  json.key("items");
  write_type(json, type.element[0], "");
  if (type.count == 0) return;
  write_number(json, "minItems", static_cast<double>(type.count));
  write_number(json, "maxItems", static_cast<double>(type.count));
}

void write_type(JsonWriter& json, const FactType& type, std::string_view words) {
  json.begin('{');
  write_members(json, type, words);
  json.end('}');
}

// "array of integer or null"
std::string type_name(const FactType& type) {
  std::string name;
  for (const std::string& word : type.types) {
    name += (name.empty() ? "" : " or ") + word;
    if (word == "array") name += " of " + type_name(type.element[0]);
  }
  return name;
}

void add_outline(std::string& text, const FactType& type, size_t depth, size_t columns);

// The key, and what it is beside it or, where the key is long, below.
void add_outline(std::string& text, const FactKey& key, size_t depth, size_t columns) {
  std::string line(2 + 2 * depth, ' ');
  line += key.key;
  if (line.size() + 2 > kKeyColumn) {
    line += '\n' + std::string(kKeyColumn, ' ');
  } else {
    line.resize(kKeyColumn, ' ');
  }
  const std::string name = type_name(key.type);
  text += line + wrapped(key.words.empty() ? name : name + ": " + key.words, columns, kKeyColumn) +
          "\n";
  add_outline(text, key.type, depth + 1, columns);
}

void add_outline(std::string& text, const FactType& type, size_t depth, size_t columns) {
  for (const FactKey& key : type.keys) add_outline(text, key, depth, columns);
  if (type.element.empty()) return;
  if (std::ranges::count(type.types, "array") != 0) {
    return add_outline(text, type.element[0], depth, columns);
  }
  add_outline(text, FactKey{"NAME", "", true, type.element[0]}, depth, columns);
}

}  // namespace

std::span<const Schema> schemas() { return kSchemas; }

const Schema* find_schema(std::string_view name) {
  const auto found =
      std::ranges::find_if(kSchemas, [&](const Schema& schema) { return name == schema.name; });
  return found == std::end(kSchemas) ? nullptr : found;
}

std::string names_of_schemas() {
  std::string names;
  for (const Schema& schema : kSchemas)
    names += (names.empty() ? "" : ", ") + std::string(schema.name);
  return names;
}

std::string text_of(const Schema& schema) {
  JsonWriter json(JsonWriter::Form::kLines, 1);
  json.begin('{');
  json.key("$schema");
  json.string("https://json-schema.org/draft/2020-12/schema");
  json.key("title");
  json.string(schema.title);
  write_members(json, schema.type(), schema.words);
  json.end('}');
  return json.take() + "\n";
}

std::string outline_of(const Schema& schema, size_t columns) {
  std::string text;
  add_outline(text, schema.type(), 0, columns);
  return text;
}

}  // namespace arenite::tool
