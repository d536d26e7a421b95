// SPDX-License-Identifier: Apache-2.0
// Checks a safetensors header against the size of the file and against itself, and makes the views.
#include "convert/files/safetensors.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "convert/files/error.h"
#include "convert/files/input_limits.h"
#include "convert/files/safetensors_header.h"

namespace arenite::convert {
namespace {

constexpr uint64_t kLengthBytes = 8;

std::string_view header_text(std::span<const std::byte> file, const std::string& file_name) {
  if (file.size() < kLengthBytes) {
    throw InputError("{} has {} bytes: a safetensors file begins with 8 bytes of header length",
                     quote(file_name), file.size());
  }
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, file.data(), sizeof header_bytes);
  if (header_bytes > kSafetensorsHeaderBytesMax) {
    throw InputError(
        "{}: the header length is {} bytes: at most {} are accepted; the file is damaged, or it is "
        "not a safetensors file",
        quote(file_name), header_bytes, kSafetensorsHeaderBytesMax);
  }
  if (header_bytes > file.size() - kLengthBytes) {
    throw InputError(
        "{}: the header length is {} bytes, but only {} follow: the file is cut short; fetch or "
        "save it again",
        quote(file_name), header_bytes, file.size() - kLengthBytes);
  }
  const std::span<const std::byte> header =
      file.subspan(kLengthBytes, static_cast<size_t>(header_bytes));
  if (header.empty() || header[0] != std::byte{'{'}) {
    throw InputError("{}: the header does not start with '{{': it is not a safetensors file",
                     quote(file_name));
  }
  return {reinterpret_cast<const char*>(header.data()), header.size()};
}

// Checks one entry on its own: offsets in order and inside the data, and the bytes of its shape.
CheckpointTensor view_of(SafetensorsEntry& entry, std::span<const std::byte> data,
                         const std::string& file_name) {
  const uint64_t begin = (*entry.data_offsets)[0];
  const uint64_t end = (*entry.data_offsets)[1];
  if (begin > end || end > data.size()) {
    throw InputError(
        "{}, tensor {}: data_offsets are {} to {}: expected begin <= end <= {}, the bytes after "
        "the "
        "header; the file is cut short or damaged",
        quote(file_name), quote(entry.name), begin, end, data.size());
  }
  if (entry.shape->size() > kRankMax) {
    throw InputError("{}, tensor {}: the shape has {} dimensions: at most {} are accepted",
                     quote(file_name), quote(entry.name), entry.shape->size(), kRankMax);
  }
  uint64_t tensor_bytes = bytes(*entry.dtype);
  bool fits = true;
  for (const uint64_t extent : *entry.shape) {
    fits = fits && multiply(tensor_bytes, extent, tensor_bytes);
  }
  const std::string shape = fmt::format("[{}]", fmt::join(*entry.shape, ", "));
  if (!fits) {
    throw InputError("{}, tensor {}: the size of shape {} overflows 64 bits: the file is damaged",
                     quote(file_name), quote(entry.name), shape);
  }
  if (tensor_bytes != end - begin) {
    throw InputError(
        "{}, tensor {}: shape {} of {} takes {} bytes, but data_offsets {} to {} hold {}: the file "
        "is damaged",
        quote(file_name), quote(entry.name), shape, name(*entry.dtype), tensor_bytes, begin, end,
        end - begin);
  }
  CheckpointTensor tensor;
  tensor.name = std::move(entry.name);
  tensor.dtype = *entry.dtype;
  tensor.strides = contiguous_strides(*entry.shape);
  tensor.shape = std::move(*entry.shape);
  tensor.data = data.subspan(static_cast<size_t>(begin), static_cast<size_t>(tensor_bytes));
  return tensor;
}

// The tensors must cover the data exactly: no byte that belongs to two, and none that belongs to
// none, where something else could hide.
void check_coverage(const std::vector<CheckpointTensor>& tensors, std::span<const std::byte> data,
                    const std::string& file_name) {
  std::vector<const CheckpointTensor*> by_begin;
  by_begin.reserve(tensors.size());
  for (const CheckpointTensor& tensor : tensors) by_begin.push_back(&tensor);
  std::sort(by_begin.begin(), by_begin.end(), [](const auto* a, const auto* b) {
    return std::pair(a->data.data(), a->data.size()) < std::pair(b->data.data(), b->data.size());
  });
  uint64_t covered_bytes = 0;
  for (const CheckpointTensor* tensor : by_begin) {
    const auto begin = static_cast<uint64_t>(tensor->data.data() - data.data());
    if (begin != covered_bytes) {
      throw InputError(
          "{}, tensor {}: its data begins at byte {}, but the tensors before it end at {}: {}; "
          "save the file again with the safetensors library",
          quote(file_name), quote(tensor->name), begin, covered_bytes,
          begin < covered_bytes ? "they overlap" : "there is a hole");
    }
    covered_bytes += tensor->data.size();
  }
  if (covered_bytes != data.size()) {
    throw InputError(
        "{}: the tensors end at byte {} of the data, but {} bytes follow the header: expected "
        "nothing after the last tensor",
        quote(file_name), covered_bytes, data.size());
  }
}

}  // namespace

CheckpointContents read_safetensors(std::span<const std::byte> file, const std::string& file_name) {
  const std::string_view text = header_text(file, file_name);
  SafetensorsHeader header = parse_safetensors_header(text, file_name);
  const std::span<const std::byte> data = file.subspan(kLengthBytes + text.size());
  CheckpointContents contents;
  contents.metadata = std::move(header.metadata);
  contents.tensors.reserve(header.entries.size());
  for (SafetensorsEntry& entry : header.entries) {
    contents.tensors.push_back(view_of(entry, data, file_name));
  }
  check_coverage(contents.tensors, data, file_name);
  return contents;
}

}  // namespace arenite::convert
