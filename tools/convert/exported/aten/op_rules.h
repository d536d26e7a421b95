// SPDX-License-Identifier: Apache-2.0
// How the rules of ops that compute are written, and where they are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string_view>
#include <vector>

#include "convert/exported/aten/interpret.h"
#include "convert/exported/aten/movement.h"
#include "convert/exported/read/call.h"

namespace arenite::convert {
using Results = std::vector<Argument>;
using OpRule = Results (*)(const Call&, OpBudget&);
using OpRules = std::map<std::string_view, OpRule>;  // by the op

OpRules unary_rules();      // one number after the other
OpRules binary_rules();     // of two numbers each, stretched to one shape
OpRules choosing_rules();   // where, masks, limits
OpRules complex_rules();    // complex numbers and their parts
OpRules reduction_rules();  // along dimensions
OpRules softmax_rules();    // along dimensions, and the sizes stay
OpRules norm_rules();       // of rows
OpRules product_rules();    // of matrices
OpRules batched_rules();    // of torch.vmap
OpRules convolution_rules();
OpRules creation_rules();  // from numbers alone
OpRules symbol_rules();    // on symbolic numbers, and what only asserts

// An operand of arithmetic: a tensor, or a number, which is an array without dimensions.
struct Operand {
  Array array;
  bool is_number = false;  // no tensor: it does not decide the type within a kind
};

Operand operand(const Call& call, std::string_view name);

// What PyTorch computes with: tensors with dimensions first, then those without, then numbers.
ElementType result_type(const Operand& a, const Operand& b);
// The same for ops that give real numbers for whole ones, too.
ElementType real_type(ElementType type);

// The elements of `array` stretched to `shape`. REQUIRES: broadcast(array.shape(), shape) == shape.
Array stretched(const Array& array, const Shape& shape);

// The rules that say which element goes where, op by op.

using Movements = std::vector<Movement>;

struct MovementRule {
  std::string_view moved;       // the argument that is moved: a tensor, or a list of them
  std::string_view moved_also;  // a second one, whose elements follow, or empty
  Movements (*make)(const Call&);
};

using MovementRules = std::map<std::string_view, MovementRule>;  // by the op

MovementRules reshaping_rules();  // order kept, and dimensions in another order
MovementRules cutting_rules();    // parts, windows, diagonals
MovementRules repeating_rules();  // expand, repeat, and the blocks of images
MovementRules gathering_rules();  // element by element

constexpr int64_t kShuffleMax = 1 << 12;       // side of the squares of pixel_shuffle
constexpr int64_t kPadMax = 1 << 20;           // rows that pad adds
constexpr size_t kPartsMax = size_t{1} << 16;  // of one split

// All elements of `shape` in order.
Movement whole(const Shape& shape);
// The same of "self".
Movement whole(const Call& call);
// `movement` as a result of this shape. Throws InputError unless it has as many elements.
Movements in_shape(const Call& call, Movement movement, Shape shape);

// An array as rows along some of its dimensions, which reductions and norms go over.

struct DimensionRows {
  size_t rows = 0;
  size_t count = 0;            // elements of a row
  Shape shape;                 // of the results, one for each row, without the dimensions
  Shape shape_kept;            // the same with each of them as 1
  std::vector<double> values;  // [rows, count]

  std::span<double> row(size_t index) { return std::span(values).subspan(index * count, count); }
};

// The dimensions that argument `name` names, of which a call without it, or with none, has all.
std::vector<bool> named_dimensions(const Call& call, const char* name, size_t rank);

// `array`, converted to doubles, as rows along those dimensions.
DimensionRows rows_along(const Array& array, const std::vector<bool>& is_named);

// [outer, extent, inner] of `shape` around one dimension; a scalar counts as one element.
struct Around {
  size_t outer = 1, extent = 1, inner = 1;
};
Around around(const Shape& shape, size_t dim);

// Which elements of its input each result of a convolution is made of.

struct Convolution {
  Shape stride, padding_before, padding_after, dilation;  // of each spatial dimension
  int64_t groups = 1;
};

// Refuses what is no plain convolution. `weight` is [outputs, channels, kernel...].
Convolution convolution_of(const Call& call, const Array& weight);

// [sequences, outputs, places...] of an input [sequences, channels, ...]. Refuses shapes that do
// not go together.
Shape convolved_shape(const Call& call, const Array& input, const Array& weight,
                      const Convolution& convolution);

// [sequences, groups, places, channels * kernel] of an input without padding: what is multiplied
// with the weights for each place.
Movement windows(const Shape& input, const Shape& result, const Shape& weight,
                 const Convolution& convolution);

}  // namespace arenite::convert
