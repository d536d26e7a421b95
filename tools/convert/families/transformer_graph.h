// SPDX-License-Identifier: Apache-2.0
// Whole models as graphs, each op as the author wrote it: separate queries, keys and values, scales
// and masks of their own, and every row's results.
#pragma once

#include "convert/graph/graph.h"
#include "convert/spec/model_spec.h"

namespace arenite::convert {

Graph build_graph(const DecoderSpec& spec);
Graph build_graph(const EncoderSpec& spec);

}  // namespace arenite::convert
