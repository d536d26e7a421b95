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

bool is_of_pytorch(std::string_view file) {
  return file.starts_with("torch/") || file.find("/torch/") != std::string_view::npos;
}

// The innermost place of a stack trace that is not PyTorch's own; empty where it has none. Each
// place is two lines: that of its file, as in '  File "model.py", line 12, in forward', and its
// code.
struct Place {
  std::string_view file, line, function, code;
};

Place place_in(std::string_view stack_trace) {
  constexpr std::string_view kFile = "File \"", kLine = "\", line ", kIn = ", in ";
  Place found;
  bool is_code = false;  // of the place that was found
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

// "'model.py', line 12, in forward: x = x * torch.rand(1)"; "" where it has none.
std::string place_text(const Place& place) {
  if (place.file.empty()) return "";
  uint32_t number = 0;  // from 1
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

CodeLine Call::code_line() const {
  const Place place = place_in(stack_trace);
  return {place.file, place.code};
}

bool Call::has(std::string_view name) const {
  const Argument* argument = find(name);
  return argument != nullptr && !argument->is_none();
}

const Argument& Call::argument(std::string_view name) const {
  if (!has(name)) refuse("its argument '{}' is missing", name);
  return *find(name);
}

std::vector<Array> Call::arrays(std::string_view name) const {
  std::vector<Array> arrays;
  for (const Argument& item : typed<Argument::List>(name, "list of tensors")) {
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
    refuse("it names dimension {} of a tensor with {}", number, rank);
  }
  return static_cast<size_t>(number < 0 ? number + extents : number);
}

// ---- what a line of Python says of numbers ----

namespace {

constexpr double kSameNumber = 1e-7;  // share that rounding to float32 may change

// Whether the number is the one written, or divides by it.
bool is_written(double number, double written) {
  const double size = std::fabs(number);
  const auto is_same = [&](double other) { return std::fabs(size - other) <= kSameNumber * size; };
  return written != 0.0 && (is_same(std::fabs(written)) || is_same(1.0 / std::fabs(written)));
}

bool is_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

}  // namespace

CodeLine::CodeLine(std::string_view of_file, std::string_view code) : file(of_file) {
  for (size_t i = 0; i < code.size() && code[i] != '#';) i = read(code, i);
  find_numbers();
}

bool CodeLine::says(double number) const {
  if (has_choice()) return false;
  return std::ranges::any_of(numbers_, [&](double written) {
    return is_written(number, written) || (has("sqrt") && is_written(number, std::sqrt(written))) ||
           (has("exp") && is_written(number, std::exp(written))) ||
           (has("log") && is_written(number, std::log(written))) ||
           (has("log2") && is_written(number, std::log2(written)));
  });
}

bool CodeLine::uses_attribute(std::string_view op) const {
  const auto is_operator = [&](const Token& token) { return !token.number && token.text == op; };
  const auto found = std::ranges::find_if(tokens_, is_operator);
  if (op.empty() || has_choice() || std::ranges::count_if(tokens_, is_operator) != 1) return false;
  const auto place = static_cast<size_t>(found - tokens_.begin());
  return is_attribute(place + 1, 1) || is_attribute(place - 1, SIZE_MAX);
}

bool CodeLine::passes_attribute(std::string_view argument) const {
  for (size_t i = 0; i + 2 < tokens_.size(); ++i) {
    const bool is_passed = text_at(i) == argument && text_at(i + 1) == "=";
    if (is_passed && is_attribute(i + 2, 1)) return true;
  }
  return false;
}

bool CodeLine::rounds() const {
  return has("//") || has("%") || has("int") || has("round") || has("floor") || has("ceil");
}

// Reads what begins at `i`, and gives where the next one begins.
size_t CodeLine::read(std::string_view code, size_t i) {
  size_t end = i + 1;
  if (code[i] == '\'' || code[i] == '"') {
    end = code.find(code[i], i + 1);
    return end == code.npos ? code.size() : end + 1;
  }
  const bool is_fraction = code[i] == '.' && end < code.size() && is_digit(code[end]);
  if (is_digit(code[i]) || is_fraction) {
    const std::string rest(code.substr(i));
    char* last = nullptr;
    const double number = std::strtod(rest.c_str(), &last);
    end = i + static_cast<size_t>(last - rest.c_str());
    tokens_.push_back({code.substr(i, end - i), number});
  } else if (is_name(code[i])) {
    while (end < code.size() && is_name(code[end])) ++end;
    tokens_.push_back({code.substr(i, end - i)});
  } else if (code[i] != ' ' && code[i] != '\t') {
    if (is_one_of(code.substr(i, 2), {"**", "//", "<=", ">=", "==", "!=", "->"})) ++end;
    tokens_.push_back({code.substr(i, end - i)});
  }
  return end;
}

void CodeLine::find_numbers() {
  for (size_t i = 0; i < tokens_.size(); ++i) {
    if (!tokens_[i].number) continue;
    const double first = *tokens_[i].number;
    numbers_.push_back(first);
    if (i + 2 >= tokens_.size() || !tokens_[i + 2].number) continue;
    const double second = *tokens_[i + 2].number;
    const std::string_view op = text_at(i + 1);
    if (op == "**") numbers_.push_back(std::pow(first, second));
    if (op == "*") numbers_.push_back(first * second);
    if (op == "/") numbers_.push_back(first / second);
    if (op == "//") numbers_.push_back(std::floor(first / second));
    if (op == "+") numbers_.push_back(first + second);
    if (op == "-") numbers_.push_back(first - second);
  }
}

bool CodeLine::has(std::string_view text) const {
  return std::ranges::any_of(tokens_, [&](const Token& token) { return token.text == text; });
}

// Whether the line chooses by a number, by min(..), max(..) or a condition.
bool CodeLine::has_choice() const {
  bool is_condition = false;
  for (size_t i = 0; i < tokens_.size(); ++i) {
    const std::string_view text = tokens_[i].text;
    const bool is_called = text_at(i + 1) == "(" && text_at(i - 1) != ".";
    if (is_one_of(text, {"min", "max"}) && is_called) return true;
    if (is_one_of(text, {"if", "elif", "while"})) is_condition = true;
    if (is_one_of(text, {"else", ":"})) is_condition = false;
    const bool is_number = tokens_[i].number || is_one_of(text, {"<", ">", "<=", ">="});
    if (is_condition && is_number) return true;
  }
  return false;
}

bool CodeLine::is_name_at(size_t i) const {
  return i < tokens_.size() && !tokens_[i].number && is_name(tokens_[i].text[0]);
}

// Whether self.name begins at a token, or ends there where `step` is -1, and is not called nor
// looked into.
bool CodeLine::is_attribute(size_t i, size_t step) const {
  size_t first = i, last = i;
  for (; is_name_at(i) || text_at(i) == "."; i += step) {
    first = std::min(first, i);
    last = std::max(last, i);
  }
  return text_at(first) == "self" && last > first && text_at(last + 1) != "(" &&
         text_at(last + 1) != "[";
}

}  // namespace arenite::convert
