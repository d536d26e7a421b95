// SPDX-License-Identifier: Apache-2.0
// Weights that are read for the same rows are better read in one go, and what attention or a gate
// takes lies together.
#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "convert/passes/passes.h"

namespace arenite::convert {
namespace {

// The attention ops and products that the rows of `from` reach without another linear layer.
std::vector<ValueId> find_meetings(const Graph& graph, ValueId from) {
  std::vector<ValueId> meetings;
  std::vector<ValueId> ahead = {from};
  while (!ahead.empty()) {
    const ValueId value = ahead.back();
    ahead.pop_back();
    if (graph.as<AttentionNode>(value) != nullptr || graph.as<MultiplyNode>(value) != nullptr) {
      if (std::ranges::count(meetings, value) == 0) meetings.push_back(value);
    } else if (value == from ||
               (graph.node(value).inputs.size() == 1 && graph.as<LinearNode>(value) == nullptr)) {
      const std::vector<ValueId> readers = graph.readers(value);
      ahead.insert(ahead.end(), readers.rbegin(), readers.rend());
    }
  }
  return meetings;
}

// "0.query", "0.key" and "0.value" are "0.qkv"; "0.gate" and "0.up" are "0.gate_up". The first one
// says what stands before the last dot; the others may be of another module.
std::string joined_name(const Graph& graph, const std::vector<ValueId>& values) {
  const auto own_name = [](const std::string& name) { return name.rfind('.') + 1; };
  const std::string& first = graph.node(values[0]).name;
  std::string joined;
  for (const ValueId value : values) {
    const std::string& name = graph.node(value).name;
    joined += (joined.empty() ? "" : "_") + name.substr(own_name(name));
  }
  return first.substr(0, own_name(first)) + (joined == "query_key_value" ? "qkv" : joined);
}

void join(Graph& graph, const std::vector<ValueId>& values) {
  Node joined = {joined_name(graph, values), LinearNode{}, graph.node(values[0]).inputs, 0};
  LinearNode parts;
  for (const ValueId value : values) {
    const LinearNode& linear = *graph.as<LinearNode>(value);
    parts.parts.insert(parts.parts.end(), linear.parts.begin(), linear.parts.end());
    joined.width += graph.width(value);
  }
  joined.body = std::move(parts);
  const ValueId whole = graph.insert_before(values[0], std::move(joined));
  uint32_t column = 0;
  for (const ValueId value : values) {
    Node slice = {graph.node(value).name, SliceNode{column}, {whole}, graph.width(value)};
    column += slice.width;
    graph.replace(value, graph.insert_before(value, std::move(slice)));
  }
}

}  // namespace

void join_projections(Graph& graph) {
  // By input, by what they meet in, and by how they are stored.
  std::map<std::tuple<ValueId, std::vector<ValueId>, Storage>, std::vector<ValueId>> groups;
  for (const ValueId value : graph.order()) {
    const LinearNode* linear = graph.as<LinearNode>(value);
    if (linear == nullptr || graph.is_shown(value)) continue;
    const std::vector<ValueId> meetings = find_meetings(graph, value);
    if (meetings.empty()) continue;
    groups[{graph.node(value).inputs[0], meetings, linear->parts[0].storage}].push_back(value);
  }
  for (const auto& [_, values] : groups) {
    if (values.size() > 1) join(graph, values);
  }
  graph.remove_unread();
}

}  // namespace arenite::convert
