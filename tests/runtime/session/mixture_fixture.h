// SPDX-License-Identifier: Apache-2.0
// A small causal model of features with a mixture of experts.
#ifndef ARENITE_TESTS_RUNTIME_MIXTURE_FIXTURE_H_
#define ARENITE_TESTS_RUNTIME_MIXTURE_FIXTURE_H_

#include <string>
#include <vector>

#include "convert/graph/graph.h"
#include "runtime/session/rows_fixture.h"

namespace arenite::test {

inline constexpr uint32_t kExperts = 5, kChosen = 3, kHidden = 32;

// Attention, then experts of two layers, of which each row takes three, weighted and added.
inline convert::Graph mixture(TensorType type = TensorType::kF32) {
  using convert::ValueId;
  convert::Graph graph;
  graph.architecture = "mixture";
  graph.inputs[0].positions_max = kPositions;
  ValueId x = graph.add_linear("input", {weight("input", kHidden, kFeatures), {}},
                               graph.add_features(kFeatures));
  convert::AttentionNode attention;
  attention.heads = attention.kv_heads = 2;
  attention.head_dim = attention.value_dim = kHidden / 2;
  attention.mask = graph.add_band(kUnlimited, 0);
  x = graph.add_attention("attention", attention, {x, x, x});
  const ValueId scores = graph.add_linear("router", {weight("router", kExperts, kHidden), {}}, x);
  const ValueId best = graph.add_top_k("best", scores, kChosen);
  const ValueId ids = graph.add_slice("ids", best, 0, kChosen);
  const ValueId weights = graph.add_slice("weights", best, kChosen, kChosen);
  const auto add_experts = [&](const std::string& name, ValueId from) {
    const std::vector<double> bias(kExperts * kHidden, 0.25);
    const ValueId made = graph.add_experts(name, {weight(name, kExperts * kHidden, kHidden), bias},
                                           kExperts, from, ids);
    graph.weights_at(made)->parts[0].storage.type = type;
    return made;
  };
  ValueId hidden =
      graph.add("limit", convert::ActivationNode{Activation::kAtMost, 0.5}, {add_experts("up", x)});
  hidden = graph.add("weigh", convert::MultiplyNode{}, {add_experts("down", hidden), weights});
  ValueId sum = graph.add_slice("part", hidden, 0, kHidden);
  for (uint32_t i = 1; i < kChosen; ++i) {
    const ValueId part = graph.add_slice("part", hidden, i * kHidden, kHidden);
    sum = graph.add("sum", convert::AddNode{}, {sum, part});
  }
  graph.output = graph.add("residual", convert::AddNode{}, {x, sum});
  return graph;
}

}  // namespace arenite::test

#endif  // ARENITE_TESTS_RUNTIME_MIXTURE_FIXTURE_H_
