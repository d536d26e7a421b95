// SPDX-License-Identifier: Apache-2.0
// The graph of a single module: what its author wrote, as nodes.
#pragma once

#include "convert/graph/graph.h"
#include "convert/spec/model_spec.h"

namespace arenite::convert {

Graph build_graph(const AttentionModule& module);

}  // namespace arenite::convert
