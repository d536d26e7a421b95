// SPDX-License-Identifier: Apache-2.0
// Tests the traits of every kind of node, which passes and comparisons rely on.
#include "convert/graph/node_traits.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace arenite::convert {
namespace {

LinearNode linear(const std::string& name, std::vector<double> bias) {
  const WeightRef weight = {.name = name, .rows = 2, .columns = 3, .load = {}};
  return {{{.linear = {weight, std::move(bias)}, .layer = name}}};
}

NormNode norm(double epsilon, std::vector<double> gain) {
  NormNode node;
  node.norm.epsilon = epsilon;
  node.norm.gain = std::move(gain);
  return node;
}

EmbeddingNode constants(float number) {
  const WeightRef rows = {
      .name = "rows", .rows = 1, .columns = 1, .load = [number] { return std::vector{number}; }};
  return {.positions = rows};
}

// A node of each kind, whether it computes rows, and nodes of the kind with other fields, which
// compute something else.
struct Kind {
  NodeBody body;
  bool computes_rows;
  std::vector<NodeBody> others = {};
};

ExpertsNode experts(uint32_t count) {
  ExpertsNode node;
  node.parts = linear("w", {1.0, 2.0}).parts;
  node.count = count;
  return node;
}

std::vector<Kind> kinds() {
  EmbeddingNode with_positions;
  with_positions.positions = WeightRef{};
  RopeSpec neighbours;
  neighbours.turns_neighbours = true;
  RopeSpec faster;
  faster.inverse_frequencies = {2.0};
  AttentionNode with_terms;
  with_terms.terms = std::make_shared<AttentionBias>();
  AttentionNode with_query_terms;
  with_query_terms.query_terms = std::make_shared<const RelativeBias>();
  AttentionNode with_key_terms;
  with_key_terms.key_terms = with_query_terms.query_terms;
  return {
      {FeaturesNode{}, false},
      {EmbeddingNode{}, false, {with_positions, EmbeddingNode{.scale = 2.0}}},
      {linear("w", {1.0, 2.0}), true, {linear("v", {1.0, 2.0}), linear("w", {1.0, 2.1})}},
      {norm(1e-5, {1.0}), true, {norm(1e-6, {1.0}), norm(1e-5, {1.1}), norm(1e-5, {1.0, 1.0})}},
      {RowFunctionNode{}, true, {RowFunctionNode{NormKind::kLogSoftmax}}},
      {RotateNode{}, false, {RotateNode{neighbours}, RotateNode{faster}, RotateNode{{}, 8}}},
      {PermuteNode{{0, 1}}, false, {PermuteNode{{1, 0}}}},
      {ScaleNode{}, true, {ScaleNode{2.0}}},
      {ActivationNode{}, true, {ActivationNode{Activation::kTanh}, ActivationNode{{}, 2.0}}},
      {AddNode{}, false},
      {MultiplyNode{}, false},
      {AttentionNode{},
       false,
       {AttentionNode{.heads = 2}, AttentionNode{.scale = 0.5}, AttentionNode{.slopes = {1.0}},
        AttentionNode{.score_cap = 5.0}, AttentionNode{.sinks = {0.0}}, with_terms,
        with_query_terms, with_key_terms}},
      {SelectNode{}, false, {SelectNode{SelectKind::kMean}, SelectNode{SelectKind::kAsAsked, {1}}}},
      {JoinNode{}, false},
      {WindowsNode{}, false, {WindowsNode{{{3}, {}, 1}}}},
      {DepthwiseNode{}, false, {DepthwiseNode{{{3}, {}, 1}, {}, {}}, DepthwiseNode{{}, {}, {1.0}}}},
      {MaxPoolNode{}, false, {MaxPoolNode{{{3}, {}, 1}}}},
      {SliceNode{}, false, {SliceNode{4}}},
      {ConcatNode{}, false},
      {TopKNode{}, false},
      {experts(2), false, {experts(1)}},
  };
}

TEST(NodeTraits, KnowEveryKindInItsOrder) {
  const std::vector<Kind> all = kinds();
  ASSERT_EQ(all.size(), std::variant_size_v<NodeBody>);
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i].body.index(), i);
    EXPECT_EQ(computes_rows(all[i].body), all[i].computes_rows) << i;
  }
}

TEST(NodeTraits, TellConstantsApartByTheirNumbers) {
  EXPECT_TRUE(computes_same(constants(1.0f), constants(1.0f)));
  EXPECT_FALSE(computes_same(constants(1.0f), constants(2.0f)));
}

TEST(NodeTraits, DetectEqualComputations) {
  const std::vector<Kind> all = kinds();
  for (size_t i = 0; i < all.size(); ++i) {
    for (size_t j = 0; j < all.size(); ++j) {
      EXPECT_EQ(computes_same(all[i].body, all[j].body), i == j) << i << " and " << j;
    }
    for (const NodeBody& other : all[i].others) {
      EXPECT_FALSE(computes_same(all[i].body, other)) << i;
      EXPECT_FALSE(computes_same(other, all[i].body)) << i;
    }
  }
}

TEST(NodeTraits, IgnoreMasksAndTheLastDigits) {
  EXPECT_TRUE(computes_same(AttentionNode{.mask = 0}, AttentionNode{.mask = 1}));
  EXPECT_TRUE(computes_same(ScaleNode{1.0}, ScaleNode{1.0 + 1e-10}));
  EXPECT_FALSE(computes_same(ScaleNode{1.0}, ScaleNode{1.0 + 1e-8}));
  EXPECT_TRUE(computes_same(norm(1e-5, {1.0}), norm(1e-5, {1.0 + 1e-7})));
}

TEST(NodeTraits, FoldAFactorIntoEveryWeightOfALayer) {
  Graph graph;
  const ValueId features = graph.add_features(3);
  const ValueId layer =
      graph.add_linear("layer", linear("w", {1.0, 2.0}).parts[0].linear, features);
  NormSpec spec;
  spec.gain = {0.5, 0.5};
  spec.gain_plus_one = true;
  const ValueId normed = graph.add_norm("norm", spec, layer);
  graph.as<LinearNode>(layer)->parts[0].scale = 3.0;
  graph.as<NormNode>(normed)->scale = 2.0;
  std::vector<std::string> matrices;
  std::vector<double> folded;  // of the first number of each vector
  for_each_weight(std::as_const(graph),
                  Overloaded{[&](const WeightRef& weight, const Fold& fold, const Storage&) {
                               matrices.push_back(weight.name);
                               EXPECT_EQ(fold(1.0), 3.0);
                             },
                             [&](const std::vector<double>& vector, const Fold& fold) {
                               folded.push_back(vector.empty() ? -1.0 : fold(vector[0]));
                             }});
  EXPECT_EQ(matrices, std::vector<std::string>{"w"});
  EXPECT_EQ(folded, (std::vector<double>{3.0, 3.0, -1.0}));  // bias; (0.5 + 1) * 2; none
}

TEST(Fold, KeepsFloatsWhereItIsAPowerOfTwo) {
  EXPECT_TRUE((Fold{1.0}).keeps_floats());
  EXPECT_TRUE((Fold{-0.25}).keeps_floats());
  EXPECT_FALSE((Fold{3.0}).keeps_floats());
  EXPECT_FALSE((Fold{2.0, 1.0}).keeps_floats());
}

}  // namespace
}  // namespace arenite::convert
