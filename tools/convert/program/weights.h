// SPDX-License-Identifier: Apache-2.0
// How the weights of a graph are stored: which type each matrix gets, by rules of the person and by
// what fits, and the numbers that the file then holds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "convert/graph/graph.h"

namespace arenite::convert {

// The matrix of this name has this type, in the graph ("0.down"; "output" is that of the logits) or
// in the checkpoint; "output" and "embedding" are also those of the graph, whatever their names.
// Where there is none of that name, all that have it as a part of theirs, from dot to dot ("down"),
// or that are one by the graph.
struct WeightRule {
  std::string name;
  TensorType type = TensorType::kF32;
  // Nobody asked for it: it counts for that name alone, and where there is none, too.
  bool is_usual = false;
};

struct WeightRules {
  TensorType type = TensorType::kF32;  // of all others
  std::vector<WeightRule> keep{};      // the last one that fits counts
  // Nobody asked for float32: what a program has as int8 stays so, in w8.
  bool keeps_integers = false;
};

// A matrix that could not have the type it was to have.
struct TypeFallback {
  std::string name;
  uint32_t inputs = 0;
  TensorType wanted = TensorType::kF32;
  TensorType type = TensorType::kF32;
};

// "f32", "w8", "q8" or "q4". Throws InputError.
TensorType parse_weight_type(const std::string& text);

// "output=q8,embedding=q8", or "none" for no rules; empty: those that are usual for the type.
// Throws InputError.
std::vector<WeightRule> parse_weight_rules(const std::string& text, TensorType type);

// A matrix of weights whose type no rule says.
struct FreeMatrix {
  std::string name;               // in the graph
  std::vector<TensorType> types;  // f32, q8, q4, or those of them that fit, the largest first; of
                                  // what the checkpoint has in few bits, from these on
};

// Those of a graph before all passes. Throws InputError for a rule that fits no matrix.
std::vector<FreeMatrix> free_matrices(const Graph& graph, const std::vector<WeightRule>& rules);

// Finds the matrices that are integers times a scale of each row or block, as a program computes
// them of what training left, so that their types can be taken over.
void find_integers(Graph& graph);

// Decides the type of each matrix of weights. Comes before all passes, since weights of different
// types are never joined. Throws InputError for a rule that fits no matrix.
std::vector<TypeFallback> choose_types(Graph& graph, const WeightRules& rules = {});

// The graph after all passes, with the numbers that its file holds: factors are multiplied in, and
// each number is what is left of it in the type of its weight. They are read when they are loaded.
Graph with_stored_weights(Graph graph);

// Whether one of these numbers is not what the author's and a factor give. Reads weights only where
// this can be, and stops at the first one.
bool is_rounded(Graph graph);

}  // namespace arenite::convert
