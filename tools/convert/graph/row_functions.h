// SPDX-License-Identifier: Apache-2.0
// What ops make of single rows, in double precision: the interpreter's, by the book.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "convert/graph/graph.h"

namespace arenite::convert {

using Rows = std::vector<double>;  // [rows, width], row-major

void softmax(bool is_log, std::span<double> row);
void normalise(const NormNode& node, double* row);
void rotate_head(const RopeSpec& rope, size_t position, double* head);
// The element that a sequence's rows x give for one column.
double pooled(SelectKind kind, const Rows& x, size_t width, size_t column);
// A row for each patch of an image.
Rows patches_of(const ImagePatches& cut, std::span<const float> image);

}  // namespace arenite::convert
