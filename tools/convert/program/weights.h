// SPDX-License-Identifier: Apache-2.0
// How the weights of a graph are stored: chooses the type of each matrix, by the user's rules and
// by what fits, and computes the elements that the file then holds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "convert/graph/graph.h"

namespace arenite::convert {

// Gives a type to the matrix with this name, in the graph ("0.down"; "output" is the matrix of the
// logits) or in the checkpoint. "output" and "embedding" also name these roles, whatever the
// matrices are called. If no matrix has the name, the rule applies to all that have it as a
// dot-separated part of their name ("down") or as their role.
//   output=q8          the matrix of the logits
//   down=q8            0.down, 1.down, ...
struct WeightRule {
  std::string name;
  TensorType type = TensorType::kF32;
  // A default rule: applies to that exact name only, and need not match any matrix.
  bool is_usual = false;
};

struct WeightRules {
  TensorType type = TensorType::kF32;  // of all matrices without a rule
  std::vector<WeightRule> keep{};      // the last matching rule counts
  // float32 is only the default: int8 weights of an exported program stay int8 (w8).
  bool keeps_integers = false;
};

// A matrix that could not have the wanted type.
struct TypeFallback {
  std::string name;
  uint32_t inputs = 0;
  TensorType wanted = TensorType::kF32;
  TensorType type = TensorType::kF32;
};

// Parses "f32", "w8", "q8" or "q4". Throws InputError.
TensorType parse_weight_type(const std::string& text);

// Parses "output=q8,embedding=q8", or "none" for no rules; empty text gives the type's default
// rules. Throws InputError.
std::vector<WeightRule> parse_weight_rules(const std::string& text, TensorType type);

// A weight matrix whose type no rule sets.
struct FreeMatrix {
  std::string name;  // in the graph
  // The types among f32, q8 and q4 that fit, largest first. A weight that is quantized in the
  // checkpoint starts at its own type.
  std::vector<TensorType> types;
};

// Returns the free matrices of a graph before all passes. Throws InputError for a rule that matches
// no matrix.
std::vector<FreeMatrix> free_matrices(const Graph& graph, const std::vector<WeightRule>& rules);

// Marks the matrices that are integers times a scale per row or block (quantize-dequantize code of
// an exported program), so that their types can be taken over.
void find_integers(Graph& graph);

// Chooses the type of each weight matrix. Runs before all passes, since weights of different types
// are never joined. Throws InputError for a rule that matches no matrix.
std::vector<TypeFallback> choose_types(Graph& graph, const WeightRules& rules = {});

// Takes the graph after all passes and returns it with the elements that its file holds: factors
// are folded in, then elements are rounded to the type of each weight. Weights are computed when
// they are loaded.
Graph with_stored_weights(Graph graph);

// Whether folding or storing rounds any weight. Loads weights only if rounding is possible, and
// stops at the first rounded one.
bool is_rounded(Graph graph);

}  // namespace arenite::convert
