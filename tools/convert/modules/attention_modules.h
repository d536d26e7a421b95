// SPDX-License-Identifier: Apache-2.0
// Reads single attention modules, recognised by the names of their parameters, and builds their
// graphs.
//
//   const AttentionModule module = read_attention_module(model, options);
//   const Graph graph = build_graph(module);
#pragma once

#include <string>

#include "convert/graph/graph.h"
#include "convert/open/opened.h"
#include "convert/spec/model_options.h"
#include "convert/spec/model_spec.h"

namespace arenite::convert {

// Reads the only attention module of a checkpoint. Throws InputError if there is none or several,
// if tensors are left over, if the heads do not divide the width, if shapes do not fit, or if the
// mask is not supported.
AttentionModule read_attention_module(const Opened& model, const ModelOptions& options);

// Lists the known modules with their parameters, one per line, for help texts and messages.
std::string known_modules();

Graph build_graph(const AttentionModule& module);

}  // namespace arenite::convert
