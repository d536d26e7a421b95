// SPDX-License-Identifier: Apache-2.0
// Symbolic sizes evaluate as in SymPy, and guards as in Python.
#include "convert/exported/read/exported_program.h"

#include <gtest/gtest.h>

#include <string>

namespace arenite::convert {
namespace {

constexpr const char* kTokens = "Symbol('s27', positive=True, integer=True)";

// Evaluates `text` with the symbol in place of "$".
std::optional<int64_t> at(std::string text, int64_t tokens) {
  for (size_t place = text.find('$'); place != std::string::npos; place = text.find('$')) {
    text.replace(place, 1, kTokens);
  }
  return evaluate_size(text, [&](std::string_view symbol) {
    return symbol == "s27" ? std::optional(tokens) : std::nullopt;
  });
}

TEST(SizeExpression, IsComputed) {
  EXPECT_EQ(evaluate_size("s27", [](std::string_view) { return std::optional<int64_t>(5); }), 5);
  EXPECT_EQ(at("$", 7), 7);
  EXPECT_EQ(at("Integer(-3)", 7), -3);
  EXPECT_EQ(at("Add(Mul(Integer(24), $), Integer(-24))", 7), 144);
  EXPECT_EQ(at("Mul(Integer(4), Pow($, Integer(2)))", 3), 36);
  EXPECT_EQ(at("Add($, Integer(1), $)", 7), 15);
  EXPECT_EQ(at("FloorDiv(Add($, Integer(-8)), Integer(2))", 7), -1);
  EXPECT_EQ(at("Mod($, Integer(4))", 7), 3);
  EXPECT_EQ(at("Max(Integer(2), Min($, Integer(9)))", 7), 7);
}

TEST(SizeExpression, IsEmptyWhereASymbolIsUnknown) {
  for (const char* const text :
       {"Symbol('s3', positive=True, integer=True)", "ToFloat($)", "FloorDiv($, Integer(0))",
        "Add($, Integer(1)", "Add($, Integer(1)))", "Add()", "Integer(x)", "Symbol('s27'", "(",
        "Pow(Integer(10), Integer(40))", "Mul(Integer(9223372036854775807), Integer(2))"}) {
    EXPECT_FALSE(at(text, 7).has_value()) << text;
  }
  std::string deep = "Integer(1)";
  for (int i = 0; i < 20; ++i) deep = "Add(" + deep + ", Integer(1))";
  EXPECT_EQ(at(deep, 7), 21);
  for (int i = 0; i < 1000; ++i) deep = "Add(" + deep + ", Integer(1))";
  EXPECT_FALSE(evaluate_size(deep, [](std::string_view) { return std::optional<int64_t>(1); }));
}

// Whether a guard holds for `tokens` in place of "$"; nullopt if it was not parsed.
std::optional<bool> holds_at(std::string text, int64_t tokens) {
  for (size_t place = text.find('$'); place != std::string::npos; place = text.find('$')) {
    text.replace(place, 1, "L['x'].size()[1]");
  }
  ExportedProgram program;
  program.values.push_back({.name = "x", .sizes = {{1}, {7, "s27"}}});
  program.inputs.push_back({.value = 0, .name = "x"});
  return holds(read_guard(text, program),
               [&](const Extent& size) { return size.is_fixed() ? size.size : tokens; });
}

TEST(SizeGuard, HoldsAsInPython) {
  for (const char* const text :
       {"$ > 8", "$ != 3", "($ % 4) == 1", "9 == $", "not $ == 8", "$ > 30 or $ < 15",
        "8 < $ <= 20 and True", "$*$ - 2*$ == 63", "((-12) + $) // 2 == -2", "(-$ % 4) == 3",
        "$ / 2 > 4.4", "$ & ((-1) + $) == 8", "torch.sym_min(40, $) > 8", "2**3 + 1 == $",
        "math.trunc(0.6*torch.sym_float($)) == 5", "$ != 9 or (1 % ($ // 4)) != 0",
        "L['x'].size()[0] == 1", " $ > 8 "}) {
    EXPECT_EQ(holds_at(text, 9), true) << text;
  }
  for (const char* const text : {"$ <= 8", "($ % 2) == 0", "($ // 4) != 2", "(1 % ($ - 9)) != 0"}) {
    EXPECT_EQ(holds_at(text, 9), false) << text;
  }
}

TEST(SizeGuard, IsEmptyWhereTheExpressionIsUnknown) {
  for (const char* const text :
       {"", "$ >", "($ > 8", "$ > 8)", "L['y'].size()[1] > 8", "L['x'].size()[2] > 8",
        "L['x'].stride()[1] > 8", "f($) > 8", "$ ** 99 > 8", "1e300 > $", "$ > 8 if $ else 1"}) {
    EXPECT_FALSE(holds_at(text, 9).has_value()) << text;
  }
  EXPECT_FALSE(holds_at(std::string(1000, '(') + "$" + std::string(1000, ')'), 9));
  EXPECT_FALSE(holds_at(std::string(1000, '-') + "$ < 1", 9));
}

}  // namespace
}  // namespace arenite::convert
