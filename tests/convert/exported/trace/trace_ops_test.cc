// SPDX-License-Identifier: Apache-2.0
// Programs of a few ops: the graph that they become gives what they compute.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "convert/exported/aten/interpret.h"
#include "convert/exported/trace/op_handlers.h"
#include "convert/exported/trace/trace_program.h"
#include "convert/exported/trace/trace_shape.h"
#include "convert/exported/trace/tracer.h"
#include "convert/graph/interpreter.h"
#include "support/refusal.h"

namespace arenite::convert {
namespace {

using arenite::testing::refuses;

constexpr int64_t kTokens = 5;
constexpr int64_t kWidth = 4;
constexpr double kHidden = -std::numeric_limits<double>::infinity();

// One sequence of features x, and the ops on it in the order in which they are written.
class TracedOpsTest : public ::testing::Test {
 protected:
  explicit TracedOpsTest(int64_t tokens = kTokens)
      : tokens_(tokens), program_(std::make_shared<ExportedProgram>()) {
    program_->source = "model.pt2";
    program_->tensors = std::make_shared<TensorStore>("model.pt2");
    program_->values.push_back({.name = "x", .sizes = {{1}, {tokens_}, {kWidth}}});
    program_->inputs.push_back({.value = 0, .name = "x"});
    for (int64_t i = 0; i < tokens_ * kWidth; ++i) {
      input_.push_back(static_cast<float>(std::sin(3.0 * static_cast<double>(i) + 1.0)));
    }
  }

  ValueRef op(const std::string& name, std::vector<NamedArgument> arguments) {
    const auto value = static_cast<uint32_t>(program_->values.size());
    program_->values.push_back({.name = name});
    program_->nodes.push_back({.op = name, .arguments = std::move(arguments), .outputs = {value}});
    return {value};
  }
  ValueRef op(const std::string& name, const Argument& self, const Argument& other) {
    return op(name, {{"self", self}, {"other", other}});
  }
  ValueRef constant(Shape shape, std::vector<double> values) {
    return op("clone", {{"self", Array::real(std::move(shape), std::move(values))}});
  }
  ValueRef transposed(ValueRef value) {
    return op("transpose", {{"self", value}, {"dim0", int64_t{-2}}, {"dim1", int64_t{-1}}});
  }
  ValueRef softmax(ValueRef scores) {
    return op("softmax", {{"self", scores}, {"dim", int64_t{-1}}});
  }
  ValueRef reduced(const std::string& name, ValueRef value) {
    return op(name, {{"self", value}, {"dim", int64_t{-1}}, {"keepdim", true}});
  }
  // [1, 2, tokens, 2]: the columns as two heads.
  ValueRef heads() {
    const Argument::List sizes = {int64_t{1}, kTokens, int64_t{2}, int64_t{2}};
    const ValueRef view = op("view", {{"self", x_}, {"size", sizes}});
    return op("transpose", {{"self", view}, {"dim0", int64_t{1}}, {"dim1", int64_t{2}}});
  }
  // Such heads side by side again.
  ValueRef back(ValueRef context) {
    const ValueRef rows =
        op("transpose", {{"self", context}, {"dim0", int64_t{1}}, {"dim1", int64_t{2}}});
    const Argument::List sizes = {int64_t{1}, kTokens, kWidth};
    return op("reshape", {{"self", rows}, {"shape", sizes}});
  }
  ValueRef causal() {
    std::vector<double> seen;
    for (int64_t i = 0; i < kTokens * kTokens; ++i) {
      seen.push_back(i % kTokens <= i / kTokens ? 1.0 : 0.0);
    }
    return constant({kTokens, kTokens}, std::move(seen));
  }

  ValueRef largest(int64_t kernel, int64_t stride, int64_t padding, bool ceil_mode) {
    return transposed(op("max_pool1d", {{"self", transposed(x_)},
                                        {"kernel_size", Argument::List{kernel}},
                                        {"stride", Argument::List{stride}},
                                        {"padding", Argument::List{padding}},
                                        {"ceil_mode", ceil_mode}}));
  }

  // Token ids in place of features, of 6 rows of a table.
  void take_ids() {
    program_->values[0] = {.name = "ids", .type = ElementType::kI64, .sizes = {{1}, {kTokens}}};
    ids_ = {3, 0, 5, 5, 1};
  }
  ValueRef looked_up(int64_t first, const Argument& indices) {
    std::vector<double> rows;
    for (int64_t i = 0; i < 6 * kWidth; ++i) rows.push_back(static_cast<double>(first + i * i));
    return op("embedding", {{"weight", constant({6, kWidth}, rows)}, {"indices", indices}});
  }

  Graph traced(ValueRef result) {
    program_->outputs = {result};
    TraceShape shape(program_);
    const TracedProgram followed = trace_any(program_, shape, 0);
    GraphBuilder& builder = followed.tracer->builder;
    builder.graph = followed.graph;
    fill_position_tables(builder, {static_cast<uint32_t>(tokens_)}, nullptr);
    return builder.graph;
  }

  void expect_same(ValueRef result) {
    const Graph graph = traced(result);
    const Array x =
        ids_.empty() ? Array::real({1, tokens_, kWidth}, Array::Reals(input_.begin(), input_.end()))
                     : Array::integer({1, kTokens}, Array::Integers(ids_.begin(), ids_.end()));
    const Array::Reals expected = interpret(*program_, std::vector<Array>{x}).at(0).to_reals();
    const std::vector<double> found = ids_.empty() ? evaluate(graph, {.features = input_}).values
                                                   : evaluate(graph, {.tokens = ids_}).values;
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-12) << i;
  }

  template <typename Body>
  static size_t count(const Graph& graph) {
    size_t found = 0;
    for (const ValueId id : graph.order()) found += graph.as<Body>(id) != nullptr ? 1 : 0;
    return found;
  }

  const int64_t tokens_;
  std::shared_ptr<ExportedProgram> program_;
  const ValueRef x_{0};
  std::vector<float> input_;
  std::vector<uint32_t> ids_;  // in place of these, or none
};

// Six tokens in windows of three.
class WindowedOpsTest : public TracedOpsTest {
 protected:
  WindowedOpsTest() : TracedOpsTest(6) {}

  ValueRef permuted(ValueRef value, Argument::List order) {
    return op("permute", {{"self", value}, {"dims", std::move(order)}});
  }
  // [1, windows, 2, 3, 2]: the columns as two heads.
  ValueRef heads_of_windows() {
    const Argument::List sizes = {int64_t{1}, int64_t{2}, int64_t{3}, int64_t{2}, int64_t{2}};
    return permuted(op("view", {{"self", x_}, {"size", sizes}}), kSwapped);
  }
  ValueRef tokens_of(ValueRef context) {
    const Argument::List sizes = {int64_t{1}, int64_t{6}, kWidth};
    return op("reshape", {{"self", permuted(context, kSwapped)}, {"shape", sizes}});
  }

  const Argument::List kSwapped = {int64_t{0}, int64_t{1}, int64_t{3}, int64_t{2}, int64_t{4}};
};

TEST_F(WindowedOpsTest, HeadsHaveFactorsOfTheirOwn) {
  const ValueRef q = heads_of_windows();
  const ValueRef scores = op("matmul", q, transposed(q));
  const ValueRef scaled = op("mul", scores, constant({2, 1, 1}, {0.5, 2.0}));
  const ValueRef result = tokens_of(op("matmul", softmax(scaled), q));
  EXPECT_GE(count<AttentionNode>(traced(result)), 1u);
  expect_same(result);
}

TEST_F(TracedOpsTest, ASoftmaxThatIsWrittenByHandIsAttention) {
  const ValueRef scores = op("matmul", x_, transposed(x_));
  const ValueRef shifted = op("sub", scores, reduced("amax", scores));
  const ValueRef exponentials = op("exp", {{"self", shifted}});
  const ValueRef weights = op("div", exponentials, reduced("sum", exponentials));
  const ValueRef result = op("matmul", weights, x_);
  EXPECT_EQ(count<AttentionNode>(traced(result)), 1u);
  expect_same(result);
}

// gpt-oss: a learned score for each head, in a column that is cut off the weights.
TEST_F(TracedOpsTest, AColumnOfConstantsIsASinkOfEachHead) {
  const ValueRef q = heads();
  const ValueRef scores =
      op("add", op("matmul", q, transposed(q)), op("log", {{"self", causal()}}));
  for (const bool is_first : {false, true}) {
    for (const bool is_cut : {true, false}) {
      const Argument::List sizes = {int64_t{1}, int64_t{2}, kTokens, int64_t{1}};
      const ValueRef sinks =
          op("expand", {{"self", constant({1, 2, 1, 1}, {0.5, -1.0})}, {"size", sizes}});
      Argument::List parts = {scores, sinks};
      if (is_first) std::swap(parts[0], parts[1]);
      const ValueRef both = op("cat", {{"tensors", parts}, {"dim", int64_t{-1}}});
      const ValueRef shifted = op("sub", both, reduced("amax", both));
      const ValueRef weights = softmax(shifted);
      const int64_t begin = is_first ? 1 : 0;
      const ValueRef of_keys =
          op("slice",
             {{"self", weights}, {"dim", int64_t{-1}}, {"start", begin}, {"end", begin + kTokens}});
      const ValueRef zeros = constant({1, 2, 1, 2}, {0.0, 0.0, 0.0, 0.0});
      Argument::List values = {q, zeros};
      if (is_first) std::swap(values[0], values[1]);
      const ValueRef longer = op("cat", {{"tensors", values}, {"dim", int64_t{-2}}});
      const ValueRef context = is_cut ? op("matmul", of_keys, q) : op("matmul", weights, longer);
      const ValueRef result = back(context);
      const Graph graph = traced(result);
      ASSERT_EQ(count<AttentionNode>(graph), 1u);
      for (const ValueId value : graph.order()) {
        const auto* const attention = graph.as<AttentionNode>(value);
        if (attention != nullptr) {
          EXPECT_EQ(attention->sinks, std::vector<double>({0.5, -1.0}));
        }
      }
      expect_same(result);
    }
  }
}

// add_zero_attn: a key and a value of zeros, beside a mask that shows them.
TEST_F(TracedOpsTest, AKeyOfZerosIsASinkOfZero) {
  const ValueRef q = heads();
  const ValueRef zeros = constant({1, 2, 1, 2}, {0.0, 0.0, 0.0, 0.0});
  const ValueRef keys = op("cat", {{"tensors", Argument::List{q, zeros}}, {"dim", int64_t{-2}}});
  std::vector<double> mask;
  for (int64_t i = 0; i < kTokens * (kTokens + 1); ++i) {
    const int64_t key = i % (kTokens + 1);
    mask.push_back(key == kTokens ? 0.25 : key <= i / (kTokens + 1) ? 0.0 : kHidden);
  }
  const ValueRef scores = op("mul", op("matmul", q, transposed(keys)), 0.5);
  const ValueRef masked = op("add", scores, constant({kTokens, kTokens + 1}, mask));
  expect_same(back(op("matmul", softmax(masked), keys)));
}

TEST_F(TracedOpsTest, AKeyOfZerosMayHaveAnotherValue) {
  const ValueRef q = heads();
  const auto with = [&](std::vector<double> row) {
    const ValueRef last = constant({1, 2, 1, 2}, std::move(row));
    return op("cat", {{"tensors", Argument::List{q, last}}, {"dim", int64_t{-2}}});
  };
  const ValueRef weights = softmax(op("matmul", q, transposed(with({0.0, 0.0, 0.0, 0.0}))));
  expect_same(back(op("matmul", weights, with({1.0, 0.0, 0.0, 0.0}))));
}

TEST_F(TracedOpsTest, SoftmaxPlusOneIsASinkOfZero) {
  const ValueRef scores = op("matmul", x_, transposed(x_));
  const auto expect_sink = [&](ValueRef weights, double sink) {
    const ValueRef result = op("matmul", weights, x_);
    const Graph graph = traced(result);
    for (const ValueId value : graph.order()) {
      const auto* const attention = graph.as<AttentionNode>(value);
      if (attention != nullptr) {
        EXPECT_NEAR(attention->sinks.at(0), sink, 1e-12);
      }
    }
    expect_same(result);
  };
  // Padded by a column of zeros.
  const ValueRef padded =
      op("constant_pad_nd",
         {{"self", scores}, {"pad", Argument::List{int64_t{0}, int64_t{1}}}, {"value", 0.0}});
  expect_sink(op("slice", {{"self", softmax(padded)},
                           {"dim", int64_t{-1}},
                           {"start", int64_t{0}},
                           {"end", int64_t{-1}}}),
              0.0);
  // Written by hand, with whatever is subtracted from all scores.
  const ValueRef largest = reduced("amax", scores);
  const ValueRef clamped = op("clamp", {{"self", largest}, {"min", 0.0}});
  for (const ValueRef m : {largest, clamped}) {
    const ValueRef exponentials = op("exp", {{"self", op("sub", scores, m)}});
    const ValueRef one = op("exp", {{"self", op("neg", {{"self", m}})}});
    const ValueRef sum = op("add", one, reduced("sum", exponentials));
    expect_sink(op("div", exponentials, sum), 0.0);
    const ValueRef three = op("exp", {{"self", op("sub", constant({1}, {3.0}), m)}});
    expect_sink(op("div", exponentials, op("add", reduced("sum", exponentials), three)), 3.0);
  }
  const ValueRef plain = op("exp", {{"self", scores}});
  expect_sink(op("div", plain, op("add", reduced("sum", plain), 2.0)), std::log(2.0));
}

// exp(x - m) / (1 + sum) has a sink that is as large as the largest score.
TEST_F(TracedOpsTest, OneBesideShiftedExponentialsIsRefusedAsASink) {
  const ValueRef scores = op("matmul", x_, transposed(x_));
  const ValueRef exponentials = op("exp", {{"self", op("sub", scores, reduced("amax", scores))}});
  const ValueRef sum = op("add", reduced("sum", exponentials), 1.0);
  const ValueRef result = op("matmul", op("div", exponentials, sum), x_);
  EXPECT_TRUE(refuses([&] { traced(result); }, {"expected exp(-m), as in softmax plus one"}));
}

TEST_F(TracedOpsTest, NoSinkIsFoundWhereOtherThanScoresAreSubtracted) {
  const ValueRef scores = op("matmul", x_, transposed(x_));
  const ValueRef largest = reduced("amax", scores);
  const ValueRef other = op("clamp", {{"self", largest}, {"min", 0.0}});
  const ValueRef exponentials = op("exp", {{"self", op("sub", scores, largest)}});
  const ValueRef one = op("exp", {{"self", op("neg", {{"self", other}})}});
  const ValueRef sum = op("add", reduced("sum", exponentials), one);
  const ValueRef result = op("matmul", op("div", exponentials, sum), x_);
  EXPECT_TRUE(refuses([&] { traced(result); }, {"is added to the sum of exp(scores - m)"}));
}

TEST_F(TracedOpsTest, NoSinkIsFoundBesideScoresScaledAfterwards) {
  const ValueRef scores = op("matmul", x_, transposed(x_));
  const ValueRef largest = reduced("amax", scores);
  const ValueRef scaled = op("exp", {{"self", op("mul", op("sub", scores, largest), 2.0)}});
  const ValueRef one = op("exp", {{"self", op("neg", {{"self", largest}})}});
  const ValueRef sum = op("add", reduced("sum", scaled), one);
  const ValueRef result = op("matmul", op("div", scaled, sum), x_);
  EXPECT_TRUE(refuses([&] { traced(result); }, {"is added to the sum of exp(scores - m)"}));
}

TEST_F(TracedOpsTest, SinksAreOneNumberForEachHead) {
  const ValueRef scores = op("matmul", x_, transposed(x_));
  const ValueRef column = constant({1, kTokens, 1}, {1, 2, 3, 4, 5});
  const ValueRef both =
      op("cat", {{"tensors", Argument::List{scores, column}}, {"dim", int64_t{-1}}});
  const ValueRef result = op("matmul", softmax(both), x_);
  EXPECT_TRUE(refuses([&] { traced(result); }, {"differs between queries"}));
}

TEST_F(TracedOpsTest, SinksAreOneColumn) {
  const ValueRef scores = op("matmul", x_, transposed(x_));
  const ValueRef columns = constant({1, kTokens, 2}, std::vector<double>(2 * kTokens, 0.0));
  const ValueRef both =
      op("cat", {{"tensors", Argument::List{scores, columns}}, {"dim", int64_t{-1}}});
  const ValueRef result = op("matmul", softmax(both), x_);
  EXPECT_TRUE(refuses([&] { traced(result); }, {"one constant per head"}));
}

TEST_F(TracedOpsTest, ScoresThatAConstantReplacesAreHidden) {
  const ValueRef seen = op("gt", causal(), 0.5);
  const ValueRef masked =
      op("where",
         {{"condition", seen}, {"self", op("matmul", x_, transposed(x_))}, {"other", kHidden}});
  const ValueRef weights = op("nan_to_num", {{"self", softmax(masked)}});
  expect_same(op("matmul", weights, x_));
}

TEST_F(TracedOpsTest, ScoresTimesAMaskAreHiddenByAnAddedMask) {
  const ValueRef seen = causal();
  const ValueRef zeroed = op("mul", op("matmul", x_, transposed(x_)), seen);
  const ValueRef hidden = op("mul", op("sub", seen, 1.0), 1e9);
  expect_same(op("matmul", softmax(op("add", zeroed, hidden)), x_));
  EXPECT_TRUE(refuses([&] { traced(op("matmul", softmax(zeroed), x_)); }, {"hides no key"}));
}

// Token 2 sees nothing; with a sink, it gets zeros.
TEST_F(TracedOpsTest, EachTokenSeesAKeyOrASink) {
  std::vector<double> mask(kTokens * kTokens, 0.0);
  std::fill_n(mask.begin() + 2 * kTokens, kTokens, kHidden);
  const ValueRef product = op("matmul", x_, transposed(x_));
  const ValueRef scores = op("add", product, constant({kTokens, kTokens}, std::move(mask)));
  const Argument::List pad = {int64_t{0}, int64_t{1}};
  const ValueRef padded = op("constant_pad_nd", {{"self", scores}, {"pad", pad}, {"value", 0.0}});
  const ValueRef weights = op("slice", {{"self", softmax(padded)},
                                        {"dim", int64_t{-1}},
                                        {"start", int64_t{0}},
                                        {"end", int64_t{-1}}});
  expect_same(op("matmul", weights, x_));
  EXPECT_TRUE(refuses([&] { traced(op("matmul", softmax(scores), x_)); },
                      {"the mask hides all keys of token 2"}));
}

TEST_F(TracedOpsTest, TheFirstOpMayBeRefused) {
  const ValueRef unknown = op("grid_sampler_2d", x_, 1.0);
  EXPECT_TRUE(refuses([&] { traced(op("relu", {{"self", unknown}})); }, {"grid_sampler_2d"}));
}

TEST_F(TracedOpsTest, HeadsHaveFactorsOfTheirOwn) {
  const ValueRef q = heads();
  const ValueRef mask = op("mul", op("sub", causal(), 1.0), 1e9);
  const ValueRef scores = op("add", op("matmul", q, transposed(q)), mask);
  const ValueRef scaled = op("mul", scores, constant({2, 1, 1}, {0.5, 2.0}));
  expect_same(back(op("matmul", softmax(op("mul", scaled, 0.25)), q)));
}

TEST_F(TracedOpsTest, BiasesOfScoresAreScaledWithThem) {
  std::vector<double> distances;
  for (int64_t i = 0; i < kTokens * kTokens; ++i) {
    distances.push_back(0.25 * static_cast<double>(i % kTokens - i / kTokens));
  }
  const ValueRef bias = constant({kTokens, kTokens}, std::move(distances));
  const ValueRef scores = op("add", op("matmul", x_, transposed(x_)), bias);
  expect_same(op("matmul", softmax(op("mul", scores, 2.0)), x_));
}

TEST_F(TracedOpsTest, QueriesAndKeysHaveFactorsThatAreComputed) {
  const ValueRef factors = op("matmul", x_, constant({kWidth, 1}, {1.0, -2.0, 0.5, 3.0}));
  const ValueRef scores = op("matmul", x_, transposed(x_));
  expect_same(op("matmul", softmax(op("mul", scores, factors)), x_));
  expect_same(op("matmul", softmax(op("mul", scores, transposed(factors))), x_));
}

// Queries of a layer with a bias, times a vector for each distance of a key.
TEST_F(TracedOpsTest, QueriesAddToScoresByDistance) {
  const std::vector<double> weights = {1.0, 0.5, -1.0, 0.25, 0.0, 2.0,  -0.5, 1.0,
                                       0.5, 1.0, 0.0,  -2.0, 1.0, -1.0, 0.75, 0.5};
  const ValueRef made = op("linear", {{"input", x_},
                                      {"weight", constant({kWidth, kWidth}, weights)},
                                      {"bias", constant({kWidth}, {0.5, -1.0, 2.0, 1.5})}});
  std::vector<double> vectors;
  for (int64_t query = 0; query < kTokens; ++query) {
    for (int64_t d = 0; d < kWidth; ++d) {
      for (int64_t key = 0; key < kTokens; ++key) {
        vectors.push_back(0.25 * std::sin(static_cast<double>(3 * (key - query) + 5 * d)));
      }
    }
  }
  const ValueRef rows = op("unsqueeze", {{"self", made}, {"dim", int64_t{2}}});
  const ValueRef added =
      op("squeeze", {{"self", op("matmul", rows, constant({kTokens, kWidth, kTokens}, vectors))},
                     {"dim", int64_t{2}}});
  const ValueRef scores = op("add", op("matmul", made, transposed(x_)), added);
  expect_same(op("matmul", softmax(scores), x_));
}

TEST_F(TracedOpsTest, ExponentialsMayBeLessOne) { expect_same(op("expm1", {{"self", x_}})); }

// Heads of one column each, of which the first two read the first keys and values.
TEST_F(TracedOpsTest, HeadsShareKeys) {
  const Argument::List sizes = {int64_t{1}, kTokens, kWidth, int64_t{1}};
  const ValueRef view = op("view", {{"self", x_}, {"size", sizes}});
  const ValueRef q = op("transpose", {{"self", view}, {"dim0", int64_t{1}}, {"dim1", int64_t{2}}});
  const ValueRef keys =
      op("index_select",
         {{"self", q}, {"dim", int64_t{1}}, {"index", Array::integer({4}, {1, 1, 2, 2})}});
  const ValueRef result = back(op("matmul", softmax(op("matmul", q, transposed(keys))), keys));
  const Graph graph = traced(result);
  ASSERT_EQ(count<AttentionNode>(graph), 1u);
  for (const ValueId value : graph.order()) {
    if (const auto* const attention = graph.as<AttentionNode>(value)) {
      EXPECT_EQ(attention->heads, 4u);
      EXPECT_EQ(attention->kv_heads, 2u);
    }
  }
  expect_same(result);
}

TEST_F(TracedOpsTest, EvenWeightsOfAConstantAreAttention) {
  const ValueRef seen = causal();
  const ValueRef result = op("matmul", op("div", seen, reduced("sum", seen)), x_);
  EXPECT_EQ(count<AttentionNode>(traced(result)), 1u);
  expect_same(result);
}

TEST_F(TracedOpsTest, ProductsWithConstantsAreLayers) {
  const ValueRef gate = op("matmul", x_, constant({kWidth}, {1.0, -2.0, 0.5, 3.0}));
  EXPECT_EQ(count<LinearNode>(traced(gate)), 1u);
  expect_same(gate);
  // A matrix for each head.
  const ValueRef each = constant({2, 2, 2}, {1.0, 2.0, 3.0, 4.0, -1.0, 0.5, 0.25, 2.0});
  const ValueRef product = op("matmul", heads(), each);
  const ValueRef back =
      op("transpose", {{"self", product}, {"dim0", int64_t{1}}, {"dim1", int64_t{2}}});
  const Argument::List sizes = {int64_t{1}, kTokens, kWidth};
  expect_same(op("reshape", {{"self", back}, {"shape", sizes}}));
}

TEST_F(TracedOpsTest, SumsTakeAlphaAsPyTorchDoes) {
  const ValueRef row = constant({kWidth}, {1.0, -2.0, 0.5, 3.0});
  const ValueRef relu = op("relu", {{"self", x_}});
  for (const char* name : {"add", "sub", "rsub"}) {
    expect_same(op(name, {{"self", relu}, {"other", row}, {"alpha", 3.0}}));
  }
  for (const char* name : {"add", "sub"}) {
    expect_same(op(name, {{"self", row}, {"other", relu}, {"alpha", 3.0}}));
    expect_same(op(name, {{"self", x_}, {"other", relu}, {"alpha", 3.0}}));
  }
}

TEST_F(TracedOpsTest, ConvolutionsOfSingleTokensAreLayers) {
  const ValueRef kernel = constant({4, 2, 1}, {1.0, 2.0, 3.0, 4.0, -1.0, 0.5, 0.25, 2.0});
  const ValueRef made =
      op("conv1d", {{"input", transposed(x_)}, {"weight", kernel}, {"groups", int64_t{2}}});
  EXPECT_EQ(count<LinearNode>(traced(transposed(made))), 1u);
  expect_same(transposed(made));
}

TEST_F(TracedOpsTest, DeviationsOverTokensSubtractTheMean) {
  for (const char* name : {"var", "std"}) {
    for (const double correction : {0.0, 1.0}) {
      expect_same(op(name, {{"self", x_},
                            {"dim", Argument::List{int64_t{1}}},
                            {"correction", correction},
                            {"keepdim", true}}));
    }
  }
}

TEST_F(TracedOpsTest, WindowsOfAMaximumMayBeHalfPadding) {
  expect_same(largest(2, 2, 1, false));
  expect_same(largest(3, 2, 1, false));
  expect_same(largest(3, 2, 0, true));  // the last window ends with the last token
  EXPECT_TRUE(refuses([&] { traced(largest(3, 1, 2, false)); }, {"more than half"}));
}

TEST_F(TracedOpsTest, WindowsOfAMaximumEndWithinTheTokens) {
  EXPECT_TRUE(refuses([&] { traced(largest(2, 2, 0, true)); }, {"ends beyond the input"}));
}

TEST_F(TracedOpsTest, ScoresAreClampedFromBelowAtMost) {
  const ValueRef scores = op("matmul", x_, transposed(x_));
  constexpr double kLeast = std::numeric_limits<float>::lowest();
  const auto attended = [&](std::vector<NamedArgument> bounds) {
    bounds.insert(bounds.begin(), {"self", scores});
    return op("matmul", softmax(op("clamp", std::move(bounds))), x_);
  };
  expect_same(attended({{"min", kLeast}}));
  EXPECT_TRUE(refuses(
      [&] {
        traced(attended({{"min", kLeast}, {"max", 0.5}}));
      },
      {"the op is not supported on attention scores"}));
}

TEST_F(TracedOpsTest, ExponentialsOfScoresAreOnlyDivided) {
  const ValueRef exponentials = op("exp", {{"self", op("matmul", x_, transposed(x_))}});
  const ValueRef twice = op("mul", exponentials, 2.0);
  EXPECT_TRUE(refuses([&] { traced(op("matmul", softmax(twice), x_)); },
                      {"exponentials of scores are used outside a softmax"}));
}

// Two columns of each token times a matrix of its own, whose columns recur.
TEST_F(TracedOpsTest, TokensHaveMatricesOfTheirOwn) {
  constexpr int64_t kOutputs = 3;
  std::vector<double> matrices;
  for (int64_t t = 0; t < kTokens; ++t) {
    for (int64_t i = 0; i < kWidth; ++i) {
      for (int64_t o = 0; o < kOutputs; ++o) {
        matrices.push_back(static_cast<double>(i + 1) * static_cast<double>((t + o) % 3 + 1));
      }
    }
  }
  const ValueRef rows = op("unsqueeze", {{"self", x_}, {"dim", int64_t{2}}});
  const ValueRef product =
      op("matmul", rows, constant({kTokens, kWidth, kOutputs}, std::move(matrices)));
  const ValueRef result = op("squeeze", {{"self", product}, {"dim", int64_t{2}}});
  EXPECT_EQ(count<LinearNode>(traced(result)), 1u);
  expect_same(result);
}

TEST_F(TracedOpsTest, PartsOfComplexValuesAreReal) {
  const Argument::List pairs = {int64_t{1}, kTokens, kWidth / 2, int64_t{2}};
  const ValueRef view = op("view", {{"self", x_}, {"size", pairs}});
  const ValueRef pair = op("view_as_complex", {{"self", view}});
  program_->values.back().type = ElementType::kComplex64;
  for (const char* part : {"real", "imag"}) expect_same(op(part, {{"self", pair}}));
  EXPECT_TRUE(refuses([&] { traced(pair); }, {"complex values are supported only in rotations"}));
}

TEST_F(TracedOpsTest, ComplexProductsAreRotations) {
  const Argument::List pairs = {int64_t{1}, kTokens, kWidth / 2, int64_t{2}};
  const ValueRef view = op("view", {{"self", x_}, {"size", pairs}});
  const ValueRef pair = op("view_as_complex", {{"self", view}});
  std::vector<double> angles;
  for (int64_t t = 0; t < kTokens; ++t) {
    angles.insert(angles.end(), {static_cast<double>(t), 0.01 * static_cast<double>(t)});
  }
  const ValueRef angle = constant({kTokens, kWidth / 2}, std::move(angles));
  const ValueRef turn =
      op("polar", {{"abs", op("ones_like", {{"self", angle}})}, {"angle", angle}});
  const ValueRef real = op("view_as_real", {{"self", op("mul", pair, turn)}});
  const Argument::List sizes = {int64_t{1}, kTokens, kWidth};
  const ValueRef result = op("view", {{"self", real}, {"size", sizes}});
  EXPECT_EQ(count<RotateNode>(traced(result)), 1u);
  expect_same(result);
}

TEST_F(TracedOpsTest, RowsComputedFromIdsAreFoundByTrial) {
  take_ids();
  const ValueRef tokens = looked_up(1, x_);
  // The ids themselves, the same row for all, and rows by position.
  const ValueRef same = op("clamp", {{"self", x_}, {"min", int64_t{0}}});
  const ValueRef none = op("remainder", x_, int64_t{1});
  const ValueRef counted = op("add", none, op("arange", {{"end", kTokens}}));
  for (const ValueRef rows : {same, none, counted}) {
    expect_same(op("add", tokens, looked_up(7, rows)));
  }
  const ValueRef folded = op("remainder", x_, int64_t{4});
  EXPECT_TRUE(
      refuses([&] { traced(looked_up(7, folded)); }, {"another function of the token ids"}));
}

// The first token alone is marked, and only where it has id 3.
TEST_F(TracedOpsTest, NumbersOfIdsAreTheSameAtEachPlace) {
  take_ids();
  const ValueRef first = op("lt", op("arange", {{"end", kTokens}}), int64_t{1});
  const ValueRef marked = op("logical_and", op("eq", x_, int64_t{3}), first);
  const ValueRef numbers = op("to", {{"self", marked}, {"dtype", ElementType::kF32}});
  const ValueRef column = op("unsqueeze", {{"self", numbers}, {"dim", int64_t{-1}}});
  const ValueRef result = op("mul", looked_up(1, x_), column);
  EXPECT_TRUE(refuses([&] { traced(result); }, {"an op computes with token ids"}));
}

// All ids give the same row, so the rows are a constant, as weights must be.
TEST_F(TracedOpsTest, LookupsOfOneRowMayBeWeights) {
  take_ids();
  const ValueRef same = looked_up(7, op("remainder", x_, int64_t{1}));
  const ValueRef weight =
      op("select", {{"self", same}, {"dim", int64_t{0}}, {"index", int64_t{0}}});
  const ValueRef result = op("linear", {{"input", looked_up(1, x_)}, {"weight", weight}});
  EXPECT_EQ(count<LinearNode>(traced(result)), 1u);
  expect_same(result);
}

// CLIP: the end of a text has the largest id.
TEST_F(TracedOpsTest, RowsAtTheLargestIdAreTheLastOnes) {
  take_ids();
  ids_ = {3, 0, 2, 4, 5};
  const ValueRef places = op("argmax", {{"self", x_}, {"dim", int64_t{-1}}});
  program_->values.back() = {.name = "places", .type = ElementType::kI64, .sizes = {{1}}};
  const ValueRef sequences = op("clone", {{"self", Array::integer({1}, {0})}});
  const ValueRef tokens = looked_up(1, x_);
  const ValueRef result =
      op("index", {{"self", tokens}, {"indices", Argument::List{sequences, places}}});
  const Graph graph = traced(result);
  EXPECT_EQ(graph.inputs[0].end.rule, SequenceEnd::Rule::kLargest);
  expect_same(result);
}

TEST_F(TracedOpsTest, PositionsThatLeavePaddingOutAreAPartOfTheEmbedding) {
  take_ids();
  // Padding is 0, and the first of all others has row 1.
  const ValueRef kept =
      op("to", {{"self", op("ne", x_, int64_t{0})}, {"dtype", ElementType::kI64}});
  const ValueRef counted = op("cumsum", {{"self", kept}, {"dim", int64_t{1}}});
  const ValueRef positions = op("mul", counted, kept);
  const ValueRef result = op("add", looked_up(1, x_), looked_up(7, positions));
  const Graph graph = traced(result);
  ASSERT_EQ(count<EmbeddingNode>(graph), 1u);
  expect_same(result);
}

}  // namespace
}  // namespace arenite::convert
