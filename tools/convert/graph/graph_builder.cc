// SPDX-License-Identifier: Apache-2.0
#include "convert/graph/graph_builder.h"

#include <utility>

namespace arenite::convert {

ValueId GraphBuilder::features(uint32_t width) {
  return graph_.add({"features", FeaturesNode{}, {}, width});
}

ValueId GraphBuilder::embedding(const std::string& name, EmbeddingNode embedding, uint32_t width) {
  return graph_.add({name, std::move(embedding), {}, width});
}

ValueId GraphBuilder::linear(const std::string& name, const LinearSpec& linear, ValueId input) {
  return graph_.add({name, LinearNode{{{linear}}}, {input}, linear.weight.rows});
}

ValueId GraphBuilder::norm(const std::string& name, const NormSpec& norm, ValueId input) {
  return add(name, NormNode{norm}, {input});
}

ValueId GraphBuilder::attention(const std::string& name, const AttentionNode& attention,
                                std::vector<ValueId> inputs) {
  return graph_.add({name, attention, std::move(inputs), attention.heads * attention.value_dim});
}

ValueId GraphBuilder::slice(const std::string& name, ValueId input, uint32_t begin,
                            uint32_t width) {
  return graph_.add({name, SliceNode{begin}, {input}, width});
}

ValueId GraphBuilder::concat(const std::string& name, std::vector<ValueId> inputs) {
  uint32_t width = 0;
  for (const ValueId input : inputs) width += graph_.width(input);
  return graph_.add({name, ConcatNode{}, std::move(inputs), width});
}

ValueId GraphBuilder::add(const std::string& name, NodeBody body, std::vector<ValueId> inputs) {
  const uint32_t width = graph_.width(inputs[0]);
  return graph_.add({name, std::move(body), std::move(inputs), width});
}

uint32_t GraphBuilder::band(uint32_t lookback, uint32_t lookahead) {
  return graph_.add_mask(band_mask(lookback, lookahead, 0));
}

}  // namespace arenite::convert
