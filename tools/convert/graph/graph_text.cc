// SPDX-License-Identifier: Apache-2.0
// A graph as text, a line for each node:
//
//   %3    layers.0.query         64  linear      %2               layers.0.query.weight [64, 64]
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <algorithm>
#include <string>
#include <vector>

#include "convert/files/error.h"
#include "convert/graph/graph.h"

namespace arenite::convert {
namespace {

// An op and its parameters, as text.
struct Line {
  std::string op;
  std::string details;
};

std::string text_of(const WeightRef& weight) {
  return fmt::format("{} [{}, {}]", weight.name, weight.rows, weight.columns);
}

std::string factor(double scale) { return scale == 1.0 ? "" : fmt::format(" * {:.6g}", scale); }

Line line_of(const FeaturesNode&, const Graph&) { return {"features", ""}; }

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

Line line_of(const TopKNode&, const Graph&) { return {"top_k", ""}; }
Line line_of(const ExpertsNode& experts, const Graph& graph) {
  const Line linear = line_of(static_cast<const LinearNode&>(experts), graph);
  return {"experts", fmt::format("{} of {}", experts.count, linear.details)};
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
  if (!attention.sinks.empty()) scores += ", sinks";
  if (attention.terms) {
    scores += fmt::format(", attention bias by {}, {} positions", name(attention.terms->by),
                          attention.terms->positions);
  }
  if (attention.query_terms) {
    scores += fmt::format(", relative position bias{}, {} positions",
                          attention.key_terms ? " of queries and keys" : "",
                          attention.query_terms->positions);
  }
  return {"attention", fmt::format("{} heads of {}{}, {}{}, cache {}", heads, attention.value_dim,
                                   factor(attention.scale), describe(graph.masks[attention.mask]),
                                   scores, attention.cache)};
}

Line line_of(const SelectNode& rows, const Graph&) { return {"rows", name(rows.kind)}; }
Line line_of(const JoinNode&, const Graph&) { return {"join", ""}; }

std::string text_of(const WindowAxis& window) {
  return fmt::format("of {} rows, stride {}, dilation {}, padding {} and {}", window.kernel,
                     window.stride, window.dilation, window.before, window.after);
}

std::string text_of(const Windows& windows) {
  if (windows.width == 1) return text_of(windows.lines);
  return fmt::format("height {}; width {}", text_of(windows.lines), text_of(windows.columns));
}

Line line_of(const WindowsNode& node, const Graph&) { return {"windows", text_of(node.windows)}; }
Line line_of(const DepthwiseNode& node, const Graph&) {
  return {"depthwise", text_of(node.kernel) + ", windows " + text_of(node.windows)};
}

Line line_of(const MaxPoolNode& node, const Graph&) { return {"max_pool", text_of(node.windows)}; }

Line line_of(const SliceNode& slice, const Graph&) {
  return {"slice", fmt::format("from column {}", slice.begin)};
}

Line line_of(const ConcatNode&, const Graph&) { return {"concat", ""}; }

}  // namespace

std::string print_graph(const Graph& graph) {
  std::string text;
  for (const ValueId value : graph.order()) {
    const Node& node = graph.node(value);
    Line line = std::visit([&](const auto& body) { return line_of(body, graph); }, node.body);
    if (const Axis& axis = graph.axes[node.axis];
        graph.as<FeaturesNode>(value) && axis.is_image()) {
      line = {"pixels", fmt::format("{} lines of {}", axis.rows / axis.other, axis.other)};
    }
    std::vector<std::string> inputs;
    for (const ValueId input : node.inputs) inputs.push_back(fmt::format("%{}", input));
    std::string mark;
    if (std::ranges::count(graph.hidden_states, value) != 0) mark = "  (hidden state)";
    if (value == graph.output) mark += "  (output)";
    text += visible(fmt::format("%{:<4} {:<20} {:>6}  {:<11} {:<16} {}{}", value, node.name,
                                node.width, line.op, fmt::format("{}", fmt::join(inputs, " ")),
                                line.details, mark)) +
            '\n';
  }
  return text;
}

}  // namespace arenite::convert
