// SPDX-License-Identifier: Apache-2.0
// Calls with their arguments, and the author's line that a stack trace ends in.
#include "convert/exported/read/call.h"

#include <charconv>

#include "convert/files/error.h"

namespace arenite::convert {
namespace {

constexpr size_t kPlaceCharactersMax = 200;  // of the author's line

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

// '  File "model.py", line 12, in forward'; without a file for any other line.
SourcePlace frame_of(std::string_view line) {
  SourcePlace place;
  line = trimmed(line);
  constexpr std::string_view kFile = "File \"";
  constexpr std::string_view kLine = "\", line ";
  constexpr std::string_view kIn = ", in ";
  if (!line.starts_with(kFile)) return place;
  const size_t end = line.find(kLine);
  if (end == std::string_view::npos) return place;
  place.file = line.substr(kFile.size(), end - kFile.size());
  const std::string_view rest = line.substr(end + kLine.size());
  std::from_chars(rest.data(), rest.data() + rest.size(), place.line);
  if (const size_t in = rest.find(kIn); in != std::string_view::npos) {
    place.function = rest.substr(in + kIn.size());
  }
  return place;
}

bool is_of_pytorch(std::string_view file) {
  return file.starts_with("torch/") || file.find("/torch/") != std::string_view::npos;
}

}  // namespace

std::string describe(const SourcePlace& place) {
  if (place.file.empty()) return "";
  std::string text = fmt::format("{}, line {}", quote(place.file), place.line);
  if (!place.function.empty()) text += fmt::format(", in {}", printable(place.function));
  if (!place.code.empty()) {
    text += fmt::format(": {}", printable(place.code, kPlaceCharactersMax));
  }
  return text;
}

const Argument* Call::find(std::string_view name) const {
  for (const NamedArgument& argument : arguments) {
    if (argument.name == name) return &argument.value;
  }
  return nullptr;
}

std::string Call::target() const {
  if (!part_of.empty()) return part_of;
  const bool is_aten = op.find('.') == std::string::npos;
  return fmt::format("{}{}{}{}", is_aten ? "aten." : "", printable(op), overload.empty() ? "" : ".",
                     printable(overload));
}

SourcePlace Call::place() const {
  SourcePlace found;
  std::string_view rest = stack_trace;
  bool is_found_code = false;  // the line after a frame is its code
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    SourcePlace frame = frame_of(line);
    if (frame.file.empty()) {
      if (is_found_code) found.code = trimmed(line);
      is_found_code = false;
      continue;
    }
    is_found_code = !is_of_pytorch(frame.file) || found.file.empty();
    if (is_found_code) found = std::move(frame);
  }
  return found;
}

std::string Call::describe() const {
  const std::string where = convert::describe(place());
  return where.empty() ? fmt::format("op {}", target())
                       : fmt::format("op {} ({})", target(), where);
}

bool Call::has(std::string_view name) const {
  const Argument* argument = find(name);
  return argument != nullptr && !argument->is_none();
}

const Argument& Call::argument(std::string_view name) const {
  if (!has(name)) refuse("its argument '{}' is missing", name);
  return *find(name);
}

const Array& Call::array(std::string_view name) const {
  const Array* array = argument(name).as<Array>();
  if (array == nullptr) refuse("its argument '{}' is no tensor", name);
  return *array;
}

const Array* Call::optional_array(std::string_view name) const {
  return has(name) ? &array(name) : nullptr;
}

std::vector<Array> Call::arrays(std::string_view name) const {
  const auto* list = argument(name).as<Argument::List>();
  if (list == nullptr) refuse("its argument '{}' is no list of tensors", name);
  std::vector<Array> arrays;
  for (const Argument& item : *list) {
    const Array* array = item.as<Array>();
    if (array == nullptr) refuse("its argument '{}' holds something else than tensors", name);
    arrays.push_back(*array);
  }
  return arrays;
}

Array::Integers Call::indices(std::string_view name) const {
  const Array& found = array(name);
  if (!found.has_values()) refuse("its argument '{}' depends on the model's input", name);
  if (!is_integer(found.type())) refuse("its argument '{}' is not of whole numbers", name);
  return found.integers();
}

int64_t Call::as_integer(const Argument& argument, std::string_view name) const {
  if (const auto* integer = argument.as<int64_t>()) return *integer;
  if (const auto* flag = argument.as<bool>()) return *flag ? 1 : 0;
  // A tensor with one whole number may stand for it.
  if (const auto* array = argument.as<Array>(); array != nullptr && array->has_values() &&
                                                is_integer(array->type()) &&
                                                array->elements() == 1) {
    return array->integers()[0];
  }
  refuse("its argument '{}' is no whole number", name);
}

int64_t Call::integer(std::string_view name) const { return as_integer(argument(name), name); }

int64_t Call::integer(std::string_view name, int64_t default_value) const {
  return has(name) ? integer(name) : default_value;
}

std::optional<int64_t> Call::optional_integer(std::string_view name) const {
  if (!has(name)) return std::nullopt;
  return integer(name);
}

std::vector<int64_t> Call::integers(std::string_view name) const {
  const Argument& given = argument(name);
  const auto* list = given.as<Argument::List>();
  if (list == nullptr) return {as_integer(given, name)};
  std::vector<int64_t> numbers;
  for (const Argument& item : *list) numbers.push_back(as_integer(item, name));
  return numbers;
}

double Call::real(std::string_view name) const {
  const Argument& given = argument(name);
  if (const auto* real = given.as<double>()) return *real;
  if (const auto* array = given.as<Array>();
      array != nullptr && array->has_values() && array->elements() == 1) {
    return array->to_reals()[0];
  }
  return static_cast<double>(as_integer(given, name));
}

double Call::real(std::string_view name, double default_value) const {
  return has(name) ? real(name) : default_value;
}

bool Call::flag(std::string_view name, bool default_value) const {
  return has(name) ? as_integer(argument(name), name) != 0 : default_value;
}

std::string Call::text(std::string_view name, std::string_view default_value) const {
  if (!has(name)) return std::string(default_value);
  const auto* text = argument(name).as<std::string>();
  if (text == nullptr) refuse("its argument '{}' is no string", name);
  return *text;
}

std::optional<ElementType> Call::type(std::string_view name) const {
  if (!has(name)) return std::nullopt;
  const auto* type = argument(name).as<ElementType>();
  if (type == nullptr) refuse("its argument '{}' is no type of elements", name);
  return *type;
}

size_t Call::dimension(int64_t number, size_t rank) const {
  const auto extents = static_cast<int64_t>(rank == 0 ? 1 : rank);
  if (number < -extents || number >= extents) {
    refuse("it names dimension {} of a tensor with {}", number, rank);
  }
  return static_cast<size_t>(number < 0 ? number + extents : number);
}

size_t Call::dimension(std::string_view name, int64_t default_value, size_t rank) const {
  return dimension(integer(name, default_value), rank);
}

}  // namespace arenite::convert
