// SPDX-License-Identifier: Apache-2.0
// One reader per known module: takes its tensors and gives them their roles.
#pragma once

#include <span>

#include "convert/modules/module_options.h"
#include "convert/spec/attention_module.h"
#include "convert/spec/model_tensors.h"

namespace arenite::convert {

using ModuleReader = AttentionModule (*)(ModelTensors& tensors, const ModuleOptions& options);

struct KnownModule {
  const char* name;
  const char* parameters;  // for people
  const char* key;         // a parameter that no other module has
  ModuleReader read;
};

std::span<const KnownModule> known_module_table();

}  // namespace arenite::convert
