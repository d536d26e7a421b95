// SPDX-License-Identifier: Apache-2.0
// Adds nodes to a graph and works out how wide their rows are.
#pragma once

#include <string>
#include <vector>

#include "convert/graph/graph.h"

namespace arenite::convert {

class GraphBuilder {
 public:
  explicit GraphBuilder(const std::string& architecture) { graph_.architecture = architecture; }

  Graph& graph() { return graph_; }

  ValueId features(uint32_t width);
  ValueId embedding(const std::string& name, EmbeddingNode embedding, uint32_t width);
  ValueId linear(const std::string& name, const LinearSpec& linear, ValueId input);
  ValueId norm(const std::string& name, const NormSpec& norm, ValueId input);
  // `inputs` are query, key and value, or value alone.
  ValueId attention(const std::string& name, const AttentionNode& attention,
                    std::vector<ValueId> inputs);
  ValueId slice(const std::string& name, ValueId input, uint32_t begin, uint32_t width);
  ValueId concat(const std::string& name, std::vector<ValueId> inputs);
  // A node whose rows are as wide as those of its first input.
  ValueId add(const std::string& name, NodeBody body, std::vector<ValueId> inputs);

  // The number of a mask that depends on the distance: the keys from `lookback` positions before a
  // query to `lookahead` after it.
  uint32_t band(uint32_t lookback, uint32_t lookahead);

  Graph finish() { return std::move(graph_); }

 private:
  Graph graph_;
};

}  // namespace arenite::convert
