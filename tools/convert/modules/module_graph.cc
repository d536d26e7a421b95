// SPDX-License-Identifier: Apache-2.0
// Three projections, attention for each run of heads with the same mask, and the output projection.
#include "convert/modules/attention_modules.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "convert/graph/graph.h"

namespace arenite::convert {
namespace {

class ModuleGraph {
 public:
  explicit ModuleGraph(const AttentionModule& module) : module_(module) {}

  Graph build() {
    graph_.architecture = module_.architecture;
    graph_.inputs[0].positions_max = module_.positions_max;
    graph_.masks = module_.masks;
    const std::vector<ValueId> inputs = project(graph_.add_features(module_.features));
    std::vector<ValueId> contexts;
    for (uint32_t begin = 0; begin < module_.heads;) {
      uint32_t end = begin + 1;
      while (end < module_.heads && module_.head_masks[end] == module_.head_masks[begin]) ++end;
      contexts.push_back(attend(inputs, begin, end));
      begin = end;
    }
    ValueId x = contexts.size() == 1 ? contexts[0] : graph_.add_concat("context", contexts);
    if (module_.output) x = graph_.add_linear("output", *module_.output, x);
    graph_.output = x;
    return std::move(graph_);
  }

 private:
  // Returns query, key and value, or the value alone if scores come only from the mask.
  std::vector<ValueId> project(ValueId features) {
    if (module_.head_dim == 0) return {features};
    const struct {
      const char* name;
      const LinearSpec& linear;
    } parts[] = {{"query", module_.query}, {"key", module_.key}, {"value", module_.value}};
    std::vector<ValueId> projected;
    uint32_t column = 0;
    for (const auto& part : parts) {
      ValueId input = features;
      if (module_.separate_inputs) {
        input = graph_.add_slice(fmt::format("{}_input", part.name), features, column,
                                 part.linear.weight.columns);
        column += part.linear.weight.columns;
      }
      projected.push_back(graph_.add_linear(part.name, part.linear, input));
    }
    return projected;
  }

  // Adds attention of heads [begin, end).
  ValueId attend(const std::vector<ValueId>& inputs, uint32_t begin, uint32_t end) {
    const uint32_t heads = end - begin;
    const bool all = heads == module_.heads;
    const std::string name = all ? "attention" : fmt::format("attention.{}", begin);
    std::vector<ValueId> parts = inputs;
    for (size_t i = 0; i < parts.size() && !all; ++i) {
      const uint32_t width = i + 1 < parts.size() ? module_.head_dim : module_.value_dim;
      parts[i] = graph_.add_slice(fmt::format("{}.input.{}", name, i), inputs[i], begin * width,
                                  heads * width);
    }
    const AttentionNode attention = {.heads = heads,
                                     .kv_heads = heads,
                                     .head_dim = module_.head_dim,
                                     .value_dim = module_.value_dim,
                                     .scale = module_.head_dim == 0 ? 1.0 : module_.score_scale,
                                     .mask = module_.head_masks[begin],
                                     .slopes = {},
                                     .cache = graph_.caches()};
    return graph_.add_attention(name, attention, std::move(parts));
  }

  const AttentionModule& module_;
  Graph graph_;
};

}  // namespace

Graph build_graph(const AttentionModule& module) { return ModuleGraph(module).build(); }

}  // namespace arenite::convert
