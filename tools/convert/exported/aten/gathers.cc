// SPDX-License-Identifier: Apache-2.0
// Movements that put elements in several places, or take them by their index.

#include <algorithm>
#include <numeric>

#include "convert/exported/aten/op_rules.h"

namespace arenite::convert {
// Movements that are no strided walk: joined tensors, rows and elements by their index, triangles.

namespace {

// Calls `visit(index, i)` for each element i of `shape` in row-major order.
template <typename Visit>
void for_each_index(const Shape& shape, const Visit& visit) {
  const size_t elements = elements_of(shape);
  Shape index(shape.size(), 0);
  for (size_t i = 0; i < elements; ++i) {
    visit(index, i);
    for (size_t d = shape.size(); d > 0; --d) {
      if (++index[d - 1] < shape[d - 1]) break;
      index[d - 1] = 0;
    }
  }
}

// The extents of `shape` before, at and after a dimension, as three.
struct Split {
  int64_t outer = 1, extent = 1, inner = 1;
};

Split split_at(const Shape& shape, size_t dim) {
  Split split;
  for (size_t d = 0; d < shape.size(); ++d) {
    (d < dim ? split.outer : d == dim ? split.extent : split.inner) *= shape[d];
  }
  return split;
}

std::vector<int64_t> numbers(int64_t first, size_t count) {
  std::vector<int64_t> all(count);
  std::iota(all.begin(), all.end(), first);
  return all;
}

// An index from the end counts back. Refuses what is no row.
int64_t row_of(const Call& call, int64_t index, int64_t extent) {
  if (index < -extent || index >= extent) call.refuse("it takes row {} of {}", index, extent);
  return index < 0 ? index + extent : index;
}

// The arrays one after the other along `dim`; all of them are as large otherwise.
Movement joined(const Call& call, const std::vector<Shape>& shapes, size_t dim) {
  Movement movement{.shape = shapes.front()};
  int64_t rows = 0;
  for (const Shape& shape : shapes) {
    for (size_t d = 0; d < movement.shape.size(); ++d) {
      if (shape.size() != movement.shape.size() || (d != dim && shape[d] != movement.shape[d])) {
        call.refuse("tensors {} and {} cannot be joined", shape_text(movement.shape),
                    shape_text(shape));
      }
    }
    rows += shape[dim];
  }
  movement.shape[dim] = rows;
  const size_t elements = elements_of(movement.shape);
  std::vector<int64_t>& sources = movement.sources.emplace();
  sources.reserve(elements);
  const int64_t outer = split_at(shapes.front(), dim).outer;
  for (int64_t o = 0; o < outer && elements > 0; ++o) {
    int64_t first = 0;
    for (const Shape& shape : shapes) {
      const Split split = split_at(shape, dim);
      const int64_t count = split.extent * split.inner;
      for (int64_t i = 0; i < count; ++i) sources.push_back(first + o * count + i);
      first += outer * count;
    }
  }
  return movement;
}

Movements cat(const Call& call) {
  std::vector<Shape> shapes;
  for (const Array& array : call.arrays("tensors")) shapes.push_back(array.shape());
  // Empty vectors may be joined with anything.
  if (std::ranges::any_of(shapes, [](const Shape& shape) { return shape != Shape{0}; })) {
    std::erase(shapes, Shape{0});
  }
  if (shapes.empty() || shapes[0].empty()) call.refuse("it joins nothing, or scalars");
  const size_t dim = call.dimension("dim", 0, shapes[0].size());
  return {joined(call, shapes, dim)};
}

Movements hstack(const Call& call) {
  std::vector<Shape> shapes;
  for (const Array& array : call.arrays("tensors")) shapes.push_back(array.shape());
  if (shapes.empty() || shapes[0].empty()) call.refuse("it joins nothing, or scalars");
  return {joined(call, shapes, shapes[0].size() > 1 ? 1 : 0)};
}

Movements stack(const Call& call) {
  std::vector<Shape> shapes;
  for (const Array& array : call.arrays("tensors")) shapes.push_back(array.shape());
  if (shapes.empty()) call.refuse("it joins nothing");
  const size_t dim = call.dimension("dim", 0, shapes[0].size() + 1);
  for (Shape& shape : shapes) {
    if (shape.size() < dim) call.refuse("it joins tensors of other sizes");
    shape.insert(shape.begin() + static_cast<ptrdiff_t>(dim), 1);
  }
  return {joined(call, shapes, dim)};
}

Movements roll(const Call& call) {
  const Shape shape = call.array("self").shape();
  const std::vector<int64_t> shifts = call.integers("shifts");
  const std::vector<int64_t> dims =
      call.has("dims") ? call.integers("dims") : std::vector<int64_t>{};
  std::vector<int64_t> sources = numbers(0, elements_of(shape));
  const auto turn = [&](const Split& split, int64_t shift) {
    if (split.extent == 0 || sources.empty()) return;
    const int64_t left = (shift % split.extent + split.extent) % split.extent;
    std::vector<int64_t> turned(sources.size());
    for (int64_t o = 0; o < split.outer; ++o) {
      for (int64_t row = 0; row < split.extent; ++row) {
        const int64_t from = (o * split.extent + row) * split.inner;
        const int64_t to = (o * split.extent + (row + left) % split.extent) * split.inner;
        std::copy_n(sources.data() + from, split.inner, turned.data() + to);
      }
    }
    sources = std::move(turned);
  };
  if (dims.empty() && shifts.size() == 1) {
    turn({.extent = static_cast<int64_t>(sources.size())}, shifts[0]);
  } else if (dims.size() == shifts.size()) {
    for (size_t i = 0; i < dims.size() && !shape.empty(); ++i) {
      turn(split_at(shape, call.dimension(dims[i], shape.size())), shifts[i]);
    }
  } else {
    call.refuse("it has {} shifts for {} dimensions", shifts.size(), dims.size());
  }
  return {{.shape = shape, .sources = std::move(sources)}};
}

Movements triangle(const Call& call) {
  const Shape& shape = call.array("self").shape();
  if (shape.size() < 2) call.refuse("it takes matrices alone");
  const int64_t rows = shape[shape.size() - 2], columns = shape.back();
  const int64_t diagonal = std::clamp(call.integer("diagonal", 0), -rows, columns);
  const bool is_lower = call.op == "tril";
  std::vector<int64_t> sources = numbers(0, elements_of(shape));
  for (size_t i = 0; i < sources.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    const int64_t distance = at % columns - at / columns % rows;
    if (is_lower ? distance > diagonal : distance < diagonal) sources[i] = Movement::kZero;
  }
  return {{.shape = shape, .sources = std::move(sources)}};
}

Movements index_select(const Call& call) {
  const Shape& shape = call.array("self").shape();
  if (shape.empty()) call.refuse("a scalar has no rows");
  const size_t dim = call.dimension("dim", 0, shape.size());
  const Split split = split_at(shape, dim);
  Array::Integers rows = call.indices("index");
  for (int64_t& row : rows) row = row_of(call, row, split.extent);
  Movement movement{.shape = shape};
  movement.shape[dim] = static_cast<int64_t>(rows.size());
  std::vector<int64_t>& sources = movement.sources.emplace();
  sources.reserve(elements_of(movement.shape));
  for (int64_t o = 0; o < split.outer; ++o) {
    for (const int64_t row : rows) {
      for (int64_t i = 0; i < split.inner; ++i) {
        sources.push_back((o * split.extent + row) * split.inner + i);
      }
    }
  }
  return {std::move(movement)};
}

Movements gather(const Call& call) {
  const Shape& shape = call.array("self").shape();
  const Array& index = call.array("index");
  const Array::Integers rows = call.indices("index");
  if (shape.empty() || index.rank() != shape.size()) call.refuse("its index has another rank");
  const size_t dim = call.dimension("dim", 0, shape.size());
  const Movement all = whole(shape);
  for (size_t d = 0; d < shape.size(); ++d) {
    if (d != dim && index.shape()[d] > shape[d]) call.refuse("its index is too large");
  }
  std::vector<int64_t> sources(rows.size());
  for_each_index(index.shape(), [&](const Shape& at, size_t i) {
    for (size_t d = 0; d < shape.size(); ++d) {
      sources[i] += all.strides[d] * (d == dim ? row_of(call, rows[i], shape[d]) : at[d]);
    }
  });
  return {{.shape = index.shape(), .sources = std::move(sources)}};
}

Movements embedding(const Call& call) {
  const Shape& shape = call.array("weight").shape();
  if (shape.size() != 2) call.refuse("its weight is no matrix");
  Movement movement{.shape = call.array("indices").shape()};
  movement.shape.push_back(shape[1]);
  std::vector<int64_t>& sources = movement.sources.emplace();
  sources.reserve(elements_of(movement.shape));
  for (const int64_t index : call.indices("indices")) {
    if (index < 0 || index >= shape[0]) call.refuse("it takes row {} of {}", index, shape[0]);
    for (int64_t i = 0; i < shape[1]; ++i) sources.push_back(index * shape[1] + i);
  }
  return {std::move(movement)};
}

// The elements of `self` that an indexed assignment or reading names: where they are, and the shape
// that they come in. Indices that are tensors are stretched to one shape, which takes the place of
// the first of them, or the front where other dimensions lie between them.
Movement indexed(const Call& call) {
  const Array& self = call.array("self");
  const Argument* argument = call.find("indices");
  const auto* given = argument == nullptr ? nullptr : argument->as<Argument::List>();
  if (given == nullptr || given->size() > self.rank()) call.refuse("it has too many indices");
  Shape together;
  std::vector<std::optional<Array>> indices(self.rank());
  size_t first = self.rank(), last = 0, count = 0;
  for (size_t d = 0; d < given->size(); ++d) {
    if ((*given)[d].is_none()) continue;
    const Array* index = (*given)[d].as<Array>();
    if (index == nullptr || !index->has_values()) {
      call.refuse(
          "it takes rows whose indices are computed of the model's input: give out all rows, and "
          "take these in your program, or the last ones by x[:, -1]");
    }
    if (!is_integer(index->type())) call.refuse("an index of bools has a data-dependent shape");
    together = broadcast(together, index->shape());
    indices[d] = *index;
    first = std::min(first, d);
    last = d;
    ++count;
  }
  if (count == 0) return whole(self.shape());
  const size_t place = last - first + 1 == count ? first : 0;
  Movement movement;
  for (size_t d = 0; d < self.rank(); ++d) {
    if (!indices[d]) movement.shape.push_back(self.shape()[d]);
  }
  movement.shape.insert(movement.shape.begin() + static_cast<ptrdiff_t>(place), together.begin(),
                        together.end());
  const Movement all = whole(self.shape());
  std::vector<int64_t>& sources = movement.sources.emplace(elements_of(movement.shape), 0);
  for_each_index(movement.shape, [&](const Shape& at, size_t i) {
    size_t plain = 0;  // dimension of the result
    for (size_t d = 0; d < self.rank(); ++d) {
      if (!indices[d]) {
        if (plain == place) plain += together.size();
        sources[i] += all.strides[d] * at[plain++];
        continue;
      }
      const Shape& shape = indices[d]->shape();
      int64_t element = 0;
      for (size_t k = 0; k < shape.size(); ++k) {
        const int64_t position = at[place + together.size() - shape.size() + k];
        element = element * shape[k] + (shape[k] == 1 ? 0 : position);
      }
      const int64_t row = indices[d]->integers()[static_cast<size_t>(element)];
      sources[i] += all.strides[d] * row_of(call, row, self.shape()[d]);
    }
  });
  return movement;
}

Movements index(const Call& call) { return {indexed(call)}; }

Movements constant_pad(const Call& call) {
  if (call.text("mode", "constant") != "constant" || call.real("value", 0.0) != 0.0) return {};
  const Shape& shape = call.array("self").shape();
  const std::vector<int64_t> pad = call.integers("pad");
  if (pad.size() % 2 != 0 || pad.size() / 2 > shape.size()) call.refuse("it pads no dimension");
  Movement movement{.shape = shape};
  Shape before(shape.size(), 0);
  for (size_t i = 0; i < pad.size() / 2; ++i) {
    const size_t d = shape.size() - 1 - i;
    if (std::abs(pad[2 * i] / 2) > kPadMax || std::abs(pad[2 * i + 1] / 2) > kPadMax) {
      call.refuse("it pads with more rows than a model has");
    }
    before[d] = pad[2 * i];
    movement.shape[d] += pad[2 * i] + pad[2 * i + 1];
  }
  const Movement all = whole(shape);
  std::vector<int64_t>& sources = movement.sources.emplace(elements_of(movement.shape), 0);
  for_each_index(movement.shape, [&](const Shape& at, size_t i) {
    for (size_t d = 0; d < shape.size(); ++d) {
      const int64_t from = at[d] - before[d];
      const bool is_inside = from >= 0 && from < shape[d] && sources[i] != Movement::kZero;
      sources[i] = is_inside ? sources[i] + from * all.strides[d] : Movement::kZero;
    }
  });
  return {std::move(movement)};
}

// `self` with the elements that `place` names replaced by those of `source`, in their order.
Movement replaced(const Call& call, const Movement& place, const Shape& source) {
  const Shape& shape = call.array("self").shape();
  const size_t elements = elements_of(shape);
  std::vector<int64_t> sources = numbers(0, elements);
  const Shape stretched = broadcast(source, place.shape);
  if (stretched != place.shape) {
    call.refuse("a tensor {} does not fit into {}", shape_text(source), shape_text(place.shape));
  }
  const std::vector<int64_t> from = numbers(0, elements);
  const std::vector<int64_t> places = place.apply<int64_t>(from);
  const Shape own = source;
  const Movement all = whole(own);
  for_each_index(place.shape, [&](const Shape& at, size_t i) {
    auto number = static_cast<int64_t>(elements);
    for (size_t d = 0; d < own.size(); ++d) {
      const int64_t position = at[place.shape.size() - own.size() + d];
      number += all.strides[d] * (own[d] == 1 ? 0 : position);
    }
    if (places[i] != Movement::kZero) sources[static_cast<size_t>(places[i])] = number;
  });
  return {.shape = shape, .sources = std::move(sources)};
}

Movements index_put(const Call& call) {
  if (call.flag("accumulate", false)) return {};
  return {replaced(call, indexed(call), call.array("values").shape())};
}

// select_scatter, slice_scatter, diagonal_scatter and view_scatter: `src` takes the place of the
// elements that the view is made of.
Movements scatter(const Call& call) {
  Call view = call;
  const std::string_view op = view.op;
  view.op = op == "view_scatter" ? view.view : std::string(op.substr(0, op.find("_scatter")));
  const auto made = movements_of(view);
  const int64_t part = call.integer("view_output", 0);
  if (!made || part < 0 || part >= static_cast<int64_t>(made->size())) {
    call.refuse("it changes what is no view");
  }
  return {replaced(call, (*made)[static_cast<size_t>(part)], call.array("src").shape())};
}

// where(condition, self, other) with a condition that is known.
Movements where(const Call& call) {
  const Array& condition = call.array("condition");
  const Argument* self = call.find("self");
  const Argument* other = call.find("other");
  if (!condition.has_values() || self == nullptr || other == nullptr || !self->as<Array>() ||
      !other->as<Array>()) {
    return {};
  }
  const Shape a = call.array("self").shape(), b = call.array("other").shape();
  Movement movement{.shape = broadcast(condition.shape(), broadcast(a, b))};
  std::vector<int64_t>& sources = movement.sources.emplace(elements_of(movement.shape), 0);
  const auto element = [&](const Shape& shape, const Shape& at) {
    int64_t number = 0;
    for (size_t d = 0; d < shape.size(); ++d) {
      number = number * shape[d] + (shape[d] == 1 ? 0 : at[at.size() - shape.size() + d]);
    }
    return number;
  };
  const Array::Bools is_self = condition.to_bools();
  const auto self_elements = static_cast<int64_t>(elements_of(a));
  for_each_index(movement.shape, [&](const Shape& at, size_t i) {
    const bool takes_self = is_self[static_cast<size_t>(element(condition.shape(), at))] != 0;
    sources[i] = takes_self ? element(a, at) : self_elements + element(b, at);
  });
  return {std::move(movement)};
}

}  // namespace

MovementRules gathering_rules() {
  return {{"cat", {"tensors", "", cat}},
          {"concat", {"tensors", "", cat}},
          {"concatenate", {"tensors", "", cat}},
          {"hstack", {"tensors", "", hstack}},
          {"stack", {"tensors", "", stack}},
          {"roll", {"self", "", roll}},
          {"tril", {"self", "", triangle}},
          {"triu", {"self", "", triangle}},
          {"index_select", {"self", "", index_select}},
          {"gather", {"self", "", gather}},
          {"embedding", {"weight", "", embedding}},
          {"index", {"self", "", index}},
          {"_unsafe_index", {"self", "", index}},
          {"constant_pad_nd", {"self", "", constant_pad}},
          {"pad", {"self", "", constant_pad}},
          {"index_put", {"self", "values", index_put}},
          {"_unsafe_index_put", {"self", "values", index_put}},
          {"select_scatter", {"self", "src", scatter}},
          {"slice_scatter", {"self", "src", scatter}},
          {"diagonal_scatter", {"self", "src", scatter}},
          {"view_scatter", {"self", "src", scatter}},
          {"where", {"self", "other", where}}};
}

// One element in several places, and the blocks of pixels that images are cut into.

namespace {

Movement expanded(const Call& call, const Shape& shape, const Shape& sizes) {
  if (sizes.size() < shape.size()) {
    call.refuse("a tensor {} cannot become {}", shape_text(shape), shape_text(sizes));
  }
  const Movement all = whole(shape);
  const size_t lead = sizes.size() - shape.size();
  Movement result{.shape = {}, .walk = sizes, .strides = Shape(sizes.size(), 0)};
  for (size_t d = 0; d < sizes.size(); ++d) {
    const bool is_new = d < lead;
    const int64_t extent = is_new ? 1 : shape[d - lead];
    if (sizes[d] == -1 && !is_new) result.walk[d] = extent;
    if (result.walk[d] < 0 || (extent != 1 && result.walk[d] != extent)) {
      call.refuse("a tensor {} cannot become {}", shape_text(shape), shape_text(sizes));
    }
    if (!is_new && extent != 1) result.strides[d] = all.strides[d - lead];
  }
  result.shape = result.walk;
  return result;
}

Movements expand(const Call& call) {
  return {expanded(call, call.array("self").shape(), call.integers("size"))};
}

Movements expand_as(const Call& call) {
  return {expanded(call, call.array("self").shape(), call.array("other").shape())};
}

// copy(self, src): what `self` is after src was copied into it.
Movements copy(const Call& call) {
  return {expanded(call, call.array("src").shape(), call.array("self").shape())};
}

// Walks over every dimension `repeats` times.
Movements repeat(const Call& call) {
  const Shape& shape = call.array("self").shape();
  Shape repeats = call.integers(call.has("dims") ? "dims" : "repeats");
  if (call.op == "tile" && repeats.size() < shape.size()) {
    repeats.insert(repeats.begin(), shape.size() - repeats.size(), 1);
  }
  if (repeats.size() < shape.size()) call.refuse("it leaves dimensions out");
  const Movement all = whole(call);
  const size_t lead = repeats.size() - shape.size();
  Movement movement;
  for (size_t d = 0; d < repeats.size(); ++d) {
    const int64_t extent = d < lead ? 1 : shape[d - lead];
    movement.walk.insert(movement.walk.end(), {repeats[d], extent});
    movement.strides.insert(movement.strides.end(), {0, d < lead ? 0 : all.strides[d - lead]});
  }
  static_cast<void>(elements_of(movement.walk));  // before the products
  for (size_t d = 0; d < repeats.size(); ++d) {
    movement.shape.push_back(movement.walk[2 * d] * movement.walk[2 * d + 1]);
  }
  return {std::move(movement)};
}

Movements repeat_interleave(const Call& call) {
  if (call.overload != "self_int") {
    call.refuse("numbers of repetitions that are a tensor are not understood: give one number");
  }
  Movement movement = whole(call);
  if (!call.has("dim")) {
    const auto elements = static_cast<int64_t>(elements_of(movement.shape));
    movement = {.shape = {elements}, .walk = {elements}, .strides = {1}};
  }
  const size_t dim = call.dimension("dim", 0, movement.walk.size());
  const int64_t repeats = call.integer("repeats");
  if (repeats < 0 || movement.walk.empty()) call.refuse("it repeats {} times", repeats);
  const auto place = static_cast<ptrdiff_t>(dim) + 1;
  movement.walk.insert(movement.walk.begin() + place, repeats);
  movement.strides.insert(movement.strides.begin() + place, 0);
  static_cast<void>(elements_of(movement.walk));
  movement.shape[dim] *= repeats;
  return {std::move(movement)};
}

Movements pixel_unshuffle(const Call& call) {
  const Shape& shape = call.array("self").shape();
  const int64_t factor = call.integer("downscale_factor");
  const size_t rank = shape.size();
  if (rank < 3 || factor < 1 || factor > kShuffleMax || shape[rank - 1] % factor != 0 ||
      shape[rank - 2] % factor != 0) {
    call.refuse("squares of {} do not divide {}", factor, shape_text(shape));
  }
  const int64_t rows = shape[rank - 2] / factor, columns = shape[rank - 1] / factor;
  const Movement all = whole(call);
  const int64_t row = all.strides[rank - 2];
  Movement movement = all;
  movement.walk.resize(rank - 2);
  movement.strides.resize(rank - 2);
  movement.walk.insert(movement.walk.end(), {factor, factor, rows, columns});
  movement.strides.insert(movement.strides.end(), {row, 1, row * factor, factor});
  movement.shape[rank - 3] *= factor * factor;
  movement.shape[rank - 2] = rows;
  movement.shape[rank - 1] = columns;
  return {std::move(movement)};
}

Movements pixel_shuffle(const Call& call) {
  const Shape& shape = call.array("self").shape();
  const int64_t factor = call.integer("upscale_factor");
  const size_t rank = shape.size();
  if (rank < 3 || factor < 1 || factor > kShuffleMax || shape[rank - 3] % (factor * factor) != 0) {
    call.refuse("squares of {} do not divide {}", factor, shape_text(shape));
  }
  const Movement all = whole(call);
  const int64_t channel = all.strides[rank - 3];
  Movement movement = all;
  movement.shape[rank - 3] /= factor * factor;
  movement.walk.resize(rank - 3);
  movement.strides.resize(rank - 3);
  movement.walk.insert(movement.walk.end(), {movement.shape[rank - 3], shape[rank - 2], factor,
                                             shape[rank - 1], factor});
  movement.strides.insert(movement.strides.end(), {channel * factor * factor, all.strides[rank - 2],
                                                   channel * factor, 1, channel});
  movement.shape[rank - 2] *= factor;
  movement.shape[rank - 1] *= factor;
  return {std::move(movement)};
}

// Arrays of one shape, each of which is one result; element numbers go through all of them.
Movements broadcast_tensors(const Call& call) {
  const std::vector<Array> arrays = call.arrays("tensors");
  Shape shape;
  for (const Array& array : arrays) shape = broadcast(shape, array.shape());
  Movements movements;
  int64_t first = 0;
  for (const Array& array : arrays) {
    movements.push_back(expanded(call, array.shape(), shape));
    movements.back().offset = first;
    first += static_cast<int64_t>(array.elements());
  }
  return movements;
}

Movements meshgrid(const Call& call) {
  const std::vector<Array> arrays = call.arrays("tensors");
  const bool is_xy = call.text("indexing", "ij") == "xy" && arrays.size() > 1;
  Shape shape;
  for (const Array& array : arrays) {
    if (array.rank() > 1) call.refuse("it takes vectors alone");
    shape.push_back(static_cast<int64_t>(array.elements()));
  }
  if (is_xy) std::swap(shape[0], shape[1]);
  Movements movements;
  int64_t first = 0;
  for (size_t i = 0; i < arrays.size(); ++i) {
    Movement movement{.shape = shape, .walk = shape, .strides = Shape(shape.size(), 0)};
    movement.strides[is_xy && i < 2 ? 1 - i : i] = 1;
    movement.offset = first;
    first += static_cast<int64_t>(arrays[i].elements());
    movements.push_back(std::move(movement));
  }
  return movements;
}

// F.unfold: the windows of an image, [channels * window, windows], those without padding.
Movements im2col(const Call& call) {
  const Shape& given = call.array("self").shape();
  Shape shape = given;
  if (shape.size() == 3) shape.insert(shape.begin(), 1);
  const std::vector<int64_t> window = call.integers("kernel_size");
  const std::vector<int64_t> dilation = call.integers("dilation");
  const std::vector<int64_t> stride = call.integers("stride");
  const std::vector<int64_t> padding = call.integers("padding");
  if (shape.size() != 4 || window.size() != 2 || dilation.size() != 2 || stride.size() != 2) {
    call.refuse("windows of {} are not understood", shape_text(given));
  }
  if (padding != std::vector<int64_t>{0, 0}) call.refuse("it pads an image");
  const Movement all = whole(shape);
  Movement movement;
  movement.walk = {shape[0], shape[1], window[0], window[1], 0, 0};
  movement.strides = {all.strides[0], all.strides[1], 0, 0, 0, 0};
  for (size_t d = 0; d < 2; ++d) {
    const bool is_sane = window[d] > 0 && dilation[d] > 0 && stride[d] > 0 &&
                         window[d] <= shape[d + 2] && dilation[d] <= shape[d + 2];
    const int64_t reach = is_sane ? dilation[d] * (window[d] - 1) + 1 : 0;
    if (!is_sane || reach > shape[d + 2]) call.refuse("its windows do not go into the image");
    movement.walk[d + 4] = (shape[d + 2] - reach) / stride[d] + 1;
    movement.strides[d + 2] = dilation[d] * all.strides[d + 2];
    movement.strides[d + 4] = stride[d] * all.strides[d + 2];
  }
  const Shape& walk = movement.walk;
  Shape made = {walk[0], walk[1] * walk[2] * walk[3], walk[4] * walk[5]};
  if (given.size() == 3) made.erase(made.begin());
  movement.shape = std::move(made);
  elements_of(movement.shape);
  return {std::move(movement)};
}

}  // namespace

MovementRules repeating_rules() {
  return {{"im2col", {"self", "", im2col}},
          {"expand", {"self", "", expand}},
          {"expand_copy", {"self", "", expand}},
          {"broadcast_to", {"self", "", expand}},
          {"expand_as", {"self", "", expand_as}},
          {"copy", {"src", "", copy}},
          {"repeat", {"self", "", repeat}},
          {"tile", {"self", "", repeat}},
          {"repeat_interleave", {"self", "", repeat_interleave}},
          {"pixel_unshuffle", {"self", "", pixel_unshuffle}},
          {"pixel_shuffle", {"self", "", pixel_shuffle}},
          {"broadcast_tensors", {"tensors", "", broadcast_tensors}},
          {"meshgrid", {"tensors", "", meshgrid}}};
}

}  // namespace arenite::convert
