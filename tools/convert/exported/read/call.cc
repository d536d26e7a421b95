// SPDX-License-Identifier: Apache-2.0
// Typed access to arguments, and the line of the author's source at which a stack trace ends.
#include "convert/exported/read/call.h"

#include <charconv>

#include "convert/files/error.h"

namespace arenite::convert {
namespace {

constexpr size_t kPlaceCharactersMax = 200;  // of the source line

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

bool is_of_pytorch(std::string_view file) {
  return file.starts_with("torch/") || file.find("/torch/") != std::string_view::npos;
}

// The innermost stack frame outside PyTorch's own code; empty if there are no frames. A frame has
// two lines: '  File "model.py", line 12, in forward', and its code.
struct Place {
  std::string_view file, line, function, code;
};

Place place_in(std::string_view stack_trace) {
  constexpr std::string_view kFile = "File \"", kLine = "\", line ", kIn = ", in ";
  Place found;
  bool is_code = false;  // the next line is this frame's code
  for (std::string_view rest = stack_trace; !rest.empty();) {
    const std::string_view whole = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), whole.size() + 1));
    std::string_view line = trimmed(whole);
    const size_t end = line.starts_with(kFile) ? line.find(kLine) : std::string_view::npos;
    if (end == std::string_view::npos || end == kFile.size()) {
      if (is_code) found.code = line;
      is_code = false;
      continue;
    }
    const std::string_view file = line.substr(kFile.size(), end - kFile.size());
    is_code = !is_of_pytorch(file) || found.file.empty();
    if (!is_code) continue;
    line.remove_prefix(end + kLine.size());
    const size_t in = line.find(kIn);
    found = {file, line, in == line.npos ? "" : line.substr(in + kIn.size()), {}};
  }
  return found;
}

// Returns "'model.py', line 12, in forward: x = x * torch.rand(1)"; empty for an empty place.
std::string place_text(const Place& place) {
  if (place.file.empty()) return "";
  uint32_t number = 0;  // 1-based
  std::from_chars(place.line.data(), place.line.data() + place.line.size(), number);
  std::string text = fmt::format("{}, line {}", quote(place.file), number);
  if (!place.function.empty()) text += fmt::format(", in {}", printable(place.function));
  if (!place.code.empty()) text += ": " + printable(place.code, kPlaceCharactersMax);
  return text;
}

}  // namespace

const Argument* Call::find(std::string_view name) const {
  for (const NamedArgument& argument : arguments) {
    if (argument.name == name) return &argument.value;
  }
  return nullptr;
}

std::string Call::target() const {
  if (!part_of.empty()) return part_of;
  const bool is_aten = op.find('.') == std::string::npos;
  return printable((is_aten ? "aten." : "") + op + (overload.empty() ? "" : "." + overload));
}

std::string Call::describe() const {
  const std::string where = place_text(place_in(stack_trace));
  return where.empty() ? fmt::format("op {}", target())
                       : fmt::format("op {} ({})", target(), where);
}

bool Call::has(std::string_view name) const {
  const Argument* argument = find(name);
  return argument != nullptr && !argument->is_none();
}

const Argument& Call::argument(std::string_view name) const {
  if (!has(name)) refuse("argument '{}' is missing", name);
  return *find(name);
}

std::vector<Array> Call::arrays(std::string_view name) const {
  std::vector<Array> arrays;
  for (const Argument& item : typed<Argument::List>(name, "list of tensors")) {
    const Array* array = item.as<Array>();
    if (array == nullptr) refuse("argument '{}': expected a list of tensors", name);
    arrays.push_back(*array);
  }
  return arrays;
}

Array::Integers Call::indices(std::string_view name) const {
  const Array& found = array(name);
  if (!found.has_values())
    refuse("argument '{}' depends on the model's input: expected a constant", name);
  if (!is_integer(found.type())) refuse("argument '{}': expected a tensor of integers", name);
  return found.integers();
}

int64_t Call::as_integer(const Argument& argument, std::string_view name) const {
  if (const auto* integer = argument.as<int64_t>()) return *integer;
  if (const auto* flag = argument.as<bool>()) return *flag ? 1 : 0;
  // An integer tensor with one element counts as an integer.
  if (const auto* array = argument.as<Array>(); array != nullptr && array->has_values() &&
                                                is_integer(array->type()) &&
                                                array->elements() == 1) {
    return array->integers()[0];
  }
  refuse("argument '{}': expected an integer", name);
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

size_t Call::dimension(int64_t number, size_t rank) const {
  const auto extents = static_cast<int64_t>(rank == 0 ? 1 : rank);
  if (number < -extents || number >= extents) {
    refuse("dimension {} is out of range for a tensor of rank {}", number, rank);
  }
  return static_cast<size_t>(number < 0 ? number + extents : number);
}

}  // namespace arenite::convert
