// SPDX-License-Identifier: Apache-2.0
// Defines what --json prints by one table per struct. Each row has the key, a getter and the
// meaning of the value. The same rows produce the JSON Schema.
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
#include <ranges>
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

// --- Schemas of types ---

Json schema_of_type(const char* type);
Json schema_of_number(const char* type, double least, std::optional<double> most = {});
Json schema_of_list(Json element, size_t count = 0);  // 0: any number of elements
Json schema_of_names(Json element);                   // an object with any names
Json schema_of_each(const std::vector<std::string>& names, const Json& element);
Json schema_of_words(const std::vector<std::string>& words);
Json schema_of_either(Json type, const Json& other);

template <typename T>
Json json_of(const T& value);
template <typename T>
Json schema_of();

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

  Json json() const {
    Json object = Json::object();
    for (size_t i = 0; const std::string& name : names()) object[name] = json_of(values[i++]);
    return object;
  }
  static Json schema() { return schema_of_each(names(), schema_of<T>()); }
};

// An empty value omits its key.
template <typename T>
struct Sometimes : std::optional<T> {
  using std::optional<T>::optional;
  Sometimes(std::optional<T> held) : std::optional<T>(std::move(held)) {}  // NOLINT: implicit
};

// One of the words that `words()` returns.
template <auto words>
struct OneOf {
  std::string text;

  Json json() const { return text; }
  static Json schema() { return schema_of_words(words()); }
};

// Lists the names of an enumeration. `name` is called for 0, 1, ... until it returns "".
template <auto name>
std::vector<std::string> all_names() {
  std::vector<std::string> names;
  const auto add = [&]<typename Enumeration>(const char* (*of)(Enumeration)) {
    for (uint32_t i = 0; *of(static_cast<Enumeration>(i)) != '\0'; ++i) {
      names.emplace_back(of(static_cast<Enumeration>(i)));
    }
  };
  add(name);
  return names;
}

// At least 1.
struct Positive {
  uint64_t value = 1;

  Json json() const { return value; }
  static Json schema() { return schema_of_number("integer", 1.0); }
};

// From 0 to 1.
struct Fraction {
  double value = 0.0;

  Json json() const { return value; }
  static Json schema() { return schema_of_number("number", 0.0, 1.0); }
};

template <typename T, template <typename...> typename Template>
inline constexpr bool kIs = false;
template <template <typename...> typename Template, typename... T>
inline constexpr bool kIs<Template<T...>, Template> = true;

// --- Tables ---

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
    if constexpr (kIs<Value, Sometimes>) {
      if (found) object[key] = json_of(*found);
    } else {
      object[key] = json_of(found);
    }
  }
  template <typename T>
  void add_schema(ObjectSchema& schema) const {
    using Value = std::remove_cvref_t<std::invoke_result_t<const Get&, const T&>>;
    schema.add(key, words, schema_of<Value>(), !kIs<Value, Sometimes>);
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

template <typename T>
Json json_of(const T& value) {
  if constexpr (requires { T::schema(); }) {
    return value.json();
  } else if constexpr (kIs<T, std::optional>) {
    return value ? json_of(*value) : Json();
  } else if constexpr (kIs<T, std::variant>) {
    return std::visit([](const auto& held) { return json_of(held); }, value);
  } else if constexpr (std::same_as<T, std::filesystem::path>) {
    return value.string();
  } else if constexpr (std::convertible_to<T, std::string_view>) {
    return std::string_view(value);
  } else if constexpr (std::is_pointer_v<T>) {  // a struct that somebody else owns
    return json_of(*value);
  } else if constexpr (std::floating_point<T>) {
    return double{value};  // null if it is not finite
  } else if constexpr (std::integral<T>) {
    return value;
  } else if constexpr (std::ranges::range<T>) {
    using Element = std::remove_cvref_t<decltype(*value.begin())>;
    Json list = kIs<Element, Named> ? Json::object() : Json::array();
    for (const auto& element : value) {
      if constexpr (kIs<Element, Named>) {
        list[element.name] = json_of(element.value);
      } else {
        list.push_back(json_of(element));
      }
    }
    return list;
  } else {
    static_assert(!std::is_same_v<decltype(kFacts<T>), const std::nullptr_t>,
                  "a value in JSON needs a table, or one of the types above");
    Json object = Json::object();
    add_rows(object, value, kFacts<T>);
    return object;
  }
}

template <typename T>
Json schema_of() {
  if constexpr (requires { T::schema(); }) {
    return T::schema();
  } else if constexpr (kIs<T, Sometimes>) {
    return schema_of<typename T::value_type>();
  } else if constexpr (kIs<T, std::optional>) {
    return schema_of_either(schema_of<typename T::value_type>(), schema_of_type("null"));
  } else if constexpr (kIs<T, std::variant>) {
    return schema_of_either(schema_of<std::variant_alternative_t<0, T>>(),
                            schema_of<std::variant_alternative_t<1, T>>());
  } else if constexpr (std::same_as<T, std::filesystem::path> ||
                       std::convertible_to<T, std::string_view>) {
    return schema_of_type("string");
  } else if constexpr (std::is_pointer_v<T>) {
    return schema_of<std::remove_cv_t<std::remove_pointer_t<T>>>();
  } else if constexpr (std::same_as<T, bool>) {
    return schema_of_type("boolean");
  } else if constexpr (std::floating_point<T>) {
    return schema_of_type("number");
  } else if constexpr (std::signed_integral<T>) {
    return schema_of_type("integer");
  } else if constexpr (std::integral<T>) {
    return schema_of_number("integer", 0.0);
  } else if constexpr (std::ranges::range<T>) {
    using Element = std::remove_cvref_t<decltype(*std::declval<T>().begin())>;
    if constexpr (kIs<Element, Named>) {
      return schema_of_names(schema_of<decltype(Element::value)>());
    } else if constexpr (requires { std::tuple_size<T>::value; }) {
      return schema_of_list(schema_of<Element>(), std::tuple_size_v<T>);
    } else {
      return schema_of_list(schema_of<Element>());
    }
  } else {
    return table_schema<T>(kFacts<T>);
  }
}

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

}  // namespace arenite::tool
