// SPDX-License-Identifier: Apache-2.0
// Ops of exported programs give what Python and PyTorch define: symbolic numbers, rolled and
// indexed elements, running sums, and convolutions by plain loops.
#include "convert/exported/aten/op_rules.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "support/refusal.h"

namespace arenite::convert {
namespace {

using arenite::testing::refuses;

Argument first_result(std::string op, std::vector<NamedArgument> arguments) {
  OpBudget budget;
  return apply_op({.op = std::move(op), .arguments = std::move(arguments)}, budget).at(0);
}

Array array_from(std::string op, std::vector<NamedArgument> arguments) {
  return *first_result(std::move(op), std::move(arguments)).as<Array>();
}

int64_t whole(const char* op, int64_t a, int64_t b) {
  const Argument result = first_result(op, {{"a", a}, {"b", b}});
  EXPECT_NE(result.as<int64_t>(), nullptr) << op;
  return result.as<int64_t>() == nullptr ? 0 : *result.as<int64_t>();
}

Argument integers(const std::vector<int64_t>& values) {
  return Argument::List(values.begin(), values.end());
}

// 0, 1, 2, ... in `shape`.
Array counted(const Shape& shape) {
  Array::Reals values(elements_of(shape));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i);
  return Array::real(shape, std::move(values));
}

TEST(SymbolicNumbers, AreComputedAsInPython) {
  EXPECT_EQ(whole("_operator.add", 7, -9), -2);
  EXPECT_EQ(whole("_operator.floordiv", -7, 2), -4);
  EXPECT_EQ(whole("_operator.mod", -7, 3), 2);
  EXPECT_EQ(whole("_operator.pow", 3, 4), 81);
  EXPECT_EQ(whole("torch.sym_max", 3, 4), 4);
  EXPECT_EQ(*first_result("_operator.pow", {{"a", int64_t{2}}, {"b", int64_t{-1}}}).as<double>(),
            0.5);
  EXPECT_EQ(*first_result("_operator.truediv", {{"a", int64_t{1}}, {"b", int64_t{2}}}).as<double>(),
            0.5);
  EXPECT_EQ(*first_result("_operator.lt", {{"a", int64_t{1}}, {"b", 1.5}}).as<bool>(), true);
  EXPECT_EQ(*first_result("math.ceil", {{"a", 1.5}}).as<int64_t>(), 2);
  EXPECT_EQ(*first_result("torch.sym_float", {{"a", int64_t{3}}}).as<double>(), 3.0);
  EXPECT_EQ(*first_result("torch.sym_not", {{"a", false}}).as<bool>(), true);
  EXPECT_EQ(*first_result("torch.sym_ite", {{"a", true}, {"b", int64_t{1}}, {"c", int64_t{2}}})
                 .as<int64_t>(),
            1);
}

TEST(SymbolicNumbers, RefuseWhatIsNoSize) {
  for (const char* op : {"_operator.floordiv", "_operator.mod"}) {
    EXPECT_TRUE(refuses([&] { whole(op, 1, 0); }, {op, "too large"}));
  }
  EXPECT_TRUE(refuses([] { whole("_operator.mul", int64_t{1} << 40, int64_t{1} << 40); },
                      {"_operator.mul", "too large"}));
  EXPECT_TRUE(refuses(
      [] {
        first_result("_operator.add", {{"a", std::string("x")}, {"b", 1.0}});
      },
      {"no number"}));
}

TEST(MovedElements, AreTurnedAlongEachDimension) {
  const Array self = counted({2, 3});
  const auto rolled = [&](const std::vector<int64_t>& shifts, const std::vector<int64_t>& dims) {
    return array_from("roll",
                      {{"self", self}, {"shifts", integers(shifts)}, {"dims", integers(dims)}})
        .to_reals();
  };
  EXPECT_EQ(rolled({1, -1}, {0, 1}), (Array::Reals{4, 5, 3, 1, 2, 0}));
  EXPECT_EQ(rolled({4, 3}, {1, 1}), (Array::Reals{2, 0, 1, 5, 3, 4}));
  EXPECT_EQ(rolled({2}, {}), (Array::Reals{4, 5, 0, 1, 2, 3}));
}

TEST(MovedElements, AreTakenByTheirIndex) {
  const Array self = counted({2, 3}), rows = Array::integer({2}, {-1, 0});
  EXPECT_EQ(
      array_from("index_select", {{"self", self}, {"dim", int64_t{1}}, {"index", rows}}).to_reals(),
      (Array::Reals{2, 0, 5, 3}));
  const Argument::List last = {Argument(), rows};
  EXPECT_EQ(array_from("index", {{"self", self}, {"indices", last}}).to_reals(),
            (Array::Reals{2, 0, 5, 3}));
  EXPECT_TRUE(refuses(
      [&] {
        array_from("embedding", {{"weight", self}, {"indices", rows}});
      },
      {"embedding", "before the first"}));
}

TEST(RunningSums, GoAlongOneDimension) {
  const Array self = counted({2, 2, 2});
  EXPECT_EQ(array_from("cumsum", {{"self", self}, {"dim", int64_t{1}}}).to_reals(),
            (Array::Reals{0, 1, 2, 4, 4, 5, 10, 12}));
  EXPECT_EQ(array_from("cumprod", {{"self", self}, {"dim", int64_t{-1}}}).to_reals(),
            (Array::Reals{0, 0, 2, 6, 4, 20, 6, 42}));
}

TEST(Convolutions, OfGroupsAddTheirBias) {
  const int64_t channels = 4, outputs = 6, places = 5, width = 3, groups = 2;
  const Array input = counted({2, channels, places});
  const Array weight = counted({outputs, channels / groups, width});
  const Array bias = counted({outputs});
  const Array found = array_from("convolution", {{"input", input},
                                                 {"weight", weight},
                                                 {"bias", bias},
                                                 {"padding", integers({1})},
                                                 {"groups", groups}});
  ASSERT_EQ(found.shape(), (Shape{2, outputs, places}));
  const auto at = [](const Array& array, int64_t a, int64_t b, int64_t c) {
    const Shape& shape = array.shape();
    return array.reals()[static_cast<size_t>((a * shape[1] + b) * shape[2] + c)];
  };
  for (int64_t n = 0; n < 2; ++n) {
    for (int64_t o = 0; o < outputs; ++o) {
      for (int64_t p = 0; p < places; ++p) {
        double sum = static_cast<double>(o);
        for (int64_t c = 0; c < channels / groups; ++c) {
          for (int64_t k = std::max<int64_t>(0, 1 - p); k < width && p + k - 1 < places; ++k) {
            const int64_t channel = o / (outputs / groups) * (channels / groups) + c;
            sum += at(input, n, channel, p + k - 1) * at(weight, o, c, k);
          }
        }
        EXPECT_EQ(at(found, n, o, p), sum) << n << " " << o << " " << p;
      }
    }
  }
}

}  // namespace
}  // namespace arenite::convert
