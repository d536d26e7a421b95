// SPDX-License-Identifier: Apache-2.0
// What --json prints, from one table for each struct: a row has the key, where its value is, and
// what it means. The same rows make the JSON Schema and the outline of 'arenite help json'.
//
//   template <>
//   inline constexpr auto kFacts<FileFacts> =
//       std::tuple(Fact("path", &FileFacts::path),
//                  Fact("bytes", "Of the model file", &FileFacts::bytes));
//
// The type of a key is that of its value: a number that is not negative, a string, a list, another
// struct that has a table. std::optional is null where it holds nothing.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <variant>
#include <vector>

namespace arenite::tool {

// In quotes. Bytes that are no UTF-8, as names from a checkpoint may have, become U+FFFD.
std::string json_string(std::string_view text);

// Writes JSON piece by piece.
class JsonWriter {
 public:
  // For a page: on one line, without '<', and numbers that are not finite are there in words.
  enum class Form : uint8_t { kLines, kPage };
  explicit JsonWriter(Form form = Form::kLines, size_t indent = 2) : form_(form), indent_(indent) {}

  void begin(char open);  // '{' or '['
  void end(char close);
  void key(std::string_view key);
  void element();  // before each one of a list
  void null() { text_ += "null"; }
  void boolean(bool value) { text_ += value ? "true" : "false"; }
  void integer(uint64_t value) { text_ += std::to_string(value); }
  void real(double value);  // null where it is not finite: JSON has no word for that
  void string(std::string_view value);

  std::string take() { return std::move(text_); }

 private:
  void new_line();

  Form form_;
  size_t indent_;
  size_t depth_ = 0;
  bool is_empty_ = true;  // the list or object that was begun last
  std::string text_;
};

struct FactKey;

// What JSON Schema says of a value.
struct FactType {
  std::vector<std::string> types;     // "integer", or several: "array" and "null"
  std::optional<double> least, most;  // of numbers
  size_t count = 0;                   // of elements; 0: any
  std::vector<std::string> words;     // that a string is one of; empty: any
  std::vector<FactType> element;      // one: of a list, or of an object with any names
  std::vector<FactKey> keys;          // of an object, in their order
};

struct FactKey {
  std::string key;
  std::string words;  // what it means, where the key does not say it
  bool is_required = true;
  FactType type;
};

// A row of a table: `get` is a member, or a function of the struct.
template <typename Get>
struct Fact {
  constexpr Fact(const char* fact_key, const char* fact_words, Get fact_get)
      : key(fact_key), words(fact_words), get(fact_get) {}
  constexpr Fact(const char* fact_key, Get fact_get) : Fact(fact_key, "", fact_get) {}

  const char* key;
  const char* words;
  Get get;
};

// A row whose value is an object with facts of the same struct.
template <typename Table>
struct FactPart {
  const char* key;
  const char* words;
  Table table;
};
template <typename... Facts>
constexpr auto part(const char* key, const char* words, Facts... facts) {
  return FactPart<std::tuple<Facts...>>{key, words, std::tuple<Facts...>(facts...)};
}

// Rows that another table holds: which there are is known at run time only.
template <typename T>
struct MoreFacts {
  void (*write)(JsonWriter& json, const T& value);
  void (*add_keys)(std::vector<FactKey>& keys);
};

template <typename T>
inline constexpr auto kFacts = nullptr;

// An entry of a list that is an object: each has a name.
template <typename T>
struct Named {
  std::string name;
  T value;
};

// The same with the names that `names()` gives, one value for each.
template <auto names, typename T>
struct ForEach {
  std::vector<T> values;
};

// A key that is left out where there is no value.
template <typename T>
struct Sometimes : std::optional<T> {
  using std::optional<T>::optional;
  Sometimes(std::optional<T> held) : std::optional<T>(std::move(held)) {}  // NOLINT: implicit
};

// One of the words that `words()` gives.
template <auto words>
struct OneOf {
  std::string text;
};

// The words of an enumeration. `name` says them in order, and gives "" beyond the last.
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

// A number that is at least 1.
struct Positive {
  uint64_t value = 1;
};

// 0 to 1.
struct Fraction {
  double value = 0.0;
};

// A file that was read or written.
struct WrittenPath {
  std::filesystem::path path;
  uint64_t bytes = 0;
};

template <>
inline constexpr auto kFacts<WrittenPath> = std::tuple(Fact("path", &WrittenPath::path),
                                                       Fact("bytes", &WrittenPath::bytes));

// --- What each type of value is, and how it is written ---

template <typename T>
struct FactValue;

template <typename T>
FactType type_of_fact() {
  return FactValue<std::remove_cvref_t<T>>::type();
}

template <typename T>
void write_fact(JsonWriter& json, const T& value) {
  FactValue<T>::write(json, value);
}

template <typename T>
struct IsSometimes : std::false_type {};
template <typename T>
struct IsSometimes<Sometimes<T>> : std::true_type {};

template <typename T, typename Get>
void write_row(JsonWriter& json, const T& value, const Fact<Get>& fact) {
  const auto& found = std::invoke(fact.get, value);
  using Value = std::remove_cvref_t<decltype(found)>;
  if constexpr (IsSometimes<Value>::value) {
    if (!found) return;
    json.key(fact.key);
    write_fact(json, *found);
  } else {
    json.key(fact.key);
    write_fact(json, found);
  }
}

template <typename T, typename... Rows>
void write_rows(JsonWriter& json, const T& value, const std::tuple<Rows...>& table) {
  std::apply([&](const auto&... rows) { (write_row(json, value, rows), ...); }, table);
}

template <typename T, typename Table>
void write_row(JsonWriter& json, const T& value, const FactPart<Table>& part) {
  json.key(part.key);
  json.begin('{');
  write_rows(json, value, part.table);
  json.end('}');
}

template <typename T, typename Base>
void write_row(JsonWriter& json, const T& value, const MoreFacts<Base>& more) {
  more.write(json, value);
}

template <typename T, typename Get>
void add_key(std::vector<FactKey>& keys, const Fact<Get>& fact) {
  using Value = std::remove_cvref_t<std::invoke_result_t<const Get&, const T&>>;
  keys.push_back({fact.key, fact.words, !IsSometimes<Value>::value, type_of_fact<Value>()});
}

template <typename T, typename... Rows>
std::vector<FactKey> keys_of(const std::tuple<Rows...>& table) {
  std::vector<FactKey> keys;
  std::apply([&](const auto&... rows) { (add_key<T>(keys, rows), ...); }, table);
  return keys;
}

FactType object_type(std::vector<FactKey> keys);
FactType list_type(FactType element, size_t count = 0);
FactType plain_type(const char* type);
FactType number_type(const char* type, double least, std::optional<double> most = {});
FactType names_type(FactType element);  // of an object with any names
FactType each_type(const std::vector<std::string>& names, const FactType& element);
FactType words_type(std::vector<std::string> words);
FactType or_type(FactType type, const FactType& other);

template <typename T, typename Table>
void add_key(std::vector<FactKey>& keys, const FactPart<Table>& part) {
  keys.push_back({part.key, part.words, true, object_type(keys_of<T>(part.table))});
}

template <typename T, typename Base>
void add_key(std::vector<FactKey>& keys, const MoreFacts<Base>& more) {
  more.add_keys(keys);
}

template <typename T>
FactType struct_type() {
  static_assert(!std::is_same_v<decltype(kFacts<T>), const std::nullptr_t>,
                "a value in JSON needs a table, or one of the types below");
  return object_type(keys_of<T>(kFacts<T>));
}

template <typename T>
void write_struct(JsonWriter& json, const T& value) {
  json.begin('{');
  write_rows(json, value, kFacts<T>);
  json.end('}');
}

// A struct with a table. Where that lies in another file, so do the functions of a specialization.
template <typename T>
struct FactValue {
  static FactType type() { return struct_type<T>(); }
  static void write(JsonWriter& json, const T& value) { write_struct(json, value); }
};

template <std::unsigned_integral T>
struct FactValue<T> {
  static FactType type() { return number_type("integer", 0.0); }
  static void write(JsonWriter& json, T value) { json.integer(value); }
};

template <>
struct FactValue<bool> {
  static FactType type() { return plain_type("boolean"); }
  static void write(JsonWriter& json, bool value) { json.boolean(value); }
};

template <std::floating_point T>
struct FactValue<T> {
  static FactType type() { return plain_type("number"); }
  static void write(JsonWriter& json, T value) { json.real(value); }
};

template <>
struct FactValue<Positive> {
  static FactType type() { return number_type("integer", 1.0); }
  static void write(JsonWriter& json, Positive value) { json.integer(value.value); }
};

template <>
struct FactValue<Fraction> {
  static FactType type() { return number_type("number", 0.0, 1.0); }
  static void write(JsonWriter& json, Fraction value) { json.real(value.value); }
};

template <std::convertible_to<std::string_view> T>
struct FactValue<T> {
  static FactType type() { return plain_type("string"); }
  static void write(JsonWriter& json, std::string_view value) { json.string(value); }
};

template <>
struct FactValue<std::filesystem::path> {
  static FactType type() { return plain_type("string"); }
  static void write(JsonWriter& json, const std::filesystem::path& value) {
    json.string(value.string());
  }
};

template <auto words>
struct FactValue<OneOf<words>> {
  static FactType type() { return words_type(words()); }
  static void write(JsonWriter& json, const OneOf<words>& value) { json.string(value.text); }
};

// Of a struct that is kept elsewhere.
template <typename T>
requires(!std::same_as<T, char>) struct FactValue<const T*> {
  static FactType type() { return type_of_fact<T>(); }
  static void write(JsonWriter& json, const T* value) { write_fact(json, *value); }
};

template <typename T>
struct FactValue<std::optional<T>> {
  static FactType type() { return or_type(type_of_fact<T>(), plain_type("null")); }
  static void write(JsonWriter& json, const std::optional<T>& value) {
    if (!value) return json.null();
    write_fact(json, *value);
  }
};

template <typename T>
struct FactValue<Sometimes<T>> {
  static FactType type() { return type_of_fact<T>(); }
};

template <typename A, typename B>
struct FactValue<std::variant<A, B>> {
  static FactType type() { return or_type(type_of_fact<A>(), type_of_fact<B>()); }
  static void write(JsonWriter& json, const std::variant<A, B>& value) {
    std::visit([&](const auto& held) { write_fact(json, held); }, value);
  }
};

template <typename List>
void write_list(JsonWriter& json, const List& list) {
  json.begin('[');
  for (const auto& value : list) {
    json.element();
    write_fact(json, value);
  }
  json.end(']');
}

template <typename T>
struct FactValue<std::vector<T>> {
  static FactType type() { return list_type(type_of_fact<T>()); }
  static void write(JsonWriter& json, const std::vector<T>& value) { write_list(json, value); }
};

template <typename T>
struct FactValue<std::span<T>> {
  static FactType type() { return list_type(type_of_fact<T>()); }
  static void write(JsonWriter& json, std::span<T> value) { write_list(json, value); }
};

template <typename T, size_t count>
struct FactValue<std::array<T, count>> {
  static FactType type() { return list_type(type_of_fact<T>(), count); }
  static void write(JsonWriter& json, const std::array<T, count>& value) {
    write_list(json, value);
  }
};

template <typename T>
struct FactValue<std::vector<Named<T>>> {
  static FactType type() { return names_type(type_of_fact<T>()); }
  static void write(JsonWriter& json, const std::vector<Named<T>>& value) {
    json.begin('{');
    for (const Named<T>& named : value) {
      json.key(named.name);
      write_fact(json, named.value);
    }
    json.end('}');
  }
};

template <auto names, typename T>
struct FactValue<ForEach<names, T>> {
  static FactType type() { return each_type(names(), type_of_fact<T>()); }
  static void write(JsonWriter& json, const ForEach<names, T>& value) {
    const std::vector<std::string> all = names();
    json.begin('{');
    for (size_t i = 0; i < all.size(); ++i) {
      json.key(all[i]);
      write_fact(json, value.values[i]);
    }
    json.end('}');
  }
};

// --- Documents ---

template <typename T>
std::string as_json(const T& value, JsonWriter::Form form = JsonWriter::Form::kLines) {
  JsonWriter json(form);
  write_fact(json, value);
  return json.take() + "\n";
}

// Puts text on the standard output.
void print_string(const std::string& text);

template <typename T>
void print_json(const T& value) {
  print_string(as_json(value));
}

// What each command prints with --json: its JSON Schema, and an outline for people.

// What a command prints with --json.
struct Schema {
  const char* name;   // of the command
  const char* title;  // which output it describes
  const char* words;  // what that is
  FactType (*type)();
};

std::span<const Schema> schemas();

// Null where there is none.
const Schema* find_schema(std::string_view name);

// "bench, classify, convert"
std::string names_of_schemas();

std::string text_of(const Schema& schema);

// Its keys, one a line, indented by depth, each with its type and what it is: as wrapped() leaves
// them. `columns` is the width to keep to.
std::string outline_of(const Schema& schema, size_t columns);

}  // namespace arenite::tool
