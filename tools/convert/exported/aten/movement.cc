// SPDX-License-Identifier: Apache-2.0
// Ops that only move elements as a strided walk: views, transposes, cuts.
#include "convert/exported/aten/movement.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>

#include "convert/exported/aten/op_rules.h"

namespace arenite::convert {
// Finds the rule of an op, and keeps what it moves apart from what it computes.

namespace {

MovementRules all_movement_rules() {
  MovementRules rules = reshaping_rules();
  rules.merge(cutting_rules());
  rules.merge(repeating_rules());
  rules.merge(gathering_rules());
  return rules;
}

const MovementRule* find_rule(std::string_view op) {
  static const MovementRules kRules = all_movement_rules();
  const auto found = kRules.find(op);
  return found == kRules.end() ? nullptr : &found->second;
}

// Whether a conversion changes no number: to another real type, which double stands for, to a wider
// one of whole numbers, or to the same one.
bool keeps_numbers(const Call& call) {
  const Array& self = call.array("self");
  ElementType type = self.type();
  if (const auto given = call.type("dtype")) type = *given;
  if (const Argument* other = call.find("other"); other != nullptr && other->as<Array>()) {
    type = other->as<Array>()->type();
  }
  if (type == self.type()) return true;
  if (kind_of(type) != kind_of(self.type())) return false;
  const bool is_signed_byte = self.type() == ElementType::kU8 && type == ElementType::kI8;
  return !is_integer(type) || (type > self.type() && !is_signed_byte);
}

}  // namespace

bool Movement::keeps_order(size_t input_elements) const {
  if (sources) {
    if (sources->size() != input_elements) return false;
    for (size_t i = 0; i < sources->size(); ++i) {
      if ((*sources)[i] != static_cast<int64_t>(i)) return false;
    }
    return true;
  }
  if (offset != 0 || elements_of(walk) != input_elements) return false;
  if (input_elements == 0) return true;
  int64_t expected = 1;
  for (size_t d = walk.size(); d > 0; --d) {
    if (walk[d - 1] != 1 && strides[d - 1] != expected) return false;
    expected *= walk[d - 1];
  }
  return true;
}

void Movement::check(size_t inputs) const {
  const auto end = static_cast<int64_t>(inputs);
  const size_t count = sources ? sources->size() : elements_of(walk);
  bool is_sound = count == elements_of(shape) && (sources || strides.size() == walk.size());
  if (sources) {
    is_sound = is_sound && std::ranges::all_of(*sources, [&](int64_t source) {
                 return source == kZero || (source >= 0 && source < end);
               });
  } else if (count != 0 && is_sound) {
    int64_t least = offset, most = offset;
    for (size_t d = 0; d < walk.size(); ++d) {
      int64_t reach = 0;
      is_sound =
          is_sound && !__builtin_mul_overflow(walk[d] - 1, strides[d], &reach) &&
          !__builtin_add_overflow(reach < 0 ? least : most, reach, reach < 0 ? &least : &most);
    }
    is_sound = is_sound && least >= 0 && most < end;
  }
  if (!is_sound) throw ShapeError("it takes other elements than the {} that there are", inputs);
  WorkBudget::take(count);
}

std::optional<std::vector<Movement>> movements_of(const Call& call) {
  const MovementRule* rule = find_rule(call.op);
  if (rule == nullptr) return std::nullopt;
  try {
    const bool is_conversion = call.op == "to" || call.op == "_to_copy" || call.op == "type_as";
    if (is_conversion && !keeps_numbers(call)) return std::nullopt;
    Movements movements = rule->make(call);
    if (movements.empty()) return std::nullopt;
    for (const Movement& movement : movements) static_cast<void>(elements_of(movement.shape));
    return movements;
  } catch (const ShapeError& error) {
    call.refuse("{}", error.what());
  }
}

bool moves_elements(std::string_view op) { return find_rule(op) != nullptr; }

std::vector<Array> moved_arrays(const Call& call) {
  const MovementRule* rule = find_rule(call.op);
  std::vector<Array> moved;
  for (const std::string_view name : {rule->moved, rule->moved_also}) {
    if (name.empty()) continue;
    if (const Argument* argument = call.find(name); argument && argument->as<Argument::List>()) {
      for (const Array& array : call.arrays(name)) moved.push_back(array);
    } else {
      moved.push_back(call.array(name));
    }
  }
  return moved;
}

// Results with the elements of one tensor in order, in another shape or with other dimensions
// first.

namespace {

Movements same(const Call& call) { return {whole(call)}; }

// `sizes` with its -1 replaced by what is left of `elements`.
Shape resolved(const Call& call, Shape sizes, size_t elements) {
  const auto open = std::find(sizes.begin(), sizes.end(), -1);
  if (open == sizes.end()) return sizes;
  *open = 1;
  const size_t others = elements_of(sizes);
  if (others == 0 || elements % others != 0) {
    call.refuse("{} elements do not fill the shape that it names", elements);
  }
  *open = static_cast<int64_t>(elements / others);
  return sizes;
}

Movements inactive_dropout(const Call& call) {
  if (call.flag("train", true) && call.real("p", 0.5) != 0.0) {
    call.refuse(
        "dropout is active, so that every call of the model gives something else: call "
        "model.eval() before torch.export.export, and give F.dropout training=self.training");
  }
  return {whole(call.array("input").shape())};
}

Movements view(const Call& call) {
  const Array& self = call.array("self");
  if (call.overload == "dtype") {
    call.refuse("looking at the bits of a tensor as another type is not understood");
  }
  const char* name = call.has("size") ? "size" : "shape";
  return in_shape(call, whole(call), resolved(call, call.integers(name), self.elements()));
}

Movements view_as(const Call& call) {
  return in_shape(call, whole(call), call.array("other").shape());
}

Movements flatten(const Call& call) {
  const Shape& shape = call.array("self").shape();
  if (shape.empty()) return in_shape(call, whole(call), {1});
  const size_t first = call.dimension("start_dim", 0, shape.size());
  const size_t last = call.dimension("end_dim", -1, shape.size());
  if (first > last) call.refuse("it begins after it ends");
  Shape flat(shape.begin(), shape.begin() + static_cast<ptrdiff_t>(first));
  flat.push_back(std::accumulate(shape.begin() + static_cast<ptrdiff_t>(first),
                                 shape.begin() + static_cast<ptrdiff_t>(last) + 1, int64_t{1},
                                 std::multiplies<>()));
  flat.insert(flat.end(), shape.begin() + static_cast<ptrdiff_t>(last) + 1, shape.end());
  return in_shape(call, whole(call), std::move(flat));
}

Movements unflatten(const Call& call) {
  const Shape& shape = call.array("self").shape();
  const size_t dim = call.dimension("dim", 0, shape.size());
  if (shape.empty()) call.refuse("a scalar has no dimension to divide");
  const Shape sizes = resolved(call, call.integers("sizes"), static_cast<size_t>(shape[dim]));
  Shape divided = shape;
  divided.erase(divided.begin() + static_cast<ptrdiff_t>(dim));
  divided.insert(divided.begin() + static_cast<ptrdiff_t>(dim), sizes.begin(), sizes.end());
  return in_shape(call, whole(call), std::move(divided));
}

Movements unsqueeze(const Call& call) {
  Shape shape = call.array("self").shape();
  const size_t dim = call.dimension("dim", 0, shape.size() + 1);
  shape.insert(shape.begin() + static_cast<ptrdiff_t>(dim), 1);
  return in_shape(call, whole(call), std::move(shape));
}

Movements squeeze(const Call& call) {
  const Shape& shape = call.array("self").shape();
  std::vector<bool> is_named(shape.size() + 1, !call.has("dim"));
  if (call.has("dim")) {
    for (const int64_t dim : call.integers("dim"))
      is_named[call.dimension(dim, shape.size())] = true;
  }
  Shape left;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] != 1 || !is_named[d]) left.push_back(shape[d]);
  }
  return in_shape(call, whole(call), std::move(left));
}

// `movement`, with its dimensions in this order.
Movements permuted(const Call& call, const Movement& movement, const std::vector<size_t>& order) {
  Movement result = movement;
  std::vector<bool> is_taken(movement.walk.size(), false);
  if (order.size() != movement.walk.size()) {
    call.refuse("it orders {} dimensions of a tensor with {}", order.size(), movement.walk.size());
  }
  for (size_t d = 0; d < order.size(); ++d) {
    if (is_taken[order[d]]) call.refuse("it names dimension {} twice", order[d]);
    is_taken[order[d]] = true;
    result.walk[d] = movement.walk[order[d]];
    result.strides[d] = movement.strides[order[d]];
  }
  result.shape = result.walk;
  return {std::move(result)};
}

Movements permute(const Call& call) {
  const size_t rank = call.array("self").rank();
  std::vector<size_t> order;
  for (const int64_t dim : call.integers("dims")) order.push_back(call.dimension(dim, rank));
  return permuted(call, whole(call), order);
}

Movements transpose(const Call& call) {
  const size_t rank = call.array("self").rank();
  const char* first = call.has("axis0") ? "axis0" : "dim0";
  const char* second = call.has("axis1") ? "axis1" : "dim1";
  const size_t dim0 = call.dimension(call.integer(first), rank);
  const size_t dim1 = call.dimension(call.integer(second), rank);
  std::vector<size_t> order(rank);
  std::iota(order.begin(), order.end(), size_t{0});
  if (rank > 0) std::swap(order[dim0], order[dim1]);
  return permuted(call, whole(call), order);
}

Movements transpose_all(const Call& call) {
  std::vector<size_t> order(call.array("self").rank());
  std::iota(order.rbegin(), order.rend(), size_t{0});
  if (call.op == "t" && order.size() > 2) call.refuse("it transposes matrices alone");
  return permuted(call, whole(call), order);
}

Movements transpose_matrices(const Call& call) {
  std::vector<size_t> order(call.array("self").rank());
  if (order.size() < 2) call.refuse("it transposes matrices alone");
  std::iota(order.begin(), order.end(), size_t{0});
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  return permuted(call, whole(call), order);
}

Movements movedim(const Call& call) {
  const size_t rank = call.array("self").rank();
  const std::vector<int64_t> from = call.integers("source"), to = call.integers("destination");
  if (from.size() != to.size()) call.refuse("it moves {} dimensions to {}", from.size(), to.size());
  std::vector<size_t> order(rank, rank);
  std::vector<bool> is_moved(rank, false);
  for (size_t i = 0; i < from.size() && rank > 0; ++i) {
    const size_t source = call.dimension(from[i], rank), place = call.dimension(to[i], rank);
    if (is_moved[source] || order[place] != rank) call.refuse("it names a dimension twice");
    is_moved[source] = true;
    order[place] = source;
  }
  size_t next = 0;
  for (size_t& dim : order) {
    if (dim != rank) continue;
    while (is_moved[next]) ++next;
    dim = next++;
  }
  return permuted(call, whole(call), order);
}

}  // namespace

// All elements of `shape` in order.
Movement whole(const Shape& shape) {
  return {.shape = shape, .walk = shape, .strides = strides_of(shape)};
}

Movement whole(const Call& call) { return whole(call.array("self").shape()); }

Movements in_shape(const Call& call, Movement movement, Shape shape) {
  if (elements_of(shape) != elements_of(movement.walk)) {
    call.refuse("a tensor {} cannot become {}", shape_text(movement.shape), shape_text(shape));
  }
  movement.shape = std::move(shape);
  return {std::move(movement)};
}

MovementRules reshaping_rules() {
  MovementRules rules;
  for (const char* op :
       {"contiguous", "clone", "alias", "detach", "lift", "lift_fresh_copy", "to", "_to_copy",
        "type_as", "positive", "resolve_conj", "resolve_neg", "float"}) {
    rules[op] = {"self", "", same};
  }
  for (const char* op : {"dropout", "feature_dropout", "alpha_dropout"}) {
    rules[op] = {"input", "", inactive_dropout};
  }
  for (const char* op : {"view", "_unsafe_view", "reshape", "view_copy", "_reshape_copy"}) {
    rules[op] = {"self", "", view};
  }
  for (const char* op : {"view_as", "reshape_as"}) rules[op] = {"self", "", view_as};
  for (const char* op : {"flatten", "ravel"}) rules[op] = {"self", "", flatten};
  rules["unflatten"] = {"self", "", unflatten};
  for (const char* op : {"unsqueeze", "unsqueeze_copy"}) rules[op] = {"self", "", unsqueeze};
  for (const char* op : {"squeeze", "squeeze_copy"}) rules[op] = {"self", "", squeeze};
  for (const char* op : {"permute", "permute_copy"}) rules[op] = {"self", "", permute};
  for (const char* op : {"transpose", "transpose_copy", "swapaxes", "swapdims"}) {
    rules[op] = {"self", "", transpose};
  }
  for (const char* op : {"t", "t_copy", "numpy_T"}) rules[op] = {"self", "", transpose_all};
  for (const char* op : {"mT", "matrix_H", "adjoint"}) rules[op] = {"self", "", transpose_matrices};
  for (const char* op : {"movedim", "moveaxis"}) rules[op] = {"self", "", movedim};
  return rules;
}

// Parts of one tensor: slices, rows, windows, diagonals, and what split gives.

namespace {

// Elements [begin, end) of a dimension, every `step`th. REQUIRES: 0 <= begin, step > 0.
Movement cut(Movement movement, size_t dim, int64_t begin, int64_t end, int64_t step = 1) {
  movement.offset += begin * movement.strides[dim];
  movement.walk[dim] = end > begin ? (end - begin - 1) / step + 1 : 0;
  movement.strides[dim] *= movement.walk[dim] > 1 ? step : 1;
  movement.shape = movement.walk;
  return movement;
}

Movements slice(const Call& call) {
  const Shape& shape = call.array("self").shape();
  const size_t dim = call.dimension("dim", 0, shape.size());
  if (shape.empty()) call.refuse("a scalar cannot be cut");
  const int64_t extent = shape[dim];
  const auto clamped = [&](int64_t at) {
    return std::clamp<int64_t>(at < 0 ? at + extent : at, 0, extent);
  };
  const int64_t begin = clamped(call.optional_integer("start").value_or(0));
  const int64_t end = clamped(call.optional_integer("end").value_or(extent));
  const int64_t step = call.integer("step", 1);
  if (step < 1) call.refuse("its step is {}", step);
  return {cut(whole(call), dim, begin, end, step)};
}

Movements select(const Call& call) {
  const Shape& shape = call.array("self").shape();
  const size_t dim = call.dimension("dim", 0, shape.size());
  if (shape.empty()) call.refuse("a scalar cannot be cut");
  const int64_t index = call.integer("index");
  if (index < -shape[dim] || index >= shape[dim]) {
    call.refuse("it takes row {} of {}", index, shape[dim]);
  }
  const int64_t at = index < 0 ? index + shape[dim] : index;
  Movement movement = cut(whole(call), dim, at, at + 1);
  Shape left = movement.shape;
  left.erase(left.begin() + static_cast<ptrdiff_t>(dim));
  return in_shape(call, std::move(movement), std::move(left));
}

Movements narrow(const Call& call) {
  const Shape& shape = call.array("self").shape();
  const size_t dim = call.dimension("dim", 0, shape.size());
  if (shape.empty()) call.refuse("a scalar cannot be cut");
  int64_t begin = call.integer("start");
  if (begin < 0 && begin >= -shape[dim]) begin += shape[dim];
  const int64_t length = call.integer("length");
  if (begin < 0 || length < 0 || begin > shape[dim] || length > shape[dim] - begin) {
    call.refuse("it takes rows from {} on, {} of them, of {}", begin, length, shape[dim]);
  }
  return {cut(whole(call), dim, begin, begin + length)};
}

Movements unfold(const Call& call) {
  const Shape& shape = call.array("self").shape();
  const size_t dim = call.dimension("dimension", 0, shape.size());
  const int64_t size = call.integer("size"), step = call.integer("step");
  if (shape.empty() || size < 0 || size > shape[dim] || step < 1) {
    call.refuse("windows of {}, {} apart, do not go into {}", size, step, shape_text(shape));
  }
  Movement movement = whole(call);
  movement.walk[dim] = (shape[dim] - size) / step + 1;
  movement.walk.push_back(size);
  movement.strides.push_back(movement.strides[dim]);
  if (movement.walk[dim] > 1) movement.strides[dim] *= step;
  movement.shape = movement.walk;
  return {std::move(movement)};
}

Movements diagonal(const Call& call) {
  const Shape& shape = call.array("self").shape();
  const size_t dim1 = call.dimension("dim1", 0, shape.size());
  const size_t dim2 = call.dimension("dim2", 1, shape.size());
  const int64_t offset = call.integer("offset", 0);
  if (dim1 == dim2 || shape.size() < 2) call.refuse("it needs two dimensions");
  if (offset < -shape[dim1] || offset > shape[dim2]) call.refuse("its offset is {}", offset);
  const int64_t rows = shape[dim1] - std::max<int64_t>(-offset, 0);
  const int64_t columns = shape[dim2] - std::max<int64_t>(offset, 0);
  const Movement all = whole(call);
  const int64_t count = std::max<int64_t>(0, std::min(rows, columns));
  Movement movement{.shape = {},
                    .offset = count == 0    ? 0
                              : offset >= 0 ? offset * all.strides[dim2]
                                            : -offset * all.strides[dim1]};
  for (size_t d = 0; d < shape.size(); ++d) {
    if (d == dim1 || d == dim2) continue;
    movement.walk.push_back(shape[d]);
    movement.strides.push_back(all.strides[d]);
  }
  movement.walk.push_back(count);
  movement.strides.push_back(all.strides[dim1] + all.strides[dim2]);
  movement.shape = movement.walk;
  return {std::move(movement)};
}

Movements flip(const Call& call) {
  Movement movement = whole(call);
  std::vector<bool> is_turned(movement.walk.size() + 1, false);
  for (const int64_t number : call.integers("dims")) {
    const size_t dim = call.dimension(number, movement.walk.size());
    if (is_turned[dim]) call.refuse("it names dimension {} twice", number);
    is_turned[dim] = true;
    if (movement.walk.empty() || movement.walk[dim] == 0) continue;
    movement.offset += (movement.walk[dim] - 1) * movement.strides[dim];
    movement.strides[dim] = -movement.strides[dim];
  }
  return {std::move(movement)};
}

// Parts of the given sizes, one after the other along `dim`.
Movements parts(const Call& call, size_t dim, const std::vector<int64_t>& sizes) {
  const Movement all = whole(call);
  if (all.walk.empty()) call.refuse("a scalar cannot be divided");
  if (sizes.size() > kPartsMax) call.refuse("it makes {} parts", sizes.size());
  Movements movements;
  int64_t begin = 0;
  for (const int64_t size : sizes) {
    if (size < 0 || size > all.walk[dim] - begin) {
      call.refuse("its parts are larger than the {} rows that there are", all.walk[dim]);
    }
    movements.push_back(cut(all, dim, begin, begin + size));
    begin += size;
  }
  if (begin != all.walk[dim]) call.refuse("its parts are {} rows of {}", begin, all.walk[dim]);
  return movements;
}

Movements even_parts(const Call& call, size_t dim, int64_t size) {
  const Shape& shape = call.array("self").shape();
  if (shape.empty()) call.refuse("a scalar cannot be divided");
  if (size < 0 || (size == 0 && shape[dim] != 0)) call.refuse("its parts have {} rows", size);
  if (size > 0 && shape[dim] / size > static_cast<int64_t>(kPartsMax)) {
    call.refuse("it makes {} parts", shape[dim] / size);
  }
  std::vector<int64_t> sizes;
  for (int64_t left = shape[dim]; left > 0; left -= size) sizes.push_back(std::min(left, size));
  if (sizes.empty()) sizes.push_back(0);
  return parts(call, dim, sizes);
}

Movements split(const Call& call) {
  const size_t dim = call.dimension("dim", 0, call.array("self").rank());
  if (call.has("split_sizes")) return parts(call, dim, call.integers("split_sizes"));
  const std::vector<int64_t> sizes = call.integers("split_size");
  if (call.overload == "sizes") return parts(call, dim, sizes);
  return even_parts(call, dim, call.integer("split_size"));
}

Movements chunk(const Call& call) {
  const Shape& shape = call.array("self").shape();
  const size_t dim = call.dimension("dim", 0, shape.size());
  const int64_t chunks = call.integer("chunks");
  if (chunks < 1 || shape.empty()) call.refuse("it divides into {} parts", chunks);
  return even_parts(call, dim, std::max<int64_t>(1, (shape[dim] - 1) / chunks + 1));
}

Movements unbind(const Call& call) {
  const Shape& shape = call.array("self").shape();
  const size_t dim = call.dimension("dim", 0, shape.size());
  if (shape.empty()) call.refuse("a scalar cannot be divided");
  Movements movements = parts(call, dim, std::vector<int64_t>(static_cast<size_t>(shape[dim]), 1));
  for (Movement& movement : movements) {
    movement.shape.erase(movement.shape.begin() + static_cast<ptrdiff_t>(dim));
  }
  return movements;
}

}  // namespace

MovementRules cutting_rules() {
  MovementRules rules;
  for (const char* op : {"slice", "slice_copy"}) rules[op] = {"self", "", slice};
  for (const char* op : {"select", "select_copy"}) rules[op] = {"self", "", select};
  for (const char* op : {"narrow", "narrow_copy"}) rules[op] = {"self", "", narrow};
  rules["unfold"] = {"self", "", unfold};
  for (const char* op : {"diagonal", "diagonal_copy", "linalg_diagonal"}) {
    rules[op] = {"self", "", diagonal};
  }
  rules["flip"] = {"self", "", flip};
  for (const char* op : {"split", "split_with_sizes", "split_copy", "split_with_sizes_copy"}) {
    rules[op] = {"self", "", split};
  }
  for (const char* op : {"chunk", "unsafe_chunk"}) rules[op] = {"self", "", chunk};
  rules["unsafe_split"] = {"self", "", split};
  for (const char* op : {"unbind", "unbind_copy"}) rules[op] = {"self", "", unbind};
  return rules;
}

}  // namespace arenite::convert
