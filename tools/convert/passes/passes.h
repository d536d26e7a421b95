// SPDX-License-Identifier: Apache-2.0
// What is done to a graph between its author's form and the runtime's. Each pass keeps the results,
// up to rounding, and can be left out; what the runtime then lacks, lowering makes up for.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "convert/graph/graph.h"

namespace arenite::convert {

// Rows that no caller can ask for are not computed: the choice of rows moves up, to where all rows
// are needed.
void drop_rows(Graph& graph);

// A mask that a buffer holds becomes the smallest band, strip or tiles that say the same. Equal
// masks become one, and a window as long as the context none. Throws InputError for a row that sees
// nothing.
void compile_masks(Graph& graph);

// Rotations of neighbours become rotations of halves: queries and keys are permuted alike, which
// leaves their products as they are, in the weights that make them.
void permute_rotations(Graph& graph);

// The scale of scores, and of what is embedded, moves into the weights or gains before it.
void fold_scales(Graph& graph);

// Linear layers of one type that read the same rows, and whose results meet in attention or in a
// gate, become one with their results side by side.
void join_projections(Graph& graph);

// Where no key is kept from call to call, attention ops of one shape take turns with one cache.
void share_caches(Graph& graph);

// A linear layer by the token embedding itself and the embedding are stored once.
void tie_embedding(Graph& graph);

struct Pass {
  const char* name;
  void (*run)(Graph& graph);
};

std::span<const Pass> all_passes();  // in the order in which they run

// Runs all but those named. Throws InputError for a name that no pass has.
void run_passes(Graph& graph, const std::vector<std::string>& without = {});

}  // namespace arenite::convert
