// SPDX-License-Identifier: Apache-2.0
// An array as rows along some of its dimensions, which reductions and norms go over.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "convert/exported/call_arguments.h"

namespace arenite::convert {

struct DimensionRows {
  size_t rows = 0;
  size_t count = 0;            // elements of a row
  Shape shape;                 // of the results, one for each row, without the dimensions
  Shape shape_kept;            // the same with each of them as 1
  std::vector<double> values;  // [rows, count]

  std::span<double> row(size_t index) { return std::span(values).subspan(index * count, count); }
};

// The dimensions that argument `name` names, of which a call without it, or with none, has all.
std::vector<bool> named_dimensions(const CallArguments& call, const char* name, size_t rank);

// `array`, converted to doubles, as rows along those dimensions.
DimensionRows rows_along(const Array& array, const std::vector<bool>& is_named);

// [outer, extent, inner] of `shape` around one dimension; a scalar counts as one element.
struct Around {
  size_t outer = 1, extent = 1, inner = 1;
};
Around around(const Shape& shape, size_t dim);

}  // namespace arenite::convert
