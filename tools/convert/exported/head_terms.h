// SPDX-License-Identifier: Apache-2.0
// What an exported program adds to the scores of attention, in the smallest form that says it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "convert/graph/graph.h"

namespace arenite::convert {

// What is added to the scores of a head's visible keys.
struct HeadTerms {
  std::optional<double> slope;  // where it grows evenly with the distance
  std::vector<double> values;   // else, [tokens, tokens]; -infinity hides a key
};

// Splits what is added to a head's scores, [tokens, tokens], into the keys that it leaves visible
// and the rest. Throws NotRecognised if a token sees no key.
HeadTerms read_terms(std::vector<double> added, DenseMask& visible);

// Throws NotRecognised for more terms than a model may have.
void check_terms(size_t numbers);

// Gives an attention node the terms of its heads: slopes, a table, or nothing. Nodes of the graph
// with the same table share it.
void add_terms(std::span<const HeadTerms> heads, uint32_t tokens, const Graph& graph,
               AttentionNode& attention);

}  // namespace arenite::convert
