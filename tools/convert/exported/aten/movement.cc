// SPDX-License-Identifier: Apache-2.0
// Rules of ops that move elements by strides, and of im2col and col2im.
#include "convert/exported/aten/movement.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <optional>

#include "convert/exported/aten/op_rules.h"

namespace arenite::convert {
namespace {

using Numbers = std::vector<int64_t>;

constexpr int64_t kShuffleMax = 1 << 12;  // largest factor of pixel_shuffle
constexpr int64_t kPartsMax = 1 << 16;    // of one split

// Reshapes a movement's result; refuses a different number of elements.
Movement in_shape(const Call& call, Movement movement, Shape shape) {
  if (elements_of(shape) != elements_of(movement.walk)) {
    call.refuse("a tensor {} cannot be viewed as {}", shape_text(movement.shape),
                shape_text(shape));
  }
  movement.shape = std::move(shape);
  return movement;
}

void remove_dimension(Shape& shape, size_t dim) {
  shape.erase(shape.begin() + static_cast<ptrdiff_t>(dim));
}

void insert(Shape& shape, size_t dim, int64_t extent) {
  shape.insert(shape.begin() + static_cast<ptrdiff_t>(dim), extent);
}

// ---- views: elements in order, in another shape ----

Shape own_shape(const Call&, const Shape& shape) { return shape; }

// Resolves -1 in `sizes` from the number of elements.
Shape resolved(const Call& call, Shape sizes, size_t elements) {
  const auto open = std::find(sizes.begin(), sizes.end(), -1);
  if (open == sizes.end()) return sizes;
  *open = 1;
  const size_t others = elements_of(sizes);
  if (others == 0 || elements % others != 0) {
    call.refuse("{} elements do not fill the requested shape", elements);
  }
  *open = static_cast<int64_t>(elements / others);
  return sizes;
}

Shape viewed(const Call& call, const Shape& shape) {
  if (call.overload == "dtype") {
    call.refuse("viewing the bits of a tensor as another dtype is not supported");
  }
  return resolved(call, call.integers(call.has("size") ? "size" : "shape"), elements_of(shape));
}

Shape other_shape(const Call& call, const Shape&) { return call.array("other").shape(); }

Shape flattened(const Call& call, const Shape& shape) {
  if (shape.empty()) return {1};
  const size_t first = call.dimension("start_dim", 0, shape.size());
  const size_t last = call.dimension("end_dim", -1, shape.size());
  if (first > last) call.refuse("start_dim is after end_dim");
  Shape flat = shape;
  for (size_t d = last; d > first; --d) {
    flat[d - 1] *= flat[d];
    remove_dimension(flat, d);
  }
  return flat;
}

Shape unflattened(const Call& call, const Shape& shape) {
  const size_t dim = dimension_of(call, shape);
  const Shape sizes = resolved(call, call.integers("sizes"), static_cast<size_t>(shape[dim]));
  Shape divided = shape;
  remove_dimension(divided, dim);
  divided.insert(divided.begin() + static_cast<ptrdiff_t>(dim), sizes.begin(), sizes.end());
  return divided;
}

Shape unsqueezed(const Call& call, const Shape& shape) {
  Shape more = shape;
  insert(more, call.dimension("dim", 0, shape.size() + 1), 1);
  return more;
}

Shape squeezed(const Call& call, const Shape& shape) {
  std::vector<bool> is_named(shape.size() + 1, !call.has("dim"));
  const Numbers dims = call.has("dim") ? call.integers("dim") : Numbers{};
  for (const int64_t dim : dims) is_named[call.dimension(dim, shape.size())] = true;
  Shape left;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] != 1 || !is_named[d]) left.push_back(shape[d]);
  }
  return left;
}

struct View {
  std::string_view op;
  Shape (*shape)(const Call& call, const Shape& self);
};
constexpr View kViews[] = {{"contiguous", own_shape},  {"view", viewed},
                           {"view_as", other_shape},   {"flatten", flattened},
                           {"unflatten", unflattened}, {"unsqueeze", unsqueezed},
                           {"squeeze", squeezed}};

// ---- permutations of dimensions ----

using Order = std::vector<size_t>;

Order natural_order(size_t rank) {
  Order order(rank);
  std::iota(order.begin(), order.end(), size_t{0});
  return order;
}

Movement permuted(const Call& call, const Movement& movement, const Order& order) {
  Movement result = movement;
  std::vector<bool> is_taken(movement.walk.size(), false);
  if (order.size() != movement.walk.size()) {
    call.refuse("found {} dimensions to permute: expected {}", order.size(), movement.walk.size());
  }
  for (size_t d = 0; d < order.size(); ++d) {
    if (is_taken[order[d]]) call.refuse("dimension {} is named twice", order[d]);
    is_taken[order[d]] = true;
    result.walk[d] = movement.walk[order[d]];
    result.strides[d] = movement.strides[order[d]];
  }
  result.shape = result.walk;
  return result;
}

Order named_order(const Call& call, size_t rank) {
  Order order;
  for (const int64_t dim : call.integers("dims")) order.push_back(call.dimension(dim, rank));
  return order;
}

Order two_swapped(const Call& call, size_t rank) {
  const auto dimension = [&](const char* name, const char* other) {
    return call.dimension(call.integer(call.has(other) ? other : name), rank);
  };
  const size_t first = dimension("dim0", "axis0"), second = dimension("dim1", "axis1");
  Order order = natural_order(rank);
  if (rank > 0) std::swap(order[first], order[second]);
  return order;
}

Order reversed(const Call& call, size_t rank) {
  if (call.op == "t" && rank > 2) call.refuse("found more than two dimensions: expected a matrix");
  Order order = natural_order(rank);
  std::ranges::reverse(order);
  return order;
}

Order last_two_swapped(const Call& call, size_t rank) {
  if (rank < 2) call.refuse("found fewer than two dimensions: expected matrices");
  Order order = natural_order(rank);
  std::swap(order[rank - 1], order[rank - 2]);
  return order;
}

Order moved_dimensions(const Call& call, size_t rank) {
  const Numbers from = call.integers("source"), to = call.integers("destination");
  if (from.size() != to.size())
    call.refuse("found {} source and {} destination dimensions: expected equal numbers",
                from.size(), to.size());
  Order order(rank, rank);
  std::vector<bool> is_moved(rank, false);
  for (size_t i = 0; i < from.size() && rank > 0; ++i) {
    const size_t source = call.dimension(from[i], rank), place = call.dimension(to[i], rank);
    if (is_moved[source] || order[place] != rank) call.refuse("a dimension is named twice");
    is_moved[source] = true;
    order[place] = source;
  }
  size_t next = 0;
  for (size_t& dim : order) {
    if (dim != rank) continue;
    while (is_moved[next]) ++next;
    dim = next++;
  }
  return order;
}

struct Reordering {
  std::string_view op;
  Order (*order)(const Call& call, size_t rank);
};
constexpr Reordering kReorderings[] = {{"permute", named_order}, {"transpose", two_swapped},
                                       {"t", reversed},          {"numpy_T", reversed},
                                       {"mT", last_two_swapped}, {"movedim", moved_dimensions}};

// ---- parts of a tensor: slices, rows, windows, diagonals, splits ----

// Rows [begin, end) of a dimension, every `step`th.
struct Cut {
  int64_t begin = 0, end = 0, step = 1;
};

Movement cut(Movement movement, size_t dim, const Cut& rows) {
  const auto& [begin, end, step] = rows;
  movement.offset += begin * movement.strides[dim];
  movement.walk[dim] = end > begin ? (end - begin - 1) / step + 1 : 0;
  movement.strides[dim] *= movement.walk[dim] > 1 ? step : 1;
  movement.shape = movement.walk;
  return movement;
}

std::vector<Cut> slices(const Call& call, int64_t extent) {
  const auto clamped = [&](const char* name, int64_t default_value) {
    const int64_t at = call.integer(name, default_value);
    return std::clamp<int64_t>(at < 0 ? at + extent : at, 0, extent);
  };
  const int64_t step = call.integer("step", 1);
  if (step < 1) call.refuse("found step {}: expected at least 1", step);
  return {{clamped("start", 0), clamped("end", extent), step}};
}

std::vector<Cut> selected(const Call& call, int64_t extent) {
  const int64_t row = row_of(call, call.integer("index"), extent);
  return {{row, row + 1}};
}

std::vector<Cut> narrowed(const Call& call, int64_t extent) {
  int64_t begin = call.integer("start");
  if (begin < 0 && begin >= -extent) begin += extent;
  const int64_t length = call.integer("length");
  if (begin < 0 || length < 0 || begin > extent || length > extent - begin) {
    call.refuse("found start {} and length {}: expected rows of {}", begin, length, extent);
  }
  return {{begin, begin + length}};
}

// Returns consecutive parts of the given sizes.
std::vector<Cut> parts(const Call& call, int64_t extent, const Numbers& sizes) {
  std::vector<Cut> cuts;
  int64_t begin = 0;
  for (const int64_t size : sizes) {
    if (size < 0 || size > extent - begin) {
      call.refuse("the parts exceed the dimension's {} rows", extent);
    }
    cuts.push_back({begin, begin + size});
    begin += size;
  }
  if (begin != extent) call.refuse("the parts cover {} of {} rows: expected all", begin, extent);
  return cuts;
}

std::vector<Cut> even_parts(const Call& call, int64_t extent, int64_t size) {
  if (size < 0 || (size == 0 && extent != 0))
    call.refuse("found parts of {} rows: expected at least 1", size);
  if (extent / std::max<int64_t>(size, 1) > kPartsMax)
    call.refuse("found too many parts: expected at most 65536");
  std::vector<Cut> cuts;
  for (int64_t at = 0; at < extent; at += size) cuts.push_back({at, std::min(extent, at + size)});
  if (cuts.empty()) cuts.emplace_back();
  return cuts;
}

std::vector<Cut> split(const Call& call, int64_t extent) {
  if (call.has("split_sizes")) return parts(call, extent, call.integers("split_sizes"));
  if (call.overload == "sizes") return parts(call, extent, call.integers("split_size"));
  return even_parts(call, extent, call.integer("split_size"));
}

std::vector<Cut> chunks(const Call& call, int64_t extent) {
  const int64_t count = call.integer("chunks");
  if (count < 1) call.refuse("found {} chunks: expected at least 1", count);
  return even_parts(call, extent, std::max<int64_t>(1, (extent - 1) / count + 1));
}

// Handles tensor_split: splits into `sections` parts, of which the first ones are longer by 1, or
// cuts at indices.
std::vector<Cut> parts_at(const Call& call, int64_t extent) {
  std::vector<Cut> cuts;
  if (call.has("sections")) {
    const int64_t count = call.integer("sections");
    if (count < 1 || count > std::max<int64_t>(extent, 1)) {
      call.refuse("{} rows cannot be split into {} parts", extent, count);
    }
    for (int64_t i = 0, at = 0; i < count; ++i) {
      const int64_t end = at + extent / count + (i < extent % count ? 1 : 0);
      cuts.push_back({at, end});
      at = end;
    }
    return cuts;
  }
  int64_t at = 0;
  std::vector<int64_t> ends = call.integers("indices");
  ends.push_back(extent);
  for (const int64_t given : ends) {
    const int64_t end = std::clamp<int64_t>(given < 0 ? given + extent : given, 0, extent);
    if (end < at) call.refuse("the indices are not in ascending order");
    cuts.push_back({at, end});
    at = end;
  }
  return cuts;
}

std::vector<Cut> all_rows(const Call& call, int64_t extent) {
  return extent == 0 ? std::vector<Cut>() : even_parts(call, extent, 1);
}

// An op that splits a dimension into one result per cut.
struct CutOp {
  std::string_view op;
  std::vector<Cut> (*cuts)(const Call& call, int64_t extent);
  bool drops_dimension = false;
};
constexpr CutOp kCutOps[] = {
    {"slice", slices}, {"select", selected, true}, {"narrow", narrowed},      {"split", split},
    {"chunk", chunks}, {"tensor_split", parts_at}, {"unbind", all_rows, true}};

Movements cut_by(const Call& call, const CutOp& row) {
  const Movement all = whole(call);
  const size_t dim = dimension_of(call, all.shape);
  Movements movements;
  for (const Cut& each : row.cuts(call, all.shape[dim])) {
    movements.push_back(cut(all, dim, each));
    if (row.drops_dimension) remove_dimension(movements.back().shape, dim);
  }
  return movements;
}

// Appends a dimension of windows: `size` elements, `dilation` apart; a window begins every `step`
// elements.
Movement with_windows(Movement movement, size_t dim, int64_t size, int64_t step, int64_t dilation) {
  const int64_t windows = movement.walk[dim] - dilation * (size - 1);
  movement.walk.push_back(size);
  movement.strides.push_back(dilation * movement.strides[dim]);
  return cut(std::move(movement), dim, {0, windows, step});
}

Movements unfold(const Call& call) {
  const Shape& shape = call.array("self").shape();
  const size_t dim = dimension_of(call, shape, "dimension");
  const int64_t size = call.integer("size"), step = call.integer("step");
  if (size < 0 || size > shape[dim] || step < 1) {
    call.refuse("windows of {} elements, {} apart, do not fit into {}", size, step,
                shape_text(shape));
  }
  return {with_windows(whole(call), dim, size, step, 1)};
}

Movements diagonal(const Call& call) {
  const Shape& shape = call.array("self").shape();
  const size_t dim1 = call.dimension("dim1", 0, shape.size());
  const size_t dim2 = call.dimension("dim2", 1, shape.size());
  const int64_t offset = call.integer("offset", 0);
  if (dim1 == dim2 || shape.size() < 2) call.refuse("expected two different dimensions");
  if (offset < -shape[dim1] || offset > shape[dim2])
    call.refuse("the diagonal {} is out of range", offset);
  const int64_t rows = shape[dim1] - std::max<int64_t>(-offset, 0);
  const int64_t columns = shape[dim2] - std::max<int64_t>(offset, 0);
  const int64_t count = std::max<int64_t>(0, std::min(rows, columns));
  Movement movement = whole(call);
  const int64_t row = movement.strides[dim1], column = movement.strides[dim2];
  if (count != 0) movement.offset = offset >= 0 ? offset * column : -offset * row;
  for (const size_t dim : {std::max(dim1, dim2), std::min(dim1, dim2)}) {
    remove_dimension(movement.walk, dim);
    movement.strides.erase(movement.strides.begin() + static_cast<ptrdiff_t>(dim));
  }
  movement.walk.push_back(count);
  movement.strides.push_back(row + column);
  movement.shape = movement.walk;
  return {std::move(movement)};
}

Movements flip(const Call& call) {
  Movement movement = whole(call);
  std::vector<bool> is_turned(movement.walk.size() + 1, false);
  for (const int64_t number : call.integers("dims")) {
    const size_t dim = call.dimension(number, movement.walk.size());
    if (is_turned[dim]) call.refuse("dimension {} is named twice", number);
    is_turned[dim] = true;
    if (movement.walk.empty() || movement.walk[dim] == 0) continue;
    movement.offset += (movement.walk[dim] - 1) * movement.strides[dim];
    movement.strides[dim] = -movement.strides[dim];
  }
  return {std::move(movement)};
}

// ---- expansion, repetition, and blocks of pixels ----

Movement expanded(const Call& call, const Shape& shape, Shape sizes) {
  if (sizes.size() < shape.size()) {
    call.refuse("a tensor {} cannot be expanded to {}", shape_text(shape), shape_text(sizes));
  }
  const size_t lead = sizes.size() - shape.size();
  for (size_t d = lead; d < sizes.size(); ++d) {
    if (sizes[d] == -1) sizes[d] = shape[d - lead];
  }
  return stretching(shape, sizes);
}

Movements expand(const Call& call) {
  return {expanded(call, call.array("self").shape(), call.integers("size"))};
}

Movements expand_as(const Call& call) {
  return {expanded(call, call.array("self").shape(), call.array("other").shape())};
}

// Handles copy(self, src): broadcasts src to self.
Movements copy_into(const Call& call) {
  return {expanded(call, call.array("src").shape(), call.array("self").shape())};
}

// Repeats a tensor along its dimensions.
Movements repeat(const Call& call) {
  Shape shape = call.array("self").shape();
  Shape repeats = call.integers(call.has("dims") ? "dims" : "repeats");
  if (call.op == "tile" && repeats.size() < shape.size()) {
    repeats.insert(repeats.begin(), shape.size() - repeats.size(), 1);
  }
  if (repeats.size() < shape.size()) call.refuse("found fewer repeats than dimensions");
  const size_t lead = repeats.size() - shape.size();
  shape.insert(shape.begin(), lead, 1);
  const Shape strides = strides_of(shape);
  Movement movement;
  for (size_t d = 0; d < repeats.size(); ++d) {
    movement.walk.insert(movement.walk.end(), {repeats[d], shape[d]});
    movement.strides.insert(movement.strides.end(), {0, d < lead ? 0 : strides[d]});
  }
  static_cast<void>(elements_of(movement.walk));  // before the products can overflow
  for (size_t d = 0; d < repeats.size(); ++d) movement.shape.push_back(repeats[d] * shape[d]);
  return {std::move(movement)};
}

Movements repeat_interleave(const Call& call) {
  if (call.overload != "self_int") {
    call.refuse("a tensor of repeats is not supported: pass one integer");
  }
  Movement movement = whole(call);
  if (!call.has("dim")) movement = whole({static_cast<int64_t>(elements_of(movement.shape))});
  const size_t dim = call.dimension("dim", 0, movement.walk.size());
  const int64_t repeats = call.integer("repeats");
  if (repeats < 0 || movement.walk.empty())
    call.refuse("found {} repeats: expected at least 0, of a tensor with dimensions", repeats);
  const auto place = static_cast<ptrdiff_t>(dim) + 1;
  movement.walk.insert(movement.walk.begin() + place, repeats);
  movement.strides.insert(movement.strides.begin() + place, 0);
  static_cast<void>(elements_of(movement.walk));
  movement.shape[dim] *= repeats;
  return {std::move(movement)};
}

// Moves blocks of pixels to channels or back: [.., channels, rows, columns] is split into five
// dimensions, permuted, and merged into three.
Movements shuffle_pixels(const Call& call) {
  Shape shape = call.array("self").shape();
  const bool is_back = call.op == "pixel_shuffle";
  const int64_t factor = call.integer(is_back ? "upscale_factor" : "downscale_factor");
  const size_t rank = shape.size();
  const bool fits = rank >= 3 && factor >= 1 && factor <= kShuffleMax &&
                    (is_back ? shape[rank - 3] % (factor * factor) == 0
                             : shape[rank - 2] % factor == 0 && shape[rank - 1] % factor == 0);
  if (!fits) call.refuse("blocks of {} pixels do not divide {}", factor, shape_text(shape));
  const int64_t channels = shape[rank - 3], rows = shape[rank - 2], columns = shape[rank - 1];
  shape.resize(rank - 3);
  Shape divided = shape;
  const Shape five = is_back ? Shape{channels / factor / factor, factor, factor, rows, columns}
                             : Shape{channels, rows / factor, factor, columns / factor, factor};
  divided.insert(divided.end(), five.begin(), five.end());
  Order order = natural_order(rank - 3);
  for (const size_t dim : is_back ? Order{0, 3, 1, 4, 2} : Order{0, 2, 4, 1, 3}) {
    order.push_back(rank - 3 + dim);
  }
  const Shape three = is_back ? Shape{five[0], rows * factor, columns * factor}
                              : Shape{channels * factor * factor, five[1], five[3]};
  shape.insert(shape.end(), three.begin(), three.end());
  return {in_shape(call, permuted(call, whole(divided), order), shape)};
}

// Returns an identity movement for each array. Element numbers continue from one array to the next.
Movements movement_for_each(const std::vector<Array>& arrays,
                            const std::function<Movement(size_t)>& movement_of) {
  Movements movements;
  int64_t first = 0;
  for (size_t i = 0; i < arrays.size(); ++i) {
    movements.push_back(movement_of(i));
    movements.back().offset = first;
    first += static_cast<int64_t>(arrays[i].elements());
  }
  return movements;
}

Movements broadcast_tensors(const Call& call) {
  const std::vector<Array> arrays = call.arrays("tensors");
  Shape shape;
  for (const Array& array : arrays) shape = broadcast(shape, array.shape());
  return movement_for_each(arrays,
                           [&](size_t i) { return expanded(call, arrays[i].shape(), shape); });
}

Movements meshgrid(const Call& call) {
  const std::vector<Array> arrays = call.arrays("tensors");
  const bool is_xy = call.text("indexing", "ij") == "xy" && arrays.size() > 1;
  Shape shape;
  for (const Array& array : arrays) {
    if (array.rank() > 1) call.refuse("expected vectors");
    shape.push_back(static_cast<int64_t>(array.elements()));
  }
  if (is_xy) std::swap(shape[0], shape[1]);
  return movement_for_each(arrays, [&](size_t i) {
    Movement movement{.shape = shape, .walk = shape, .strides = Shape(shape.size(), 0)};
    movement.strides[is_xy && i < 2 ? 1 - i : i] = 1;
    return movement;
  });
}

// Handles F.unfold (im2col): an image to windows [channels * window, windows].
Movements im2col(const Call& call) {
  const Shape& given = call.array("self").shape();
  Shape shape = given;
  if (shape.size() == 3) insert(shape, 0, 1);
  const Numbers window = call.integers("kernel_size"), dilation = call.integers("dilation");
  const Numbers stride = call.integers("stride");
  if (shape.size() != 4 || window.size() != 2 || dilation.size() != 2 || stride.size() != 2) {
    call.refuse(
        "found an input {}: expected [channels, height, width], with windows of two dimensions",
        shape_text(given));
  }
  const Numbers zeros = call.integers("padding");
  const Shape inside = shape;
  for (size_t d = 0; d < 2; ++d) {
    if (zeros.size() != 2 || zeros[d] < 0 || zeros[d] > inside[d + 2]) {
      call.refuse("the padding is larger than the image");
    }
    shape[d + 2] += 2 * zeros[d];
  }
  Movement movement = whole(shape);
  for (size_t d = 0; d < 2; ++d) {
    const int64_t extent = shape[d + 2];
    if (window[d] < 1 || dilation[d] < 1 || stride[d] < 1 || window[d] > extent ||
        dilation[d] > extent || dilation[d] * (window[d] - 1) >= extent) {
      call.refuse("the windows do not fit into the image");
    }
    movement = with_windows(std::move(movement), d + 2, window[d], stride[d], dilation[d]);
  }
  const Shape walk = movement.walk;  // [images, channels, places, places, window, window]
  movement = permuted(call, movement, {0, 1, 4, 5, 2, 3});
  movement.shape = {walk[0], walk[1] * walk[4] * walk[5], walk[2] * walk[3]};
  if (shape != inside) {
    Numbers elements;
    for (int64_t i = 0, count = static_cast<int64_t>(elements_of(shape)); i < count; ++i) {
      const int64_t line = i / shape[3] % shape[2] - zeros[0], column = i % shape[3] - zeros[1];
      const bool is_zero = line < 0 || line >= inside[2] || column < 0 || column >= inside[3];
      const int64_t image = i / (shape[2] * shape[3]);
      elements.push_back(is_zero ? Movement::kZero
                                 : (image * inside[2] + line) * inside[3] + column);
    }
    movement = {.shape = movement.shape, .sources = movement.apply<int64_t>(elements)};
  }
  if (given.size() == 3) remove_dimension(movement.shape, 0);
  return {std::move(movement)};
}

// Handles F.fold (col2im): windows [channels * window, windows] to an image. Windows must not
// overlap; pixels without a window are 0.
Movements col2im(const Call& call) {
  const Shape& given = call.array("self").shape();
  const Numbers extent = call.integers("output_size"), window = call.integers("kernel_size");
  const Numbers dilation = call.integers("dilation"), padding = call.integers("padding");
  const Numbers stride = call.integers("stride");
  for (const Numbers* numbers : {&extent, &window, &dilation, &padding, &stride}) {
    const bool fits = numbers->size() == 2 && std::ranges::all_of(*numbers, [&](int64_t number) {
                        return number >= (numbers == &padding ? 0 : 1) && number < INT32_MAX;
                      });
    if (!fits) call.refuse("expected two sizes of at least 1 for each argument");
  }
  const size_t rank = given.size();
  int64_t counts[2];
  for (size_t d = 0; d < 2; ++d) {
    counts[d] = (extent[d] + 2 * padding[d] - dilation[d] * (window[d] - 1) - 1) / stride[d] + 1;
  }
  const int64_t taps = window[0] * window[1];
  if (rank < 2 || rank > 3 || counts[0] < 1 || counts[1] < 1 || given[rank - 2] % taps != 0 ||
      given[rank - 1] != counts[0] * counts[1]) {
    call.refuse("the windows do not fit into the image");
  }
  const int64_t images = (rank == 3 ? given[0] : 1) * (given[rank - 2] / taps);
  Movement movement{.shape = {given[rank - 2] / taps, extent[0], extent[1]}};
  if (rank == 3) insert(movement.shape, 0, given[0]);
  std::vector<int64_t>& sources = movement.sources.emplace();
  sources.assign(elements_of(movement.shape), Movement::kZero);
  for (int64_t i = 0, count = images * taps * counts[0] * counts[1]; i < count; ++i) {
    const int64_t place = i % given[rank - 1], tap = i / given[rank - 1] % taps;
    const int64_t y = place / counts[1] * stride[0] + tap / window[1] * dilation[0] - padding[0];
    const int64_t x = place % counts[1] * stride[1] + tap % window[1] * dilation[1] - padding[1];
    if (y < 0 || x < 0 || y >= extent[0] || x >= extent[1]) continue;
    const int64_t image = i / given[rank - 1] / taps;
    int64_t& source = sources[static_cast<size_t>((image * extent[0] + y) * extent[1] + x)];
    if (source != Movement::kZero)
      call.refuse(
          "overlapping windows are not supported: expected a stride of at least the window");
    source = i;
  }
  return {std::move(movement)};
}

// ---- conversions and dropout ----

// Returns no movement for a conversion that changes values: to another kind, or to a narrower
// integer type. Real types are all stored as double, so conversions between them change nothing.
Movements lossless_conversion(const Call& call) {
  const ElementType from = call.array("self").type();
  const bool has_other = call.find("other") != nullptr && call.find("other")->as<Array>();
  const ElementType to = has_other ? call.array("other").type() : call.type("dtype").value_or(from);
  const bool is_signed_byte = from == ElementType::kU8 && to == ElementType::kI8;
  const bool is_wider = !is_integer(to) || (to > from && !is_signed_byte);
  if (to != from && (kind_of(to) != kind_of(from) || !is_wider)) return {};
  return {whole(call)};
}

Movements inactive_dropout(const Call& call) {
  if (call.flag("train", true) && call.real("p", 0.5) != 0.0) {
    call.refuse(
        "dropout is active, so each call of the model differs: call model.eval() before "
        "torch.export.export, and pass F.dropout training=self.training");
  }
  return {whole(call.array("input").shape())};
}

std::vector<MovementRule> movement_rules() {
  std::vector<MovementRule> rules = {{"to", lossless_conversion},
                                     {"dropout", inactive_dropout, "input"},
                                     {"unfold", unfold},
                                     {"diagonal", diagonal},
                                     {"flip", flip},
                                     {"im2col", im2col},
                                     {"col2im", col2im},
                                     {"expand", expand},
                                     {"expand_as", expand_as},
                                     {"copy", copy_into, "src"},
                                     {"repeat", repeat},
                                     {"repeat_interleave", repeat_interleave},
                                     {"pixel_shuffle", shuffle_pixels},
                                     {"broadcast_tensors", broadcast_tensors, "tensors"},
                                     {"meshgrid", meshgrid, "tensors"}};
  for (const CutOp& row : kCutOps) {
    rules.push_back({row.op, [&row](const Call& call) { return cut_by(call, row); }});
  }
  for (const View& row : kViews) {
    rules.push_back(
        {row.op, [&row](const Call& call) -> Movements {
           return {in_shape(call, whole(call), row.shape(call, call.array("self").shape()))};
         }});
  }
  for (const Reordering& row : kReorderings) {
    rules.push_back({row.op, [&row](const Call& call) -> Movements {
                       return {
                           permuted(call, whole(call), row.order(call, call.array("self").rank()))};
                     }});
  }
  return rules;
}

const MovementRule* find_rule(std::string_view op) {
  static const auto kRules = [] {
    std::map<std::string_view, MovementRule> rules;
    for (const MovementRule& rule : movement_rules()) rules[rule.op] = rule;
    for (const MovementRule& rule : gathering_rules()) rules[rule.op] = rule;
    add_other_names(rules);
    return rules;
  }();
  const auto found = kRules.find(op);
  return found == kRules.end() ? nullptr : &found->second;
}

}  // namespace

Movement whole(const Shape& shape) {
  return {.shape = shape, .walk = shape, .strides = strides_of(shape)};
}

Movement whole(const Call& call) { return whole(call.array("self").shape()); }

size_t dimension_of(const Call& call, const Shape& shape, const char* name) {
  const size_t dim = call.dimension(name, 0, shape.size());
  if (shape.empty()) call.refuse("found a scalar: expected a tensor with dimensions");
  return dim;
}

int64_t row_of(const Call& call, int64_t index, int64_t extent) {
  if (index < -extent || index >= extent)
    call.refuse("index {} is out of range for {} rows", index, extent);
  return index < 0 ? index + extent : index;
}

Movement stretching(const Shape& given, const Shape& to) {
  Shape from = given;
  while (from.size() > to.size() && from[0] == 1) remove_dimension(from, 0);
  if (broadcast(from, to) != to) {
    throw ShapeError("a tensor {} cannot be broadcast to {}", shape_text(given), shape_text(to));
  }
  Movement movement{.shape = to, .walk = to, .strides = Shape(to.size() - from.size(), 0)};
  const Shape strides = strides_of(from);
  for (size_t d = 0; d < from.size(); ++d) {
    movement.strides.push_back(from[d] == 1 ? 0 : strides[d]);
  }
  return movement;
}

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
  if (!is_sound) throw ShapeError("an index is out of range: expected one of {} elements", inputs);
  WorkBudget::take(count);
}

std::optional<std::vector<Movement>> movements_of(const Call& call) {
  const MovementRule* rule = find_rule(call.op);
  if (rule == nullptr) return std::nullopt;
  try {
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

}  // namespace arenite::convert
