// SPDX-License-Identifier: Apache-2.0
// What the configs of all Hugging Face models have in common.
#pragma once

#include <cstdint>
#include <string>

#include "convert/spec/config_fields.h"
#include "convert/spec/layer_parts.h"

namespace arenite::convert {

// Passes over the fields that never change what a model computes.
void pass_over_harmless(ConfigFields& config);

// The activation that `field` names. Throws InputError for one that is not known.
Activation read_activation(ConfigFields& config, const std::string& field,
                           const std::string& fallback);

// head_dim where no field gives it. Throws InputError unless heads divide the model's width.
uint32_t even_head_dim(uint32_t model_dim, uint32_t heads, const std::string& where);

}  // namespace arenite::convert
