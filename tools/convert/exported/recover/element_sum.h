// SPDX-License-Identifier: Apache-2.0
// Where each element of a value comes from: sums of elements of the graph's nodes, times constants.
// Every op that moves elements is one case with it, and so is every spelling of a rotation.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "convert/exported/aten/movement.h"
#include "convert/exported/read/array.h"

namespace arenite::convert {
// An element has the number source * kSourceElements + its index in the source. Sources are those
// of a GraphBuilder and count from 1, so that 0 is no element: what stands there is 0.
inline constexpr int64_t kSourceElements = int64_t{1} << 36;
inline constexpr int64_t kNoElement = 0;

constexpr uint32_t source_of(int64_t number) {
  return static_cast<uint32_t>(number / kSourceElements);
}
constexpr int64_t index_of(int64_t number) { return number % kSourceElements; }
constexpr int64_t number_of(uint32_t source, uint64_t index) {
  return int64_t{source} * kSourceElements + static_cast<int64_t>(index);
}

// The number of each element of a value, in row-major order.
struct Places {
  uint32_t source = 0;
  std::shared_ptr<const std::vector<int64_t>> numbers{};  // null: element i is that of `source`

  int64_t at(size_t i) const { return numbers ? numbers->at(i) : number_of(source, i); }
  bool is_whole() const { return numbers == nullptr; }
};

// What each element is multiplied by.
struct Factors {
  double uniform = 1.0;
  std::shared_ptr<const std::vector<double>> each{};  // null: all by `uniform`

  double at(size_t i) const { return each ? each->at(i) : uniform; }
};

struct Term {
  Places places;
  Factors factors{};
};

// Element i is the sum of factors.at(i) * element places.at(i) over the terms, of which there is at
// least one.
struct ElementSum {
  Shape shape;
  std::vector<Term> terms;
  std::string name{};  // of the author's op that made it, of sums

  size_t elements() const { return elements_of(shape); }
  // One term, and every factor is 1.
  bool is_plain() const {
    return terms.size() == 1 && !terms[0].factors.each && terms[0].factors.uniform == 1.0;
  }
};

using ElementSumRef = std::shared_ptr<const ElementSum>;

// Every sum is made here, at its cost. Throws ShapeError unless each of its terms has as
// many places and factors as it has elements.
ElementSumRef make_sum(ElementSum value);

ElementSumRef whole_source(uint32_t source, Shape shape);
ElementSumRef plain(Shape shape, std::vector<int64_t> numbers);

// The parts that a movement takes, one after the other, moved.
ElementSumRef moved(const Movement& movement, std::span<const ElementSumRef> parts);

ElementSumRef with_shape(const ElementSumRef& value, Shape shape);
ElementSumRef permuted(const ElementSumRef& value, const std::vector<size_t>& order);
// What undoes a permutation.
std::vector<size_t> inverse_order(const std::vector<size_t>& order);
// The order of dimensions that makes columns of rows. Throws NotRecognised where there are none.
std::vector<size_t> swapped_last_two(size_t rank);
ElementSumRef stretched(const ElementSumRef& value, const Shape& shape);  // broadcast to `shape`
ElementSumRef sum(const ElementSumRef& a, const ElementSumRef& b, double factor_b);
ElementSumRef scaled(const ElementSumRef& value, double factor);
ElementSumRef scaled(const ElementSumRef& value, const Array& factors);

// The elements of `values`, stretched to `shape`, as real numbers.
std::vector<double> stretched_reals(const Array& values, const Shape& shape);

// Whether both are the same elements with the same factors in the same shape.
bool are_same(const ElementSum& a, const ElementSum& b);

// Element numbers without their factors. REQUIRES: one term.
std::vector<int64_t> numbers_of(const ElementSum& value);

}  // namespace arenite::convert
