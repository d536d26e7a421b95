// SPDX-License-Identifier: Apache-2.0
// A call of an op with its arguments. Tensors and symbolic numbers are ValueRefs, indices of the
// program's values, until `bind` replaces them by arrays, traced values or numbers.
//
//    linear(%3, %7)  --bind-->  linear(Array [2, 4], Array [8, 4])
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <complex>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "convert/exported/read/array.h"
#include "convert/files/error.h"

namespace arenite::convert {

// Index into ExportedProgram::values.
struct ValueRef {
  uint32_t value = 0;
};

// A value during tracing, defined in recover/traced_value.h.
struct TracedValue;
using TracedRef = std::shared_ptr<const TracedValue>;

// An argument that cannot change a result: device, layout, memory format or generator.
struct Placement {};

template <typename T, typename... Types>
constexpr bool kIsOneOf = (std::is_same_v<T, Types> || ...);

struct Argument;
// clang-format off
template <typename T>
concept IsArgumentValue =
    kIsOneOf<std::decay_t<T>, ValueRef, TracedRef, Array, bool, int64_t, double,
             std::complex<double>, std::string, ElementType, Placement, std::vector<Argument>>;
// clang-format on

// One argument or result.
struct Argument {
  using List = std::vector<Argument>;
  using Value = std::variant<std::monostate,  // None
                             ValueRef, TracedRef, Array, bool, int64_t, double,
                             std::complex<double>, std::string, ElementType, Placement, List>;

  Argument() = default;
  template <IsArgumentValue T>
  Argument(T&& from) : value(std::in_place_type<std::decay_t<T>>, std::forward<T>(from)) {}

  Value value;

  bool is_none() const { return std::holds_alternative<std::monostate>(value); }
  template <typename T>
  const T* as() const {
    return std::get_if<T>(&value);
  }
};

struct NamedArgument {
  std::string name;  // in the op's schema: "self"; may be empty
  Argument value;
};

// An error that names the op and its place in the author's source.
struct OpError : InputError {
  using InputError::InputError;
};

// A call. Arguments are in schema order; those with default values may be missing.
struct Call {
  std::string op;          // "linear" of ATen; others with namespace: "_operator.mul"
  std::string overload{};  // "default", "Tensor"; may be empty
  std::string view{};      // of "view_scatter" only: the op that made the view
  std::vector<NamedArgument> arguments{};
  std::string stack_trace{};        // of the author's code
  std::vector<uint32_t> outputs{};  // values of the program; several for a list of tensors
  std::string module_path{};        // "transformer.h.0.attn"; may be empty
  // The target of the op whose decomposition this call is part of; empty for calls of the author's
  // code.
  std::string part_of{};

  std::string target() const;  // for messages: "aten.linear.default"
  // Returns "op aten.linear.default ('model.py', line 12, in forward: ...)", for messages.
  std::string describe() const;
  // Throws OpError.
  template <typename... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    throw OpError("{}: {}", describe(), fmt::format(format, std::forward<Args>(args)...));
  }

  // Returns the argument, or null if it is missing.
  const Argument* find(std::string_view name) const;
  bool has(std::string_view name) const;  // present, and not None

  // ---- arguments by name and type; a missing or mistyped one is refused ----

  const Argument& argument(std::string_view name) const;
  const Array& array(std::string_view name) const { return typed<Array>(name, "tensor"); }
  const Array* optional_array(std::string_view name) const {  // null: missing, or None
    return has(name) ? &array(name) : nullptr;
  }
  std::vector<Array> arrays(std::string_view name) const;
  // Returns the elements of an integer array that does not depend on the model's input.
  Array::Integers indices(std::string_view name) const;
  int64_t integer(std::string_view name) const { return as_integer(argument(name), name); }
  int64_t integer(std::string_view name, int64_t default_value) const {
    return has(name) ? integer(name) : default_value;
  }
  std::vector<int64_t> integers(std::string_view name) const;  // a single integer counts as a list
  double real(std::string_view name) const;                    // or an integer
  double real(std::string_view name, double default_value) const {
    return has(name) ? real(name) : default_value;
  }
  bool flag(std::string_view name, bool default_value) const {
    return integer(name, default_value ? 1 : 0) != 0;
  }
  std::string text(std::string_view name, std::string_view default_value) const {
    return has(name) ? typed<std::string>(name, "string") : std::string(default_value);
  }
  std::optional<ElementType> type(std::string_view name) const {
    if (!has(name)) return std::nullopt;
    return typed<ElementType>(name, "dtype");
  }
  // Returns a dimension in [0, rank); a negative one counts from the end. A scalar counts as rank
  // 1.
  size_t dimension(int64_t number, size_t rank) const;
  size_t dimension(std::string_view name, int64_t default_value, size_t rank) const {
    return dimension(integer(name, default_value), rank);
  }

 private:
  int64_t as_integer(const Argument& argument, std::string_view name) const;
  template <typename T>
  const T& typed(std::string_view name, const char* what) const {
    const T* value = argument(name).template as<T>();
    if (value == nullptr) refuse("argument '{}': expected a {}", name, what);
    return *value;
  }
};

inline bool is_one_of(std::string_view text, std::initializer_list<std::string_view> names) {
  return std::ranges::find(names, text) != names.end();
}

// Calls visit(ref) for all arguments of type Ref, including those in lists.
template <typename Ref, typename Visit>
void for_each(const Argument& argument, const Visit& visit) {
  if (const Ref* ref = argument.as<Ref>()) visit(*ref);
  if (const auto* list = argument.as<Argument::List>()) {
    for (const Argument& item : *list) for_each<Ref>(item, visit);
  }
}

template <typename Ref, typename Visit>
void for_each(const Call& call, const Visit& visit) {
  for (const NamedArgument& argument : call.arguments) for_each<Ref>(argument.value, visit);
}

// Returns a copy in which value_of(ref) replaces each Ref.
template <typename Ref, typename ValueOf>
Argument bind(const Argument& argument, const ValueOf& value_of) {
  if (const Ref* ref = argument.as<Ref>()) return value_of(*ref);
  const auto* list = argument.as<Argument::List>();
  if (list == nullptr) return argument;
  Argument::List bound;
  bound.reserve(list->size());
  for (const Argument& item : *list) bound.push_back(bind<Ref>(item, value_of));
  return bound;
}

template <typename Ref, typename ValueOf>
Call bind(const Call& call, const ValueOf& value_of) {
  Call bound{.op = call.op,
             .overload = call.overload,
             .view = call.view,
             .stack_trace = call.stack_trace,
             .part_of = call.part_of};
  bound.arguments.reserve(call.arguments.size());
  for (const NamedArgument& argument : call.arguments) {
    bound.arguments.push_back({argument.name, bind<Ref>(argument.value, value_of)});
  }
  return bound;
}

}  // namespace arenite::convert
