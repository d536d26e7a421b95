// SPDX-License-Identifier: Apache-2.0
// How much a model in few bits differs from the same model in float32, on sequences that neither
// was made for.
#pragma once

#include <cstdint>
#include <vector>

#include "arenite/session.h"
#include "convert/calibrate/calibration_set.h"
#include "convert/files/memory.h"

namespace arenite::convert {

// Of text: each sequence on its own, scored from its second token on.
struct Perplexity {
  uint64_t tokens = 0;    // scored
  double mean_nll = 0.0;  // of them: -log of the probability that the model gave each

  double value() const;  // exp of it
};

struct ModelComparison {
  uint64_t sequences = 0;
  uint64_t rows = 0;  // that the models gave out: one for each token, or for each sequence

  // Of decoders.
  bool has_perplexity = false;
  Perplexity reference;
  Perplexity other;
  double perplexity_increase() const;  // 0.01: by one percent

  // Of decoders, and of classifiers: models that give the logarithms of probabilities.
  bool has_probabilities = false;
  double mean_kl = 0.0;         // of the reference's probabilities to the other's, in nats
  double top1_agreement = 0.0;  // share of rows whose most probable token or class is the same

  // Mean cosine of the angle between a row of the reference and the same row of the other.
  double output_cosine = 0.0;
  std::vector<double> hidden_cosines;        // of each hidden state that the models have
  std::vector<double> least_hidden_cosines;  // of one row
};

// Runs both models over the held-out sequences of `set`; those of the other keep keys and values as
// `other_kv` says. What is not finite makes the numbers that depend on it NaN.
// REQUIRES: the same program but for its weights, and targets that this CPU runs. Throws InputError
// where they cannot take a sequence.
ModelComparison compare_models(const AlignedBytes& reference, const AlignedBytes& other,
                               const CalibrationSet& set, KvType other_kv = KvType::kOfModel);

// How far outputs are from those of a model that need not be there any more: the mean KL divergence
// in nats or, of models that give no probabilities, one minus the mean cosine.
class OutputDistance {
 public:
  // Of as many tokens of `sequences` as tell enough, taken from all over them.
  // REQUIRES: some sequences; a target that this CPU runs.
  OutputDistance(const AlignedBytes& reference, const std::vector<ModelInput>& sequences);

  // REQUIRES: the same program as the reference's but for its weights.
  double of(const AlignedBytes& file) const;
  bool has_probabilities() const { return has_probabilities_; }

 private:
  std::vector<ModelInput> sequences_;
  bool has_probabilities_ = false;
  std::vector<float> rows_;  // that the reference gives, one after the other
};

// Of one model over some sequences. REQUIRES: predicts_tokens.
Perplexity perplexity_of(const AlignedBytes& file, const std::vector<ModelInput>& sequences);

}  // namespace arenite::convert
