// SPDX-License-Identifier: Apache-2.0
// Checks the tensors of quantized layers, and makes matrices of them.
#include "convert/families/quantized_layers.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <utility>

#include "convert/files/error.h"

namespace arenite::convert {
namespace {

std::string name_of(const std::string& layer, const std::string& part) {
  return layer + "." + part;
}

std::optional<TensorType> type_that_holds(const IntegerWeight& weight) {
  for (const TensorType type : {TensorType::kQ8, TensorType::kQ4}) {
    if (can_hold(type, weight.bits, weight.columns, weight.group)) return type;
  }
  return std::nullopt;
}

}  // namespace

std::vector<std::string> QuantizedLayers::layers_with(std::string_view part,
                                                      std::string_view type) const {
  std::vector<std::string> layers;
  const std::string ending = name_of("", std::string(part));
  for (const StoredTensor& tensor : store_.tensors()) {
    if (!tensor.name.ends_with(ending) || (!type.empty() && tensor.type != type)) continue;
    layers.push_back(tensor.name.substr(0, tensor.name.size() - ending.size()));
  }
  return layers;
}

const StoredTensor* QuantizedLayers::find(const std::string& layer, const std::string& part) const {
  return store_.find(name_of(layer, part));
}

const StoredTensor& QuantizedLayers::require(const std::string& layer, const std::string& part,
                                             std::span<const char* const> types) const {
  const StoredTensor* tensor = find(layer, part);
  if (tensor == nullptr) {
    throw InputError(
        "{}: tensor {} is missing: the weights of layer {} cannot be read without it; fetch or "
        "save the model again",
        quote(store_.source()), quote(name_of(layer, part)), quote(layer));
  }
  if (std::ranges::none_of(types, [&](const char* type) { return tensor->type == type; })) {
    throw InputError("{} is of type {}: expected {}", place_of(*tensor), tensor->type,
                     fmt::join(types, ", "));
  }
  return *tensor;
}

void QuantizedLayers::replace(const std::string& layer, const std::vector<std::string>& parts,
                              IntegerWeight weight) {
  for (const std::string& part : parts) replaced_.insert(name_of(layer, part));
  const StoredTensor& first = *find(layer, parts.front());
  StoredTensor stored{.name = name_of(layer, "weight"),
                      .type = weight.scheme,
                      .shape = {weight.rows, weight.columns},
                      .load = [read = weight.read] { return products(read()); },
                      .file = first.file,
                      .is_by_outputs = true};
  if (const std::optional<TensorType> type = type_that_holds(weight)) {
    stored.quantized = {*type, weight.scheme};
    stored.load_quantized = [read = weight.read, type = *type, where = place_of(stored)] {
      return keep_integers(read(), type, where);
    };
  }
  weights_.push_back(std::move(stored));
}

TensorStore QuantizedLayers::result() const {
  TensorStore store(store_.source());
  for (const StoredTensor& tensor : store_.tensors()) {
    if (!replaced_.contains(tensor.name)) store.add(tensor);
  }
  for (const StoredTensor& weight : weights_) store.add(weight);
  return store;
}

std::string place_of(const StoredTensor& tensor) {
  return fmt::format("{}: {}", quote(tensor.file), quote(tensor.name));
}

void expect_shape(const StoredTensor& tensor, const std::vector<uint64_t>& shape) {
  if (tensor.shape == shape) return;
  throw InputError("{} has shape {}: expected {}", place_of(tensor), shape_text(tensor.shape),
                   shape_text(shape));
}

Sides sides_of(const StoredTensor& tensor) {
  const auto is_fine = [](uint64_t extent) { return extent >= 1 && extent <= kSideMax; };
  if (tensor.shape.size() != 2 || !std::ranges::all_of(tensor.shape, is_fine)) {
    throw InputError("{} has shape {}: expected a matrix with sides of 1 to {}", place_of(tensor),
                     shape_text(tensor.shape), kSideMax);
  }
  return {static_cast<uint32_t>(tensor.shape[0]), static_cast<uint32_t>(tensor.shape[1])};
}

std::vector<uint8_t> unpack_words(const StoredTensor& words, uint32_t bits) {
  const std::vector<double> numbers = words.load_f64();  // exact, as they have 32 bits
  std::vector<uint8_t> integers;
  integers.reserve(numbers.size() * (32 / bits));
  const uint32_t mask = (1u << bits) - 1;
  for (const double number : numbers) {
    const auto word = static_cast<uint32_t>(static_cast<int64_t>(number));
    for (uint32_t shift = 0; shift < 32; shift += bits) {
      integers.push_back(static_cast<uint8_t>(word >> shift & mask));
    }
  }
  return integers;
}

std::vector<float> load_scales(const StoredTensor& scales) {
  std::vector<float> values = scales.load();
  const auto bad = std::ranges::find_if_not(
      values, [](float scale) { return std::isfinite(scale) && scale >= 0.0f; });
  if (bad == values.end()) return values;
  throw InputError(
      "{} has the value {} at index {}: expected finite scales of at least 0; the file is damaged, "
      "or quantizing failed: {}",
      place_of(scales), *bad, bad - values.begin(), kConvertOriginal);
}

void check_zero_scales(const ScaledIntegers& integers, const StoredTensor& scales) {
  const size_t groups = integers.columns / integers.group;
  for (size_t i = 0; i < integers.scales.size(); ++i) {
    if (integers.scales[i] != 0.0f) continue;
    const auto first = integers.values.begin() + static_cast<ptrdiff_t>(i * integers.group);
    const auto end = first + integers.group;
    if (std::all_of(first, end, [](int8_t value) { return value == 0; })) continue;
    throw InputError(
        "{}: the scale of output {}, inputs {} to {}, is 0, but their integers are not: the "
        "weights are lost; {}",
        place_of(scales), i / groups, i % groups * integers.group,
        (i % groups + 1) * integers.group - 1, kConvertOriginal);
  }
}

void check_group_order(const StoredTensor& order, uint32_t columns, uint32_t group) {
  expect_shape(order, {columns});
  const std::vector<float> groups = order.load();
  if (std::ranges::all_of(groups, [](float number) { return number == -1.0f; })) return;
  for (size_t i = 0; i < groups.size(); ++i) {
    if (groups[i] == static_cast<float>(i / group)) continue;
    throw InputError(
        "{} puts input {} into group {}: expected {}, for groups of {} neighbours; groups in the "
        "order of activations (act-order, desc_act) are not supported: {}",
        place_of(order), i, groups[i], i / group, group, kConvertOriginal);
  }
}

}  // namespace arenite::convert
