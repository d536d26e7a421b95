// SPDX-License-Identifier: Apache-2.0
// An attention module as its author trained it, before anything is folded, fused or packed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "convert/masks/mask_compiler.h"
#include "convert/spec/model_options.h"

namespace arenite::convert {

// output = concat over heads of softmax(score_scale q k^T + mask) v, then the projection.
struct AttentionModule {
  std::string architecture;  // the name that people know it by
  uint32_t heads = 1;
  uint32_t head_dim = 0;   // 0: no query and key, the mask alone gives the weights
  uint32_t value_dim = 0;  // per head
  double score_scale = 1.0;
  uint32_t features = 0;  // width of the input
  // Query, key and value read the input's columns [query | key | value] instead of sharing them.
  bool separate_inputs = false;
  LinearSpec query, key, value;      // [heads * dim, inputs]; none where head_dim is 0
  std::optional<LinearSpec> output;  // [outputs, heads * value_dim]

  uint32_t positions_max = 0;             // 0: any
  std::vector<CompiledMask> masks;        // different ones
  std::vector<std::string> mask_origins;  // where each of them comes from, for people
  std::vector<uint32_t> head_masks;       // which mask each head has

  Account account;

  uint32_t output_features() const { return output ? output->outputs() : heads * value_dim; }
};

}  // namespace arenite::convert
