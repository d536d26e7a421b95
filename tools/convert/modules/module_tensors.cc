// SPDX-License-Identifier: Apache-2.0
// Checks shapes, types and values as tensors are taken.
#include "convert/modules/module_tensors.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "convert/files/error.h"

namespace arenite::convert {
namespace {

constexpr size_t kTensorsListed = 30;

}  // namespace

ModuleTensors::ModuleTensors(const Checkpoint& checkpoint, std::string prefix)
    : checkpoint_(checkpoint), file_(quote(checkpoint.file_name())), prefix_(std::move(prefix)) {}

bool ModuleTensors::has(std::string_view name) const {
  return checkpoint_.find(prefix_ + std::string(name)) != nullptr;
}

const CheckpointTensor* ModuleTensors::take(const std::string& name) {
  const CheckpointTensor* tensor = checkpoint_.find(prefix_ + name);
  if (tensor != nullptr) used_.insert(tensor->name);
  return tensor;
}

const CheckpointTensor& ModuleTensors::require(const std::string& name) {
  const CheckpointTensor* tensor = take(name);
  if (tensor == nullptr) {
    throw InputError("{}: tensor {} is missing; the file has:\n{}", file(), quote(prefix_ + name),
                     list_tensors(checkpoint_));
  }
  return *tensor;
}

Projection ModuleTensors::linear(const std::string& name) {
  return linear(name + ".weight", has(name + ".bias") ? name + ".bias" : "");
}

Projection ModuleTensors::linear(const std::string& weight, const std::string& bias) {
  const CheckpointTensor& tensor = require(weight);
  const MatrixShape shape = matrix_shape(tensor, file());
  Projection projection;
  projection.name = tensor.name;
  projection.outputs = shape.rows;
  projection.inputs = shape.columns;
  projection.weights = weight_values(tensor, file());
  if (!bias.empty()) {
    const CheckpointTensor& values = require(bias);
    if (values.shape != std::vector<uint64_t>{shape.rows}) {
      throw InputError("{}: bias {} has shape [{}]: expected [{}], as {} has that many rows",
                       file(), quote(values.name), fmt::join(values.shape, ", "), shape.rows,
                       quote(tensor.name));
    }
    projection.bias = weight_values(values, file());
  }
  return projection;
}

std::vector<std::string> ModuleTensors::rest() const {
  std::vector<std::string> names;
  for (const CheckpointTensor& tensor : checkpoint_.tensors()) {
    if (tensor.name.starts_with(prefix_) && !used_.contains(tensor.name)) {
      names.push_back(tensor.name);
    }
  }
  return names;
}

MatrixShape matrix_shape(const CheckpointTensor& tensor, const std::string& file) {
  const std::vector<uint64_t>& shape = tensor.shape;
  if (shape.size() != 2 || shape[0] == 0 || shape[1] == 0 || shape[0] > kSideMax ||
      shape[1] > kSideMax) {
    throw InputError("{}: {} has shape [{}]: expected a matrix [outputs, inputs]", file,
                     quote(tensor.name), fmt::join(shape, ", "));
  }
  return {static_cast<uint32_t>(shape[0]), static_cast<uint32_t>(shape[1])};
}

std::vector<float> weight_values(const CheckpointTensor& tensor, const std::string& file) {
  switch (tensor.dtype) {
    case DType::kF64:
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
      break;
    default:
      throw InputError("{}: {} is of type {}: weights must be F64, F32, F16 or BF16", file,
                       quote(tensor.name), name(tensor.dtype));
  }
  std::vector<float> values = tensor.to_f32();
  for (size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) {
      throw InputError("{}: {} has the value {} at index {}: expected finite weights", file,
                       quote(tensor.name), values[i], i);
    }
  }
  return values;
}

std::string list_tensors(const Checkpoint& checkpoint) {
  std::string text;
  size_t listed = 0;
  for (const CheckpointTensor& tensor : checkpoint.tensors()) {
    if (listed++ == kTensorsListed) {
      text += fmt::format("  ... and {} more\n", checkpoint.tensors().size() - kTensorsListed);
      break;
    }
    text += fmt::format("  {} [{}] {}\n", quote(tensor.name), fmt::join(tensor.shape, ", "),
                        name(tensor.dtype));
  }
  return text.empty() ? "  (no tensors)\n" : text;
}

}  // namespace arenite::convert
