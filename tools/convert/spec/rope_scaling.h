// SPDX-License-Identifier: Apache-2.0
// Frequencies of rotary position embeddings, with the scalings that configs ask for.
#pragma once

#include <cstdint>
#include <optional>
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

// What `scaling`, the fields of a rope_scaling, asks for. Throws InputError for a kind other than
// default, linear, dynamic, llama3 and yarn.
void apply_scaling(RopeSpec& rope, ConfigFields& scaling, double theta, double positions_max,
                   const std::optional<double>& outer_original = {});

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
