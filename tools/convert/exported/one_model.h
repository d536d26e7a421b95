// SPDX-License-Identifier: Apache-2.0
// Whether what a program computes at two lengths is one model.
#pragma once

#include <optional>
#include <string>

#include "convert/graph/graph.h"

namespace arenite::convert {

// Keys by their distance, where that is all that counts: a range around 0. REQUIRES: a buffer's.
std::optional<CompiledMask> mask_rule(const Mask& mask);

// Why the graphs of two lengths, the shorter one first, are not one model; empty: they are.
std::string difference(const Graph& shorter, const Graph& longer);

}  // namespace arenite::convert
