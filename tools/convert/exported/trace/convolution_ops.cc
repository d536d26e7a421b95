// SPDX-License-Identifier: Apache-2.0
// Lowers convolutions and pooling. A kernel of size 1 is a linear layer. Any other is a windows
// node over tokens or pixels, and a linear layer on the windows.
//
//   conv1d(x [b, 32, t], W [64, 32, 3])  ->  windows(x, kernel 3), linear [64, 96]
//   conv1d with groups = channels        ->  depthwise(x)
//   conv2d(x, W [64, 32, 1, 1])          ->  linear [64, 32]
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "convert/exported/aten/op_rules.h"
#include "convert/exported/recover/concat_rows.h"
#include "convert/exported/recover/images.h"
#include "convert/exported/recover/row_matrices.h"
#include "convert/exported/recover/row_view.h"
#include "convert/exported/trace/op_handlers.h"
#include "convert/exported/trace/tracer.h"

namespace arenite::convert {
namespace {

// Expands weights [outputs, inputs of a group] to all inputs, with zeros for other groups.
ConstantRef dense_weights(const ConstantRef& weight, int64_t groups) {
  const int64_t outputs = weight->shape()[0], width = weight->shape()[1];
  Movement movement{.shape = {outputs, groups * width}};
  movement.sources.emplace(elements_of(movement.shape), Movement::kZero);
  for (int64_t row = 0; row < outputs; ++row) {
    const int64_t group = row / (outputs / groups);
    for (int64_t i = 0; i < width; ++i) {
      (*movement.sources)[static_cast<size_t>((row * groups + group) * width + i)] =
          row * width + i;
    }
  }
  return moved(movement, weight);
}

constexpr const char* kNoConvolution =
    "the convolution is neither along the tokens nor over the lines and columns of an input image; "
    "run it in your program, and export the part that takes its result";

// Lowers a kernel of size 1 to a linear layer.
LinearExprRef pointwise_layer(Tracer& tracer, const LinearExprRef& given, const ConstantRef& weight,
                              int64_t groups, const TracedValue* bias) {
  LinearExprRef value = given;
  if (!value->is_plain() && is_of_model(tracer.builder, *value))
    value = tracer.builder.materialised(value);
  const Shape sides = {weight->shape()[0], weight->shape()[1]};
  const auto stored =
      std::make_shared<Constant>(weight->value(), sides, weight->type(),
                                 [weight, sides] { return weight->array().with_shape(sides); });
  stored->stored = weight->stored;
  ConstantRef matrix = stored;
  if (groups > 1) matrix = dense_weights(matrix, groups);
  std::vector<size_t> order = {0};
  for (size_t d = 2; d < value->shape.size(); ++d) order.push_back(d);
  order.push_back(1);
  const LinearExprRef made = tracer.linear(permuted(value, order), matrix, false, bias);
  return permuted(made, inverse_order(order));
}

// ---- windows over tokens, and over pixels ----

constexpr int64_t kGroupsMax = 64;  // each group gets its own nodes

// A convolution over token rows.
struct TokenConvolution {
  Tracer& tracer;
  ConstantRef weight;  // [outputs, channels of a group, kernel...]
  int64_t groups;
  std::vector<double> bias;

  int64_t outputs() const { return weight->shape()[0]; }
  int64_t channels() const { return weight->shape()[1]; }  // of a group
  int64_t kernel() const {
    return static_cast<int64_t>(weight->elements()) / outputs() / channels();
  }

  bool is_depthwise() const { return groups > 1 && groups == outputs() && channels() == 1; }

  // Returns the weights of outputs [first, first + count) as a matrix [count, kernel * channels].
  // For a depthwise convolution, returns all weights as [kernel, channels].
  WeightRef matrix(int64_t first, int64_t count, const std::string& name) const {
    Movement order{.shape = {count, kernel() * channels()},
                   .walk = {count, kernel(), channels()},
                   .strides = {channels() * kernel(), 1, kernel()},
                   .offset = first * channels() * kernel()};
    if (is_depthwise()) {
      order.shape = order.walk = {kernel(), outputs()};
      order.strides = {1, kernel()};
    }
    const ConstantRef ordered = moved(order, weight);
    WeightRef made = weight_of(tracer.builder.program, ordered, false);
    made.name = name;
    return made;
  }

  ValueId add(const Windows& of_windows, ValueId input) const {
    GraphBuilder& builder = tracer.builder;
    const std::string& name = builder.name;
    if (is_depthwise()) {
      return builder.graph.add_depthwise(name, {of_windows, matrix(0, 0, name), bias}, input);
    }
    std::vector<ValueId> parts;
    const auto width = static_cast<uint32_t>(channels());
    const int64_t count = outputs() / groups;
    for (int64_t g = 0; g < groups; ++g) {
      const std::string own = groups == 1 ? name : fmt::format("{}.{}", name, g);
      const auto column = static_cast<uint32_t>(g) * width;
      const ValueId columns =
          groups == 1 ? input : builder.graph.add_slice(own + ".slice", input, column, width);
      const ValueId seen = builder.graph.add_windows(own + ".windows", of_windows, columns);
      std::vector<double> added;
      if (!bias.empty()) {
        added.assign(bias.data() + g * count, bias.data() + (g + 1) * count);
      }
      parts.push_back(builder.graph.add_linear(own, {matrix(g * count, count, own), added}, seen));
    }
    return groups == 1 ? parts[0] : builder.graph.add_concat(name + ".concat", parts);
  }
};

// Counts the leading and trailing zero rows along dimension 1 of [.., rows, columns].
std::pair<int64_t, int64_t> zeros_around(const LinearExpr& value) {
  const int64_t rows = value.shape[1], width = value.shape[2];
  const auto is_zero = [&](int64_t row) {
    for (int64_t b = 0; b < value.shape[0]; ++b) {
      for (int64_t c = 0; c < width; ++c) {
        const auto at = static_cast<size_t>((b * rows + row) * width + c);
        for (const Term& term : value.terms) {
          if (term.places.at(at) != kNoElement) return false;
        }
      }
    }
    return true;
  };
  int64_t before = 0, after = 0;
  while (before < rows && is_zero(before)) ++before;
  while (before + after < rows && is_zero(rows - 1 - after)) ++after;
  return {before, after};
}

// Crops leading and trailing zeros of [sequences, places..., columns], and adds their number to the
// padding of `convolution`.
LinearExprRef without_zeros(LinearExprRef value, Convolution& convolution) {
  for (size_t d = 0; d < convolution.stride.size(); ++d) {
    const Shape shape = value->shape;
    const auto extent = [&](size_t begin, size_t end) {
      return elements_of(Shape(shape.begin() + static_cast<ptrdiff_t>(begin),
                               shape.begin() + static_cast<ptrdiff_t>(end)));
    };
    const auto outer = static_cast<int64_t>(extent(0, d + 1));
    const auto inner = static_cast<int64_t>(extent(d + 2, shape.size()));
    const auto [before, after] = zeros_around(*with_shape(value, {outer, shape[d + 1], inner}));
    if (before + after == 0) continue;
    Shape left = shape;
    left[d + 1] -= before + after;
    refuse_op_if(left[d + 1] < 1,
                 "the input of the convolution is only zeros; expected elements of the model");
    const Movement crop{.shape = left,
                        .walk = {outer, left[d + 1], inner},
                        .strides = {shape[d + 1] * inner, inner, 1},
                        .offset = before * inner};
    value = moved(crop, value);
    convolution.padding_before[d] += before;
    convolution.padding_after[d] += after;
  }
  return value;
}

uint32_t as_rows(int64_t count) {
  refuse_op_if(count < 0 || count > kWindowRowsMax,
               "a kernel, stride, dilation or padding is {}; expected at most {}", count,
               kWindowRowsMax);
  return static_cast<uint32_t>(count);
}

WindowAxis window_along(size_t dimension, const Shape& kernel, const Convolution& convolution) {
  as_rows((kernel[dimension + 2] - 1) * convolution.dilation[dimension] + 1);
  return {as_rows(kernel[dimension + 2]), as_rows(convolution.stride[dimension]),
          as_rows(convolution.dilation[dimension]), as_rows(convolution.padding_before[dimension]),
          as_rows(convolution.padding_after[dimension])};
}

// Returns the node whose rows, in order, are a value [sequences, places, columns].
ValueId node_of_rows(GraphBuilder& builder, const LinearExprRef& value) {
  const RowView rows = rows_of(builder, value);
  refuse_op_if(
      !rows.are_all() || value->shape[0] != builder.sizes.sequences,
      "windows read tokens that are not in order; expected all tokens of a sequence in order");
  return rows.node;
}

using AddNodes = std::function<ValueId(const Windows&, ValueId input)>;

// Applies the nodes of `add` to windows: maps [sequences, channels, places...] to [sequences,
// outputs, windows...]. `kernel` is [.., .., extents...].
LinearExprRef over_windows(GraphBuilder& builder, const LinearExprRef& given, const Shape& kernel,
                           Convolution convolution, bool sees_zeros, const AddNodes& add,
                           const Shape& result) {
  const size_t directions = convolution.stride.size();
  std::vector<size_t> order = {0};
  for (size_t d = 0; d < directions; ++d) order.push_back(d + 2);
  order.push_back(1);
  const LinearExprRef ordered = permuted(given, order);
  const LinearExprRef value = sees_zeros ? without_zeros(ordered, convolution) : ordered;
  const Shape shape = value->shape;
  const auto places = static_cast<int64_t>(value->elements()) / shape[0] / shape.back();
  const LinearExprRef in_rows =
      interleaved_rows(builder, with_shape(value, {shape[0], places, shape.back()}));
  const ScopedAxis on(builder, *in_rows);
  const ValueId input = node_of_rows(builder, in_rows);
  Windows seen;
  seen.lines = window_along(0, kernel, convolution);
  const Axis& axis = builder.graph.axes[builder.graph.axis(input)];
  if (directions == 2) {
    // An image of one column may be given as one line.
    const bool is_column = axis.is_image() && axis.other == 1 && shape[1] == 1;
    const bool fits =
        axis.is_image() && axis.rows == places && (is_column || axis.other == shape[2]);
    refuse_op_if(!fits, "{}", kNoConvolution);
    seen.columns = window_along(1, kernel, convolution);
    if (is_column) std::swap(seen.lines, seen.columns);
    seen.width = axis.other;
  } else {
    refuse_op_if(axis.is_image(), "a 1-D kernel is over the pixels of a 2-D image: {}",
                 kNoConvolution);
  }
  const LinearExprRef windows = builder.windows_expr(
      {.windows = seen, .input = input, .places = builder.sizes.tokens, .add = add});
  Shape last = {result[0]};
  last.insert(last.end(), result.begin() + 2, result.end());
  last.push_back(result[1]);
  return permuted(with_shape(windows, last), inverse_order(order));
}

// Whether the kernel has size 1, stride 1 and no padding.
bool is_pointwise(const Array& kernel, const Convolution& convolution) {
  for (size_t d = 0; d < convolution.stride.size(); ++d) {
    if (kernel.shape()[d + 2] != 1 || convolution.stride[d] != 1 ||
        convolution.padding_before[d] != 0 || convolution.padding_after[d] != 0) {
      return false;
    }
  }
  return true;
}

// Makes a 1-D convolution over images 2-D, with one line.
void widen(const GraphBuilder& builder, LinearExprRef& value, Shape& kernel, Shape& result,
           Convolution& convolution) {
  if (kernel.size() != 3 || !builder.reads_images()) return;
  value = with_shape(value, {value->shape[0], value->shape[1], 1, value->shape[2]});
  kernel.insert(kernel.begin() + 2, 1);
  result.insert(result.begin() + 2, 1);
  convolution.stride.insert(convolution.stride.begin(), 1);
  convolution.dilation.insert(convolution.dilation.begin(), 1);
  convolution.padding_before.insert(convolution.padding_before.begin(), 0);
  convolution.padding_after.insert(convolution.padding_after.begin(), 0);
}

// A 2-D kernel of extent 1 in one direction, not over images. The dimension along that direction,
// such as heads, is folded into channels that share the kernel.
struct Folded {
  size_t dimension = 0;  // of the value; 0: none
  int64_t extent = 1;

  // Returns the permutation of [sequences, channels, lines, columns] to [sequences, folded,
  // channels, places].
  std::vector<size_t> order() const {
    return dimension == 3 ? std::vector<size_t>{0, 3, 1, 2} : std::vector<size_t>{0, 2, 1, 3};
  }
  LinearExprRef unfolded(const LinearExprRef& value) const {
    if (dimension == 0) return value;
    const Shape& all = value->shape;
    const Shape each = {all[0], extent, all[1] / extent, all[2]};
    return permuted(with_shape(value, each), inverse_order(order()));
  }
};

Folded fold(const GraphBuilder& builder, LinearExprRef& value, ConstantRef& weight, Shape& kernel,
            Shape& result, Convolution& convolution) {
  if (kernel.size() != 4 || builder.reads_images()) return {};
  for (const size_t d : {size_t{2}, size_t{3}}) {
    const auto own = static_cast<ptrdiff_t>(d - 2);
    const bool is_narrow = kernel[d] == 1 && convolution.padding_before[d - 2] == 0 &&
                           convolution.padding_after[d - 2] == 0 &&
                           (convolution.stride[d - 2] == 1 || value->shape[d] == 1) &&
                           !is_along_tokens(builder, *value, d);
    if (!is_narrow) continue;
    const Folded made{d, value->shape[d]};
    const Shape shape = value->shape;
    value =
        with_shape(permuted(value, made.order()), {shape[0], made.extent * shape[1], shape[5 - d]});
    const int64_t taps = kernel[1] * kernel[5 - d];
    weight = moved(Movement{.shape = {made.extent * kernel[0], kernel[1], kernel[5 - d]},
                            .walk = {made.extent, kernel[0] * taps},
                            .strides = {0, 1}},
                   weight);
    kernel = weight->shape();
    result = {result[0], made.extent * result[1], result[5 - d]};
    for (Shape* numbers : {&convolution.stride, &convolution.dilation, &convolution.padding_before,
                           &convolution.padding_after}) {
      numbers->erase(numbers->begin() + own);
    }
    convolution.groups *= made.extent;
    return made;
  }
  return {};
}

// Returns the function that adds the nodes of a convolution, with its bias repeated `copies` times.
AddNodes convolution_nodes(Tracer& tracer, const ConstantRef& weight, int64_t groups,
                           const TracedValue* bias, int64_t copies) {
  TokenConvolution made{tracer, weight, groups, {}};
  refuse_op_if(groups > kGroupsMax && !made.is_depthwise(),
               "the convolution has {} groups; expected one per channel, or at most {}", groups,
               kGroupsMax);
  if (bias != nullptr) {
    const Array::Reals each = tracer.array_of(*bias).to_reals();
    for (int64_t i = 0; i < copies; ++i)
      made.bias.insert(made.bias.end(), each.begin(), each.end());
    refuse_op_if(made.bias.size() != static_cast<size_t>(made.outputs()),
                 "bias and results have different widths; expected one bias for each result");
  }
  return [made](const Windows& seen, ValueId from) { return made.add(seen, from); };
}

}  // namespace

std::optional<TracedValue> convolution_op(Tracer& tracer, const Call& call) {
  if (!is_one_of(call.op, {"conv1d", "conv2d", "conv3d", "convolution"})) return std::nullopt;
  const TracedValue* input = value_of(call, "input");
  const auto weight = value_as<ConstantRef>(call, "weight");
  refuse_op_if(input == nullptr || !weight,
               "the weights of the convolution depend on the model's input; expected constants");
  if (weight->shape().size() == 5) {
    Call over_frames = call;
    over_frames.op = "conv3d";
    return lower_decomposition(tracer, over_frames);
  }
  const Call shapes = with_shapes(call);
  Array from = shapes.array("input");
  const Array weights = shapes.array("weight");
  const bool has_batch = from.rank() == weights.rank();
  refuse_op_if(
      weights.rank() < 3 || weights.rank() > 4 || (!has_batch && from.rank() + 1 != weights.rank()),
      "{}", kNoConvolution);
  Shape shape = from.shape();
  if (!has_batch) shape.insert(shape.begin(), 1);
  from = from.with_shape(shape);
  Convolution convolution = convolution_of(shapes, weights);
  const TracedValue* bias = value_of(call, "bias");
  LinearExprRef value = with_shape(tracer.as_sum(*input), shape);
  Shape result = convolved_shape(shapes, from, weights, convolution);
  const bool is_single = is_pointwise(weights, convolution);
  Shape kernel = weights.shape(), flat = result;
  ConstantRef taps = weight;
  Folded folded;
  if (!is_single) {
    // For a kernel over all lines at once, lines become channels of one line.
    const bool is_high = kernel.size() == 4 && !tracer.builder.reads_images() && kernel[2] > 1 &&
                         kernel[2] == shape[2] && result[2] == 1 && convolution.groups == 1;
    if (is_high) {
      kernel = {kernel[0], kernel[1] * kernel[2], 1, kernel[3]};
      taps = with_shape(weight, kernel);
      value = with_shape(value, {shape[0], kernel[1], 1, shape[3]});
    }
    widen(tracer.builder, value, kernel, flat, convolution);
    folded = fold(tracer.builder, value, taps, kernel, flat, convolution);
  }
  if (tracer.builder.images != 0) find_image(tracer.builder, *value);
  const LinearExprRef made =
      is_single
          ? pointwise_layer(tracer, value, weight, convolution.groups, bias)
          : folded.unfolded(over_windows(
                tracer.builder, value, kernel, convolution, true,
                convolution_nodes(tracer, taps, convolution.groups, bias, folded.extent), flat));
  if (!has_batch) result.erase(result.begin());
  return with_shape(made, result);
}

// Lowers nearest-neighbour upsampling by an integer factor to repeated rows.
std::optional<TracedValue> nearest_op(Tracer& tracer, const Call& call) {
  if (!is_one_of(call.op, {"upsample_nearest1d", "_upsample_nearest_exact1d"})) {
    return std::nullopt;
  }
  const TracedValue self = values_of(call).at(0);
  const int64_t places = shape_of(self).at(2);
  const Argument* const factors = call.find("scale_factors");
  const auto* list = factors != nullptr ? factors->as<Argument::List>() : nullptr;
  const double* factor = list != nullptr && list->size() == 1 ? list->at(0).as<double>() : nullptr;
  refuse_op_if(!call.has("output_size") && factor == nullptr,
               "neither output_size nor scale_factors is given; expected one of them");
  const int64_t made = call.has("output_size")
                           ? call.integers("output_size").at(0)
                           : static_cast<int64_t>(*factor * static_cast<double>(places));
  refuse_op_if(made % places != 0,
               "the upsampled extent {} is not a multiple of {}; expected an integer factor", made,
               places);
  return tracer
      .trace(
          {.op = "repeat_interleave",
           .overload = "self_int",
           .arguments = {{"self", traced(self)}, {"repeats", made / places}, {"dim", int64_t{2}}},
           .stack_trace = call.stack_trace,
           .part_of = call.target()})
      .at(0);
}

// Lowers the mean over lines, or over columns, of an image to pooling over windows of that length.
std::optional<TracedValue> mean_of_lines(Tracer& tracer, const Call& call) {
  if (call.op != "mean" || !call.has("dim") || !tracer.builder.reads_images()) return std::nullopt;
  const TracedValue input = values_of(call).at(0);
  const Shape shape = shape_of(input);
  const std::vector<int64_t> dims = call.integers("dim");
  if (shape.size() != 4 || dims.size() != 1 || shape[2] < 2 || shape[3] < 2) return std::nullopt;
  const size_t axis = call.dimension(dims[0], shape.size());
  const LinearExprRef value = tracer.as_sum(input);
  if (axis < 2 || !is_along_tokens(tracer.builder, *value, 2) ||
      !is_along_tokens(tracer.builder, *value, 3)) {
    return std::nullopt;
  }
  Argument::List kernel = {int64_t{1}, int64_t{1}};
  kernel[axis - 2] = shape[axis];
  const TracedValue made =
      tracer
          .trace({.op = "avg_pool2d",
                  .arguments = {{"self", traced(value)}, {"kernel_size", std::move(kernel)}}})
          .at(0);
  if (call.flag("keepdim", false)) return made;
  Shape left = shape;
  left.erase(left.begin() + static_cast<ptrdiff_t>(axis));
  return with_shape(tracer.as_sum(made), left);
}

std::optional<TracedValue> max_pool_op(Tracer& tracer, const Call& call) {
  if (!is_one_of(call.op, {"max_pool1d", "max_pool2d", "max_pool2d_with_indices"})) {
    return std::nullopt;
  }
  const size_t count = call.op == "max_pool1d" ? 1 : 2;
  LinearExprRef value = tracer.as_sum(values_of(call).at(0));
  const Shape given = value->shape;
  refuse_op_if(given.size() != count + 2,
               "the pooled value has another rank than its kernel needs; expected [sequences, "
               "channels, extents...]");
  const auto each = [&](const char* name, const Shape& otherwise) {
    Shape numbers = call.has(name) ? Shape(call.integers(name)) : otherwise;
    if (numbers.empty()) numbers = otherwise;
    if (numbers.size() == 1) numbers.resize(count, numbers[0]);
    refuse_op_if(numbers.size() != count, "{} has {} values; expected one per spatial dimension",
                 name, numbers.size());
    return numbers;
  };
  Shape kernel = each("kernel_size", {1});
  Convolution convolution{.stride = each("stride", kernel),
                          .padding_before = each("padding", {0}),
                          .padding_after = {},
                          .dilation = each("dilation", {1})};
  convolution.padding_after = convolution.padding_before;
  Shape result = {given[0], given[1]};
  for (size_t d = 0; d < count; ++d) {
    const int64_t extent = kernel[d], stride = convolution.stride[d];
    refuse_op_if(extent < 1 || stride < 1 || convolution.dilation[d] < 1 ||
                     convolution.padding_before[d] < 0 ||
                     2 * convolution.padding_before[d] > extent,
                 "pooling windows are empty, or more than half padding; expected padding of at "
                 "most half a window");
    const int64_t left = given[d + 2] + 2 * convolution.padding_before[d] -
                         (extent - 1) * convolution.dilation[d] - 1;
    refuse_op_if(
        left < 0 || (call.flag("ceil_mode", false) && left % stride != 0),
        "the last pooling window ends beyond the input; use ceil_mode=False or a longer input");
    result.push_back(left / stride + 1);
  }
  kernel.insert(kernel.begin(), {given[1], 1});
  Shape flat = result;
  widen(tracer.builder, value, kernel, flat, convolution);
  if (tracer.builder.images != 0) find_image(tracer.builder, *value);
  GraphBuilder& builder = tracer.builder;
  const auto add = [&builder, name = builder.name](const Windows& seen, ValueId from) {
    return builder.graph.add_max_pool(name, seen, from);
  };
  return with_shape(over_windows(builder, value, kernel, convolution, false, add, flat), result);
}

// ---- padding by rows of zeros, and token rows beside interleaved rows of windows over them, as in
// layers that halve the number of rows and double it again ----

namespace {

constexpr uint32_t kHalvingsMax = 8;

// Returns the rows of `node` on graph axis `to`, if that axis interleaves windows over these rows;
// nullopt for any other axis.
std::optional<ValueId> on_axis(GraphBuilder& builder, ValueId node, uint32_t to, uint32_t depth) {
  Graph& graph = builder.graph;
  if (graph.axis(node) == to) return node;
  const Axis turns = graph.axes[to];
  if (turns.kind != AxisKind::kTurns || depth == 0) return std::nullopt;
  const uint32_t from = graph.axis(node);
  for (size_t i = 0; i < graph.axes.size(); ++i) {
    const Axis windows = graph.axes[i];
    const auto reach = static_cast<uint32_t>(std::max(0, windows.window));
    if (windows.kind != AxisKind::kWindows || windows.source != from ||
        windows.stride != turns.rows || reach < 1 || reach > turns.rows) {
      continue;
    }
    Windows seen;
    seen.lines.kernel = seen.lines.stride = turns.rows;
    seen.lines.after = turns.rows - reach;
    const ValueId few = graph.add_windows(builder.name + ".windows", seen, node);
    const auto made = on_axis(builder, few, turns.source, depth - 1);
    if (made) return graph.add_in_turn(builder.name + ".turns", *made, turns.rows);
  }
  return std::nullopt;
}

// Moves the rows of a value to a row axis. Returns the value unchanged if that is impossible.
LinearExprRef on_row_axis(GraphBuilder& builder, const LinearExprRef& given, uint32_t row_axis) {
  const LinearExprRef value = builder.materialised(given);
  std::map<uint32_t, uint32_t> to;  // by producer
  std::vector<int64_t> element_ids = element_ids_of(*value);
  for (int64_t& number : element_ids) {
    if (!builder.is_node(number)) return given;
    const auto [known, is_new] = to.try_emplace(producer_of(number));
    if (is_new) {
      const Producer from = builder.producer(number);
      const uint32_t axis = static_cast<uint32_t>(
          std::ranges::find(builder.graph.axes, builder.graph_axis_of(row_axis)) -
          builder.graph.axes.begin());
      const auto node = on_axis(builder, from.node, axis, kHalvingsMax);
      const ScopedAxis on(builder, row_axis);
      if (!node || from.rows != builder.sizes.rows()) return given;
      known->second = builder.producer_of_node(*node, from.rows);
    }
    number = element_id(known->second, static_cast<uint64_t>(index_of(number)));
  }
  return plain(value->shape, std::move(element_ids));
}

}  // namespace

Call with_rows_of_zeros(Tracer& tracer, const Call& call) {
  const bool pads = is_one_of(call.op, {"pad", "constant_pad_nd"});
  const TracedValue* const given = pads ? value_of(call, "self") : nullptr;
  if (!tracer.builder.fixes_rows || given == nullptr || given->is_constant() ||
      given->is<ScoresRef>() || call.text("mode", "constant") != "constant" ||
      call.real("value", 0.0) != 0.0) {
    return call;
  }
  const LinearExprRef value = tracer.as_sum(*given);
  const Shape& shape = value->shape;
  const std::vector<int64_t> zeros = call.integers("pad");
  // F.pad lists the last dimension first, with the padding before and after it.
  if (shape.size() < 3 || zeros.size() != 4 || zeros[0] != 0 || zeros[1] != 0 || zeros[2] < 0 ||
      zeros[3] < 0) {
    return call;
  }
  const size_t dim = shape.size() - 2;
  const auto row_axis = tracer.builder.row_axis_of(*value);
  if (!row_axis || shape[dim] != tracer.builder.sizes_of(*row_axis).tokens ||
      !is_along_tokens(tracer.builder, *value, dim)) {
    return call;
  }
  Argument::List parts;
  const auto add_zeros = [&](int64_t rows) {
    Shape part = shape;
    part[dim] = rows;
    if (rows == 0) return;
    parts.emplace_back(traced(std::make_shared<const Constant>(
        kNoValue, Array::real(part, Array::Reals(elements_of(part), 0.0)))));
  };
  add_zeros(zeros[2]);
  parts.emplace_back(traced(value));
  add_zeros(zeros[3]);
  if (parts.size() == 1) return call;
  return {.op = "cat",
          .arguments = {{"tensors", std::move(parts)}, {"dim", static_cast<int64_t>(dim)}},
          .stack_trace = call.stack_trace,
          .part_of = call.target()};
}

Call with_aligned_axes(Tracer& tracer, const Call& call) {
  GraphBuilder& builder = tracer.builder;
  if (builder.row_axes() < 2) return call;
  const auto row_axis_of = [&](const TracedValue& value) -> std::optional<uint32_t> {
    const FunctionRef& function = value.as<FunctionRef>();
    const LinearExprRef elements = function ? function->base : value.as<LinearExprRef>();
    return elements ? builder.row_axis_of(*elements) : std::nullopt;
  };
  std::optional<uint32_t> in_turn;
  for (const TracedValue& value : values_of(call)) {
    const auto row_axis = row_axis_of(value);
    if (row_axis && builder.graph_axis_of(*row_axis).kind == AxisKind::kTurns) in_turn = row_axis;
  }
  if (!in_turn) return call;
  return bind<TracedRef>(call, [&](const TracedRef& ref) -> Argument {
    const auto row_axis = row_axis_of(*ref);
    if (!row_axis || row_axis == in_turn ||
        builder.sizes_of(*row_axis).tokens != builder.sizes_of(*in_turn).tokens) {
      return ref;
    }
    return traced({on_row_axis(builder, tracer.as_sum(*ref), *in_turn), ref->type});
  });
}

std::optional<TracedValue> gather_rows_op(Tracer& tracer, const std::vector<TracedValue>& parts,
                                          const std::vector<Movement>& movements) {
  const auto may_list = [&](const TracedValue& part) {
    const bool is_longer = elements_of(movements[0].shape) > elements_of(shape_of(part));
    if (part.is_constant() || part.is<ScoresRef>()) return false;
    const LinearExprRef& value = part.as<LinearExprRef>();
    // Windows of images reorder rows too, but are lowered elsewhere.
    const bool is_one = parts.size() == 1 && value && !tracer.builder.reads_images();
    return is_longer || (is_one && gathers_rows(tracer.builder, moved(movements[0], value)));
  };
  if (!tracer.builder.fixes_rows || movements.size() != 1 ||
      !std::ranges::all_of(parts, may_list)) {
    return std::nullopt;
  }
  std::vector<LinearExprRef> values;
  for (const TracedValue& part : parts) values.push_back(tracer.as_sum(part));
  // Some parts may be sums, and others their rows.
  const bool has_rows =
      std::ranges::any_of(values, [](const LinearExprRef& value) { return value->is_plain(); });
  if (parts.size() == 1 || has_rows) {
    for (LinearExprRef& value : values) value = tracer.builder.materialised(value);
  }
  return gathered_rows(tracer.builder, moved(movements[0], values));
}

}  // namespace arenite::convert
