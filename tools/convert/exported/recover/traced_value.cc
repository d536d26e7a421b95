// SPDX-License-Identifier: Apache-2.0
// Implements constants as weights, ops on linear expressions, and calls with arrays in place of
// traced values.
#include "convert/exported/recover/traced_value.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "convert/exported/recover/scores.h"
#include "convert/files/input_limits.h"
#include "convert/spec/model_tensors.h"

namespace arenite::convert {
namespace {

template <typename Values>
Values finite(Values values, const std::string& name) {
  if (std::ranges::all_of(values, [](auto value) { return std::isfinite(value); })) return values;
  throw InputError("tensor {} has infinities or NaN; expected finite weights", quote(name));
}

// Returns the first input with the same storage, since tied weights are inputs with one storage.
const ExportedInput& first_of_storage(const ExportedProgram& program, const ExportedInput& input) {
  for (const ExportedInput& other : program.inputs) {
    if (other.kind != InputKind::kUser && other.storage == input.storage) return other;
  }
  return input;
}

}  // namespace

Array Constant::array() const {
  if (array_) return *array_;
  const Level level;
  Array loaded = load_();
  if (loaded.shape() != shape_) {
    throw ShapeError("the file has a tensor {}, but the program expects {}; export the model again",
                     shape_text(loaded.shape()), shape_text(shape_));
  }
  if (!is_large()) array_ = loaded;
  return loaded;
}

void set_exact(WeightRef& weight, std::function<std::vector<double>()> exact) {
  weight.load = [exact] {
    const std::vector<double> values = exact();
    return std::vector<float>(values.begin(), values.end());
  };
  weight.load_f64 = std::move(exact);
}

WeightRef with_columns(const WeightRef& weight, const std::vector<uint32_t>& order) {
  RowOrder sources(order.size());
  for (uint32_t c = 0; c < order.size(); ++c) sources[order[c]] = c;
  WeightRef result = transpose(select_rows(transpose(weight), sources));
  result.name = weight.name + ".reordered";
  return result;
}

std::string name_of(const ExportedProgram& program, const Constant& constant) {
  return constant.value() == kNoValue ? "constant" : program.values[constant.value()].name;
}

ConstantRef with_shape(const ConstantRef& constant, const Shape& shape) {
  return std::make_shared<const Constant>(
      constant->value(), shape, constant->type(),
      [constant, shape] { return constant->array().with_shape(shape); });
}

ConstantRef moved(const Movement& movement, const ConstantRef& of) {
  elements_of(movement.shape);  // throws if it is too large
  return std::make_shared<const Constant>(
      kNoValue, movement.shape, of->type(), [of, movement]() -> Array {
        return Array::real(movement.shape, movement.apply<double>(of->array().to_reals()));
      });
}

WeightRef weight_of(const std::shared_ptr<const ExportedProgram>& program,
                    const ConstantRef& constant, bool transposed) {
  const Shape& shape = constant->shape();
  refuse_op_if(shape.size() != 2, "the weight is {}; expected a matrix", shape_text(shape));
  WeightRef weight;
  weight.rows = static_cast<uint32_t>(shape[0]);
  weight.columns = static_cast<uint32_t>(shape[1]);
  if (constant->stored != nullptr) {
    weight.name = first_of_storage(*program, *constant->stored).name;
    const StoredTensor* tensor = &program->tensor(*constant->stored);
    weight.load = [program, tensor] { return finite(tensor->load(), tensor->name); };
    if (tensor->load_f64) {
      weight.load_f64 = [program, tensor] { return finite(tensor->load_f64(), tensor->name); };
    }
  } else {
    weight.name = name_of(*program, *constant);
    const uint64_t most = std::max(kExportedElementsMax, program->largest_weight());
    set_exact(weight, [constant, most, name = weight.name] {
      const ElementLimit limit(most);
      return finite(constant->array().to_reals(), name);
    });
  }
  return transposed ? transpose(std::move(weight)) : weight;
}

// ---- linear expressions ----

namespace {

// Returns get(term, i) for each element of all parts; `none` for a part without this term.
template <typename T, typename Get>
std::vector<T> of_term(std::span<const LinearExprRef> parts, size_t term, T none, const Get& get) {
  std::vector<T> result;
  for (const LinearExprRef& part : parts) {
    for (size_t i = 0, count = part->elements(); i < count; ++i) {
      result.push_back(term < part->terms.size() ? get(part->terms[term], i) : none);
    }
  }
  return result;
}

// Returns the factor of a term if it is uniform and the same in all parts with this term; else
// nullopt.
std::optional<double> one_factor(std::span<const LinearExprRef> parts, size_t term) {
  std::optional<double> factor;
  for (const LinearExprRef& part : parts) {
    if (term >= part->terms.size()) continue;
    const Factors& factors = part->terms[term].factors;
    if (factors.each || factors.uniform != factor.value_or(factors.uniform)) return std::nullopt;
    factor = factors.uniform;
  }
  return factor.value_or(1.0);
}

void require_finite_factor(double factor) {
  refuse_op_if(!std::isfinite(static_cast<float>(factor)),
               "a factor is infinite or NaN; expected a finite float32");
}

template <typename T>
std::shared_ptr<const std::vector<T>> share(std::vector<T> values) {
  return std::make_shared<const std::vector<T>>(std::move(values));
}

}  // namespace

bool LinearExpr::has_own_factors() const {
  return std::ranges::any_of(terms, [](const Term& term) { return term.factors.each != nullptr; });
}

LinearExprRef make_sum(LinearExpr value) {
  const size_t count = value.elements();
  for (const Term& term : value.terms) {
    const bool fits = (!term.places.element_ids || term.places.element_ids->size() == count) &&
                      (!term.factors.each || term.factors.each->size() == count);
    if (!fits)
      throw ShapeError("the element ids or factors are not as many as the elements of {}",
                       shape_text(value.shape));
  }
  WorkBudget::take((count + 1) * (value.terms.size() + 1));
  return std::make_shared<const LinearExpr>(std::move(value));
}

LinearExprRef whole_producer(uint32_t producer, Shape shape) {
  return make_sum({std::move(shape), {Term{Places{producer}}}});
}

LinearExprRef plain(Shape shape, std::vector<int64_t> element_ids) {
  return make_sum({std::move(shape), {Term{Places{0, share(std::move(element_ids))}}}});
}

LinearExprRef moved(const Movement& movement, std::span<const LinearExprRef> parts) {
  if (parts.size() == 1 && movement.keeps_order(parts[0]->elements())) {
    return with_shape(parts[0], movement.shape);
  }
  size_t terms = 0;
  for (const LinearExprRef& part : parts) terms = std::max(terms, part->terms.size());
  LinearExpr result{movement.shape, {}};
  for (size_t term = 0; term < terms; ++term) {
    const std::vector<int64_t> element_ids =
        of_term(parts, term, kNoElement, [](const Term& of, size_t i) { return of.places.at(i); });
    Term made{Places{0, share(movement.apply<int64_t>(element_ids))}};
    if (const auto factor = one_factor(parts, term)) {
      made.factors.uniform = *factor;
    } else {
      const std::vector<double> factors =
          of_term(parts, term, 0.0, [](const Term& of, size_t i) { return of.factors.at(i); });
      made.factors.each = share(movement.apply<double>(factors));
    }
    result.terms.push_back(std::move(made));
  }
  return make_sum(std::move(result));
}

LinearExprRef moved(const Movement& movement, const LinearExprRef& part) {
  return moved(movement, std::span(&part, 1));
}

LinearExprRef with_shape(const LinearExprRef& value, Shape shape) {
  if (value->shape == shape) return value;
  if (value->elements() != elements_of(shape)) {
    throw ShapeError("the tensor is {}; expected {}", shape_text(value->shape), shape_text(shape));
  }
  return make_sum({std::move(shape), value->terms, value->name});
}

LinearExprRef permuted(const LinearExprRef& value, const std::vector<size_t>& order) {
  refuse_op_if(order.size() != value->shape.size(),
               "the dimensions of the result are not those of the operand; expected each dimension "
               "once, without sums over one operand and diagonals");
  const Shape strides = strides_of(value->shape);
  Movement movement;
  for (const size_t d : order) {
    movement.walk.push_back(value->shape.at(d));
    movement.strides.push_back(strides[d]);
  }
  movement.shape = movement.walk;
  return moved(movement, value);
}

std::vector<size_t> inverse_order(const std::vector<size_t>& order) {
  std::vector<size_t> inverse(order.size());
  for (size_t d = 0; d < order.size(); ++d) inverse[order[d]] = d;
  return inverse;
}

LinearExprRef transposed(const LinearExprRef& value) {
  const size_t rank = value->shape.size();
  refuse_op_if(rank < 2,
               "the transposed value has fewer than 2 dimensions; expected [.., rows, columns]");
  std::vector<size_t> order(rank);
  std::iota(order.begin(), order.end(), size_t{0});
  std::swap(order[rank - 1], order[rank - 2]);
  return permuted(value, order);
}

LinearExprRef stretched(const LinearExprRef& value, const Shape& shape) {
  if (value->shape == shape) return value;
  if (value->elements() == elements_of(shape)) return with_shape(value, shape);
  return moved(stretching(value->shape, shape), value);
}

LinearExprRef sum(const LinearExprRef& a, const LinearExprRef& b, double factor_b) {
  const Shape shape = broadcast(a->shape, b->shape);
  const LinearExprRef first = stretched(a, shape);
  const LinearExprRef second = scaled(stretched(b, shape), factor_b);
  LinearExpr result{shape, first->terms};
  refuse_op_if(first->terms.size() + second->terms.size() > kExportedSumPartsMax,
               "a sum has more than {} nested terms; split it by layers between its parts",
               kExportedSumPartsMax);
  result.terms.insert(result.terms.end(), second->terms.begin(), second->terms.end());
  return make_sum(std::move(result));
}

LinearExprRef scaled(const LinearExprRef& value, double factor) {
  if (factor == 1.0) return value;
  require_finite_factor(factor);
  LinearExpr result = *value;
  if (factor == 0.0) result.terms.resize(1);  // zeros, as one term: sums skip it
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

LinearExprRef scaled(const LinearExprRef& value, const Array& factors) {
  const Shape shape = broadcast(value->shape, factors.shape());
  const std::vector<double> each = stretched_reals(factors, shape);
  const LinearExprRef whole = stretched(value, shape);
  if (each.empty()) return whole;
  for (const double factor : each) require_finite_factor(factor);
  if (std::ranges::all_of(each, [&](double factor) { return factor == each[0]; })) {
    return scaled(whole, each[0]);
  }
  LinearExpr result = *whole;
  for (Term& term : result.terms) {
    std::vector<double> product = each;
    for (size_t i = 0; i < product.size(); ++i) product[i] *= term.factors.at(i);
    term.factors = {1.0, share(std::move(product))};
  }
  return make_sum(std::move(result));
}

bool are_same(const LinearExpr& a, const LinearExpr& b) {
  if (&a == &b) return true;
  if (a.shape != b.shape || a.terms.size() != b.terms.size()) return false;
  for (size_t t = 0; t < a.terms.size(); ++t) {
    const Term& first = a.terms[t];
    const Term& second = b.terms[t];
    if (first == second) continue;
    for (size_t i = 0, count = a.elements(); i < count; ++i) {
      if (first.places.at(i) != second.places.at(i)) return false;
      if (first.factors.at(i) != second.factors.at(i)) return false;
    }
  }
  return true;
}

std::vector<int64_t> element_ids_of(const LinearExpr& value) {
  const Places& places = value.terms[0].places;
  if (!places.is_whole()) return *places.element_ids;
  std::vector<int64_t> element_ids(value.elements());
  std::iota(element_ids.begin(), element_ids.end(), places.at(0));
  return element_ids;
}

// ---- values ----

Shape shape_of(const TracedValue& value) {
  if (const ConstantRef& constant = value.as<ConstantRef>()) return constant->shape();
  if (const LinearExprRef& elements = value.as<LinearExprRef>()) return elements->shape;
  if (const FunctionRef& function = value.as<FunctionRef>()) return function->shape;
  if (const ScoresRef& scores = value.as<ScoresRef>()) return scores->shape;
  if (value.is<ComplexPair>()) return value.as<ComplexPair>().real->shape;
  const ScoreRow& row = *value.as<ScoreRowRef>();
  Shape shape = row.of->shape;
  shape.back() = 1;
  if (row.is_flat) shape.pop_back();
  return shape;
}

ElementType type_of(const TracedValue& value) {
  const ConstantRef& constant = value.as<ConstantRef>();
  return constant ? constant->type() : value.type;
}

const TracedValue* value_of(const Call& call, std::string_view name) {
  const Argument* argument = call.find(name);
  const TracedRef* ref = argument != nullptr ? argument->as<TracedRef>() : nullptr;
  return ref != nullptr ? ref->get() : nullptr;
}

std::vector<TracedValue> values_of(const Call& call) {
  std::vector<TracedValue> values;
  for_each<TracedRef>(call, [&](const TracedRef& ref) { values.push_back(*ref); });
  return values;
}

Call with_shapes(const Call& call) {
  return bind<TracedRef>(call, [](const TracedRef& ref) -> Argument {
    const ConstantRef& constant = ref->as<ConstantRef>();
    if (constant && !constant->is_large()) return constant->array();
    return Array::of_shape(shape_of(*ref), type_of(*ref));
  });
}

Call with_elements(const Call& call) {
  return bind<TracedRef>(call, [](const TracedRef& ref) -> Argument {
    refuse_op_if(!ref->is_constant(),
                 "the value depends on the model's input; expected a constant");
    return ref->as<ConstantRef>()->array();
  });
}

}  // namespace arenite::convert
