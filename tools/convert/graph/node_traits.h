// SPDX-License-Identifier: Apache-2.0
// Traits of each kind of node that passes need: whether it computes rows, its weights, and when two
// nodes compute the same. A kind without traits does not compile.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <type_traits>
#include <variant>
#include <vector>

#include "convert/graph/graph.h"

namespace arenite::convert {

// The affine function (value + offset) * scale, applied to weights before they are stored.
struct Fold {
  double scale = 1.0;
  double offset = 0.0;

  double operator()(double value) const { return (value + offset) * scale; }
  // Whether every float maps to a float exactly: a power of two changes only exponents.
  bool keeps_floats() const {
    int exponent = 0;
    return offset == 0.0 && std::fabs(std::frexp(scale, &exponent)) == 0.5;
  }
};

// computes_rows: each row of the result depends only on the same row of the single input and takes
//   arithmetic, so fewer rows are less work. Moving columns takes no arithmetic.
// for_each_weight: calls `take` with each weight matrix, its fold and its storage, and with each
//   vector and its fold. `node` may be const.
// computes_same: whether two nodes, traced at different lengths, are equal except for their masks.
template <typename Body>
struct NodeTraits;

template <bool kComputesRows>
struct WithoutWeights {
  static constexpr bool computes_rows = kComputesRows;
  template <typename Body, typename Take>
  static void for_each_weight(Body&, const Take&) {}
};

struct WithoutFields : WithoutWeights<false> {
  template <typename Body>
  static bool computes_same(const Body&, const Body&) {
    return true;
  }
};

// Elements that were found by probing differ in their last digits between lengths.
inline bool are_near(double a, double b, double error) {
  return std::fabs(a - b) <= error * std::max(1.0, std::fabs(a));
}
inline bool are_near(const std::vector<double>& a, const std::vector<double>& b, double error) {
  return std::ranges::equal(a, b, [&](double x, double y) { return are_near(x, y, error); });
}
// Whether the shorter vector is a prefix of the longer one.
inline bool begin_alike(const std::vector<double>& a, const std::vector<double>& b, double error) {
  const size_t count = std::min(a.size(), b.size());
  return a.empty() == b.empty() &&
         std::equal(a.begin(), a.begin() + static_cast<ptrdiff_t>(count), b.begin(),
                    [&](double x, double y) { return are_near(x, y, error); });
}

template <>
struct NodeTraits<FeaturesNode> : WithoutFields {};

template <>
struct NodeTraits<EmbeddingNode> {
  static constexpr bool computes_rows = false;
  template <typename Body, typename Take>
  static void for_each_weight(Body& node, const Take& take) {
    if (node.tokens) take(*node.tokens, Fold{}, node.storage);
    if (node.positions) take(*node.positions, Fold{}, Storage{});
    if (node.types) take(*node.types, Fold{}, Storage{});
  }
  // Computed tables have rows only after all lengths have been traced.
  static bool is_known(const WeightRef& weight) { return weight.load || weight.load_f64; }
  static bool computes_same(const EmbeddingNode& a, const EmbeddingNode& b) {
    // Position tables have other rows at another length; constants do not.
    const bool are_constants = !a.tokens && a.positions && b.positions &&
                               a.positions->rows == b.positions->rows && is_known(*a.positions) &&
                               is_known(*b.positions);
    return a.scale == b.scale && a.positions.has_value() == b.positions.has_value() &&
           (!are_constants || a.positions->exact() == b.positions->exact());
  }
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
  static bool computes_same(const LinearNode& a, const LinearNode& b) {
    const LinearSpec& first = a.parts[0].linear;
    const LinearSpec& second = b.parts[0].linear;
    return a.parts.size() == b.parts.size() && first.weight.name == second.weight.name &&
           are_near(first.bias, second.bias, 1e-9);
  }
};

template <>
struct NodeTraits<TopKNode> : WithoutFields {};

template <>
struct NodeTraits<ExpertsNode> : NodeTraits<LinearNode> {
  static constexpr bool computes_rows = false;  // there are two inputs
  static bool computes_same(const ExpertsNode& a, const ExpertsNode& b) {
    return a.count == b.count && NodeTraits<LinearNode>::computes_same(a, b);
  }
};

template <>
struct NodeTraits<NormNode> {
  static constexpr bool computes_rows = true;
  template <typename Body, typename Take>
  static void for_each_weight(Body& node, const Take& take) {
    take(node.norm.gain, Fold{node.scale, node.norm.gain_plus_one ? 1.0 : 0.0});
    take(node.norm.bias, Fold{node.scale});
  }
  static bool computes_same(const NormNode& a, const NormNode& b) {
    return a.norm.kind == b.norm.kind && a.norm.epsilon == b.norm.epsilon &&
           are_near(a.norm.gain, b.norm.gain, 1e-6) && are_near(a.norm.bias, b.norm.bias, 1e-6);
  }
};

template <>
struct NodeTraits<RowFunctionNode> : WithoutWeights<true> {
  static bool computes_same(const RowFunctionNode& a, const RowFunctionNode& b) {
    return a.kind == b.kind;
  }
};

template <>
struct NodeTraits<RotateNode> : WithoutWeights<false> {  // the angle depends on the position
  static bool computes_same(const RotateNode& a, const RotateNode& b) {
    return a.head_dim == b.head_dim && a.rope.rotary_dim == b.rope.rotary_dim &&
           a.rope.turns_neighbours == b.rope.turns_neighbours &&
           are_near(a.rope.inverse_frequencies, b.rope.inverse_frequencies, 1e-6) &&
           begin_alike(a.rope.table, b.rope.table, 1e-6);
  }
};

template <>
struct NodeTraits<PermuteNode> : WithoutWeights<false> {
  static bool computes_same(const PermuteNode& a, const PermuteNode& b) {
    return a.order == b.order;
  }
};

template <>
struct NodeTraits<ScaleNode> : WithoutWeights<true> {
  static bool computes_same(const ScaleNode& a, const ScaleNode& b) {
    return are_near(a.factor, b.factor, 1e-9);
  }
};

template <>
struct NodeTraits<ActivationNode> : WithoutWeights<true> {
  static bool computes_same(const ActivationNode& a, const ActivationNode& b) {
    return a.activation == b.activation && are_near(a.parameter, b.parameter, 1e-9);
  }
};

template <>
struct NodeTraits<AddNode> : WithoutFields {};
template <>
struct NodeTraits<MultiplyNode> : WithoutFields {};
template <>
struct NodeTraits<JoinNode> : WithoutFields {};
template <>
struct NodeTraits<ConcatNode> : WithoutFields {};

template <>
struct NodeTraits<AttentionNode> : WithoutWeights<false> {
  static bool computes_same(const AttentionNode& a, const AttentionNode& b) {
    return a.heads == b.heads && a.kv_heads == b.kv_heads && are_near(a.scale, b.scale, 1e-9) &&
           are_near(a.score_cap, b.score_cap, 1e-9) && are_near(a.slopes, b.slopes, 1e-6) &&
           are_near(a.sinks, b.sinks, 1e-6) && (a.terms != nullptr) == (b.terms != nullptr) &&
           (a.query_terms != nullptr) == (b.query_terms != nullptr) &&
           (a.key_terms != nullptr) == (b.key_terms != nullptr);
  }
};

template <>
struct NodeTraits<SelectNode> : WithoutWeights<false> {
  static bool computes_same(const SelectNode& a, const SelectNode& b) {
    return a.kind == b.kind && a.taken == b.taken;
  }
};

template <>
struct NodeTraits<WindowsNode> : WithoutWeights<false> {
  static bool computes_same(const WindowsNode& a, const WindowsNode& b) {
    return a.windows == b.windows;
  }
};

template <>
struct NodeTraits<DepthwiseNode> {
  static constexpr bool computes_rows = false;
  template <typename Body, typename Take>
  static void for_each_weight(Body& node, const Take& take) {
    take(node.kernel, Fold{}, Storage{});
    take(node.bias, Fold{});
  }
  static bool computes_same(const DepthwiseNode& a, const DepthwiseNode& b) {
    return a.windows == b.windows && a.kernel.name == b.kernel.name &&
           are_near(a.bias, b.bias, 1e-9);
  }
};

template <>
struct NodeTraits<MaxPoolNode> : WithoutWeights<false> {
  static bool computes_same(const MaxPoolNode& a, const MaxPoolNode& b) {
    return a.windows == b.windows;
  }
};

template <>
struct NodeTraits<SliceNode> : WithoutWeights<false> {
  static bool computes_same(const SliceNode& a, const SliceNode& b) { return a.begin == b.begin; }
};

template <typename Node>
using TraitsOf = NodeTraits<std::remove_cvref_t<Node>>;

inline bool computes_rows(const NodeBody& body) {
  return std::visit([](const auto& node) { return TraitsOf<decltype(node)>::computes_rows; }, body);
}

inline bool computes_same(const NodeBody& a, const NodeBody& b) {
  return std::visit(
      [&](const auto& node) {
        const auto* const other = std::get_if<std::remove_cvref_t<decltype(node)>>(&b);
        return other != nullptr && TraitsOf<decltype(node)>::computes_same(node, *other);
      },
      a);
}

// Visits the weights of all nodes; `AnyGraph` is Graph or const Graph.
template <typename AnyGraph, typename Take>
void for_each_weight(AnyGraph& graph, const Take& take) {
  for (const ValueId value : graph.order()) {
    std::visit([&](auto& body) { TraitsOf<decltype(body)>::for_each_weight(body, take); },
               graph.node(value).body);
  }
}

}  // namespace arenite::convert
