// SPDX-License-Identifier: Apache-2.0
// Movements without strides: concatenation, gathers by index, padding, scatters, triangles.
//
//    cat([a0 a1], [b0])  ->  sources [0, 1, 2], numbered through both tensors

#include <algorithm>
#include <numeric>

#include "convert/exported/aten/op_rules.h"

namespace arenite::convert {
namespace {

using Numbers = std::vector<int64_t>;

constexpr int64_t kPadMax = 1 << 20;  // rows that pad adds

// Makes a movement of `shape` with sources[i] = source(index, i), where `index` is the
// multi-index of element i.
template <typename Source>
Movement gathered(Shape shape, const Source& source) {
  Movement movement{.shape = std::move(shape)};
  Numbers& sources = movement.sources.emplace(elements_of(movement.shape));
  Shape index(movement.shape.size(), 0);
  for (size_t i = 0; i < sources.size(); ++i) {
    sources[i] = source(std::as_const(index), static_cast<int64_t>(i));
    for (size_t d = index.size(); d > 0; --d) {
      if (++index[d - 1] < movement.shape[d - 1]) break;
      index[d - 1] = 0;
    }
  }
  return movement;
}

// Returns the element at `index` of a tensor of `shape` that is broadcast to the index's first
// `end` dimensions.
int64_t element_at(const Shape& shape, const Shape& index, size_t end) {
  int64_t number = 0;
  for (size_t d = 0; d < shape.size(); ++d) {
    number = number * shape[d] + (shape[d] == 1 ? 0 : index[end - shape.size() + d]);
  }
  return number;
}

int64_t inner_of(const Shape& shape, size_t dim) { return strides_of(shape)[dim]; }

std::vector<Shape> shapes_of(const Call& call) {
  std::vector<Shape> shapes;
  for (const Array& array : call.arrays("tensors")) shapes.push_back(array.shape());
  if (shapes.empty()) call.refuse("found an empty list: expected tensors");
  return shapes;
}

// Concatenates along `dim`; all other extents must be equal.
Movements joined(const Call& call, const std::vector<Shape>& shapes, size_t dim) {
  Movement movement{.shape = shapes.front()};
  int64_t rows = 0;
  for (const Shape& shape : shapes) {
    for (size_t d = 0; d < movement.shape.size(); ++d) {
      if (shape.size() != movement.shape.size() || (d != dim && shape[d] != movement.shape[d])) {
        call.refuse(
            "tensors {} and {} cannot be concatenated: expected equal extents in the other "
            "dimensions",
            shape_text(movement.shape), shape_text(shape));
      }
    }
    rows += shape[dim];
  }
  movement.shape[dim] = rows;
  const auto elements = static_cast<int64_t>(elements_of(movement.shape));
  const int64_t inner = inner_of(movement.shape, dim);
  const int64_t outer = elements == 0 ? 0 : elements / (rows * inner);
  Numbers& sources = movement.sources.emplace();
  sources.reserve(static_cast<size_t>(elements));
  for (int64_t o = 0; o < outer; ++o) {
    int64_t first = 0;
    for (const Shape& shape : shapes) {
      const int64_t count = shape[dim] * inner;
      for (int64_t i = 0; i < count; ++i) sources.push_back(first + o * count + i);
      first += outer * count;
    }
  }
  return {std::move(movement)};
}

Movements cat(const Call& call) {
  std::vector<Shape> shapes = shapes_of(call);
  // PyTorch concatenates empty vectors with anything.
  if (std::ranges::any_of(shapes, [](const Shape& shape) { return shape != Shape{0}; })) {
    std::erase(shapes, Shape{0});
  }
  if (shapes[0].empty())
    call.refuse("scalars cannot be concatenated: expected at least one dimension");
  return joined(call, shapes, *concat_dimension(call, shapes[0].size()));
}

Movements stack(const Call& call) {
  std::vector<Shape> shapes = shapes_of(call);
  const size_t dim = call.dimension("dim", 0, shapes[0].size() + 1);
  for (Shape& shape : shapes) {
    if (shape.size() < dim) call.refuse("tensors of different rank cannot be stacked");
    shape.insert(shape.begin() + static_cast<ptrdiff_t>(dim), 1);
  }
  return joined(call, shapes, dim);
}

Movements roll(const Call& call) {
  const Shape& given = call.array("self").shape();
  const Numbers shifts = call.integers("shifts");
  Numbers dims = call.has("dims") ? call.integers("dims") : Numbers{};
  Shape shape = given;
  if (dims.empty() && shifts.size() == 1) {  // rolls the flattened tensor
    shape = {static_cast<int64_t>(elements_of(given))};
    dims = {0};
  }
  if (dims.size() != shifts.size()) {
    call.refuse("found {} shifts for {} dimensions: expected one for each", shifts.size(),
                dims.size());
  }
  Shape left(shape.size(), 0);
  for (size_t i = 0; i < dims.size() && !shape.empty(); ++i) {
    const size_t dim = call.dimension(dims[i], shape.size());
    if (shape[dim] != 0) left[dim] = (left[dim] + shifts[i] % shape[dim]) % shape[dim];
  }
  const Shape strides = strides_of(shape);
  Movement movement = gathered(shape, [&](const Shape& at, int64_t) {
    int64_t source = 0;
    for (size_t d = 0; d < shape.size(); ++d) {
      source += strides[d] * ((at[d] - left[d] + shape[d]) % shape[d]);
    }
    return source;
  });
  movement.shape = given;
  return {std::move(movement)};
}

Movements triangle(const Call& call) {
  const Shape& shape = call.array("self").shape();
  if (shape.size() < 2) call.refuse("found fewer than two dimensions: expected matrices");
  const int64_t rows = shape[shape.size() - 2], columns = shape.back();
  const int64_t diagonal = std::clamp(call.integer("diagonal", 0), -rows, columns);
  const bool is_lower = call.op == "tril";
  return {gathered(shape, [&](const Shape& at, int64_t i) {
    const int64_t distance = at.back() - at[at.size() - 2];
    return (is_lower ? distance > diagonal : distance < diagonal) ? Movement::kZero : i;
  })};
}

Movements gather(const Call& call) {
  const Shape& shape = call.array("self").shape();
  const Shape& index = call.array("index").shape();
  const Array::Integers rows = call.indices("index");
  if (shape.empty() || index.size() != shape.size())
    call.refuse("the index and the tensor differ in rank");
  const size_t dim = call.dimension("dim", 0, shape.size());
  const Shape strides = strides_of(shape);
  for (size_t d = 0; d < shape.size(); ++d) {
    if (d != dim && index[d] > shape[d])
      call.refuse(
          "the index exceeds the tensor: expected at most its extents in dimensions other than "
          "dim");
  }
  return {gathered(index, [&](const Shape& at, int64_t i) {
    int64_t source = 0;
    for (size_t d = 0; d < shape.size(); ++d) {
      const int64_t row = d == dim ? row_of(call, rows[static_cast<size_t>(i)], shape[d]) : at[d];
      source += strides[d] * row;
    }
    return source;
  })};
}

// Returns the movement of self[indices]. Index tensors broadcast to one shape. It replaces the
// first indexed dimension, or comes first if dimensions without an index lie in between. A null
// index takes the whole dimension.
Movement indexed(const Call& call, const Shape& self, std::vector<const Array*> indices) {
  Shape together, shape;
  size_t first = self.size(), last = 0, count = 0;
  if (indices.size() > self.size()) call.refuse("found more indices than dimensions");
  indices.resize(self.size(), nullptr);
  for (size_t d = 0; d < indices.size(); ++d) {
    if (indices[d] == nullptr) {
      shape.push_back(self[d]);
      continue;
    }
    if (!indices[d]->has_values()) {
      call.refuse(
          "indices are computed from the model's input: output all rows and index them in your "
          "program, or take the last rows by x[:, -1]");
    }
    if (!is_integer(indices[d]->type())) {
      call.refuse("an index of bools has a data-dependent shape");
    }
    together = broadcast(together, indices[d]->shape());
    first = std::min(first, d);
    last = d;
    ++count;
  }
  if (count == 0) return whole(self);
  const size_t place = last - first + 1 == count ? first : 0;
  shape.insert(shape.begin() + static_cast<ptrdiff_t>(place), together.begin(), together.end());
  const Shape strides = strides_of(self);
  return gathered(std::move(shape), [&](const Shape& at, int64_t) {
    int64_t source = 0;
    size_t plain = 0;  // dimension of the result
    for (size_t d = 0; d < self.size(); ++d) {
      if (indices[d] == nullptr) {
        if (plain == place) plain += together.size();
        source += strides[d] * at[plain++];
        continue;
      }
      const int64_t element = element_at(indices[d]->shape(), at, place + together.size());
      const int64_t row = indices[d]->integers()[static_cast<size_t>(element)];
      source += strides[d] * row_of(call, row, self[d]);
    }
    return source;
  });
}

// Returns the indices of true elements, one array for each dimension.
std::vector<Array> places_of(const Array& bools) {
  const Array::Bools flags = bools.to_bools();
  std::vector<Array::Integers> places(bools.rank());
  const Shape strides = strides_of(bools.shape());
  for (size_t i = 0; i < flags.size(); ++i) {
    for (size_t d = 0; flags[i] != 0 && d < places.size(); ++d) {
      places[d].push_back(static_cast<int64_t>(i) / strides[d] % bools.shape()[d]);
    }
  }
  std::vector<Array> indices;
  for (Array::Integers& rows : places) {
    const auto count = static_cast<int64_t>(rows.size());
    indices.push_back(Array::integer({count}, std::move(rows)));
  }
  return indices;
}

Movement named_elements(const Call& call) {
  const auto* given = call.argument("indices").as<Argument::List>();
  if (given == nullptr) call.refuse("argument 'indices': expected a list of tensors");
  const Shape& self = call.array("self").shape();
  std::vector<std::optional<Array>> indices;
  for (const Argument& index : *given) {
    const Array* array = index.as<Array>();
    if (!index.is_none() && array == nullptr)
      call.refuse("argument 'indices': expected tensors or None");
    const bool are_bools =
        array != nullptr && array->has_values() && array->type() == ElementType::kBool;
    if (!are_bools) {
      indices.push_back(array == nullptr ? std::nullopt : std::optional(*array));
      continue;
    }
    for (size_t d = 0; d < array->rank(); ++d) {
      if (indices.size() + d >= self.size() || self[indices.size() + d] != array->shape()[d]) {
        call.refuse("a bool index {} does not fit a tensor {}", shape_text(array->shape()),
                    shape_text(self));
      }
    }
    for (Array& places : places_of(*array)) indices.emplace_back(std::move(places));
  }
  std::vector<const Array*> named;
  for (const std::optional<Array>& index : indices) named.push_back(index ? &*index : nullptr);
  return indexed(call, self, std::move(named));
}

Movements index(const Call& call) { return {named_elements(call)}; }

Movements index_select(const Call& call) {
  const Shape& shape = call.array("self").shape();
  const size_t dim = dimension_of(call, shape);
  Array rows = call.array("index");
  rows = rows.with_shape({static_cast<int64_t>(rows.elements())});
  std::vector<const Array*> indices(shape.size(), nullptr);
  indices[dim] = &rows;
  return {indexed(call, shape, std::move(indices))};
}

Movements embedding(const Call& call) {
  const Shape& weight = call.array("weight").shape();
  if (weight.size() != 2) call.refuse("the weight is not a matrix: expected [rows, features]");
  const Array& rows = call.array("indices");
  if (rows.has_values() && is_integer(rows.type()) &&
      std::ranges::any_of(rows.integers(), [](int64_t row) { return row < 0; })) {
    call.refuse("found a negative index: expected at least 0");
  }
  return {indexed(call, weight, {&rows})};
}

// Maps an index in the padding to the element that `mode` copies there: the nearest element, its
// mirror image, or an element from the other end. Returns -1 for constant padding.
int64_t beyond(const Call& call, const std::string& mode, int64_t from, int64_t extent) {
  const int64_t last = extent - 1;
  const bool is_inside = from >= 0 && from <= last;
  if (is_inside || mode == "constant") return is_inside ? from : -1;
  const int64_t way = from < 0 ? -from : from - last;
  const bool is_known = is_one_of(mode, {"replicate", "reflect", "circular"});
  if (!is_known || extent == 0 || (mode != "replicate" && way > extent - (mode == "reflect"))) {
    call.refuse("an extent of {} cannot be padded by {} elements with mode='{}'", extent, way,
                printable(mode));
  }
  if (mode == "replicate") return from < 0 ? 0 : last;
  if (mode == "circular") return from < 0 ? from + extent : from - extent;
  return from < 0 ? way : last - way;
}

Movements pad_by_elements(const Call& call) {
  const std::string mode = call.text("mode", "constant");
  if (mode == "constant" && call.real("value", 0.0) != 0.0) return {};
  const Shape& shape = call.array("self").shape();
  const Numbers pad = call.integers("pad");
  if (pad.size() % 2 != 0 || pad.size() / 2 > shape.size())
    call.refuse("found padding for other dimensions than the tensor has: expected a pair for each");
  Shape padded = shape, before(shape.size(), 0);
  for (size_t i = 0; i < pad.size() / 2; ++i) {
    const size_t d = shape.size() - 1 - i;
    if (std::abs(pad[2 * i] / 2) > kPadMax || std::abs(pad[2 * i + 1] / 2) > kPadMax) {
      call.refuse("the padding is too large: expected fewer rows");
    }
    before[d] = pad[2 * i];
    padded[d] += pad[2 * i] + pad[2 * i + 1];
  }
  return {gathered(std::move(padded), [&](const Shape& at, int64_t) {
    int64_t source = 0;
    for (size_t d = 0; d < shape.size(); ++d) {
      const int64_t from = beyond(call, mode, at[d] - before[d], shape[d]);
      if (from < 0) return Movement::kZero;
      source = source * shape[d] + from;
    }
    return source;
  })};
}

// Replaces the elements of `self` that `place` selects by the elements of the source, in order.
Movements replaced(const Call& call, const Movement& place, const char* source_name) {
  const Shape& source = call.array(source_name).shape();
  if (broadcast(source, place.shape) != place.shape) {
    call.refuse("a tensor {} cannot be assigned to elements {}", shape_text(source),
                shape_text(place.shape));
  }
  const Shape& self = call.array("self").shape();
  Movement movement = gathered(self, [](const Shape&, int64_t i) { return i; });
  const Numbers places = place.apply<int64_t>(Numbers(*movement.sources));
  const auto elements = static_cast<int64_t>(movement.sources->size());
  const Movement from = gathered(place.shape, [&](const Shape& at, int64_t) {
    return elements + element_at(source, at, at.size());
  });
  for (size_t i = 0; i < places.size(); ++i) {
    if (places[i] == Movement::kZero) continue;
    (*movement.sources)[static_cast<size_t>(places[i])] = (*from.sources)[i];
  }
  return {std::move(movement)};
}

Movements index_put(const Call& call) {
  if (call.flag("accumulate", false)) return {};
  return replaced(call, named_elements(call), "values");
}

// Handles select_scatter, slice_scatter, diagonal_scatter and view_scatter: `src` replaces the
// elements of the view.
Movements scatter(const Call& call) {
  Call view = call;
  const std::string_view op = view.op;
  view.op = op == "view_scatter" ? view.view : std::string(op.substr(0, op.find("_scatter")));
  const auto made = movements_of(view);
  const int64_t part = call.integer("view_output", 0);
  if (!made || part < 0 || part >= static_cast<int64_t>(made->size())) {
    call.refuse("the changed tensor is not a supported view");
  }
  return replaced(call, (*made)[static_cast<size_t>(part)], "src");
}

// Handles where(condition, self, other) with a constant condition.
Movements chosen_elements(const Call& call) {
  const Array& condition = call.array("condition");
  const Argument* self = call.find("self");
  const Argument* other = call.find("other");
  if (!condition.has_values() || self == nullptr || other == nullptr || !self->as<Array>() ||
      !other->as<Array>()) {
    return {};
  }
  const Shape a = call.array("self").shape(), b = call.array("other").shape();
  const Array::Bools is_self = condition.to_bools();
  const auto first_of_other = static_cast<int64_t>(elements_of(a));
  return {gathered(broadcast(condition.shape(), broadcast(a, b)), [&](const Shape& at, int64_t) {
    const int64_t place = element_at(condition.shape(), at, at.size());
    return is_self[static_cast<size_t>(place)] != 0 ? element_at(a, at, at.size())
                                                    : first_of_other + element_at(b, at, at.size());
  })};
}

}  // namespace

bool concatenates(std::string_view op) {
  return is_one_of(op, {"cat", "concat", "concatenate", "hstack"});
}

std::optional<size_t> concat_dimension(const Call& call, size_t rank) {
  if (!concatenates(call.op)) return std::nullopt;
  return call.op == "hstack" ? std::min<size_t>(rank - 1, 1) : call.dimension("dim", 0, rank);
}

std::vector<MovementRule> gathering_rules() {
  return {{"cat", cat, "tensors"},
          {"stack", stack, "tensors"},
          {"roll", roll},
          {"tril", triangle},
          {"triu", triangle},
          {"index_select", index_select},
          {"gather", gather},
          {"embedding", embedding, "weight"},
          {"index", index},
          {"constant_pad_nd", pad_by_elements},
          {"index_put", index_put, "self", "values"},
          {"view_scatter", scatter, "self", "src"},
          {"where", chosen_elements, "self", "other"}};
}

}  // namespace arenite::convert
