// SPDX-License-Identifier: Apache-2.0
// Measures the quantization loss of a model versus float32, on sequences that were not used for
// calibration.
//
//   const ModelComparison loss = compare_models(float_file, q8_file, set);
//   loss.mean_kl, loss.perplexity_increase()
#pragma once

#include <cstdint>
#include <vector>

#include "arenite/session.h"
#include "convert/calibrate/calibration_set.h"
#include "convert/files/memory.h"

namespace arenite::convert {

// Perplexity of text. Sequences are scored separately, each from its second token on.
struct Perplexity {
  uint64_t tokens = 0;    // scored
  double mean_nll = 0.0;  // mean of -log(probability of the actual token)

  double value() const;  // exp(mean_nll)
};

struct ModelComparison {
  uint64_t sequences = 0;
  uint64_t rows = 0;  // compared outputs: one per token, or per sequence

  // Set for decoders.
  bool has_perplexity = false;
  Perplexity reference;
  Perplexity other;
  double perplexity_increase() const;  // relative: 0.01 is one percent

  // Set for decoders and classifiers, whose outputs are logits or log-probabilities.
  bool has_probabilities = false;
  double mean_kl = 0.0;         // KL(reference || other), in nats
  double top1_agreement = 0.0;  // share of rows with the same most probable token or class

  // Mean cosine similarity between a row of the reference and the same row of the other model.
  double output_cosine = 0.0;
  std::vector<double> hidden_cosines;        // mean of each hidden state
  std::vector<double> least_hidden_cosines;  // least of any row
};

// Runs both models over the held-out sequences of `set`. `other_kv` is the cache type of `other`. A
// result that depends on a non-finite value is NaN. REQUIRES: programs that differ only in weights,
// and targets that this CPU runs. Throws InputError if a model cannot take a sequence.
ModelComparison compare_models(const AlignedBytes& reference, const AlignedBytes& other,
                               const CalibrationSet& set, KvType other_kv = KvType::kOfModel);

// Measures how far outputs are from those of a reference model, which is run only once: mean KL
// divergence in nats or, for models without probabilities, one minus the mean cosine.
class OutputDistance {
 public:
  // Keeps as many tokens of `sequences` as suffice, sampled evenly. REQUIRES: at least one
  // sequence; a target that this CPU runs.
  OutputDistance(const AlignedBytes& reference, const std::vector<ModelInput>& sequences);

  // REQUIRES: a program that differs from the reference only in weights.
  double of(const AlignedBytes& file) const;
  bool has_probabilities() const { return has_probabilities_; }

 private:
  std::vector<ModelInput> sequences_;
  bool has_probabilities_ = false;
  std::vector<float> rows_;  // outputs of the reference, concatenated
};

// Perplexity of one model over the sequences. REQUIRES: predicts_tokens.
Perplexity perplexity_of(const AlignedBytes& file, const std::vector<ModelInput>& sequences);

}  // namespace arenite::convert
