// SPDX-License-Identifier: Apache-2.0
// Defines what --json prints by one table per struct. Each row has the key, a getter and the
// meaning of the value. The same rows produce the JSON Schema and the outline of 'arenite help
// json', and the text for people is filled in from the same JSON (cli/text_table.h).
//
//   template <>
//   inline constexpr auto kFacts<FileFacts> =
//       std::tuple(Fact("path", &FileFacts::path),
//                  Fact("bytes", "Bytes of the model file", &FileFacts::bytes));
//
// The C++ type of a value determines its JSON type: non-negative number, string, list, or another
// struct that has a table. An empty std::optional becomes null.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <variant>
#include <vector>

namespace arenite::tool {

// Keeps keys in the order in which they are added.
using Json = nlohmann::ordered_json;

// --- Value kinds that C++ has no type for ---

// A list of these becomes one object, with `name` as the key.
template <typename T>
struct Named {
  std::string name;
  T value;
};

// Becomes an object with the keys that `names()` returns, one value for each.
template <auto names, typename T>
struct ForEach {
  std::vector<T> values;
};

// An empty value omits its key.
template <typename T>
struct Sometimes : std::optional<T> {
  using std::optional<T>::optional;
  Sometimes(std::optional<T> held) : std::optional<T>(std::move(held)) {}  // NOLINT: implicit
};
template <typename T>
inline constexpr bool kIsSometimes = false;
template <typename T>
inline constexpr bool kIsSometimes<Sometimes<T>> = true;

// One of the words that `words()` returns.
template <auto words>
struct OneOf {
  std::string text;
};

// Lists the names of an enumeration. `name` is called for 0, 1, ... until it returns "".
template <typename Enumeration>
std::vector<std::string> names_from(const char* (*name)(Enumeration)) {
  std::vector<std::string> names;
  for (uint32_t i = 0; *name(static_cast<Enumeration>(i)) != '\0'; ++i) {
    names.emplace_back(name(static_cast<Enumeration>(i)));
  }
  return names;
}
template <auto name>
std::vector<std::string> all_names() {
  return names_from(name);
}

// At least 1.
struct Positive {
  uint64_t value = 1;
};

// From 0 to 1.
struct Fraction {
  double value = 0.0;
};

// --- Tables ---

// Converts a value to JSON and gives the JSON Schema of its type.
template <typename T>
struct FactValue;

template <typename T>
Json json_of(const T& value) {
  return FactValue<T>::json(value);
}
template <typename T>
Json schema_of() {
  return FactValue<std::remove_cvref_t<T>>::schema();
}

// Collects the properties of an object's schema.
struct ObjectSchema {
  Json properties = Json::object();
  Json required = Json::array();

  void add(const char* key, const char* words, Json type, bool is_required = true);
  Json take();
};

// A row of a table. `get` is a data member, a member function or a callable that takes the struct.
template <typename Get>
struct Fact {
  constexpr Fact(const char* fact_key, const char* fact_words, Get fact_get)
      : key(fact_key), words(fact_words), get(fact_get) {}
  constexpr Fact(const char* fact_key, Get fact_get) : Fact(fact_key, "", fact_get) {}

  template <typename T>
  void add(Json& object, const T& value) const {
    const auto& found = std::invoke(get, value);
    using Value = std::remove_cvref_t<decltype(found)>;
    if constexpr (kIsSometimes<Value>) {
      if (found) object[key] = json_of(*found);
    } else {
      object[key] = json_of(found);
    }
  }
  template <typename T>
  void add_schema(ObjectSchema& schema) const {
    using Value = std::remove_cvref_t<std::invoke_result_t<const Get&, const T&>>;
    schema.add(key, words, schema_of<Value>(), !kIsSometimes<Value>);
  }

  const char* key;
  const char* words;
  Get get;
};

template <typename T, typename... Rows>
void add_rows(Json& object, const T& value, const std::tuple<Rows...>& table) {
  std::apply([&](const auto&... rows) { (rows.add(object, value), ...); }, table);
}
template <typename T, typename... Rows>
Json table_schema(const std::tuple<Rows...>& table) {
  ObjectSchema schema;
  std::apply([&](const auto&... rows) { (rows.template add_schema<T>(schema), ...); }, table);
  return schema.take();
}

// A row whose value is an object with facts of the same struct.
template <typename Table>
struct FactPart {
  template <typename T>
  void add(Json& object, const T& value) const {
    add_rows(object[key] = Json::object(), value, table);
  }
  template <typename T>
  void add_schema(ObjectSchema& schema) const {
    schema.add(key, words, table_schema<T>(table));
  }

  const char* key;
  const char* words;
  Table table;
};
template <typename... Facts>
constexpr auto part(const char* key, const char* words, Facts... facts) {
  return FactPart<std::tuple<Facts...>>{key, words, std::tuple<Facts...>(facts...)};
}

// Further rows, added by functions: those of another table, or rows that are known only at run
// time.
template <typename Base>
struct MoreFacts {
  template <typename T>
  void add(Json& object, const T& value) const {
    add_facts(object, value);
  }
  template <typename T>
  void add_schema(ObjectSchema& schema) const {
    add_keys(schema);
  }

  void (*add_facts)(Json& object, const Base& value);
  void (*add_keys)(ObjectSchema& schema);
};

template <typename T>
inline constexpr auto kFacts = nullptr;

// --- JSON and schema of each type ---

Json schema_of_type(const char* type);
Json schema_of_number(const char* type, double least, std::optional<double> most = {});
Json schema_of_list(Json element, size_t count = 0);  // 0: any number of elements
Json schema_of_names(Json element);                   // an object with any names
Json schema_of_each(const std::vector<std::string>& names, const Json& element);
Json schema_of_words(const std::vector<std::string>& words);
Json schema_of_either(Json type, const Json& other);

// A struct with a table. If the table is in another source, the template is instantiated there.
template <typename T>
struct FactValue {
  static Json schema();
  static Json json(const T& value);
};
template <typename T>
Json FactValue<T>::schema() {
  return table_schema<T>(kFacts<T>);
}
template <typename T>
Json FactValue<T>::json(const T& value) {
  static_assert(!std::is_same_v<decltype(kFacts<T>), const std::nullptr_t>,
                "a value in JSON needs a table, or one of the types below");
  Json object = Json::object();
  add_rows(object, value, kFacts<T>);
  return object;
}

template <std::unsigned_integral T>
struct FactValue<T> {
  static Json schema() { return schema_of_number("integer", 0.0); }
  static Json json(T value) { return value; }
};

template <>
struct FactValue<int32_t> {
  static Json schema() { return schema_of_type("integer"); }
  static Json json(int32_t value) { return value; }
};

template <>
struct FactValue<bool> {
  static Json schema() { return schema_of_type("boolean"); }
  static Json json(bool value) { return value; }
};

template <std::floating_point T>
struct FactValue<T> {
  static Json schema() { return schema_of_type("number"); }
  static Json json(T value) { return double{value}; }  // null if it is not finite
};

template <>
struct FactValue<Positive> {
  static Json schema() { return schema_of_number("integer", 1.0); }
  static Json json(Positive value) { return value.value; }
};

template <>
struct FactValue<Fraction> {
  static Json schema() { return schema_of_number("number", 0.0, 1.0); }
  static Json json(Fraction value) { return value.value; }
};

template <std::convertible_to<std::string_view> T>
struct FactValue<T> {
  static Json schema() { return schema_of_type("string"); }
  static Json json(std::string_view value) { return value; }
};

template <>
struct FactValue<std::filesystem::path> {
  static Json schema() { return schema_of_type("string"); }
  static Json json(const std::filesystem::path& value) { return value.string(); }
};

template <auto words>
struct FactValue<OneOf<words>> {
  static Json schema() { return schema_of_words(words()); }
  static Json json(const OneOf<words>& value) { return value.text; }
};

// A struct that somebody else owns.
template <typename T>
requires(!std::same_as<T, char>) struct FactValue<const T*> {
  static Json schema() { return schema_of<T>(); }
  static Json json(const T* value) { return json_of(*value); }
};

template <typename T>
struct FactValue<std::optional<T>> {
  static Json schema() { return schema_of_either(schema_of<T>(), schema_of_type("null")); }
  static Json json(const std::optional<T>& value) { return value ? json_of(*value) : Json(); }
};

template <typename T>
struct FactValue<Sometimes<T>> {
  static Json schema() { return schema_of<T>(); }
};

template <typename A, typename B>
struct FactValue<std::variant<A, B>> {
  static Json schema() { return schema_of_either(schema_of<A>(), schema_of<B>()); }
  static Json json(const std::variant<A, B>& value) {
    return std::visit([](const auto& held) { return json_of(held); }, value);
  }
};

template <typename List>
Json list_of(const List& list) {
  Json array = Json::array();
  for (const auto& value : list) array.push_back(json_of(value));
  return array;
}

template <typename T>
struct FactValue<std::vector<T>> {
  static Json schema() { return schema_of_list(schema_of<T>()); }
  static Json json(const std::vector<T>& value) { return list_of(value); }
};

template <typename T>
struct FactValue<std::span<T>> : FactValue<std::vector<std::remove_const_t<T>>> {
  static Json json(std::span<T> value) { return list_of(value); }
};

template <typename T, size_t count>
struct FactValue<std::array<T, count>> {
  static Json schema() { return schema_of_list(schema_of<T>(), count); }
  static Json json(const std::array<T, count>& value) { return list_of(value); }
};

template <typename T>
struct FactValue<std::vector<Named<T>>> {
  static Json schema() { return schema_of_names(schema_of<T>()); }
  static Json json(const std::vector<Named<T>>& value) {
    Json object = Json::object();
    for (const Named<T>& named : value) object[named.name] = json_of(named.value);
    return object;
  }
};

template <auto names, typename T>
struct FactValue<ForEach<names, T>> {
  static Json schema() { return schema_of_each(names(), schema_of<T>()); }
  static Json json(const ForEach<names, T>& value) {
    Json object = Json::object();
    for (size_t i = 0; const std::string& name : names()) object[name] = json_of(value.values[i++]);
    return object;
  }
};

struct WrittenPath {
  std::filesystem::path path;
  uint64_t bytes = 0;
};
template <>
inline constexpr auto kFacts<WrittenPath> = std::tuple(Fact("path", &WrittenPath::path),
                                                       Fact("bytes", &WrittenPath::bytes));

// --- Documents ---

// Serializes `json` as --json prints it, without the final newline. Bytes that are not UTF-8, such
// as in a checkpoint's names, become U+FFFD.
std::string document(const Json& json, int indent = 2);

// For an HTML page: one line, without '<', and non-finite values as words.
std::string page_document(Json json);

// Writes text to the standard output.
void print_string(const std::string& text);
void print_document(const Json& json);

template <typename T>
void print_json(const T& value) {
  print_document(json_of(value));
}

// The description of a command's --json output.
struct Schema {
  const char* name;   // the command
  const char* title;  // the output that it describes
  const char* words;  // what that is
  Json (*type)();
};

std::span<const Schema> schemas();

// Returns null if there is none.
const Schema* find_schema(std::string_view name);

// "bench, classify, convert"
std::string names_of_schemas();

std::string text_of(const Schema& schema);

// Lists the schema's keys, a line each, indented by depth, with type and meaning. `columns` is the
// width.
std::string outline_of(const Schema& schema, size_t columns);

}  // namespace arenite::tool
