// SPDX-License-Identifier: Apache-2.0
// The arguments of one call by their names and types; what does not fit is refused.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "convert/exported/argument.h"
#include "convert/exported/array.h"
#include "convert/files/error.h"

namespace arenite::convert {

// Every function throws InputError that names the op and its place. REQUIRES: the call outlives it.
class CallArguments {
 public:
  explicit CallArguments(const OpCall& call) : call_(call) {}

  const OpCall& call() const { return call_; }
  bool has(std::string_view name) const;  // given, and not None

  const Array& array(std::string_view name) const;
  const Array* optional_array(std::string_view name) const;  // null: left out, or None
  std::vector<Array> arrays(std::string_view name) const;
  // The elements of an array of whole numbers that does not depend on the model's input.
  Array::Integers indices(std::string_view name) const;

  int64_t integer(std::string_view name) const;
  int64_t integer(std::string_view name, int64_t default_value) const;
  std::optional<int64_t> optional_integer(std::string_view name) const;
  std::vector<int64_t> integers(std::string_view name) const;  // a single one counts as a list
  double real(std::string_view name) const;                    // whole numbers, too
  double real(std::string_view name, double default_value) const;
  bool flag(std::string_view name, bool default_value) const;
  std::string text(std::string_view name, std::string_view default_value) const;
  std::optional<ElementType> type(std::string_view name) const;

  // A dimension of an array of `rank` dimensions, of which scalars have one to name.
  size_t dimension(int64_t number, size_t rank) const;
  size_t dimension(std::string_view name, int64_t default_value, size_t rank) const;

  template <typename... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    throw InputError("{}: {}", call_.describe(), fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  const Argument& require(std::string_view name) const;
  int64_t as_integer(const Argument& argument, std::string_view name) const;

  const OpCall& call_;
};

}  // namespace arenite::convert
