// SPDX-License-Identifier: Apache-2.0
// Ops that only move elements, as maps from output elements to input elements: views, transposes,
// slices, gathers, padding, concatenation.
//
//   transpose of [2, 3]  ->  shape [3, 2], walk [3, 2], strides [1, 3]
//   tril of [2, 2]       ->  shape [2, 2], sources [0, kZero, 2, 3]
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "convert/exported/read/array.h"
#include "convert/exported/read/call.h"

namespace arenite::convert {
// One result of such an op. Input elements are numbered in row-major order, through one input after
// the other.
struct Movement {
  Shape shape;  // of the result

  // Element i of the result is input element offset + sum(index[d] * strides[d]), where index is
  // the i-th index of a row-major walk over the extents `walk`.
  Shape walk{};
  std::vector<int64_t> strides{};
  int64_t offset = 0;
  // Replaces the walk where no strides fit: the input element for each result element; kZero gives
  // 0.
  std::optional<std::vector<int64_t>> sources{};

  static constexpr int64_t kZero = -1;

  // Whether the result is the first input, at most reshaped.
  bool keeps_order(size_t input_elements) const;

  // Returns the result's elements. `inputs` are the elements of all inputs, concatenated. Throws
  // ShapeError if an index is out of range, or if the count does not match `shape`.
  template <typename T>
  std::vector<T> apply(std::span<const T> inputs) const;

 private:
  void check(size_t inputs) const;
};

// Returns a movement for each result of `call`, or nullopt if it does more than move elements.
// Index tensors need elements; the moved tensors need only shapes. Throws InputError for invalid
// arguments.
std::optional<std::vector<Movement>> movements_of(const Call& call);

// Whether an op of this name is torch.cat or a variant of it.
bool concatenates(std::string_view op);
// Returns the dimension along which `call` concatenates tensors of this rank; nullopt if it does
// not.
std::optional<size_t> concat_dimension(const Call& call, size_t rank);

// Whether movements_of has a rule for ops of this name.
bool moves_elements(std::string_view op);

// Returns the arrays that `call` moves, in order. REQUIRES: movements_of returns movements.
std::vector<Array> moved_arrays(const Call& call);

// Returns the movement that broadcasts `given` to `to`; leading extents of 1 may be dropped. Throws
// ShapeError if the shapes do not fit.
Movement stretching(const Shape& given, const Shape& to);

template <typename T>
std::vector<T> Movement::apply(std::span<const T> inputs) const {
  check(inputs.size());
  std::vector<T> result;
  if (sources) {
    result.reserve(sources->size());
    for (const int64_t source : *sources) {
      result.push_back(source == kZero ? T{} : inputs[static_cast<size_t>(source)]);
    }
    return result;
  }
  const size_t count = elements_of(walk);
  result.reserve(count);
  if (count == 0) return result;
  Shape index(walk.size(), 0);
  const int64_t row = walk.empty() ? 1 : walk.back();
  const int64_t row_stride = walk.empty() ? 0 : strides.back();
  for (int64_t at = offset;;) {
    for (int64_t i = 0; i < row; ++i) {
      result.push_back(inputs[static_cast<size_t>(at + i * row_stride)]);
    }
    size_t d = walk.empty() ? 0 : walk.size() - 1;
    for (; d > 0; --d) {  // advance the outer dimensions, the last one fastest
      at += strides[d - 1];
      if (++index[d - 1] < walk[d - 1]) break;
      at -= walk[d - 1] * strides[d - 1];
      index[d - 1] = 0;
    }
    if (d == 0) return result;
  }
}

}  // namespace arenite::convert
