// SPDX-License-Identifier: Apache-2.0
// Functions are identified by their results for samples, however they are written.
#include "convert/exported/recover/functions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <numbers>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace arenite::convert {
namespace {

constexpr size_t kRowWidth = 6;

// Returns samples of `function` for rows around 0; `numbers` are the constants of its formula.
Samples samples_of(const std::function<std::vector<double>(const std::vector<double>&)>& function,
                   std::set<double> numbers = {}) {
  Samples samples;
  samples.width = kRowWidth;
  samples.numbers = std::move(numbers);
  for (size_t r = 0; r < 16; ++r) {
    std::vector<double> row;
    for (size_t c = 0; c < kRowWidth; ++c) {
      row.push_back(4.0 * std::sin(3.0 * static_cast<double>(r * kRowWidth + c) + 0.5));
    }
    const std::vector<double> result = function(row);
    samples.x.insert(samples.x.end(), row.begin(), row.end());
    samples.y.insert(samples.y.end(), result.begin(), result.end());
  }
  for (const double y : samples.y) samples.largest = std::max(samples.largest, std::fabs(y));
  return samples;
}

Samples samples_of_each(double (*function)(double), std::set<double> numbers = {}) {
  return samples_of(
      [&](const std::vector<double>& row) {
        std::vector<double> result;
        for (const double x : row) result.push_back(function(x));
        return result;
      },
      std::move(numbers));
}

TEST(Activations, AreRecognisedByTheirValues) {
  const auto gelu = find_activation(samples_of_each(
      [](double x) { return 0.5 * x * (1.0 + std::erf(x / std::numbers::sqrt2)); }));
  ASSERT_TRUE(gelu.has_value());
  EXPECT_EQ(gelu->activation.activation, Activation::kGeluErf);
  const auto softplus =
      find_activation(samples_of_each([](double x) { return std::log1p(std::exp(x)); }));
  ASSERT_TRUE(softplus.has_value());
  EXPECT_EQ(softplus->activation.activation, Activation::kSoftplus);
}

TEST(Activations, KeepTheFactorsOfTheFormula) {
  const auto quick = find_activation(
      samples_of_each([](double x) { return x / (1.0 + std::exp(-1.702 * x)); }, {1.702}));
  ASSERT_TRUE(quick.has_value());
  EXPECT_EQ(quick->activation.activation, Activation::kSilu);
  EXPECT_EQ(quick->scale_in, 1.702);
  EXPECT_DOUBLE_EQ(quick->scale_out, 1.0 / 1.702);
  const auto leaky =
      find_activation(samples_of_each([](double x) { return x > 0.0 ? x : 0.125 * x; }));
  ASSERT_TRUE(leaky.has_value());
  EXPECT_EQ(leaky->activation.activation, Activation::kLeakyRelu);
  EXPECT_EQ(leaky->activation.parameter, 0.125);
  const auto sum =
      find_activation(samples_of_each([](double x) { return 0.5 * std::tanh(x) + 2.0 * x + 1.0; }));
  ASSERT_TRUE(sum.has_value());
  EXPECT_EQ(sum->activation.activation, Activation::kTanh);
  EXPECT_EQ(sum->scale_out, 0.5);
  EXPECT_EQ(sum->linear, 2.0);
  EXPECT_EQ(sum->offset_out, 1.0);
}

// clamp(x / 2 + 1 / 4, -1, 1) is half of clamp(x + 1 / 2, -2, 2).
TEST(Activations, MayBeALineBetweenTwoPlateaus) {
  const auto found = find_activation(
      samples_of_each([](double x) { return std::clamp(0.5 * x + 0.25, -1.0, 1.0); }));
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->activation.activation, Activation::kClamp);
  EXPECT_DOUBLE_EQ(found->activation.parameter, 2.0);
  EXPECT_DOUBLE_EQ(found->offset_in, 0.5);
  EXPECT_DOUBLE_EQ(found->scale_out, 0.5);
  EXPECT_DOUBLE_EQ(found->offset_out, 0.0);
}

TEST(Activations, AcceptAThresholdNextToZero) {
  const auto found =
      find_activation(samples_of_each([](double x) { return std::max(x, 1e-9); }, {1e-9}));
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->activation.activation, Activation::kRelu);
  EXPECT_NEAR(found->offset_in, -1e-9, 1e-14);
  EXPECT_NEAR(found->offset_out, 1e-9, 1e-14);
}

TEST(Activations, DoNotMatchOtherFunctions) {
  EXPECT_FALSE(find_activation(samples_of_each([](double x) { return std::sin(x); })));
  EXPECT_FALSE(find_activation(samples_of_each([](double x) { return x * x * x; })));
}

std::vector<double> normalised(const std::vector<double>& row, bool takes_mean, double epsilon) {
  const auto width = static_cast<double>(row.size());
  double mean = 0.0, squares = 0.0;
  for (const double x : row) mean += takes_mean ? x / width : 0.0;
  for (const double x : row) squares += (x - mean) * (x - mean) / width;
  std::vector<double> result;
  for (size_t c = 0; c < row.size(); ++c) {
    const auto gain = 1.0 + 0.25 * static_cast<double>(c);
    result.push_back(gain * (row[c] - mean) / std::sqrt(squares + epsilon));
  }
  return result;
}

TEST(RowFunctions, NormsAreFoundWithGainAndEpsilon) {
  for (const bool takes_mean : {true, false}) {
    const auto norm = find_norm(samples_of(
        [&](const auto& row) { return normalised(row, takes_mean, 0.03); }, {0.03, 2.0}));
    ASSERT_TRUE(norm.has_value());
    EXPECT_EQ(norm->kind, takes_mean ? NormKind::kLayer : NormKind::kRms);
    EXPECT_EQ(norm->epsilon, 0.03);
    EXPECT_TRUE(norm->bias.empty());
    for (size_t c = 0; c < kRowWidth; ++c) {
      EXPECT_EQ(norm->gain[c], 1.0 + 0.25 * static_cast<double>(c)) << c;
    }
  }
}

TEST(RowFunctions, SoftmaxesAreFound) {
  const Samples samples = samples_of([](const std::vector<double>& row) {
    double sum = 0.0;
    for (const double x : row) sum += std::exp(x);
    std::vector<double> result;
    for (const double x : row) result.push_back(std::exp(x) / sum);
    return result;
  });
  const auto softmax = find_softmax(samples);
  ASSERT_TRUE(softmax.has_value());
  EXPECT_EQ(softmax->kind, NormKind::kSoftmax);
  EXPECT_FALSE(find_norm(samples));
  EXPECT_FALSE(find_softmax(samples_of_each([](double x) { return std::tanh(x); })));
}

// mul(tanh(base), 3)
Function tripled_tanh(const LinearExprRef& base) {
  const auto function = [&](const char* op, const FunctionRef& of,
                            std::vector<NamedArgument> more) {
    std::vector<NamedArgument> arguments = {{"self", traced(of)}};
    arguments.insert(arguments.end(), more.begin(), more.end());
    auto call = std::make_shared<const Call>(Call{.op = op, .arguments = std::move(arguments)});
    return Function{base, std::move(call), base->shape, of->depth + 1};
  };
  const auto whole = std::make_shared<const Function>(Function{.base = base, .shape = base->shape});
  const auto tanh = std::make_shared<const Function>(function("tanh", whole, {}));
  return function("mul", tanh, {{"other", 3.0}});
}

TEST(Functions, AreEvaluatedOnTheirBase) {
  const LinearExprRef base = plain({2, 3}, std::vector<int64_t>(6, element_id(1, 0)));
  OpBudget budget;
  const Array found =
      evaluate(tripled_tanh(base), Array::real({2, 3}, {0.0, 0.5, 1.0, -0.5, 2.0, -3.0}), budget);
  EXPECT_EQ(found.shape(), (Shape{2, 3}));
  EXPECT_DOUBLE_EQ(found.reals()[1], 3.0 * std::tanh(0.5));
  const auto known = find_function(tripled_tanh(base), budget);
  ASSERT_TRUE(known.has_value());
  const auto& activation = std::get<FoundActivation>(*known);
  EXPECT_EQ(activation.activation.activation, Activation::kTanh);
  EXPECT_EQ(activation.scale_out, 3.0);
}

}  // namespace
}  // namespace arenite::convert
