// SPDX-License-Identifier: Apache-2.0
// Looking up a token in packed weights costs a little; a second copy of the largest tensor, more.
#include "convert/passes/passes.h"

namespace arenite::convert {

void tie_embedding(Graph& graph) {
  for (const ValueId value : graph.order()) {
    EmbeddingNode* embedding = graph.as<EmbeddingNode>(value);
    if (embedding == nullptr || !embedding->tokens || embedding->tokens->name.empty()) continue;
    for (const ValueId other : graph.order()) {
      const LinearNode* linear = graph.as<LinearNode>(other);
      if (linear == nullptr || linear->parts.size() != 1 || linear->parts[0].scale != 1.0) continue;
      const WeightRef& weight = linear->parts[0].linear.weight;
      const bool same = weight.name == embedding->tokens->name &&
                        weight.rows == embedding->tokens->rows &&
                        weight.columns == embedding->tokens->columns &&
                        linear->parts[0].storage == embedding->storage;
      if (same) embedding->stored_by = other;
    }
  }
}

}  // namespace arenite::convert
