// SPDX-License-Identifier: Apache-2.0
// What a person may say about an attention module that its checkpoint does not.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "convert/families/training_facts.h"
#include "convert/spec/mask_buffer.h"
#include "convert/spec/model_options.h"

namespace arenite::convert {

struct ModuleOptions {
  uint32_t heads = 0;  // 0: not said
  // What the training program wrote beside the weights, for modules whose heads have to be said.
  std::optional<Fact<uint32_t>> written_heads{};
  uint32_t context = 0;   // positions; 0: not said
  uint32_t features = 0;  // width of the input, for modules without weights; 0: not said
  MaskChoice mask = MaskChoice::kUnsaid;
  uint32_t window = 0;                  // keys that a query sees, its own included; for kWindow
  std::optional<double> score_scale{};  // of attention scores, instead of 1/sqrt(head_dim)
  std::optional<MaskOnes> mask_ones;
  std::optional<std::string> module;  // which one of several: its prefix in the checkpoint
};

}  // namespace arenite::convert
