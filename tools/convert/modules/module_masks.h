// SPDX-License-Identifier: Apache-2.0
// Gives a module its masks: from the checkpoint's buffers, else from what was asked for.
#pragma once

#include <string>
#include <vector>

#include "convert/modules/module_options.h"
#include "convert/spec/attention_module.h"
#include "convert/spec/model_tensors.h"

namespace arenite::convert {

// Fills in positions_max, masks, mask_origins and head_masks. `head_prefixes` has one entry for a
// buffer that all heads share, or one per head. `usual` is what the module is known for, taken
// when neither buffer nor option speaks. Throws InputError if a buffer contradicts an option.
void read_masks(AttentionModule& module, ModelTensors& tensors, const ModuleOptions& options,
                MaskChoice usual, const std::vector<std::string>& head_prefixes);

}  // namespace arenite::convert
