// SPDX-License-Identifier: Apache-2.0
// An attention module as a graph.
#pragma once

#include "convert/graph/graph.h"
#include "convert/spec/attention_module.h"

namespace arenite::convert {

Graph build_graph(const AttentionModule& module);

}  // namespace arenite::convert
