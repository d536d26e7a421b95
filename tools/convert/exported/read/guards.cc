// SPDX-License-Identifier: Apache-2.0
// Parses and evaluates guards, which are Python comparisons of arithmetic on sizes. A guard with an
// unknown term counts as unparsed, never as false.
//
//   (L['x'].size()[1] % 2) == 0, sizes [8]  ->  true
#include <charconv>
#include <cmath>
#include <initializer_list>

#include "convert/exported/read/exported_program.h"
#include "convert/files/error.h"

namespace arenite::convert {
namespace {

constexpr int kGuardDepthMax = 64;    // nesting of parentheses
constexpr double kWholeMax = 0x1p53;  // integers that a double holds exactly
constexpr std::string_view kSize = "size()[";

struct NamedSize {
  std::string input;  // "x"; nested inputs as in the program: "batch_ids"
  size_t dim = 0;
};

class GuardReader {
 public:
  // `sizes` are the sizes that the text names, in order; empty while their names are being
  // collected.
  GuardReader(std::string_view text, std::span<const double> sizes) : rest_(text), sizes_(sizes) {}

  std::optional<bool> read() {
    const double value = choice(0);
    if (!is_read_ || !rest_.empty()) return std::nullopt;
    return is_defined_ && value != 0.0;
  }
  const std::vector<NamedSize>& named() const { return named_; }

 private:
  double fail() {
    is_read_ = false;
    rest_ = {};
    return 0.0;
  }
  double undefined() {
    is_defined_ = false;
    return 0.0;
  }

  void skip() {
    while (rest_.starts_with(' ')) rest_.remove_prefix(1);
  }
  bool takes(std::string_view token) {
    skip();
    if (!rest_.starts_with(token)) return false;
    rest_.remove_prefix(token.size());
    return true;
  }
  // Consumes the first of `tokens` that the rest begins with, and returns it; empty if none
  // matches.
  std::string_view one_of(std::initializer_list<std::string_view> tokens) {
    for (const std::string_view token : tokens) {
      if (takes(token)) return token;
    }
    return {};
  }

  double choice(int depth) {
    if (depth == kGuardDepthMax) return fail();
    double value = all_of(depth);
    while (takes("or ")) {
      const double other = all_of(depth);
      value = value != 0.0 || other != 0.0 ? 1.0 : 0.0;
    }
    return value;
  }
  double all_of(int depth) {
    double value = negated(depth);
    while (takes("and ")) {
      const double other = negated(depth);
      value = value != 0.0 && other != 0.0 ? 1.0 : 0.0;
    }
    return value;
  }
  double negated(int depth) {
    bool is_negated = false;
    while (takes("not ")) is_negated = !is_negated;
    const double value = comparison(depth);
    return is_negated ? (value == 0.0 ? 1.0 : 0.0) : value;
  }

  double comparison(int depth) {
    double left = bits(depth);
    bool holds = true, is_comparison = false;
    while (true) {
      const std::string_view op = one_of({"==", "!=", "<=", ">=", "<", ">"});
      if (op.empty()) return is_comparison ? (holds ? 1.0 : 0.0) : left;
      const double right = bits(depth);
      const bool is_so = op == "=="   ? left == right
                         : op == "!=" ? left != right
                         : op == "<=" ? left <= right
                         : op == ">=" ? left >= right
                         : op == "<"  ? left < right
                                      : left > right;
      holds = holds && is_so;
      is_comparison = true;
      left = right;
    }
  }

  double bits(int depth) {
    double value = sum(depth);
    while (takes("&")) {
      const double other = sum(depth);
      if (!(value >= 0.0 && value < kWholeMax && other >= 0.0 && other < kWholeMax)) return fail();
      value = static_cast<double>(static_cast<int64_t>(value) & static_cast<int64_t>(other));
    }
    return value;
  }
  double sum(int depth) {
    double value = product(depth);
    while (true) {
      const std::string_view op = one_of({"+", "-"});
      if (op.empty()) return value;
      const double other = product(depth);
      value += op == "+" ? other : -other;
      if (std::fabs(value) > kWholeMax) return fail();
    }
  }
  double product(int depth) {
    double value = sign(depth);
    while (true) {
      const std::string_view op = one_of({"*", "//", "/", "%"});
      if (op.empty()) return value;
      const double other = sign(depth);
      if (op != "*" && other == 0.0) {
        undefined();
      } else if (op == "/") {
        value /= other;
      } else if (op == "*") {
        value *= other;
      } else {
        double rest = std::fmod(value, other);
        if (rest != 0.0 && (rest < 0.0) != (other < 0.0)) rest += other;
        value = op == "%" ? rest : (value - rest) / other;
      }
      if (std::fabs(value) > kWholeMax) return fail();
    }
  }
  double sign(int depth) {
    if (depth == kGuardDepthMax) return fail();
    return takes("-") ? -sign(depth + 1) : power(depth);
  }
  double power(int depth) {
    const double base = operand(depth);
    if (!takes("**")) return base;
    const double value = std::pow(base, sign(depth + 1));
    return std::isfinite(value) && std::fabs(value) <= kWholeMax ? value : fail();
  }

  double operand(int depth) {
    if (takes("(")) {
      const double value = choice(depth + 1);
      return takes(")") ? value : fail();
    }
    if (takes("L[")) return size();
    if (takes("True")) return 1.0;
    if (takes("False")) return 0.0;
    skip();
    for (const Function& function : kFunctions) {
      if (takes(function.name)) return applied(function, depth);
    }
    double number = 0.0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), number);
    if (error != std::errc() || !(std::fabs(number) <= kWholeMax)) return fail();
    rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
    return number;
  }

  struct Function {
    std::string_view name;
    size_t operands;
    double (*apply)(double, double);
  };
  static constexpr Function kFunctions[] = {
      {"torch.sym_min(", 2, [](double a, double b) { return std::fmin(a, b); }},
      {"torch.sym_max(", 2, [](double a, double b) { return std::fmax(a, b); }},
      {"min(", 2, [](double a, double b) { return std::fmin(a, b); }},
      {"max(", 2, [](double a, double b) { return std::fmax(a, b); }},
      {"torch.sym_float(", 1, [](double a, double) { return a; }},
      {"math.trunc(", 1, [](double a, double) { return std::trunc(a); }},
      {"math.floor(", 1, [](double a, double) { return std::floor(a); }},
      {"math.ceil(", 1, [](double a, double) { return std::ceil(a); }}};

  double applied(const Function& function, int depth) {
    const double first = choice(depth + 1);
    if (function.operands == 2 && !takes(",")) return fail();
    const double second = function.operands == 2 ? choice(depth + 1) : 0.0;
    return takes(")") ? function.apply(first, second) : fail();
  }

  // Reads 'x'].size()[1], or 'batch']['ids'].size()[1].
  double size() {
    NamedSize found;
    do {
      const size_t end = rest_.find(']');
      if (end == rest_.npos) return fail();
      std::string_view key = rest_.substr(0, end);
      if (key.size() > 1 && key.front() == '\'') key = key.substr(1, key.size() - 2);
      if (!found.input.empty()) found.input += '_';
      found.input += key;
      rest_.remove_prefix(end + 1);
    } while (takes("["));
    if (!takes(".") || !takes(kSize)) return fail();
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), found.dim);
    if (error != std::errc()) return fail();
    rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
    named_.push_back(std::move(found));
    if (!takes("]") || named_.size() > sizes_.size()) return sizes_.empty() ? 1.0 : fail();
    return sizes_[named_.size() - 1];
  }

  std::string_view rest_;
  std::span<const double> sizes_;
  std::vector<NamedSize> named_;
  bool is_read_ = true;
  bool is_defined_ = true;
};

}  // namespace

SizeGuard read_guard(const std::string& text, const ExportedProgram& program) {
  SizeGuard guard = {text, {}};
  GuardReader reader(text, {});
  guard.is_read = reader.read().has_value();
  for (const NamedSize& named : reader.named()) {
    const std::vector<const ExportedInput*> inputs = program.user_inputs();
    const auto input = std::ranges::find(inputs, named.input, &ExportedInput::name);
    const bool is_there =
        input != inputs.end() && named.dim < program.values[(*input)->value].sizes.size();
    guard.is_read = guard.is_read && is_there;
    if (is_there) guard.sizes.push_back(program.values[(*input)->value].sizes[named.dim]);
  }
  return guard;
}

std::optional<bool> holds(const SizeGuard& guard,
                          const std::function<int64_t(const Extent&)>& value_of) {
  if (!guard.is_read) return std::nullopt;
  std::vector<double> sizes;
  for (const Extent& size : guard.sizes) sizes.push_back(static_cast<double>(value_of(size)));
  return GuardReader(guard.text, sizes).read();
}

}  // namespace arenite::convert
