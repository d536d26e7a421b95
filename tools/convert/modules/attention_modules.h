// SPDX-License-Identifier: Apache-2.0
// Single attention modules: recognised by the names of their parameters, and turned into a graph.
#pragma once

#include <string>

#include "convert/graph/graph.h"
#include "convert/open/opened.h"
#include "convert/spec/model_options.h"
#include "convert/spec/model_spec.h"

namespace arenite::convert {

// Reads the one attention module of a checkpoint. Throws InputError if there is none or several,
// if tensors are left over that belong to no module, if heads do not divide, shapes do not fit, or
// the mask cannot be read.
AttentionModule read_attention_module(const Opened& model, const ModelOptions& options);

// One line per known module: its name and its parameters. For help texts and messages.
std::string known_modules();

Graph build_graph(const AttentionModule& module);

}  // namespace arenite::convert
