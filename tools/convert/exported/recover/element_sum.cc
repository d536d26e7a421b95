// SPDX-License-Identifier: Apache-2.0
// Movements, sums and factors of values whose elements are known.
#include "convert/exported/recover/element_sum.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "convert/exported/recover/constant.h"
#include "convert/files/input_limits.h"

namespace arenite::convert {
namespace {

// The movement that stretches `from` to `to`, whose leading dimensions of 1 may be fewer.
Movement stretching(const Shape& given, const Shape& to) {
  Shape from = given;
  while (from.size() > to.size() && from[0] == 1) from.erase(from.begin());
  if (broadcast(from, to) != to) {
    throw ShapeError("a tensor {} where one of {} is expected", shape_text(given), shape_text(to));
  }
  return {.shape = to, .walk = to, .strides = stretched_strides(from, to)};
}

std::vector<int64_t> numbers_of_term(const std::vector<ElementSumRef>& parts, size_t term) {
  std::vector<int64_t> numbers;
  for (const ElementSumRef& part : parts) {
    for (size_t i = 0, count = part->elements(); i < count; ++i) {
      numbers.push_back(term < part->terms.size() ? part->terms[term].places.at(i) : kNoElement);
    }
  }
  return numbers;
}

// One factor for all that have this term, if there is one.
bool have_one_factor(const std::vector<ElementSumRef>& parts, size_t term, double& factor) {
  bool found = false;
  for (const ElementSumRef& part : parts) {
    if (term >= part->terms.size()) continue;
    const Factors& factors = part->terms[term].factors;
    if (factors.each || (found && factors.uniform != factor)) return false;
    factor = factors.uniform;
    found = true;
  }
  return true;
}

std::vector<double> factors_of_term(const std::vector<ElementSumRef>& parts, size_t term) {
  std::vector<double> factors;
  for (const ElementSumRef& part : parts) {
    for (size_t i = 0, count = part->elements(); i < count; ++i) {
      factors.push_back(term < part->terms.size() ? part->terms[term].factors.at(i) : 0.0);
    }
  }
  return factors;
}

void require_finite_factor(double factor) {
  if (std::isfinite(static_cast<float>(factor))) return;
  throw NotRecognised("it multiplies by a number that is infinite, or none");
}

template <typename T>
std::shared_ptr<const std::vector<T>> share(std::vector<T> values) {
  return std::make_shared<const std::vector<T>>(std::move(values));
}

}  // namespace

ElementSumRef make_sum(ElementSum value) {
  const size_t count = value.elements();
  for (const Term& term : value.terms) {
    const bool fits = (!term.places.numbers || term.places.numbers->size() == count) &&
                      (!term.factors.each || term.factors.each->size() == count);
    if (!fits) throw ShapeError("numbers that do not fill a tensor {}", shape_text(value.shape));
  }
  WorkBudget::take((count + 1) * (value.terms.size() + 1));
  return std::make_shared<const ElementSum>(std::move(value));
}

ElementSumRef whole_source(uint32_t source, Shape shape) {
  return make_sum({std::move(shape), {Term{Places{source}}}});
}

ElementSumRef plain(Shape shape, std::vector<int64_t> numbers) {
  return make_sum({std::move(shape), {Term{Places{0, share(std::move(numbers))}}}});
}

ElementSumRef moved(const Movement& movement, std::span<const ElementSumRef> inputs) {
  const std::vector<ElementSumRef> parts(inputs.begin(), inputs.end());
  if (parts.size() == 1 && movement.keeps_order(parts[0]->elements())) {
    return with_shape(parts[0], movement.shape);
  }
  size_t terms = 0;
  for (const ElementSumRef& part : parts) terms = std::max(terms, part->terms.size());
  ElementSum result{movement.shape, {}};
  for (size_t term = 0; term < terms; ++term) {
    const std::vector<int64_t> numbers = numbers_of_term(parts, term);
    Term made{Places{0, share(movement.apply<int64_t>(numbers))}};
    if (!have_one_factor(parts, term, made.factors.uniform)) {
      const std::vector<double> factors = factors_of_term(parts, term);
      made.factors = {1.0, share(movement.apply<double>(factors))};
    }
    result.terms.push_back(std::move(made));
  }
  return make_sum(std::move(result));
}

ElementSumRef with_shape(const ElementSumRef& value, Shape shape) {
  if (value->shape == shape) return value;
  if (value->elements() != elements_of(shape)) {
    throw ShapeError("a tensor {} where one of {} is expected", shape_text(value->shape),
                     shape_text(shape));
  }
  return make_sum({std::move(shape), value->terms, value->name});
}

ElementSumRef permuted(const ElementSumRef& value, const std::vector<size_t>& order) {
  if (order.size() != value->shape.size()) {
    throw NotRecognised("it sums over a dimension of one value, or takes its diagonal");
  }
  const Shape strides = strides_of(value->shape);
  Movement movement;
  for (const size_t d : order) {
    movement.walk.push_back(value->shape.at(d));
    movement.strides.push_back(strides[d]);
  }
  movement.shape = movement.walk;
  return moved(movement, std::span(&value, 1));
}

std::vector<size_t> inverse_order(const std::vector<size_t>& order) {
  std::vector<size_t> inverse(order.size());
  for (size_t d = 0; d < order.size(); ++d) inverse[order[d]] = d;
  return inverse;
}

std::vector<size_t> swapped_last_two(size_t rank) {
  if (rank < 2) throw NotRecognised("it turns a value that is no matrix");
  std::vector<size_t> order(rank);
  std::iota(order.begin(), order.end(), size_t{0});
  std::swap(order[rank - 1], order[rank - 2]);
  return order;
}

ElementSumRef stretched(const ElementSumRef& value, const Shape& shape) {
  if (value->shape == shape) return value;
  if (value->elements() == elements_of(shape)) return with_shape(value, shape);
  return moved(stretching(value->shape, shape), std::span(&value, 1));
}

ElementSumRef sum(const ElementSumRef& a, const ElementSumRef& b, double factor_b) {
  const Shape shape = broadcast(a->shape, b->shape);
  const ElementSumRef first = stretched(a, shape);
  const ElementSumRef second = scaled(stretched(b, shape), factor_b);
  ElementSum result{shape, first->terms};
  if (first->terms.size() + second->terms.size() > kExportedSumPartsMax) {
    throw NotRecognised(
        fmt::format("a sum of more than {} parts, one within the other, is not supported",
                    kExportedSumPartsMax));
  }
  result.terms.insert(result.terms.end(), second->terms.begin(), second->terms.end());
  return make_sum(std::move(result));
}

ElementSumRef scaled(const ElementSumRef& value, double factor) {
  if (factor == 1.0) return value;
  require_finite_factor(factor);
  ElementSum result = *value;
  for (Term& term : result.terms) {
    if (!term.factors.each) {
      term.factors.uniform *= factor;
      continue;
    }
    std::vector<double> factors = *term.factors.each;
    for (double& each : factors) each *= factor;
    term.factors.each = share(std::move(factors));
  }
  return make_sum(std::move(result));
}

std::vector<double> stretched_reals(const Array& values, const Shape& shape) {
  const Array::Reals reals = values.to_reals();
  return stretching(values.shape(), shape).apply<double>(reals);
}

ElementSumRef scaled(const ElementSumRef& value, const Array& factors) {
  const Shape shape = broadcast(value->shape, factors.shape());
  const std::vector<double> each = stretched_reals(factors, shape);
  const ElementSumRef whole = stretched(value, shape);
  if (each.empty()) return whole;
  for (const double factor : each) require_finite_factor(factor);
  if (std::ranges::all_of(each, [&](double factor) { return factor == each[0]; })) {
    return scaled(whole, each[0]);
  }
  ElementSum result = *whole;
  for (Term& term : result.terms) {
    std::vector<double> product = each;
    for (size_t i = 0; i < product.size(); ++i) product[i] *= term.factors.at(i);
    term.factors = {1.0, share(std::move(product))};
  }
  return make_sum(std::move(result));
}

bool are_same(const ElementSum& a, const ElementSum& b) {
  if (&a == &b) return true;
  if (a.shape != b.shape || a.terms.size() != b.terms.size()) return false;
  for (size_t t = 0; t < a.terms.size(); ++t) {
    const Term& first = a.terms[t];
    const Term& second = b.terms[t];
    const bool are_whole = first.places.is_whole() && second.places.is_whole();
    if (are_whole && first.places.source != second.places.source) return false;
    const bool share_places = are_whole || first.places.numbers == second.places.numbers;
    for (size_t i = 0, count = a.elements(); i < count; ++i) {
      if (!share_places && first.places.at(i) != second.places.at(i)) return false;
      if (first.factors.at(i) != second.factors.at(i)) return false;
      if (share_places && !first.factors.each && !second.factors.each) break;
    }
  }
  return true;
}

std::vector<int64_t> numbers_of(const ElementSum& value) {
  const Places& places = value.terms[0].places;
  if (!places.is_whole()) return *places.numbers;
  std::vector<int64_t> numbers(value.elements());
  std::iota(numbers.begin(), numbers.end(), places.at(0));
  return numbers;
}

}  // namespace arenite::convert
