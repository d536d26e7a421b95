// SPDX-License-Identifier: Apache-2.0
// What each op is told, in words.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "convert/graph/graph.h"

namespace arenite::convert {
namespace {

// What an op is and what it is told, in words.
struct Line {
  std::string op;
  std::string details;
};

std::string text_of(const WeightRef& weight) {
  return fmt::format("{} [{}, {}]", weight.name, weight.rows, weight.columns);
}

std::string factor(double scale) { return scale == 1.0 ? "" : fmt::format(" * {:.6g}", scale); }

Line line_of(const FeaturesNode& features, const Graph&) {
  if (const auto& cut = features.patches) {
    return {"patches", fmt::format("[{}, {}, {}] of [{}, {}, {}]", cut->channels, cut->patch_height,
                                   cut->patch_width, cut->channels, cut->height, cut->width)};
  }
  return {"features", ""};
}

Line line_of(const EmbeddingNode& embedding, const Graph&) {
  std::vector<std::string> parts;
  if (embedding.tokens) {
    parts.push_back("tokens " + text_of(*embedding.tokens) + factor(embedding.scale));
  }
  if (embedding.positions) parts.push_back("positions " + text_of(*embedding.positions));
  if (embedding.types) parts.push_back("types " + text_of(*embedding.types));
  std::string text = fmt::format("{}", fmt::join(parts, " + "));
  if (embedding.stored_by) text += fmt::format(", stored by %{}", *embedding.stored_by);
  return {"embedding", text};
}

Line line_of(const LinearNode& linear, const Graph&) {
  std::vector<std::string> parts;
  for (const LinearPart& part : linear.parts) {
    parts.push_back(text_of(part.linear.weight) + (part.linear.bias.empty() ? "" : " + bias") +
                    factor(part.scale));
  }
  return {"linear", fmt::format("{}", fmt::join(parts, " | "))};
}

Line line_of(const NormNode& norm, const Graph&) {
  return {
      fmt::format("{}_norm", name(norm.norm.kind)),
      fmt::format("{} [{}]{}, epsilon {:.3g}{}", norm.norm.name, norm.norm.gain.size(),
                  norm.norm.gain_plus_one ? " + 1" : "", norm.norm.epsilon, factor(norm.scale))};
}

Line line_of(const RowFunctionNode& normalize, const Graph&) {
  return {normalize.kind == NormKind::kLength ? "normalize" : name(normalize.kind), ""};
}

Line line_of(const RotateNode& rotate, const Graph&) {
  return {"rotate", fmt::format("{} of {}, {}", rotate.rope.rotary_dim, rotate.head_dim,
                                rotate.rope.turns_neighbours ? "neighbours" : "halves")};
}

Line line_of(const PermuteNode&, const Graph&) { return {"permute", ""}; }
Line line_of(const ScaleNode& scale, const Graph&) {
  return {"scale", fmt::format("{:.6g}", scale.factor)};
}

Line line_of(const ActivationNode& activation, const Graph&) {
  const bool has_parameter = activation.parameter != 0.0;
  return {name(activation.activation),
          has_parameter ? fmt::format("{:.6g}", activation.parameter) : ""};
}

Line line_of(const AddNode&, const Graph&) { return {"add", ""}; }
Line line_of(const MultiplyNode&, const Graph&) { return {"multiply", ""}; }

Line line_of(const AttentionNode& attention, const Graph& graph) {
  std::string heads = fmt::format("{}", attention.heads);
  if (attention.kv_heads != attention.heads) heads += fmt::format(" on {}", attention.kv_heads);
  std::string scores = attention.slopes.empty() ? "" : ", slopes";
  if (attention.score_cap != 0.0) scores += fmt::format(", soft cap {:.6g}", attention.score_cap);
  if (attention.terms) {
    scores += fmt::format(", terms by {} of {} positions", name(attention.terms->by),
                          attention.terms->positions);
  }
  return {"attention", fmt::format("{} heads of {}{}, {}{}, cache {}", heads, attention.value_dim,
                                   factor(attention.scale), describe(graph.masks[attention.mask]),
                                   scores, attention.cache)};
}

Line line_of(const SelectNode& rows, const Graph&) {
  return {"rows", rows.first_row == 0
                      ? std::string(name(rows.kind))
                      : fmt::format("{} from row {}", name(rows.kind), rows.first_row)};
}

Line line_of(const PrefixNode& prefix, const Graph&) {
  return {"prefix", fmt::format("{}, row {} on", text_of(prefix.rows), prefix.first_row)};
}

Line line_of(const SliceNode& slice, const Graph&) {
  return {"slice", fmt::format("from column {}", slice.begin)};
}

Line line_of(const ConcatNode&, const Graph&) { return {"concat", ""}; }

}  // namespace

std::string print_graph(const Graph& graph) {
  std::string text;
  for (const ValueId value : graph.order()) {
    const Node& node = graph.node(value);
    const Line line = std::visit([&](const auto& body) { return line_of(body, graph); }, node.body);
    std::vector<std::string> inputs;
    for (const ValueId input : node.inputs) inputs.push_back(fmt::format("%{}", input));
    std::string mark;
    if (std::ranges::count(graph.hidden_states, value) != 0) mark = "  (hidden state)";
    if (value == graph.output) mark += "  (output)";
    text += fmt::format("%{:<4} {:<20} {:>6}  {:<11} {:<16} {}{}\n", value, node.name, node.width,
                        line.op, fmt::format("{}", fmt::join(inputs, " ")), line.details, mark);
  }
  return text;
}

}  // namespace arenite::convert
