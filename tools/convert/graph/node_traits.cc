// SPDX-License-Identifier: Apache-2.0
// Numbers that were found with a probe differ in their last digits from one length to another.
#include "convert/graph/node_traits.h"

#include <algorithm>
#include <type_traits>

namespace arenite::convert {
namespace {

bool are_near(const std::vector<double>& a, const std::vector<double>& b, double error) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!(std::fabs(a[i] - b[i]) <= error * std::max(1.0, std::fabs(a[i])))) return false;
  }
  return true;
}

}  // namespace

bool NodeTraits<EmbeddingNode>::computes_same(const EmbeddingNode& a, const EmbeddingNode& b) {
  return a.scale == b.scale && a.positions.has_value() == b.positions.has_value();
}

bool NodeTraits<LinearNode>::computes_same(const LinearNode& a, const LinearNode& b) {
  return a.parts.size() == b.parts.size() &&
         a.parts[0].linear.weight.name == b.parts[0].linear.weight.name &&
         are_near(a.parts[0].linear.bias, b.parts[0].linear.bias, 1e-9);
}

bool NodeTraits<NormNode>::computes_same(const NormNode& a, const NormNode& b) {
  return a.norm.kind == b.norm.kind && a.norm.epsilon == b.norm.epsilon &&
         are_near(a.norm.gain, b.norm.gain, 1e-6) && are_near(a.norm.bias, b.norm.bias, 1e-6);
}

bool NodeTraits<PrefixNode>::computes_same(const PrefixNode& a, const PrefixNode& b) {
  return a.first_row == b.first_row && a.rows.exact() == b.rows.exact();
}

bool NodeTraits<RowFunctionNode>::computes_same(const RowFunctionNode& a,
                                                const RowFunctionNode& b) {
  return a.kind == b.kind;
}

bool NodeTraits<RotateNode>::computes_same(const RotateNode& a, const RotateNode& b) {
  return a.head_dim == b.head_dim && a.rope.rotary_dim == b.rope.rotary_dim &&
         a.rope.turns_neighbours == b.rope.turns_neighbours &&
         are_near(a.rope.inverse_frequencies, b.rope.inverse_frequencies, 1e-6);
}

bool NodeTraits<PermuteNode>::computes_same(const PermuteNode& a, const PermuteNode& b) {
  return a.order == b.order;
}

bool NodeTraits<ScaleNode>::computes_same(const ScaleNode& a, const ScaleNode& b) {
  return are_near({a.factor}, {b.factor}, 1e-9);
}

bool NodeTraits<ActivationNode>::computes_same(const ActivationNode& a, const ActivationNode& b) {
  return a.activation == b.activation && are_near({a.parameter}, {b.parameter}, 1e-9);
}

bool NodeTraits<AttentionNode>::computes_same(const AttentionNode& a, const AttentionNode& b) {
  return a.heads == b.heads && a.kv_heads == b.kv_heads && are_near({a.scale}, {b.scale}, 1e-9) &&
         are_near({a.score_cap}, {b.score_cap}, 1e-9) && are_near(a.slopes, b.slopes, 1e-6) &&
         (a.terms != nullptr) == (b.terms != nullptr);
}

bool NodeTraits<SelectNode>::computes_same(const SelectNode& a, const SelectNode& b) {
  return a.kind == b.kind && a.first_row == b.first_row;
}

bool NodeTraits<SliceNode>::computes_same(const SliceNode& a, const SliceNode& b) {
  return a.begin == b.begin;
}

bool computes_rows(const NodeBody& body) {
  return std::visit(
      [](const auto& node) {
        return NodeTraits<std::remove_cvref_t<decltype(node)>>::computes_rows;
      },
      body);
}

bool computes_same(const NodeBody& a, const NodeBody& b) {
  if (a.index() != b.index()) return false;
  return std::visit(
      [&](const auto& node) {
        using Body = std::remove_cvref_t<decltype(node)>;
        return NodeTraits<Body>::computes_same(node, std::get<Body>(b));
      },
      a);
}

}  // namespace arenite::convert
