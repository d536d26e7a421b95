// SPDX-License-Identifier: Apache-2.0
// Computes a graph in double precision: the one reference that converted models are compared with.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "convert/graph/graph.h"
#include "core/op_kinds.h"

namespace arenite::convert {

// Functions of single rows, by the book.
using Rows = std::vector<double>;  // [rows, width], row-major
double activate(Activation function, double parameter, double x);
void softmax(bool is_log, std::span<double> row);
void normalise(const NormNode& node, double* row);  // layer norm, RMS norm and their like

// One sequence of an input: ids, with types or without, or features [tokens, width].
struct SequenceInput {
  std::span<const uint32_t> tokens = {};
  std::span<const uint8_t> types = {};  // one for each token, or none: all 0
  std::span<const float> features = {};
  std::span<const uint8_t> pairs = {};  // [tokens, tokens], or none: all see each other
};

struct Evaluation {
  std::vector<double> values;                      // [rows, width]: all rows that can be asked for
  std::vector<std::vector<double>> hidden_states;  // [tokens, width] each
  double largest_value = 0.0;
  // Largest sum over d of |query[d] * key[d]|, times the scale of scores: the rounding errors of
  // scores, and with them the relative errors of softmax, are proportional to it.
  double largest_score = 0.0;
};

// What a graph made of an input, for whoever would compute it again.
struct EvaluatedInput {
  std::vector<uint32_t> tokens;  // or
  std::vector<float> features;
  Evaluation result;
};

// Plain loops over whole rows, which share nothing with the runtime but the meaning of masks.
// Throws InputError for inputs that the graph cannot take.
Evaluation evaluate(const Graph& graph, std::span<const SequenceInput> inputs);
// Of a graph with one input.
inline Evaluation evaluate(const Graph& graph, const SequenceInput& input) {
  return evaluate(graph, std::span(&input, 1));
}

}  // namespace arenite::convert
