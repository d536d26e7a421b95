// SPDX-License-Identifier: Apache-2.0
// An op fills what it then reads, so the op before may have used the same memory.
#include <algorithm>
#include <map>
#include <tuple>

#include "convert/passes/passes.h"

namespace arenite::convert {

void share_caches(Graph& graph) {
  const auto is_causal = [&](ValueId value) {
    const AttentionNode* attention = graph.as<AttentionNode>(value);
    return attention == nullptr || convert::is_causal(graph.masks[attention->mask]);
  };
  if (std::ranges::all_of(graph.order(), is_causal)) return;
  std::map<std::tuple<uint32_t, uint32_t, uint32_t>, uint32_t> caches;  // by shape
  for (const ValueId value : graph.order()) {
    AttentionNode* attention = graph.as<AttentionNode>(value);
    if (attention == nullptr) continue;
    const auto shape = std::tuple(attention->kv_heads, attention->head_dim, attention->value_dim);
    attention->cache = caches.emplace(shape, attention->cache).first->second;
  }
}

}  // namespace arenite::convert
