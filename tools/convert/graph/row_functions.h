// SPDX-License-Identifier: Apache-2.0
// What a graph's functions of single numbers and of columns are, in double precision.
#pragma once

#include <cstddef>
#include <vector>

#include "convert/graph/graph.h"

namespace arenite::convert {

double activate(const ActivationNode& node, double x);

// The element that a sequence's rows x [rows, width] give for one column.
double pooled(SelectKind kind, const std::vector<double>& x, size_t width, size_t column);

}  // namespace arenite::convert
