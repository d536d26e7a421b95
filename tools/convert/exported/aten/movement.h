// SPDX-License-Identifier: Apache-2.0
// Ops that only move elements: which element of its inputs each element of a result is.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "convert/exported/read/array.h"
#include "convert/exported/read/call.h"

namespace arenite::convert {
// One result of an op that moves elements. Elements of the inputs are numbered through: all of the
// first input in row-major order, then all of the second.
struct Movement {
  Shape shape;  // of the result

  // Element i of the result, in row-major order, is that where a walk over `walk` stands after i
  // steps, the last dimension fastest: offset + sum of index[d] * strides[d].
  Shape walk{};
  std::vector<int64_t> strides{};
  int64_t offset = 0;
  // Where that is no rule, the element itself for each element of the result; kZero: it is 0.
  std::optional<std::vector<int64_t>> sources{};

  static constexpr int64_t kZero = -1;

  // Whether the result is the first input with another shape at most.
  bool keeps_order(size_t input_elements) const;

  // The result's elements. `inputs` are those of all inputs, one after the other. Throws ShapeError
  // where it would read others, or gives more or fewer elements than `shape` has.
  template <typename T>
  std::vector<T> apply(std::span<const T> inputs) const;

 private:
  void check(size_t inputs) const;
};

// The movements that `call` makes, one for each result, or nothing if it does anything else than
// move elements. What is moved are `moved_arrays`, which need no elements, but indices do. Throws
// InputError for arguments that the op cannot take.
std::optional<std::vector<Movement>> movements_of(const Call& call);

// Whether movements_of has a rule for ops of this name.
bool moves_elements(std::string_view op);

// The arrays whose elements `call` moves, in order. REQUIRES: movements_of gives something.
std::vector<Array> moved_arrays(const Call& call);

// `given`, whose leading ones may be left out, stretched to a shape. Throws ShapeError where it
// does not fit.
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
    for (; d > 0; --d) {  // step the outer dimensions, the last one fastest
      at += strides[d - 1];
      if (++index[d - 1] < walk[d - 1]) break;
      at -= walk[d - 1] * strides[d - 1];
      index[d - 1] = 0;
    }
    if (d == 0) return result;
  }
}

}  // namespace arenite::convert
