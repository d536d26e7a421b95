// SPDX-License-Identifier: Apache-2.0
// Chooses the types of weights that no rule names: as precise as the byte budget allows, or as
// small as the perplexity budget allows. Matrices with the least measured loss per saved byte are
// lowered first.
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

// Limits of the result. At least one is set. If max_bytes is set, it decides and perplexity is not
// limited.
struct WeightBudget {
  std::optional<uint64_t> max_bytes{};              // of the file, with all targets
  std::optional<double> max_perplexity_increase{};  // relative: 0.01 is one percent
};

// A conversion, without its weight types.
struct ConversionPlan {
  Graph graph;  // before all passes
  std::string name;
  std::optional<TokenizerSpec> tokenizer{};
  Calibration calibration{};
  std::vector<std::string> without_passes{};
  std::vector<Target> targets;
  std::string path;  // quoted, for messages
};

// The type of matrices that are stored as one tensor, and the reason.
struct TypeChoice {
  std::string name;  // "0.query, 0.key, 0.value"
  TensorType type = TensorType::kF32;
  std::string reason;
};

struct ChosenWeights {
  WeightRules rules;  // the person's rules, after one for each matrix that they do not name
  std::vector<TypeChoice> choices;
  std::vector<std::string> notes;  // for the report
};

// Chooses among f32, q8 and q4, where they fit. The first stage lowers matrices from f32 to q8;
// only if that is not enough for all of them, the second stage lowers them to q4. Each stage lowers
// each matrix alone, to the elements that its file would hold, and measures the loss versus the
// float32 model: the mean KL divergence over up to 1024 calibration tokens or, for models without
// probabilities, one minus the mean cosine.
//
// For max_bytes, lowers the set that saves enough bytes at the least sum of losses. For perplexity,
// lowers in order of loss per saved byte as far as the perplexity of held-out text allows, found by
// bisection. Rounded matrices are cached in `before`. Throws InputError for a budget that cannot be
// met or measured.
ChosenWeights choose_by_loss(const ConversionPlan& plan, const std::vector<WeightRule>& keep,
                             const WeightBudget& budget, RoundingCache& before);

}  // namespace arenite::convert
