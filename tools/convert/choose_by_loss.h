// SPDX-License-Identifier: Apache-2.0
// Types of weights that nobody names: as large as the bytes allow, or as small as the perplexity
// allows, where the loss that was measured is least for the bytes that are saved.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "arenite/target.h"
#include "convert/graph/graph.h"
#include "convert/program/weights.h"
#include "convert/quantize_model.h"

namespace arenite::convert {

// What is to be kept. At least one is there; bytes come first, and perplexity is then as it is.
struct WeightBudget {
  std::optional<uint64_t> max_bytes{};              // of the file, with all targets
  std::optional<double> max_perplexity_increase{};  // 0.01: by one percent
};

// What a model is converted to, types apart.
struct ConversionPlan {
  Graph graph;  // before all passes
  std::string name;
  std::optional<TokenizerSpec> tokenizer{};
  Calibration calibration{};
  std::vector<std::string> without_passes{};
  std::vector<Target> targets;
  std::string path;  // quoted, for messages
};

// Matrices that are stored as one, and why they have their type.
struct TypeChoice {
  std::string name;  // "0.query, 0.key, 0.value"
  TensorType type = TensorType::kF32;
  std::string reason;
};

struct ChosenWeights {
  WeightRules rules;  // those of the person, after one for each matrix that they do not name
  std::vector<TypeChoice> choices;
  std::vector<std::string> notes;  // for people
};

// Chooses among f32, q8 and q4, as far as they fit. Matrices are lowered from f32 to q8; only where
// all of that is not enough, from there to q4. In each stage each matrix is lowered alone, with the
// numbers that it would have in the file, and the outputs are compared with the float32 model's:
// the mean KL divergence over up to 1024 tokens that weights were rounded for or, of models that
// give no probabilities, one minus the mean cosine. For bytes those are lowered that save enough
// for the least sum of loss. For perplexity they are lowered in the order of loss for each byte
// saved, as far as that of held-out text allows, by bisection. What is rounded is in `before`.
// Throws InputError for a budget that cannot be kept or measured.
ChosenWeights choose_by_loss(const ConversionPlan& plan, const std::vector<WeightRule>& keep,
                             const WeightBudget& budget, RoundedBefore& before);

}  // namespace arenite::convert
