// SPDX-License-Identifier: Apache-2.0
#include "convert/exported/size_expression.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <vector>

namespace arenite::convert {
namespace {

constexpr int kSizeDepthMax = 64;  // of expressions within expressions

using Size = std::optional<int64_t>;

Size floor_divided(int64_t a, int64_t b) {
  if (b == 0 || (b == -1 && a == std::numeric_limits<int64_t>::min())) return std::nullopt;
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

Size size_power(int64_t base, int64_t exponent) {
  int64_t result = 1;
  if (exponent < 0 || exponent > 63) return std::nullopt;
  for (int64_t i = 0; i < exponent; ++i) {
    if (__builtin_mul_overflow(result, base, &result)) return std::nullopt;
  }
  return result;
}

Size applied_size(std::string_view function, int64_t a, int64_t b) {
  int64_t result = 0;
  if (function == "Add") return __builtin_add_overflow(a, b, &result) ? Size() : result;
  if (function == "Mul") return __builtin_mul_overflow(a, b, &result) ? Size() : result;
  if (function == "Max") return std::max(a, b);
  if (function == "Min") return std::min(a, b);
  if (function == "Pow" || function == "PowByNatural") return size_power(a, b);
  if (function == "FloorDiv" || function == "CleanDiv") return floor_divided(a, b);
  if (function == "Mod" || function == "PythonMod") {
    const Size quotient = floor_divided(a, b);
    return quotient ? Size(a - *quotient * b) : Size();
  }
  return std::nullopt;
}

// Reads one constructor after the other, and what follows it is left.
class SizeReader {
 public:
  SizeReader(std::string_view text, const std::function<Size(std::string_view)>& value_of)
      : rest_(text), value_of_(value_of) {}

  Size whole() {
    const Size number = constructor(0);
    return rest_.empty() ? number : std::nullopt;
  }

 private:
  Size constructor(int depth) {
    const size_t open = rest_.find('(');
    if (open == std::string_view::npos || depth == kSizeDepthMax) return std::nullopt;
    const std::string_view name = rest_.substr(0, open);
    rest_.remove_prefix(open + 1);
    if (name == "Integer" || name == "Symbol") {
      const size_t close = rest_.find(')');
      if (close == std::string_view::npos) return std::nullopt;
      const std::string_view inside = rest_.substr(0, close);
      rest_.remove_prefix(close + 1);
      return name == "Integer" ? integer(inside) : symbol(inside);
    }
    Size result = constructor(depth + 1);
    if (!rest_.starts_with(", ")) return std::nullopt;  // no function of one size is known
    while (result && rest_.starts_with(", ")) {
      rest_.remove_prefix(2);
      const Size next = constructor(depth + 1);
      result = next ? applied_size(name, *result, *next) : std::nullopt;
    }
    if (!result || !rest_.starts_with(')')) return std::nullopt;
    rest_.remove_prefix(1);
    return result;
  }

  static Size integer(std::string_view digits) {
    int64_t number = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    return error == std::errc() && end == digits.data() + digits.size() ? Size(number) : Size();
  }

  // 's27', positive=True, integer=True
  Size symbol(std::string_view inside) const {
    const size_t end = inside.find('\'', 1);
    if (!inside.starts_with('\'') || end == std::string_view::npos) return std::nullopt;
    return value_of_(inside.substr(1, end - 1));
  }

  std::string_view rest_;
  const std::function<Size(std::string_view)>& value_of_;
};

}  // namespace

std::optional<int64_t> evaluate_size(
    std::string_view expression,
    const std::function<std::optional<int64_t>(std::string_view symbol)>& value_of) {
  if (expression.find('(') == std::string_view::npos) return value_of(expression);
  return SizeReader(expression, value_of).whole();
}

}  // namespace arenite::convert
