// SPDX-License-Identifier: Apache-2.0
// Compares decomposed ops with plain loops over their definitions.
#include "convert/exported/aten/interpret.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "support/refusal.h"

namespace arenite::convert {
namespace {

using arenite::testing::refuses;

constexpr double kError = 1e-12;  // of sums of a few products

// Returns values without a pattern.
Array numbers(const Shape& shape, double seed) {
  Array::Reals values(elements_of(shape));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = std::sin(seed + 1.7 * static_cast<double>(i));
  }
  return Array::real(shape, std::move(values));
}

Array computed(std::string op, std::vector<NamedArgument> arguments) {
  OpBudget budget;
  return apply_for_array({.op = std::move(op), .arguments = std::move(arguments)}, budget);
}

Argument list(const std::vector<int64_t>& values) {
  return Argument::List(values.begin(), values.end());
}

void expect_near(const Array& found, const Shape& shape, const std::vector<double>& expected) {
  ASSERT_EQ(found.shape(), shape);
  const Array::Reals values = found.to_reals();
  ASSERT_EQ(values.size(), expected.size());
  for (size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], expected[i], kError) << i;
}

// Computes einsum by its definition: sums over all letters that the result lacks.
std::vector<double> einsum_by_loops(const std::vector<std::string>& inputs,
                                    const std::string& output, const std::vector<Array>& arrays,
                                    std::map<char, int64_t> extents) {
  std::string letters = output;
  for (const auto& [letter, extent] : extents) {
    if (letters.find(letter) == std::string::npos) letters += letter;
  }
  size_t results = 1, each = 1;
  for (const char c : letters) {
    (output.find(c) == std::string::npos ? each : results) *= static_cast<size_t>(extents[c]);
  }
  std::vector<double> sums(results, 0.0);
  for (size_t n = 0; n < results * each; ++n) {
    std::map<char, size_t> index;
    size_t rest = n;
    for (size_t d = letters.size(); d-- > 0;) {
      index[letters[d]] = rest % static_cast<size_t>(extents[letters[d]]);
      rest /= static_cast<size_t>(extents[letters[d]]);
    }
    double product = 1.0;
    for (size_t i = 0; i < arrays.size(); ++i) {
      size_t at = 0;
      for (size_t d = 0; d < inputs[i].size(); ++d) {
        const auto extent = static_cast<size_t>(arrays[i].shape()[d]);
        at = at * extent + (extent == 1 ? 0 : index[inputs[i][d]]);
      }
      product *= arrays[i].to_reals()[at];
    }
    sums[n / each] += product;
  }
  return sums;
}

struct Equation {
  const char* text;
  std::vector<std::string> inputs;
  std::string output;
};

class Einsum : public ::testing::TestWithParam<Equation> {};

TEST_P(Einsum, GivesTheSumsOfProducts) {
  const Equation& equation = GetParam();
  const std::map<char, int64_t> extents = {{'a', 2}, {'b', 3}, {'c', 4}, {'d', 5}, {'e', 2}};
  std::map<char, int64_t> own;
  Argument::List tensors;
  std::vector<Array> arrays;
  for (const std::string& letters : equation.inputs) {
    Shape shape;
    for (const char c : letters) {
      shape.push_back(extents.at(c));
      own[c] = extents.at(c);
    }
    arrays.push_back(numbers(shape, static_cast<double>(arrays.size())));
    tensors.emplace_back(arrays.back());
  }
  Shape shape;
  for (const char c : equation.output) shape.push_back(extents.at(c));
  expect_near(computed("einsum", {{"equation", std::string(equation.text)}, {"tensors", tensors}}),
              shape, einsum_by_loops(equation.inputs, equation.output, arrays, own));
}

INSTANTIATE_TEST_SUITE_P(All, Einsum,
                         ::testing::Values(Equation{"ab,bc->ac", {"ab", "bc"}, "ac"},
                                           Equation{"ab,bc->ca", {"ab", "bc"}, "ca"},
                                           Equation{"ab,bc", {"ab", "bc"}, "ac"},
                                           Equation{"abc,abd->acd", {"abc", "abd"}, "acd"},
                                           Equation{"abcd,bd->abc", {"abcd", "bd"}, "abc"},
                                           Equation{"a,b->ab", {"a", "b"}, "ab"},
                                           Equation{"abc->ca", {"abc"}, "ca"},
                                           Equation{"aab->ab", {"aab"}, "ab"},
                                           Equation{"ab,bc,cd->ad", {"ab", "bc", "cd"}, "ad"},
                                           Equation{"ab,ab->", {"ab", "ab"}, ""},
                                           Equation{"...ab,bc->...ac", {"dab", "bc"}, "dac"},
                                           Equation{"cba,bae->cbe", {"cba", "bae"}, "cbe"},
                                           Equation{"cba,bea->ecb", {"cba", "bea"}, "ecb"}));

TEST(Einsum, StretchesDimensionsOfOne) {
  const Array a = numbers({2, 1}, 0.0), b = numbers({3, 4}, 1.0);
  const Array found = computed(
      "einsum", {{"equation", std::string("ab,bc->ac")}, {"tensors", Argument::List{a, b}}});
  expect_near(found, {2, 4},
              einsum_by_loops({"ab", "bc"}, "ac", {a, b}, {{'a', 2}, {'b', 3}, {'c', 4}}));
}

TEST(Einsum, RefusesEquationsOfOtherTensors) {
  const Array a = numbers({2, 3}, 0.0);
  const auto run = [&](const char* equation) {
    computed("einsum", {{"equation", std::string(equation)}, {"tensors", Argument::List{a}}});
  };
  EXPECT_TRUE(refuses([&] { run("abc->a"); }, {"does not fit"}));
  EXPECT_TRUE(refuses([&] { run("ab->c"); }, {"a letter that no operand has"}));
  EXPECT_TRUE(refuses([&] { run("ab,bc->ac"); }, {"wrong number of operands"}));
}

// softmax(q k^T / sqrt(dim) + mask) v of one head.
std::vector<double> attention_by_loops(const Array& q, const Array& k, const Array& v,
                                       bool is_causal) {
  const auto tokens = static_cast<size_t>(q.shape()[q.rank() - 2]);
  const auto dim = static_cast<size_t>(q.shape().back());
  const Array::Reals queries = q.to_reals(), keys = k.to_reals(), values = v.to_reals();
  std::vector<double> result(queries.size(), 0.0);
  for (size_t t = 0; t < tokens; ++t) {
    std::vector<double> weights;
    double sum = 0.0;
    for (size_t s = 0; s < (is_causal ? t + 1 : tokens); ++s) {
      double score = 0.0;
      for (size_t d = 0; d < dim; ++d) score += queries[t * dim + d] * keys[s * dim + d];
      weights.push_back(std::exp(score / std::sqrt(static_cast<double>(dim))));
      sum += weights.back();
    }
    for (size_t s = 0; s < weights.size(); ++s) {
      for (size_t d = 0; d < dim; ++d) {
        result[t * dim + d] += weights[s] / sum * values[s * dim + d];
      }
    }
  }
  return result;
}

TEST(Attention, IsASoftmaxOverKeys) {
  const Shape shape = {1, 1, 5, 3};
  const Array q = numbers(shape, 0.0), k = numbers(shape, 1.0), v = numbers(shape, 2.0);
  const std::vector<NamedArgument> tensors = {{"query", q}, {"key", k}, {"value", v}};
  expect_near(computed("scaled_dot_product_attention", tensors), shape,
              attention_by_loops(q, k, v, false));
  std::vector<NamedArgument> causal = tensors;
  causal.push_back({"is_causal", true});
  expect_near(computed("scaled_dot_product_attention", causal), shape,
              attention_by_loops(q, k, v, true));
  // A bool mask hides, a float mask is added.
  Array::Bools seen;
  Array::Reals added;
  for (int64_t i = 0; i < 25; ++i) {
    seen.push_back(i % 5 <= i / 5);
    added.push_back(seen.back() ? 0.0 : -std::numeric_limits<double>::infinity());
  }
  for (const Array& mask : {Array::boolean({5, 5}, seen), Array::real({5, 5}, added)}) {
    std::vector<NamedArgument> masked = tensors;
    masked.push_back({"attn_mask", mask});
    expect_near(computed("scaled_dot_product_attention", masked), shape,
                attention_by_loops(q, k, v, true));
  }
}

TEST(Attention, SharesKeysOfFewerHeads) {
  const Array q = numbers({1, 4, 3, 2}, 0.0), k = numbers({1, 2, 3, 2}, 1.0);
  const Array v = numbers({1, 2, 3, 2}, 2.0);
  const Array found = computed("scaled_dot_product_attention",
                               {{"query", q}, {"key", k}, {"value", v}, {"enable_gqa", true}});
  const auto head = [](const Array& array, size_t index) {
    const Array::Reals all = array.to_reals();
    const auto begin = all.begin() + static_cast<ptrdiff_t>(6 * index);
    return Array::real({3, 2}, Array::Reals(begin, begin + 6));
  };
  std::vector<double> expected;
  for (size_t h = 0; h < 4; ++h) {
    const std::vector<double> one =
        attention_by_loops(head(q, h), head(k, h / 2), head(v, h / 2), false);
    expected.insert(expected.end(), one.begin(), one.end());
  }
  expect_near(found, {1, 4, 3, 2}, expected);
}

TEST(Norms, BatchAndGroupNormFollowTheirDefinitions) {
  const Array x = numbers({2, 4, 3}, 0.0), gain = numbers({4}, 1.0), bias = numbers({4}, 2.0);
  const Array mean = numbers({4}, 3.0);
  const Array variance = Array::real({4}, {0.5, 1.5, 2.5, 3.5});
  std::vector<double> batch, group;
  const Array::Reals values = x.to_reals();
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t channel = i / 3 % 4;
    batch.push_back((values[i] - mean.to_reals()[channel]) /
                        std::sqrt(variance.to_reals()[channel] + 0.1) * gain.to_reals()[channel] +
                    bias.to_reals()[channel]);
    double average = 0.0, square = 0.0;  // of two channels, three numbers each
    const size_t first = i / 6 * 6;
    for (size_t k = first; k < first + 6; ++k) average += values[k] / 6.0;
    for (size_t k = first; k < first + 6; ++k) {
      square += (values[k] - average) * (values[k] - average) / 6.0;
    }
    group.push_back((values[i] - average) / std::sqrt(square + 0.1) * gain.to_reals()[channel] +
                    bias.to_reals()[channel]);
  }
  expect_near(computed("batch_norm", {{"input", x},
                                      {"weight", gain},
                                      {"bias", bias},
                                      {"running_mean", mean},
                                      {"running_var", variance},
                                      {"training", false},
                                      {"eps", 0.1}}),
              {2, 4, 3}, batch);
  expect_near(computed("group_norm", {{"input", x},
                                      {"num_groups", int64_t{2}},
                                      {"weight", gain},
                                      {"bias", bias},
                                      {"eps", 0.1}}),
              {2, 4, 3}, group);
  EXPECT_TRUE(refuses(
      [&] {
        computed("batch_norm", {{"input", x}, {"training", true}});
      },
      {"statistics of the batch"}));
}

// Two groups of two elements, each 1 from the mean of its group.
TEST(Norms, GroupNormNeedsNoGainOrBias) {
  expect_near(computed("group_norm", {{"input", Array::real({1, 4}, {1.0, 3.0, 7.0, 5.0})},
                                      {"num_groups", int64_t{2}},
                                      {"eps", 3.0}}),
              {1, 4}, {-0.5, 0.5, 0.5, -0.5});
}

// Sums of the pixels of two frames.
TEST(ConvolutionsOverFrames, PutZerosAndGapsBetweenFrames) {
  const auto convolved = [](std::vector<NamedArgument> how) {
    how.push_back({"input", Array::real({1, 1, 3, 1, 1}, {1.0, 2.0, 4.0})});
    how.push_back({"weight", Array::real({1, 1, 2, 1, 1}, {1.0, 1.0})});
    return computed("conv3d", std::move(how));
  };
  expect_near(convolved({}), {1, 1, 2, 1, 1}, {3.0, 6.0});
  expect_near(convolved({{"padding", list({1, 0, 0})}}), {1, 1, 4, 1, 1}, {1.0, 3.0, 6.0, 4.0});
  expect_near(convolved({{"dilation", list({2, 1, 1})}}), {1, 1, 1, 1, 1}, {5.0});
}

TEST(Products, AddmmScalesBothTerms) {
  const Array self = numbers({3}, 0.0), a = numbers({2, 4}, 1.0), b = numbers({4, 3}, 2.0);
  std::vector<double> expected =
      einsum_by_loops({"ab", "bc"}, "ac", {a, b}, {{'a', 2}, {'b', 4}, {'c', 3}});
  for (size_t i = 0; i < expected.size(); ++i) {
    expected[i] = 0.5 * expected[i] + 2.0 * self.to_reals()[i % 3];
  }
  expect_near(
      computed("addmm", {{"self", self}, {"mat1", a}, {"mat2", b}, {"beta", 2.0}, {"alpha", 0.5}}),
      {2, 3}, expected);
}

TEST(Gates, UseTheSecondHalf) {
  const Array x = numbers({2, 6}, 0.0);
  std::vector<double> expected;
  for (size_t i = 0; i < 6; ++i) {
    const size_t at = i / 3 * 6 + i % 3;
    expected.push_back(x.to_reals()[at] / (1.0 + std::exp(-x.to_reals()[at + 3])));
  }
  expect_near(computed("glu", {{"self", x}}), {2, 3}, expected);
  EXPECT_TRUE(refuses(
      [&] {
        computed("glu", {{"self", numbers({2, 5}, 0.0)}});
      },
      {"odd dimension"}));
}

TEST(Differences, AreTakenBetweenNeighbours) {
  const Array x = Array::real({5}, {1.0, 4.0, 9.0, 16.0, 25.0});
  expect_near(computed("diff", {{"self", x}}), {4}, {3.0, 5.0, 7.0, 9.0});
  expect_near(computed("diff", {{"self", x}, {"n", int64_t{2}}}), {3}, {2.0, 2.0, 2.0});
}

TEST(WeightNorms, HaveRowsOfTheGivenLengths) {
  const Array v = Array::real({2, 2}, {3.0, 4.0, 6.0, 8.0});
  const Array g = Array::real({2, 1}, {10.0, 1.0});
  expect_near(computed("_weight_norm", {{"v", v}, {"g", g}, {"dim", int64_t{0}}}), {2, 2},
              {6.0, 8.0, 0.6, 0.8});
}

TEST(Parts, ErrorsNameTheOpOfTheSource) {
  const Array a = numbers({2, 3}, 0.0);
  EXPECT_TRUE(refuses(
      [&] {
        computed("addmm", {{"self", a}, {"mat1", a}, {"mat2", a}});
      },
      {"aten.addmm", "cannot be multiplied"}));
  EXPECT_TRUE(is_decomposed("glu"));
  EXPECT_FALSE(is_decomposed("linear"));
  EXPECT_TRUE(has_rule("glu"));
  expect_near(computed("adaptive_avg_pool1d", {{"self", a}, {"output_size", list({1})}}), {2, 1},
              {(a.to_reals()[0] + a.to_reals()[1] + a.to_reals()[2]) / 3.0,
               (a.to_reals()[3] + a.to_reals()[4] + a.to_reals()[5]) / 3.0});
}

TEST(Losses, AreComputedFromDifferences) {
  const Array a = Array::real({2}, {1, -2}), b = Array::real({2}, {3, 1});
  const auto loss = [&](const char* op, int64_t reduction) {
    return computed(op, {{"self", a}, {"target", b}, {"reduction", reduction}});
  };
  expect_near(loss("mse_loss", 0), {2}, {4, 9});
  expect_near(loss("mse_loss", 1), {}, {6.5});
  expect_near(loss("l1_loss", 2), {}, {5});
}

}  // namespace
}  // namespace arenite::convert
