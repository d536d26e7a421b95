// SPDX-License-Identifier: Apache-2.0
// The config of each module of a sentence-transformers folder, in the forms that the library's
// versions 1 to 6 write. All throw InputError for what is not known or not supported.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "convert/spec/model_spec.h"

namespace arenite::convert {

// What becomes of texts before the transformer.
struct TextSettings {
  uint32_t tokens_max = 0;   // the library cuts longer texts off; at most the transformer's
  bool lowers_case = false;  // whatever the tokenizer does by itself
};

// Of the module Transformer in `folder`; `positions_max` is what its encoder can take.
TextSettings read_text_settings(const std::filesystem::path& folder, uint32_t positions_max);

// The poolings whose rows stand side by side, at least one, each as wide as `width`.
std::vector<SelectKind> read_pooling_modes(const std::filesystem::path& folder, uint32_t width);

// Of modules after the pooling; `width` is that of the row that they take.
HeadStepSpec read_dense(const std::filesystem::path& folder, uint32_t width);
HeadStepSpec read_layer_norm_module(const std::filesystem::path& folder, uint32_t width);
HeadStepSpec read_normalize(const std::filesystem::path& folder);

// What the folder as a whole says, where it says anything: that it is a model of one vector for
// each text, and that nothing is put before texts unasked.
void check_model_config(const std::filesystem::path& folder);

}  // namespace arenite::convert
