// SPDX-License-Identifier: Apache-2.0
// Element types of checkpoint tensors, and their conversion to float and double.
#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>

#include "convert/files/checkpoint.h"
#include "convert/files/error.h"

namespace arenite::convert {
namespace {

static_assert(std::endian::native == std::endian::little, "tensor data is read as it lies");

// Indexed by DType.
constexpr DTypeRow kDTypes[] = {
    {"F64", 8, true, "F64", "<f8", "torch.DoubleStorage", "torch.float64"},
    {"F32", 4, true, "F32", "<f4", "torch.FloatStorage", "torch.float32"},
    {"F16", 2, true, "F16", "", "torch.HalfStorage", "torch.float16"},
    {"BF16", 2, true, "BF16", "", "torch.BFloat16Storage", "torch.bfloat16"},
    {"I64", 8, false, "I64", "<i8", "torch.LongStorage", "torch.int64"},
    {"I32", 4, false, "I32", "<i4", "torch.IntStorage", "torch.int32"},
    {"U32", 4, false, "", "<u4", "", ""},
    {"I16", 2, false, "I16", "<i2", "torch.ShortStorage", "torch.int16"},
    {"I8", 1, false, "I8", "|i1", "torch.CharStorage", "torch.int8"},
    {"U8", 1, false, "U8", "|u1", "torch.ByteStorage", "torch.uint8"},
    {"BOOL", 1, false, "BOOL", "|b1", "torch.BoolStorage", "torch.bool"},
};
static_assert(std::size(kDTypes) == static_cast<size_t>(DType::kBool) + 1);

const DTypeRow& row_of(DType dtype) { return kDTypes[static_cast<size_t>(dtype)]; }

// Loads the bytes of one stored element, at any alignment, without converting them to a number.
template <typename Stored>
Stored load(const std::byte* from) {
  Stored value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

// Calls `take(address)` for each element of `tensor` in row-major order.
template <typename Take>
void for_each_element(const CheckpointTensor& tensor, const Take& take) {
  if (tensor.elements() == 0) return;
  const size_t element_bytes = bytes(tensor.dtype);
  const size_t rank = tensor.shape.size();
  const uint64_t row = rank == 0 ? 1 : tensor.shape[rank - 1];
  const uint64_t row_stride = rank == 0 ? 0 : tensor.strides[rank - 1];
  std::vector<uint64_t> index(rank, 0);
  uint64_t offset = 0;  // in elements, of the first element of the current row
  while (true) {
    for (uint64_t i = 0; i < row; ++i) {
      take(tensor.data.data() + (offset + i * row_stride) * element_bytes);
    }
    size_t dimension = rank < 2 ? 0 : rank - 1;
    while (dimension > 0) {  // step the index of the outer dimensions, the last one fastest
      --dimension;
      offset += tensor.strides[dimension];
      if (++index[dimension] < tensor.shape[dimension]) break;
      offset -= tensor.shape[dimension] * tensor.strides[dimension];
      index[dimension] = 0;
      if (dimension == 0) return;
    }
    if (rank < 2) return;
  }
}

template <typename Real>
std::vector<Real> values_of(const CheckpointTensor& tensor) {
  if constexpr (std::is_same_v<Real, float>) {
    if (const auto stored = tensor.stored_f32()) return {stored->begin(), stored->end()};
  }
  std::vector<Real> values;
  values.reserve(static_cast<size_t>(tensor.elements()));
  const auto collect = [&](auto value_at) {
    for_each_element(
        tensor, [&](const std::byte* at) { values.push_back(static_cast<Real>(value_at(at))); });
  };
  switch (tensor.dtype) {
    case DType::kF64:
      collect(load<double>);
      break;
    case DType::kF32:
      collect(load<float>);
      break;
    case DType::kF16:
      collect([](const std::byte* at) { return float_of_f16(load<uint16_t>(at)); });
      break;
    case DType::kBF16:
      collect([](const std::byte* at) { return float_of_bf16(load<uint16_t>(at)); });
      break;
    case DType::kI64:
      collect(load<int64_t>);
      break;
    case DType::kI32:
      collect(load<int32_t>);
      break;
    case DType::kU32:
      collect(load<uint32_t>);
      break;
    case DType::kI16:
      collect(load<int16_t>);
      break;
    case DType::kI8:
      collect(load<int8_t>);
      break;
    case DType::kU8:
      collect(load<uint8_t>);
      break;
    case DType::kBool:
      collect([](const std::byte* at) { return *at != std::byte{0} ? 1 : 0; });
      break;
  }
  return values;
}

}  // namespace

const char* name(DType dtype) { return row_of(dtype).name; }

size_t bytes(DType dtype) { return row_of(dtype).bytes; }

bool is_real(DType dtype) { return row_of(dtype).is_real; }

std::optional<DType> dtype_called(std::string_view DTypeRow::*format, std::string_view name) {
  const auto found = std::ranges::find(kDTypes, name, format);
  if (name.empty() || found == std::end(kDTypes)) return std::nullopt;
  return static_cast<DType>(found - std::begin(kDTypes));
}

uint64_t CheckpointTensor::elements() const {
  uint64_t count = 1;
  for (const uint64_t extent : shape) count *= extent;
  return count;
}

std::optional<std::span<const float>> CheckpointTensor::stored_f32() const {
  const auto address = reinterpret_cast<uintptr_t>(data.data());
  if (dtype != DType::kF32 || strides != contiguous_strides(shape) ||
      address % alignof(float) != 0) {
    return std::nullopt;
  }
  return std::span(reinterpret_cast<const float*>(data.data()), static_cast<size_t>(elements()));
}

std::vector<float> CheckpointTensor::to_f32() const { return values_of<float>(*this); }

std::vector<double> CheckpointTensor::to_f64() const { return values_of<double>(*this); }

std::vector<int64_t> CheckpointTensor::to_i64() const {
  refuse_if(is_real(dtype), "{} holds {}: expected integers", quote(name), convert::name(dtype));
  return values_of<int64_t>(*this);
}

std::vector<uint64_t> contiguous_strides(std::span<const uint64_t> shape) {
  std::vector<uint64_t> strides(shape.size(), 1);
  for (size_t i = shape.size(); i > 1; --i) strides[i - 2] = strides[i - 1] * shape[i - 1];
  return strides;
}

}  // namespace arenite::convert
