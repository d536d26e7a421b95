// SPDX-License-Identifier: Apache-2.0
// Loops over two arrays that are stretched to one shape.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "convert/exported/array.h"

namespace arenite::convert {

// Steps of an array's elements for one step along each dimension of `shape`, to which it is
// stretched. REQUIRES: broadcast(own, shape) == shape.
inline Shape stretched_strides(const Shape& own, const Shape& shape) {
  Shape strides(shape.size(), 0);
  int64_t stride = 1;
  for (size_t d = own.size(); d > 0; --d) {
    if (own[d - 1] != 1) strides[shape.size() - own.size() + d - 1] = stride;
    stride *= own[d - 1];
  }
  return strides;
}

// Calls take(i, j) with the elements of a and b for each element of `shape` in row-major order.
// REQUIRES: both can be stretched to it.
template <typename Take>
void for_each_pair(const Shape& a, const Shape& b, const Shape& shape, const Take& take) {
  if (elements_of(shape) == 0) return;
  const Shape a_strides = stretched_strides(a, shape), b_strides = stretched_strides(b, shape);
  const int64_t row = shape.empty() ? 1 : shape.back();
  const int64_t a_step = shape.empty() ? 0 : a_strides.back();
  const int64_t b_step = shape.empty() ? 0 : b_strides.back();
  Shape index(shape.size(), 0);
  for (int64_t i = 0, j = 0;;) {
    for (int64_t k = 0; k < row; ++k) {
      take(static_cast<size_t>(i + k * a_step), static_cast<size_t>(j + k * b_step));
    }
    size_t d = shape.empty() ? 0 : shape.size() - 1;
    for (; d > 0; --d) {
      i += a_strides[d - 1];
      j += b_strides[d - 1];
      if (++index[d - 1] < shape[d - 1]) break;
      i -= shape[d - 1] * a_strides[d - 1];
      j -= shape[d - 1] * b_strides[d - 1];
      index[d - 1] = 0;
    }
    if (d == 0) return;
  }
}

// function(x, y) of all pairs.
template <typename Result, typename T, typename Function>
std::vector<Result> zip(const Shape& a, const std::vector<T>& x, const Shape& b,
                        const std::vector<T>& y, const Shape& shape, const Function& function) {
  std::vector<Result> result;
  result.reserve(elements_of(shape));
  for_each_pair(a, b, shape, [&](size_t i, size_t j) { result.push_back(function(x[i], y[j])); });
  return result;
}

}  // namespace arenite::convert
