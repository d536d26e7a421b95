// SPDX-License-Identifier: Apache-2.0
// Single attention modules: recognised by the names of their parameters, each read by a reader that
// gives its tensors their roles, and turned into a graph.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "convert/families/state_dicts.h"
#include "convert/graph/graph.h"
#include "convert/open/opened.h"
#include "convert/spec/model_options.h"
#include "convert/spec/model_spec.h"
#include "convert/spec/model_tensors.h"

namespace arenite::convert {

// Reads the one attention module of a checkpoint. Throws InputError if there is none or several,
// if tensors are left over that belong to no module, if heads do not divide, shapes do not fit, or
// the mask cannot be read.
AttentionModule read_attention_module(const Opened& model, const ModelOptions& options);

// One line per known module: its name and its parameters. For help texts and messages.
std::string known_modules();

Graph build_graph(const AttentionModule& module);

// The table of known modules.
using ModuleReader = AttentionModule(ModelTensors& tensors, const ModelOptions& options,
                                     StateDictAnswers& answers);

struct KnownModule {
  const char* name;
  const char* parameters;  // for people
  const char* key;         // a parameter that no other module has
  ModuleReader* read;
};

std::span<const KnownModule> known_module_table();

// Fills in positions_max, masks, mask_origins and head_masks: from the checkpoint's buffers, else
// from what was asked for. `head_prefixes` has one entry for a buffer that all heads share, or one
// per head. `usual` is what the module is known for, taken when neither buffer nor option speaks.
// Throws InputError if a buffer contradicts an option.
void read_masks(AttentionModule& module, ModelTensors& tensors, const ModelOptions& options,
                MaskChoice usual, const std::vector<std::string>& head_prefixes);

}  // namespace arenite::convert
