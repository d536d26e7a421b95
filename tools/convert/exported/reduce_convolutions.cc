// SPDX-License-Identifier: Apache-2.0
// Convolutions as linear layers, where each of their places is made of one row: of a patch of an
// image, or of one token.
#include <fmt/format.h>

#include <string>
#include <utility>

#include "convert/exported/convolutions.h"
#include "convert/exported/reducer.h"

namespace arenite::convert {
namespace {

// [sequences, places, channels * kernel]: what is multiplied with the weights for each place.
Movement windows(const Shape& input, const Shape& result, const Shape& weight,
                 const Convolution& convolution) {
  const Shape strides = strides_of(input);
  const size_t count = convolution.stride.size();
  Movement movement;
  int64_t places = 1;
  movement.walk.push_back(input[0]);
  movement.strides.push_back(strides[0]);
  for (size_t d = 0; d < count; ++d) {
    movement.walk.push_back(result[d + 2]);
    movement.strides.push_back(convolution.stride[d] * strides[d + 2]);
    places *= result[d + 2];
  }
  movement.walk.push_back(input[1]);
  movement.strides.push_back(strides[1]);
  int64_t width = input[1];
  for (size_t d = 0; d < count; ++d) {
    movement.walk.push_back(weight[d + 2]);
    movement.strides.push_back(convolution.dilation[d] * strides[d + 2]);
    width *= weight[d + 2];
  }
  movement.shape = {input[0], places, width};
  elements_of(movement.shape);  // refuses what is too large
  return movement;
}

bool has_padding(const Convolution& convolution) {
  for (size_t d = 0; d < convolution.stride.size(); ++d) {
    if (convolution.padding_before[d] != 0 || convolution.padding_after[d] != 0) return true;
  }
  return false;
}

// Whether each place has a kernel of its own, as of patches.
bool cuts_patches(const Array& kernel, const Convolution& convolution) {
  for (size_t d = 0; d < convolution.stride.size(); ++d) {
    if (convolution.stride[d] < kernel.shape()[d + 2] || convolution.dilation[d] != 1) return false;
  }
  return !has_padding(convolution) && convolution.groups == 1;
}

// What the kernel of such a convolution is, for people.
std::string kernel_text(const Array& kernel, const Convolution& convolution) {
  const Shape sides(kernel.shape().begin() + 2, kernel.shape().end());
  return fmt::format("its kernel is {} with stride {}, padding {}, dilation {} and {} group{}",
                     shape_text(sides), shape_text(convolution.stride),
                     shape_text(convolution.padding_before), shape_text(convolution.dilation),
                     convolution.groups, convolution.groups == 1 ? "" : "s");
}

constexpr const char* kNoPatchConvolution =
    "convolutions over several tokens or pixels at a time are not supported: those are linear "
    "layers whose stride is the kernel, without padding and groups, or whose kernel is 1. Run this "
    "one in your program, and export the part of the model that takes its result";

}  // namespace

std::optional<Reduced> Reducer::convolution_op(const Operation& operation) {
  const std::string& op = operation.call.op;
  if (op != "conv1d" && op != "conv2d" && op != "convolution") return std::nullopt;
  const Reduced* input = operation.value("input");
  const Reduced* given = operation.value("weight");
  const auto* weight = given != nullptr ? std::get_if<ConstantRef>(given) : nullptr;
  if (input == nullptr || weight == nullptr) {
    throw NotRecognised("its weights depend on the model's input");
  }
  const OpCall call = with_arrays(operation);
  const CallArguments arguments(call);
  Array from = arguments.array("input");
  const Array& kernel = arguments.array("weight");
  const bool has_batch = from.rank() == kernel.rank();
  if (kernel.rank() < 3 || (!has_batch && from.rank() + 1 != kernel.rank())) {
    throw NotRecognised(kNoPatchConvolution);
  }
  Shape shape = from.shape();
  if (!has_batch) shape.insert(shape.begin(), 1);
  from = from.with_shape(shape);
  const Convolution convolution = convolution_of(arguments, kernel);
  if (!cuts_patches(kernel, convolution)) {
    throw NotRecognised(kernel_text(kernel, convolution) + ": " + kNoPatchConvolution);
  }
  const Shape result = convolved_shape(arguments, from, kernel, convolution);
  AffineRef value = with_shape(as_affine(*input), shape);
  if (!value->is_plain() && is_of_model(*value)) value = builder_.materialised(value);
  const Movement movement = windows(shape, result, kernel.shape(), convolution);
  const AffineRef rows = moved(movement, std::span(&value, 1));
  const Shape matrix_shape = {kernel.shape()[0], movement.shape[2]};
  const auto matrix = std::make_shared<Constant>(
      (*weight)->value(), matrix_shape, (*weight)->type(),
      [weight = *weight, matrix_shape] { return weight->array().with_shape(matrix_shape); });
  matrix->stored = (*weight)->stored;
  const AffineRef made = as_affine(linear(rows, matrix, false, operation.value("bias")));
  Shape made_shape = result;
  if (!has_batch) made_shape.erase(made_shape.begin());
  return with_shape(permuted(made, {0, 2, 1}), made_shape);
}

}  // namespace arenite::convert
