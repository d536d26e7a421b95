// SPDX-License-Identifier: Apache-2.0
// Encodes values itself, because the converter only decodes.
#include "support/checkpoint_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <stdexcept>

#include "support/byte_string.h"
#include "support/random.h"
#include "support/safetensors_builder.h"

namespace arenite::test {
namespace {

using convert::DType;
using testing::bytes_of;

// Sign, five bits of exponent, ten of fraction. Infinity and NaN keep their meaning.
uint16_t f16_bits(double value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value)) return static_cast<uint16_t>(sign | 0x7e00);
  if (std::isinf(value)) return static_cast<uint16_t>(sign | 0x7c00);
  if (value == 0.0) return sign;
  int exponent = 0;
  const double fraction = std::frexp(std::fabs(value), &exponent);  // in [0.5, 1)
  const int biased = exponent + 14;
  if (biased <= 0 || biased >= 31) throw std::invalid_argument("not a normal half");
  const auto digits = static_cast<uint16_t>((fraction * 2.0 - 1.0) * 1024.0);
  return static_cast<uint16_t>(sign | biased << 10 | digits);
}

std::string encoded(double value, DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return bytes_of(value);
    case DType::kF32:
      return bytes_of(static_cast<float>(value));
    case DType::kF16:
      return bytes_of(f16_bits(value));
    case DType::kBF16:
      return bytes_of(
          static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(value)) >> 16));
    case DType::kI64:
      return bytes_of(static_cast<int64_t>(value));
    case DType::kI32:
      return bytes_of(static_cast<int32_t>(value));
    case DType::kU32:
      return bytes_of(static_cast<uint32_t>(value));
    case DType::kI16:
      return bytes_of(static_cast<int16_t>(value));
    case DType::kI8:
      return bytes_of(static_cast<int8_t>(value));
    case DType::kU8:
    case DType::kBool:
      return bytes_of(static_cast<uint8_t>(value));
  }
  return {};
}

uint64_t elements(const std::vector<uint64_t>& shape) {
  uint64_t product = 1;
  for (const uint64_t extent : shape) product *= extent;
  return product;
}

}  // namespace

std::vector<double> exact_values(size_t count, uint64_t seed) {
  Random random(seed);
  std::vector<double> values(count);
  for (double& value : values) value = (static_cast<double>(random.below(128)) - 64.0) / 64.0;
  return values;
}

CheckpointBuilder& CheckpointBuilder::add(const std::string& name,
                                          const std::vector<uint64_t>& shape,
                                          std::vector<double> values, DType dtype) {
  uint64_t seed = 14695981039346656037u;  // FNV-1a: the same everywhere, unlike std::hash
  for (const char c : name) seed = (seed ^ static_cast<unsigned char>(c)) * 1099511628211u;
  if (values.empty()) values = exact_values(static_cast<size_t>(elements(shape)), seed);
  if (values.size() != elements(shape)) throw std::invalid_argument(name + ": shape and values");
  remove(name);
  tensors_.push_back({name, shape, std::move(values), dtype});
  return *this;
}

CheckpointBuilder& CheckpointBuilder::add_linear(const std::string& name, uint32_t outputs,
                                                 uint32_t inputs, bool bias) {
  add(name + ".weight", {outputs, inputs});
  return bias ? add(name + ".bias", {outputs}) : *this;
}

CheckpointBuilder& CheckpointBuilder::remove(const std::string& name) {
  std::erase_if(tensors_, [&](const Tensor& tensor) { return tensor.name == name; });
  return *this;
}

const std::vector<double>& CheckpointBuilder::values(const std::string& name) const {
  const auto found = std::ranges::find(tensors_, name, &Tensor::name);
  if (found == tensors_.end()) throw std::invalid_argument("no tensor " + name);
  return found->values;
}

std::string CheckpointBuilder::safetensors(const std::string& prefix, DType dtype) const {
  std::string header = "{";
  std::string data;
  for (const Tensor& tensor : tensors_) {
    const DType stored = tensor.dtype == DType::kF32 ? dtype : tensor.dtype;
    const size_t begin = data.size();
    for (const double value : tensor.values) data += encoded(value, stored);
    header += fmt::format(R"({}"{}{}":{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                          header.size() > 1 ? "," : "", prefix, tensor.name, name(stored),
                          fmt::join(tensor.shape, ","), begin, data.size());
  }
  return testing::safetensors_file(header + "}", data);
}

}  // namespace arenite::test
