// SPDX-License-Identifier: Apache-2.0
// One element in several places, and the blocks of pixels that images are cut into.
#include <algorithm>

#include "convert/exported/movement_rules.h"

namespace arenite::convert {
namespace {

Movement expanded(const CallArguments& call, const Shape& shape, const Shape& sizes) {
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

Movements expand(const CallArguments& call) {
  return {expanded(call, call.array("self").shape(), call.integers("size"))};
}

Movements expand_as(const CallArguments& call) {
  return {expanded(call, call.array("self").shape(), call.array("other").shape())};
}

// copy(self, src): what `self` is after src was copied into it.
Movements copy(const CallArguments& call) {
  return {expanded(call, call.array("src").shape(), call.array("self").shape())};
}

// Walks over every dimension `repeats` times.
Movements repeat(const CallArguments& call) {
  const Shape& shape = call.array("self").shape();
  Shape repeats = call.integers(call.has("dims") ? "dims" : "repeats");
  if (call.call().op == "tile" && repeats.size() < shape.size()) {
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

Movements repeat_interleave(const CallArguments& call) {
  if (call.call().overload != "self_int") {
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

Movements pixel_unshuffle(const CallArguments& call) {
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

Movements pixel_shuffle(const CallArguments& call) {
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
Movements broadcast_tensors(const CallArguments& call) {
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

Movements meshgrid(const CallArguments& call) {
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
Movements im2col(const CallArguments& call) {
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
