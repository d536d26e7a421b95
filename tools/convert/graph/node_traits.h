// SPDX-License-Identifier: Apache-2.0
// What passes must know of every kind of node: a row for each. A kind without one does not compile.
#pragma once

#include <cmath>
#include <type_traits>
#include <variant>
#include <vector>

#include "convert/graph/graph.h"

namespace arenite::convert {

// What is multiplied into a number before it is stored.
struct Fold {
  double scale = 1.0;
  double offset = 0.0;

  double operator()(double value) const { return (value + offset) * scale; }
  // Whether all floats stay floats: a power of two changes nothing but their exponents.
  bool keeps_floats() const {
    int exponent = 0;
    return offset == 0.0 && std::fabs(std::frexp(scale, &exponent)) == 0.5;
  }
};

// computes_rows: each row of the result is computed of the same row of the one input, so that fewer
//   rows are less work. Moving columns is none.
// for_each_weight: calls `take` with each matrix, what is folded into it and how it is to be
//   stored; and with each vector and what is folded into it. `node` may be const.
// computes_same: whether two nodes compute the same but for their masks, at lengths that differ.
template <typename Body>
struct NodeTraits;

struct WithoutWeights {
  template <typename Body, typename Take>
  static void for_each_weight(Body&, const Take&) {}
};
struct OfSeveralInputs : WithoutWeights {
  static constexpr bool computes_rows = false;
  template <typename Body>
  static bool computes_same(const Body&, const Body&) {
    return true;
  }
};

template <>
struct NodeTraits<FeaturesNode> : WithoutWeights {
  static constexpr bool computes_rows = false;
  static bool computes_same(const FeaturesNode& a, const FeaturesNode& b) {
    return a.patches == b.patches;
  }
};
template <>
struct NodeTraits<AddNode> : OfSeveralInputs {};
template <>
struct NodeTraits<MultiplyNode> : OfSeveralInputs {};
template <>
struct NodeTraits<ConcatNode> : OfSeveralInputs {};

template <>
struct NodeTraits<EmbeddingNode> {
  static constexpr bool computes_rows = false;
  template <typename Body, typename Take>
  static void for_each_weight(Body& node, const Take& take) {
    if (node.tokens) take(*node.tokens, Fold{}, node.storage);
    if (node.positions) take(*node.positions, Fold{}, Storage{});
    if (node.types) take(*node.types, Fold{}, Storage{});
  }
  static bool computes_same(const EmbeddingNode& a, const EmbeddingNode& b);
};
template <>
struct NodeTraits<LinearNode> {
  static constexpr bool computes_rows = true;
  template <typename Body, typename Take>
  static void for_each_weight(Body& node, const Take& take) {
    for (auto& part : node.parts) {
      take(part.linear.weight, Fold{part.scale}, part.storage);
      take(part.linear.bias, Fold{part.scale});
    }
  }
  static bool computes_same(const LinearNode& a, const LinearNode& b);
};
template <>
struct NodeTraits<NormNode> {
  static constexpr bool computes_rows = true;
  template <typename Body, typename Take>
  static void for_each_weight(Body& node, const Take& take) {
    take(node.norm.gain, Fold{node.scale, node.norm.gain_plus_one ? 1.0 : 0.0});
    take(node.norm.bias, Fold{node.scale});
  }
  static bool computes_same(const NormNode& a, const NormNode& b);
};
template <>
struct NodeTraits<PrefixNode> {
  static constexpr bool computes_rows = false;
  template <typename Body, typename Take>
  static void for_each_weight(Body& node, const Take& take) {
    take(node.rows, Fold{}, Storage{});
  }
  static bool computes_same(const PrefixNode& a, const PrefixNode& b);
};
template <>
struct NodeTraits<RowFunctionNode> : WithoutWeights {
  static constexpr bool computes_rows = true;
  static bool computes_same(const RowFunctionNode& a, const RowFunctionNode& b);
};
template <>
struct NodeTraits<RotateNode> : WithoutWeights {
  static constexpr bool computes_rows = false;  // the angle is the place's
  static bool computes_same(const RotateNode& a, const RotateNode& b);
};
template <>
struct NodeTraits<PermuteNode> : WithoutWeights {
  static constexpr bool computes_rows = false;
  static bool computes_same(const PermuteNode& a, const PermuteNode& b);
};
template <>
struct NodeTraits<ScaleNode> : WithoutWeights {
  static constexpr bool computes_rows = true;
  static bool computes_same(const ScaleNode& a, const ScaleNode& b);
};
template <>
struct NodeTraits<ActivationNode> : WithoutWeights {
  static constexpr bool computes_rows = true;
  static bool computes_same(const ActivationNode& a, const ActivationNode& b);
};
template <>
struct NodeTraits<AttentionNode> : WithoutWeights {
  static constexpr bool computes_rows = false;
  static bool computes_same(const AttentionNode& a, const AttentionNode& b);
};
template <>
struct NodeTraits<SelectNode> : WithoutWeights {
  static constexpr bool computes_rows = false;
  static bool computes_same(const SelectNode& a, const SelectNode& b);
};
template <>
struct NodeTraits<SliceNode> : WithoutWeights {
  static constexpr bool computes_rows = false;
  static bool computes_same(const SliceNode& a, const SliceNode& b);
};

bool computes_rows(const NodeBody& body);
bool computes_same(const NodeBody& a, const NodeBody& b);

// Of all nodes; `AnyGraph` is Graph or const Graph.
template <typename AnyGraph, typename Take>
void for_each_weight(AnyGraph& graph, const Take& take) {
  for (const ValueId value : graph.order()) {
    std::visit(
        [&](auto& body) {
          NodeTraits<std::remove_cvref_t<decltype(body)>>::for_each_weight(body, take);
        },
        graph.node(value).body);
  }
}

}  // namespace arenite::convert
