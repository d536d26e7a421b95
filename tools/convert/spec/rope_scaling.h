// SPDX-License-Identifier: Apache-2.0
// Frequencies of rotary position embeddings, with the scalings that configs ask for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "convert/spec/config_fields.h"
#include "convert/spec/model_spec.h"

namespace arenite::convert {

// theta^(-2i / rotary_dim). Throws InputError, which begins with `where`, for more elements than a
// head has. REQUIRES: rotary_dim is even.
RopeSpec plain_rope(uint32_t rotary_dim, double theta, const std::string& where);

// Positions count 1/factor each. Source: "Extending Context Window of Large Language Models via
// Positional Interpolation" (Chen et al. 2023).
void scale_linear(RopeSpec& rope, double factor);

// Slows down the waves that are longer than the trained context allows, and blends in between.
// Source: the reference code of Llama 3.1.
struct Llama3Scaling {
  double factor = 1.0;
  double low_freq_factor = 1.0;
  double high_freq_factor = 4.0;
  double original_positions = 8192.0;
};
void scale_llama3(RopeSpec& rope, const Llama3Scaling& scaling);

// Slows down the waves that are longer than the trained context allows, as llama3 does, with
// another blend and with scores that grow with the context. Source: "YaRN: Efficient Context Window
// Extension of Large Language Models" (Peng et al. 2023).
struct YarnScaling {
  double theta = 10000.0;
  double factor = 1.0;
  double original_positions = 2048.0;
  double fast_turns = 32.0;  // waves of more turns in the original context stay as they are
  double slow_turns = 1.0;   // waves of less are slowed down by the whole factor
  bool whole_bounds = true;  // the blend begins and ends at a whole index
  double magnitude = 1.0;
};
void scale_yarn(RopeSpec& rope, const YarnScaling& scaling);

// How a family of Hugging Face configs calls these fields; they may also stand in rope_parameters.
// Where several are there they must agree, as programs save older names beside newer ones.
struct RopeFields {
  std::vector<const char*> theta = {"rope_theta"};
  std::vector<const char*> partial_factor{};  // share of head_dim that rotates; none: all of it
  double partial_fallback = 1.0;
  bool inner_partial_counts = false;  // rope_parameters' own share wins rather than has to agree
};

// Takes the fields about RoPE: `rope_parameters`, or the older `rope_scaling` and the fields named.
// `spec` has its sizes. Throws InputError for a kind of scaling other than default, linear,
// dynamic, llama3 and yarn.
RopeSpec read_hf_rope(ConfigFields& config, const TransformerSpec& spec, const RopeFields& names);

}  // namespace arenite::convert
