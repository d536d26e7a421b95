// SPDX-License-Identifier: Apache-2.0
#include "convert/exported/one_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace arenite::convert {
namespace {

bool are_near(const std::vector<double>& a, const std::vector<double>& b, double error) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!(std::fabs(a[i] - b[i]) <= error * std::max(1.0, std::fabs(a[i])))) return false;
  }
  return true;
}

bool have_same_weights(const LinearNode& a, const LinearNode& b) {
  return a.parts.size() == b.parts.size() &&
         a.parts[0].linear.weight.name == b.parts[0].linear.weight.name &&
         are_near(a.parts[0].linear.bias, b.parts[0].linear.bias, 1e-9);
}

// Whether two nodes compute the same, masks aside.
bool are_same(const NodeBody& a, const NodeBody& b) {
  if (a.index() != b.index()) return false;
  if (const auto* linear = std::get_if<LinearNode>(&a)) {
    return have_same_weights(*linear, std::get<LinearNode>(b));
  }
  if (const auto* norm = std::get_if<NormNode>(&a)) {
    const auto& other = std::get<NormNode>(b);
    return norm->norm.kind == other.norm.kind && norm->norm.epsilon == other.norm.epsilon &&
           are_near(norm->norm.gain, other.norm.gain, 1e-6) &&
           are_near(norm->norm.bias, other.norm.bias, 1e-6);
  }
  if (const auto* normalize = std::get_if<NormalizeNode>(&a)) {
    return normalize->kind == std::get<NormalizeNode>(b).kind;
  }
  if (const auto* scale = std::get_if<ScaleNode>(&a)) {
    return are_near({scale->factor}, {std::get<ScaleNode>(b).factor}, 1e-9);
  }
  if (const auto* activation = std::get_if<ActivationNode>(&a)) {
    const auto& other = std::get<ActivationNode>(b);
    return activation->activation == other.activation &&
           are_near({activation->parameter}, {other.parameter}, 1e-9);
  }
  if (const auto* rotate = std::get_if<RotateNode>(&a)) {
    const auto& other = std::get<RotateNode>(b);
    return rotate->head_dim == other.head_dim && rotate->rope.rotary_dim == other.rope.rotary_dim &&
           rotate->rope.turns_neighbours == other.rope.turns_neighbours &&
           are_near(rotate->rope.inverse_frequencies, other.rope.inverse_frequencies, 1e-6);
  }
  if (const auto* attention = std::get_if<AttentionNode>(&a)) {
    const auto& other = std::get<AttentionNode>(b);
    return attention->heads == other.heads && attention->kv_heads == other.kv_heads &&
           are_near({attention->scale}, {other.scale}, 1e-9) &&
           are_near({attention->score_cap}, {other.score_cap}, 1e-9) &&
           are_near(attention->slopes, other.slopes, 1e-6) &&
           (attention->terms != nullptr) == (other.terms != nullptr);
  }
  if (const auto* rows = std::get_if<RowsNode>(&a)) {
    const auto& other = std::get<RowsNode>(b);
    return rows->kind == other.kind && rows->first_row == other.first_row;
  }
  if (const auto* prefix = std::get_if<PrefixNode>(&a)) {
    const auto& other = std::get<PrefixNode>(b);
    return prefix->first_row == other.first_row && prefix->rows.exact() == other.rows.exact();
  }
  if (const auto* slice = std::get_if<SliceNode>(&a)) {
    return slice->begin == std::get<SliceNode>(b).begin;
  }
  if (const auto* embedding = std::get_if<EmbeddingNode>(&a)) {
    const auto& other = std::get<EmbeddingNode>(b);
    return embedding->scale == other.scale &&
           embedding->positions.has_value() == other.positions.has_value();
  }
  return true;
}

// Whether the terms of fewer positions are the first ones of those of more, wherever `mask` shows.
bool begin_alike(const TermTable& a, const TermTable& b, uint32_t heads, const DenseMask& mask) {
  for (uint32_t head = 0; head < heads; ++head) {
    for (uint32_t q = 0; q < a.positions; ++q) {
      for (uint32_t k = 0; k < a.positions; ++k) {
        const double first = a.at(head, q, k);
        const bool is_near =
            std::fabs(first - b.at(head, q, k)) <= 1e-6 * std::max(1.0, std::fabs(first));
        if (mask.at(q, k) && !is_near) return false;
      }
    }
  }
  return a.by == b.by;
}

}  // namespace

std::optional<CompiledMask> mask_rule(const Mask& mask) {
  const DenseMask& dense = *std::get<BufferMask>(mask).dense;
  const int64_t n = dense.positions;
  int64_t lookback = 0, lookahead = 0;
  for (int64_t k = 0; k < n; ++k) {
    if (dense.at(0, static_cast<uint32_t>(k))) lookahead = k;
    if (dense.at(static_cast<uint32_t>(k), 0)) lookback = k;
  }
  for (int64_t q = 0; q < n; ++q) {
    for (int64_t k = 0; k < n; ++k) {
      const bool shows = k - q <= lookahead && q - k <= lookback;
      if (dense.at(static_cast<uint32_t>(q), static_cast<uint32_t>(k)) != shows) {
        return std::nullopt;
      }
    }
  }
  return band_mask(lookback == n - 1 ? kUnlimited : static_cast<uint32_t>(lookback),
                   lookahead == n - 1 && n > 1 ? kUnlimited : static_cast<uint32_t>(lookahead), 0);
}

std::string difference(const Graph& a, const Graph& b) {
  if (a.order().size() != b.order().size()) return "another length gives other ops";
  for (size_t i = 0; i < a.order().size(); ++i) {
    const Node& first = a.node(a.order()[i]);
    const Node& second = b.node(b.order()[i]);
    if (first.inputs.size() != second.inputs.size() || first.width != second.width ||
        !are_same(first.body, second.body)) {
      return fmt::format("'{}' computes something else at another length", first.name);
    }
    const auto* attention = std::get_if<AttentionNode>(&first.body);
    if (attention == nullptr) continue;
    const auto& longer = std::get<AttentionNode>(second.body);
    if (attention->terms && !begin_alike(*attention->terms, *longer.terms, attention->heads,
                                         *std::get<BufferMask>(a.masks[attention->mask]).dense)) {
      return fmt::format("what '{}' adds to scores is something else at another length",
                         first.name);
    }
    const auto rule = mask_rule(a.masks[attention->mask]);
    const auto other = mask_rule(b.masks[longer.mask]);
    if (rule && other && *rule == *other) continue;
    // A band may be a part of a longer one, as a window is that is longer than the example. What is
    // a rule at one length and none at another has some number of the program misread.
    const bool begins_alike =
        rule.has_value() == other.has_value() &&
        expand_mask(b.masks[longer.mask], positions_of(a.masks[attention->mask])) ==
            *std::get<BufferMask>(a.masks[attention->mask]).dense;
    if (!begins_alike) {
      return fmt::format("the mask of '{}' is another one at another length", first.name);
    }
  }
  return "";
}

}  // namespace arenite::convert
