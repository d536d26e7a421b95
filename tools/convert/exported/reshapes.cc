// SPDX-License-Identifier: Apache-2.0
// Results with the elements of one tensor in order, in another shape or with other dimensions
// first.
#include <algorithm>
#include <functional>
#include <numeric>

#include "convert/exported/movement_rules.h"

namespace arenite::convert {
namespace {

Movements same(const CallArguments& call) { return {whole(call)}; }

// `sizes` with its -1 replaced by what is left of `elements`.
Shape resolved(const CallArguments& call, Shape sizes, size_t elements) {
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

Movements inactive_dropout(const CallArguments& call) {
  if (call.flag("train", true) && call.real("p", 0.5) != 0.0) {
    call.refuse(
        "dropout is active, so that every call of the model gives something else: call "
        "model.eval() before torch.export.export, and give F.dropout training=self.training");
  }
  return {whole(call.array("input").shape())};
}

Movements view(const CallArguments& call) {
  const Array& self = call.array("self");
  if (call.call().overload == "dtype") {
    call.refuse("looking at the bits of a tensor as another type is not understood");
  }
  const char* name = call.has("size") ? "size" : "shape";
  return in_shape(call, whole(call), resolved(call, call.integers(name), self.elements()));
}

Movements view_as(const CallArguments& call) {
  return in_shape(call, whole(call), call.array("other").shape());
}

Movements flatten(const CallArguments& call) {
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

Movements unflatten(const CallArguments& call) {
  const Shape& shape = call.array("self").shape();
  const size_t dim = call.dimension("dim", 0, shape.size());
  if (shape.empty()) call.refuse("a scalar has no dimension to divide");
  const Shape sizes = resolved(call, call.integers("sizes"), static_cast<size_t>(shape[dim]));
  Shape divided = shape;
  divided.erase(divided.begin() + static_cast<ptrdiff_t>(dim));
  divided.insert(divided.begin() + static_cast<ptrdiff_t>(dim), sizes.begin(), sizes.end());
  return in_shape(call, whole(call), std::move(divided));
}

Movements unsqueeze(const CallArguments& call) {
  Shape shape = call.array("self").shape();
  const size_t dim = call.dimension("dim", 0, shape.size() + 1);
  shape.insert(shape.begin() + static_cast<ptrdiff_t>(dim), 1);
  return in_shape(call, whole(call), std::move(shape));
}

Movements squeeze(const CallArguments& call) {
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
Movements permuted(const CallArguments& call, const Movement& movement,
                   const std::vector<size_t>& order) {
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

Movements permute(const CallArguments& call) {
  const size_t rank = call.array("self").rank();
  std::vector<size_t> order;
  for (const int64_t dim : call.integers("dims")) order.push_back(call.dimension(dim, rank));
  return permuted(call, whole(call), order);
}

Movements transpose(const CallArguments& call) {
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

Movements transpose_all(const CallArguments& call) {
  std::vector<size_t> order(call.array("self").rank());
  std::iota(order.rbegin(), order.rend(), size_t{0});
  if (call.call().op == "t" && order.size() > 2) call.refuse("it transposes matrices alone");
  return permuted(call, whole(call), order);
}

Movements transpose_matrices(const CallArguments& call) {
  std::vector<size_t> order(call.array("self").rank());
  if (order.size() < 2) call.refuse("it transposes matrices alone");
  std::iota(order.begin(), order.end(), size_t{0});
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  return permuted(call, whole(call), order);
}

Movements movedim(const CallArguments& call) {
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
  Movement movement{.shape = shape, .walk = shape, .strides = Shape(shape.size(), 1)};
  for (size_t i = shape.size(); i > 1; --i) {
    movement.strides[i - 2] = movement.strides[i - 1] * shape[i - 1];
  }
  return movement;
}

Movement whole(const CallArguments& call) { return whole(call.array("self").shape()); }

Movements in_shape(const CallArguments& call, Movement movement, Shape shape) {
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

}  // namespace arenite::convert
