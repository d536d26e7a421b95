// SPDX-License-Identifier: Apache-2.0
// Parts that several readers take alike.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "convert/spec/config_fields.h"
#include "convert/spec/model_options.h"
#include "convert/spec/model_spec.h"
#include "convert/spec/model_tensors.h"

namespace arenite::convert {

// Sets heads and head_dim, and throws InputError for sizes that do not go together. Sizes that
// nothing is read for yet never get further than this. REQUIRES: model_dim is set.
void set_heads(TransformerSpec& spec, uint32_t heads, size_t layers, const std::string& where);

// With a single token type its embedding is the same for all tokens: adds it to the position
// embedding and drops it. REQUIRES: position_embedding is set.
void fold_single_type(TransformerSpec& spec);

// Passes over the tensor `name`, if it is there. Throws InputError unless it holds 0, 1, 2, ...
void pass_over_position_ids(ModelTensors& tensors, const std::string& name);

// Throws InputError when `asked` is another pooling than `found`, the model's own.
void check_pooling(std::optional<PoolingChoice> asked, PoolingChoice found,
                   const std::string& where);

// What the config field id2label calls `classes` classes; empty when there is no such field. Throws
// InputError unless its keys are exactly 0 to classes - 1.
std::vector<std::string> read_labels(ConfigFields& config, uint32_t classes);

// The first buffer that is a causal mask; empty: there is none. Throws InputError for a mask that
// is not causal.
std::string causal_buffer(const ModelTensors& tensors);

// Passes over those that carry no weights, by the end of their names, once what they say is
// checked: throws InputError for a mask that is not causal.
void pass_over_buffers(ModelTensors& tensors);

}  // namespace arenite::convert
