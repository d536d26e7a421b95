// SPDX-License-Identifier: Apache-2.0
// Ops of exported programs give what Python and PyTorch define: symbolic numbers, rolled and
// indexed elements, running sums, and convolutions by plain loops.
#include "convert/exported/aten/op_rules.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
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

TEST(SymbolicNumbers, FollowTheArithmeticOfPython) {
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

TEST(SymbolicNumbers, RefuseValuesThatAreNoSize) {
  for (const char* op : {"_operator.floordiv", "_operator.mod"}) {
    EXPECT_TRUE(refuses([&] { whole(op, 1, 0); }, {op, "too large"}));
  }
  EXPECT_TRUE(refuses([] { whole("_operator.mul", int64_t{1} << 40, int64_t{1} << 40); },
                      {"_operator.mul", "too large"}));
  EXPECT_TRUE(refuses(
      [] {
        first_result("_operator.add", {{"a", std::string("x")}, {"b", 1.0}});
      },
      {"expected a number"}));
}

TEST(MovedElements, RollAlongEachDimension) {
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

TEST(MovedElements, AreSelectedByIndex) {
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
      {"embedding", "negative index"}));
  const Argument::List three = {rows, rows, rows};
  EXPECT_TRUE(refuses(
      [&] {
        array_from("index", {{"self", self}, {"indices", three}});
      },
      {"more indices than dimensions"}));
}

TEST(Movements, KeepTheOrderOfElementsThatAreNeighbours) {
  const auto keeps_order = [](const Shape& walk, const Shape& strides) {
    return Movement{.shape = walk, .walk = walk, .strides = strides}.keeps_order(6);
  };
  EXPECT_TRUE(keeps_order({2, 3}, {3, 1}));
  EXPECT_TRUE(keeps_order({2, 1, 3}, {3, 9, 1}));  // a single element has no neighbour
  EXPECT_FALSE(keeps_order({3, 2}, {1, 3}));
  EXPECT_FALSE(keeps_order({2, 3}, {6, 2}));
}

TEST(Boundaries, BucketizeUnlessRoundingDecides) {
  const Array boundaries = Array::real({3}, {0.25, 0.5, 0.75});
  const auto places = [&](const Array::Reals& numbers, bool right) {
    const Array self = Array::real({static_cast<int64_t>(numbers.size())}, Array::Reals(numbers));
    return array_from("bucketize", {{"self", self}, {"boundaries", boundaries}, {"right", right}})
        .to_integers();
  };
  EXPECT_EQ(places({0.0, 0.25, 0.3, 0.75, 2.0}, false), (Array::Integers{0, 0, 1, 2, 3}));
  EXPECT_EQ(places({0.0, 0.25, 0.3, 0.75, 2.0}, true), (Array::Integers{0, 1, 1, 3, 3}));
  EXPECT_TRUE(refuses([&] { places({0.5 + 1e-8}, true); }, {"bucketize", "rounding"}));
}

TEST(RunningSums, AccumulateAlongOneDimension) {
  const Array self = counted({2, 2, 2});
  EXPECT_EQ(array_from("cumsum", {{"self", self}, {"dim", int64_t{1}}}).to_reals(),
            (Array::Reals{0, 1, 2, 4, 4, 5, 10, 12}));
  EXPECT_EQ(array_from("cumprod", {{"self", self}, {"dim", int64_t{-1}}}).to_reals(),
            (Array::Reals{0, 0, 2, 6, 4, 20, 6, 42}));
}

TEST(CreatedNumbers, EqualThoseOfPyTorch) {
  const auto expect = [](const Array& made, const Array::Reals& expected) {
    const Array::Reals values = made.to_reals();
    ASSERT_EQ(values.size(), expected.size());
    for (size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], expected[i], 1e-6) << i;
  };
  expect(array_from("hann_window", {{"window_length", int64_t{4}}}), {0.0, 0.5, 1.0, 0.5});
  expect(array_from("hann_window", {{"window_length", int64_t{1}}}), {1.0});
  expect(array_from("hamming_window", {{"window_length", int64_t{3}}, {"periodic", false}}),
         {0.08, 1.0, 0.08});
  const auto spaced = [&](const char* op, double start, double end, int64_t steps) {
    return array_from(op, {{"start", start}, {"end", end}, {"steps", steps}});
  };
  expect(spaced("linspace", 0.0, 1.0, 5), {0.0, 0.25, 0.5, 0.75, 1.0});
  expect(spaced("linspace", 3.0, 9.0, 1), {3.0});
  expect(spaced("logspace", 0.0, 2.0, 3), {1.0, 10.0, 100.0});
  expect(array_from("eye", {{"n", int64_t{2}}, {"m", int64_t{3}}}), {1, 0, 0, 0, 1, 0});
  const auto triangle = [&](const char* op, int64_t offset) {
    return array_from(op, {{"row", int64_t{2}}, {"col", int64_t{3}}, {"offset", offset}});
  };
  expect(triangle("tril_indices", 0), {0, 1, 1, 0, 0, 1});
  expect(triangle("triu_indices", 1), {0, 0, 1, 1, 2, 2});
}

TEST(Elementwise, TakesLimitsAndSlopes) {
  const Array x = Array::real({1, 2, 2}, {-1.0, 4.0, -2.0, 13.0});
  EXPECT_EQ(array_from("relu6", {{"self", x}}).to_reals(), (Array::Reals{0, 4, 0, 6}));
  EXPECT_EQ(array_from("prelu", {{"self", x}, {"weight", Array::real({2}, {0.5, 3.0})}}).to_reals(),
            (Array::Reals{-0.5, 4, -6, 13}));
  EXPECT_EQ(array_from("prelu", {{"self", Array::real({2}, {-2.0, 5.0})},
                                 {"weight", Array::real({1}, {0.5})}})
                .to_reals(),
            (Array::Reals{-1, 5}));
  EXPECT_EQ(array_from("clamp", {{"self", x}, {"min", -1.5}, {"max", 5.0}}).to_reals(),
            (Array::Reals{-1, 4, -1.5, 5}));
  EXPECT_TRUE(refuses(
      [&] {
        array_from("prelu", {{"self", x}, {"weight", counted({3})}});
      },
      {"found 3 slopes: expected 1 or 2"}));
}

TEST(Elementwise, FollowsFormulas) {
  const auto of = [](const char* name, double x) {
    return array_from(name, {{"self", Array::real({1}, {x})}}).to_reals()[0];
  };
  EXPECT_DOUBLE_EQ(of("rsqrt", 4.0), 0.5);
  EXPECT_DOUBLE_EQ(of("reciprocal", -4.0), -0.25);
  EXPECT_DOUBLE_EQ(of("frac", -2.5), -0.5);
  EXPECT_DOUBLE_EQ(of("softsign", 3.0), 0.75);
  EXPECT_DOUBLE_EQ(of("hardsigmoid", 1.5), 0.75);
  EXPECT_DOUBLE_EQ(of("hardswish", 1.0), 4.0 / 6.0);
  const Array pair = array_from("complex", {{"real", counted({2})}, {"imag", counted({1})}});
  EXPECT_EQ(pair.to_complexes(), (Array::Complexes{0.0, 1.0}));
  EXPECT_TRUE(refuses([&] { array_from("relu", {{"self", pair}}); }, {"complex numbers"}));
  const Array turned =
      array_from("polar", {{"abs", Array::real({1}, {2.0})}, {"angle", Array::real({1}, {0.5})}});
  EXPECT_EQ(turned.to_complexes()[0],
            std::complex<double>(2.0 * std::cos(0.5), 2.0 * std::sin(0.5)));
}

TEST(Places, ArgmaxTakesTheFirstOfEqualElements) {
  const Array x = Array::real({2, 3}, {5, 1, 5, 2, 7, 1});
  const auto places = [&](const char* op) {
    return array_from(op, {{"self", x}, {"dim", int64_t{1}}}).to_integers();
  };
  EXPECT_EQ(places("argmax"), (Array::Integers{0, 1}));
  EXPECT_EQ(places("argmin"), (Array::Integers{1, 2}));
}

TEST(Parts, HaveTheGivenSizes) {
  const Array x = counted({5});
  OpBudget budget;
  const Argument sizes = integers({2, 3});
  const std::vector<Call> calls = {
      {.op = "split", .overload = "sizes", .arguments = {{"self", x}, {"split_size", sizes}}},
      {.op = "split_with_sizes", .arguments = {{"self", x}, {"split_sizes", sizes}}}};
  for (const Call& call : calls) {
    const std::vector<Argument> made = apply_op(call, budget);
    ASSERT_EQ(made.size(), 2u);
    EXPECT_EQ(made[0].as<Array>()->to_reals(), (Array::Reals{0, 1}));
    EXPECT_EQ(made[1].as<Array>()->to_reals(), (Array::Reals{2, 3, 4}));
  }
  EXPECT_TRUE(refuses(
      [&] {
        array_from("split_with_sizes", {{"self", x}, {"split_sizes", integers({2, 1})}});
      },
      {"the parts cover 3 of 5 rows"}));
}

// Windows of 2 by 2 pixels, two from each other, of an image of 2 by 2 with zeros around it: each
// pixel is in one window, the first as its last.
TEST(Windows, SeeZerosAroundAnImage) {
  const Array made = array_from("im2col", {{"self", Array::real({1, 1, 2, 2}, {1, 2, 3, 4})},
                                           {"kernel_size", integers({2, 2})},
                                           {"dilation", integers({1, 1})},
                                           {"padding", integers({1, 1})},
                                           {"stride", integers({2, 2})}});
  EXPECT_EQ(made.shape(), (Shape{1, 4, 4}));
  EXPECT_EQ(made.to_reals(), (Array::Reals{0, 0, 0, 4, 0, 0, 3, 0, 0, 2, 0, 0, 1, 0, 0, 0}));
}

TEST(Products, OuterMultipliesAllPairs) {
  const Array a = Array::real({2}, {2, 3}), b = Array::real({3}, {1, -1, 4});
  const Array made = array_from("outer", {{"self", a}, {"vec2", b}});
  EXPECT_EQ(made.shape(), (Shape{2, 3}));
  EXPECT_EQ(made.to_reals(), (Array::Reals{2, -2, 8, 3, -3, 12}));
}

TEST(Layers, RefuseIncompatibleOperands) {
  const Array x = counted({2, 3});
  EXPECT_TRUE(refuses(
      [&] {
        array_from("linear", {{"input", x},
                              {"weight", counted({2, 3})},
                              {"bias", Array::complex({2}, Array::Complexes(2, 1.0))}});
      },
      {"complex numbers"}));
  EXPECT_TRUE(refuses(
      [&] {
        array_from("layer_norm", {{"input", x}, {"normalized_shape", integers({2})}});
      },
      {"normalized_shape [2] does not end the shape of a tensor [2, 3]"}));
  EXPECT_TRUE(refuses([&] { x.with_shape({2, 4}); }, {}));
}

TEST(FourierTransforms, KeepASingleElement) {
  const Array made = array_from("fft_fft", {{"self", Array::real({1}, {5.0})}});
  EXPECT_EQ(made.to_complexes(), (Array::Complexes{5.0}));
}

TEST(Convolutions, InGroupsAddTheirBias) {
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

// Results of torch.nn.functional.interpolate of PyTorch 2.14 for the squares of 0, 1, 2, ...
struct Resampled {
  const char* op;
  Shape from;
  std::vector<int64_t> size;
  std::vector<double> expected;
  bool aligns_corners = false;
};

TEST(Resampling, AgreesWithPyTorch) {
  const std::vector<Resampled> cases = {
      {"upsample_linear1d", {1, 1, 5}, {3}, {0.333333333333333, 4, 13.6666666666667}},
      {"upsample_linear1d", {1, 1, 5}, {3}, {0, 4, 16}, true},
      {"upsample_nearest1d", {1, 1, 5}, {3}, {0, 1, 9}},
      {"_upsample_nearest_exact1d", {1, 1, 5}, {3}, {0, 4, 16}},
      {"upsample_bilinear2d",
       {1, 1, 3, 4},
       {2, 3},
       {4.5, 9.5, 17.8333333333333, 54.5, 75.5, 99.8333333333333}},
      {"upsample_bicubic2d",
       {1, 1, 3, 4},
       {2, 3},
       {2.22211371527778, 6.359375, 14.6725622106481, 55.6042751736111, 77.515625,
        103.602900752315}},
      {"_upsample_bilinear2d_aa", {1, 1, 3, 4}, {2, 3}, {7.2, 13, 21.6, 50.2, 68, 88.6}},
      {"_upsample_bicubic2d_aa",
       {1, 1, 3, 4},
       {2, 3},
       {4.21877972900008, 9.74924355639195, 18.5727582267834, 50.4896106901352, 70.4876063172266,
        93.7786527873176}}};
  for (const Resampled& each : cases) {
    Array::Reals squares = counted(each.from).to_reals();
    for (double& value : squares) value *= value;
    const Array made = array_from(each.op, {{"input", Array::real(each.from, squares)},
                                            {"output_size", integers(each.size)},
                                            {"align_corners", each.aligns_corners},
                                            {"scale_factors", Argument()}});
    const Array::Reals values = made.to_reals();
    ASSERT_EQ(values.size(), each.expected.size()) << each.op;
    for (size_t i = 0; i < values.size(); ++i) {
      EXPECT_NEAR(values[i], each.expected[i], 1e-4) << each.op << ' ' << i;  // as float32
    }
  }
}

TEST(Resampling, UsesAGivenScaleFactorAsTheStep) {
  const Array made =
      array_from("upsample_linear1d", {{"input", Array::real({1, 1, 5}, {0, 1, 4, 9, 16})},
                                       {"align_corners", false},
                                       {"scale_factors", Argument::List{1.5}}});
  const std::vector<double> expected = {0, 0.5, 1.5, 3.5, 6.5, 10.1666666666667, 14.8333333333333};
  const Array::Reals values = made.to_reals();
  ASSERT_EQ(values.size(), expected.size());
  for (size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], expected[i], 1e-6) << i;
}

TEST(Resampling, RepeatsASingleElement) {
  const Array made = array_from("upsample_nearest1d", {{"input", Array::real({1, 1, 1}, {5})},
                                                       {"output_size", integers({3})}});
  EXPECT_EQ(made.to_reals(), (Array::Reals{5, 5, 5}));
}

TEST(Resampling, RefusesUnsupportedAxes) {
  EXPECT_TRUE(refuses(
      [] {
        array_from("upsample_bilinear2d",
                   {{"input", counted({1, 1, 5})}, {"output_size", integers({2, 2})}});
      },
      {"each further axis"}));
  EXPECT_TRUE(refuses(
      [] {
        array_from("upsample_linear1d",
                   {{"input", counted({1, 1, 5})}, {"output_size", integers({0})}});
      },
      {"found 0 output elements for 5 input elements"}));
}

TEST(SquareMatrices, HaveInversesAndExponentials) {
  const Array matrix = Array::real({2, 2}, {2, 1, -1, 3});
  const auto expect = [](const Array& made, const std::vector<double>& expected) {
    const Array::Reals values = made.to_reals();
    for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(values[i], expected[i], 1e-5) << i;
  };
  expect(array_from("linalg_inv", {{"A", matrix}}),
         {0.428571428571429, -0.142857142857143, 0.142857142857143, 0.285714285714286});
  expect(array_from("matrix_exp", {{"self", matrix}}),
         {2.53465332291915, 10.7157784662625, -10.7157784662625, 13.2504317891816});
  EXPECT_TRUE(refuses([] { array_from("linalg_inv", {{"A", counted({2, 3})}}); }, {"square"}));
  const Array singular = Array::real({2, 2}, {1, 2, 2, 4});
  EXPECT_TRUE(refuses([&] { array_from("linalg_inv", {{"A", singular}}); }, {"singular"}));
}

TEST(IndexedAssignment, TakesBools) {
  const Array mask = Array::boolean({2, 2}, {0, 1, 0, 1});
  const Array made = array_from("index_put", {{"self", counted({2, 2, 2})},
                                              {"indices", Argument::List{Argument(), mask}},
                                              {"values", Array::real({}, {-1.0})}});
  EXPECT_EQ(made.to_reals(), (Array::Reals{0, -1, 2, -1, 4, -1, 6, -1}));
  EXPECT_TRUE(refuses(
      [&] {
        array_from("index_put", {{"self", counted({3, 3})},
                                 {"indices", Argument::List{mask}},
                                 {"values", Array::real({}, {-1.0})}});
      },
      {"does not fit"}));
}

}  // namespace
}  // namespace arenite::convert
