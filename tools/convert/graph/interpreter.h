// SPDX-License-Identifier: Apache-2.0
// Evaluates a graph in double precision, as the reference for converted models.
//
//   const Evaluation expected = evaluate(graph, SequenceInput{.tokens = ids});
//   expected.values  // [rows, width of graph.output]
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "convert/graph/graph.h"
#include "core/op_kinds.h"

namespace arenite::convert {

// Functions of a single row, as the papers define them.
using Rows = std::vector<double>;  // [rows, width], row-major
double activate(Activation function, double parameter, double x);
void softmax(bool is_log, std::span<double> row);
void normalise(const NormNode& node, double* row);  // layer norm, RMS norm and the like

// One sequence of one input: token ids, with or without types, or features [tokens, width].
struct SequenceInput {
  std::span<const uint32_t> tokens = {};
  std::span<const uint8_t> types = {};  // [tokens], or empty: all 0
  std::span<const float> features = {};
  // [tokens, tokens], where 1 means that the query sees the key; empty: all see each other.
  std::span<const uint8_t> pairs = {};
};

struct Evaluation {
  std::vector<double> values;                      // [rows, width], all rows that can be asked for
  std::vector<std::vector<double>> hidden_states;  // [tokens, width] each
  double largest_value = 0.0;
  // The largest sum over d of |query[d] * key[d]|, times the scale of scores. The rounding errors
  // of scores, and thus the relative errors of softmax, are proportional to it.
  double largest_score = 0.0;
};

// An input and the graph's result for it, kept for comparisons.
struct EvaluatedInput {
  std::vector<uint32_t> tokens;  // or features
  std::vector<float> features;
  Evaluation result;
};

// Evaluates the graph with plain loops over whole sequences. Shares only the definition of masks
// with the runtime. Throws InputError for inputs that the graph cannot take.
Evaluation evaluate(const Graph& graph, std::span<const SequenceInput> inputs);
// For graphs with a single input.
inline Evaluation evaluate(const Graph& graph, const SequenceInput& input) {
  return evaluate(graph, std::span(&input, 1));
}

}  // namespace arenite::convert
