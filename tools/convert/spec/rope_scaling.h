// SPDX-License-Identifier: Apache-2.0
// Frequencies of rotary position embeddings, and their scaling as configs define it.
//
//   RopeSpec rope = plain_rope(128, 10000.0, where);
//   scale_linear(rope, 4.0);  // a context four times as long
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "convert/spec/config_fields.h"
#include "convert/spec/model_spec.h"

namespace arenite::convert {

// inverse_frequencies[i] = theta^(-2i / rotary_dim). Throws InputError that begins with `where` for
// rotary dimensions beyond kRotaryDimMax. REQUIRES: rotary_dim is even.
RopeSpec plain_rope(uint32_t rotary_dim, double theta, const std::string& where);

// Divides all frequencies by `factor`. Source: "Extending Context Window of Large Language Models
// via Positional Interpolation" (Chen et al. 2023).
void scale_linear(RopeSpec& rope, double factor);

// Applies the scaling of a rope_scaling object. Throws InputError for kinds other than default,
// linear, dynamic, llama3 and yarn.
void apply_scaling(RopeSpec& rope, ConfigFields& scaling, double theta, double positions_max,
                   const std::optional<double>& outer_original = {});

// Names of the RoPE fields in a family of Hugging Face configs; they may also be in
// rope_parameters. Fields that are present must agree, since programs save older names beside newer
// ones.
struct RopeFields {
  const char* theta[2] = {"rope_theta"};
  double theta_fallback = 10000.0;
  const char* partial_factor[2] = {};  // share of head_dim that rotates; none: all
  double partial_fallback = 1.0;
  // A partial factor in rope_parameters takes precedence and need not agree with the other.
  bool inner_partial_counts = false;
  bool turns_neighbours = false;
  uint32_t rotary_dim = 0;  // of each head; 0: as the partial factor says
};

// Takes the config's RoPE fields: `rope_parameters`, or the older `rope_scaling` and the named
// fields. REQUIRES: the sizes of `spec` are set. Throws InputError for kinds of scaling other than
// default, linear, dynamic, llama3, longrope and yarn. Longrope has other frequencies for texts
// longer than the trained context: limits positions_max of `spec` to that, and notes it.
RopeSpec read_hf_rope(ConfigFields& config, TransformerSpec& spec, const RopeFields& names);

// Sets both RoPEs of `spec`, where layers with windows have their own: rope_parameters has an
// object for each kind of layers; in older configs rope_scaling is for layers without windows.
void read_ropes_by_window(ConfigFields& config, TransformerSpec& spec, const RopeFields& names,
                          const RopeFields& of_windows);

}  // namespace arenite::convert
