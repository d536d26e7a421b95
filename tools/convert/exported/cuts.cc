// SPDX-License-Identifier: Apache-2.0
// Parts of one tensor: slices, rows, windows, diagonals, and what split gives.
#include <algorithm>

#include "convert/exported/movement_rules.h"

namespace arenite::convert {
namespace {

// Elements [begin, end) of a dimension, every `step`th. REQUIRES: 0 <= begin, step > 0.
Movement cut(Movement movement, size_t dim, int64_t begin, int64_t end, int64_t step = 1) {
  movement.offset += begin * movement.strides[dim];
  movement.walk[dim] = end > begin ? (end - begin - 1) / step + 1 : 0;
  movement.strides[dim] *= movement.walk[dim] > 1 ? step : 1;
  movement.shape = movement.walk;
  return movement;
}

Movements slice(const CallArguments& call) {
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

Movements select(const CallArguments& call) {
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

Movements narrow(const CallArguments& call) {
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

Movements unfold(const CallArguments& call) {
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

Movements diagonal(const CallArguments& call) {
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

Movements flip(const CallArguments& call) {
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
Movements parts(const CallArguments& call, size_t dim, const std::vector<int64_t>& sizes) {
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

Movements even_parts(const CallArguments& call, size_t dim, int64_t size) {
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

Movements split(const CallArguments& call) {
  const size_t dim = call.dimension("dim", 0, call.array("self").rank());
  if (call.has("split_sizes")) return parts(call, dim, call.integers("split_sizes"));
  const std::vector<int64_t> sizes = call.integers("split_size");
  if (call.call().overload == "sizes") return parts(call, dim, sizes);
  return even_parts(call, dim, call.integer("split_size"));
}

Movements chunk(const CallArguments& call) {
  const Shape& shape = call.array("self").shape();
  const size_t dim = call.dimension("dim", 0, shape.size());
  const int64_t chunks = call.integer("chunks");
  if (chunks < 1 || shape.empty()) call.refuse("it divides into {} parts", chunks);
  return even_parts(call, dim, std::max<int64_t>(1, (shape[dim] - 1) / chunks + 1));
}

Movements unbind(const CallArguments& call) {
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
