// SPDX-License-Identifier: Apache-2.0
// What a conversion found out about its own accuracy: plain names and numbers, which the report
// shows as a page or as JSON. Lists that are empty and numbers that are absent are not shown.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace arenite::tool {

// How one tensor was stored in fewer bits.
struct QuantizedTensor {
  std::string name;
  std::string type;    // "q4"
  std::string method;  // "GPTQ", "weighted rounding", "taken over"
  // Of the weights against what quantizing changed, in decibels; infinite: nothing changed.
  double signal_to_noise_db = 0.0;
  uint64_t float_bytes = 0;
  uint64_t bytes = 0;
};

// How far a hidden state of the quantized model points where the float model's does, over all
// tokens that were compared.
struct HiddenStateError {
  std::string name;  // "embedding", "layer 0"
  double mean_cosine = 1.0;
  double least_cosine = 1.0;
};

// The outputs of both models on text that neither was calibrated with.
struct OutputComparison {
  std::string text;  // what the text is: "16 texts of 256 tokens that the model wrote"
  uint64_t tokens = 0;
  std::optional<double> mean_kl{};         // nats a token, of the quantized from the float model
  std::optional<double> top1_agreement{};  // share of tokens, 0 to 1
  std::optional<double> float_perplexity{};
  std::optional<double> quantized_perplexity{};
};

// A limit that was asked for.
struct LimitCheck {
  std::string option;  // "--max-kl"
  double asked = 0.0;
  double found = 0.0;
  std::string unit;  // "bytes", "nats"; empty: a plain number
  bool is_met = false;
  std::vector<std::string> offenders;  // names of what broke it, the worst first
};

// Something that went another way than asked, and what that cost.
struct ConversionNote {
  std::string kind;     // "fell back", "note"
  std::string subject;  // a tensor, or how many; empty: the model
  std::string text;     // "are q8: their rows of 172 are no multiple of 32, as q4 needs"
  std::vector<std::string> tensors = {};  // all that it is about
};

struct ConversionFacts {
  std::string source;       // the checkpoint: path and form
  std::string weights;      // as asked for: "q4, keeping output=q8 and embedding=q8"
  std::string calibration;  // the text, and where it is from
  std::vector<LimitCheck> limits;
  std::optional<OutputComparison> outputs;
  std::vector<HiddenStateError> hidden_states;  // in the order of the program
  std::vector<QuantizedTensor> tensors;
  std::vector<ConversionNote> notes;
};

}  // namespace arenite::tool
