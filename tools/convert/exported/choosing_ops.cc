// SPDX-License-Identifier: Apache-2.0
// Ops that take one of several numbers: by a condition, a mask, or a limit.
#include <algorithm>
#include <cmath>

#include "convert/exported/broadcasting.h"
#include "convert/exported/op_rules.h"

namespace arenite::convert {
namespace {

// self where the condition holds, other elsewhere, both of `type`.
Array chosen(const Array& condition, const Array& self, const Array& other, ElementType type) {
  const Shape shape = broadcast(condition.shape(), broadcast(self.shape(), other.shape()));
  const Array a = stretched(self.to(type), shape), b = stretched(other.to(type), shape);
  const Array::Bools takes = stretched(condition, shape).to_bools();
  const auto mixed = [&](auto x, const auto& y) {
    for (size_t i = 0; i < x.size(); ++i) {
      if (takes[i] == 0) x[i] = y[i];
    }
    return x;
  };
  if (is_real(type)) return Array::real(shape, mixed(a.reals(), b.reals()), type);
  if (is_complex(type)) return Array::complex(shape, mixed(a.complexes(), b.complexes()), type);
  if (is_integer(type)) return Array::integer(shape, mixed(a.integers(), b.integers()), type);
  return Array::boolean(shape, mixed(a.bools(), b.bools()));
}

Results where(const CallArguments& call, OpBudget&) {
  const Operand self = operand(call, "self"), other = operand(call, "other");
  return {chosen(call.array("condition"), self.array, other.array, result_type(self, other))};
}

Results masked_fill(const CallArguments& call, OpBudget&) {
  const Array& self = call.array("self");
  return {chosen(call.array("mask"), operand(call, "value").array, self, self.type())};
}

Array limited(const Array& self, const Operand& limit, bool is_lowest, ElementType type) {
  const Shape shape = broadcast(self.shape(), limit.array.shape());
  const auto limit_to = [&](auto x, auto y) {
    if (x != x || y != y) return x != x ? x : y;  // not a number
    return is_lowest ? std::max(x, y) : std::min(x, y);
  };
  if (is_real(type)) {
    const Array a = self.to(ElementType::kF64), b = limit.array.to(ElementType::kF64);
    return Array::real(
        shape, zip<double>(a.shape(), a.reals(), b.shape(), b.reals(), shape, limit_to), type);
  }
  const Array a = self.to(ElementType::kI64), b = limit.array.to(ElementType::kI64);
  return Array::integer(
             shape, zip<int64_t>(a.shape(), a.integers(), b.shape(), b.integers(), shape, limit_to))
      .to(type);
}

Results clamp(const CallArguments& call, OpBudget&) {
  Operand self = operand(call, "self");
  for (const char* name : {"min", "max"}) {
    if (!call.has(name)) continue;
    const Operand limit = operand(call, name);
    const ElementType type = result_type(self, limit);
    self.array = limited(self.array, limit, name[1] == 'i', type);
  }
  return {self.array};
}

Results fill_with(const CallArguments& call, OpBudget&) {
  const Array& self = call.array("self");
  const Array value = call.has("value") ? operand(call, "value").array : Array::integer({}, {0});
  if (value.elements() != 1) call.refuse("it fills with a tensor of several numbers");
  return {stretched(value.with_shape({}).to(self.type()), self.shape())};
}

// What was copied into self: stretched to it, and of its type.
Results copy(const CallArguments& call, OpBudget&) {
  const Array& self = call.array("self");
  return {stretched(call.array("src").to(self.type()), self.shape())};
}

}  // namespace

Array stretched(const Array& array, const Shape& shape) {
  if (array.shape() == shape) return array;
  if (broadcast(array.shape(), shape) != shape) {
    throw ShapeError("a tensor {} that does not fit into {}", shape_text(array.shape()),
                     shape_text(shape));
  }
  const auto take = [&](const auto& from) {
    std::remove_cvref_t<decltype(from)> values;
    values.reserve(elements_of(shape));
    for_each_pair(array.shape(), {}, shape, [&](size_t i, size_t) { values.push_back(from[i]); });
    return values;
  };
  if (is_real(array.type())) return Array::real(shape, take(array.reals()), array.type());
  if (is_complex(array.type())) return Array::complex(shape, take(array.complexes()), array.type());
  if (is_integer(array.type())) return Array::integer(shape, take(array.integers()), array.type());
  return Array::boolean(shape, take(array.bools()));
}

OpRules choosing_rules() {
  return {{"where", where},     {"masked_fill", masked_fill}, {"clamp", clamp},
          {"clamp_min", clamp}, {"clamp_max", clamp},         {"clip", clamp},
          {"fill", fill_with},  {"zero", fill_with},          {"copy", copy}};
}

}  // namespace arenite::convert
