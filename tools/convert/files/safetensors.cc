// SPDX-License-Identifier: Apache-2.0
// Parses the header event by event: no tree is built, so depth and size of hostile JSON cost
// nothing, and a name that comes twice is seen. Then checks it against the data.
#include "convert/files/checkpoint.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "convert/files/error.h"
#include "convert/files/input_limits.h"

namespace arenite::convert {
namespace {

struct SafetensorsEntry {
  std::string name;
  std::optional<DType> dtype;
  std::optional<std::vector<uint64_t>> shape;
  std::optional<std::vector<uint64_t>> data_offsets;  // begin and end, in bytes
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  // every field is set; names are unique
  std::map<std::string, std::string> metadata;
};

using nlohmann::json;

constexpr std::string_view kMetadataName = "__metadata__";
constexpr DType kDTypes[] = {DType::kF64, DType::kF32, DType::kF16, DType::kBF16, DType::kI64,
                             DType::kI32, DType::kI16, DType::kI8,  DType::kU8,   DType::kBool};

class HeaderHandler : public json::json_sax_t {
 public:
  HeaderHandler(SafetensorsHeader& header, const std::string& file_name)
      : header_(header), file_name_(file_name) {}

  bool null() override { return refuse_value("null"); }
  bool boolean(bool value) override { return refuse_value(value ? "true" : "false"); }
  bool number_integer(json::number_integer_t value) override {  // only ever negative, or "-0"
    return refuse_value(fmt::format("the negative number {}", value));
  }
  bool number_unsigned(json::number_unsigned_t value) override {
    if (place_ != Place::kNumbers) return refuse_value(fmt::format("the number {}", value));
    if (numbers_->size() > kRankMax) {
      throw InputError("{}, tensor {}: field {} has more than {} numbers", quote(file_name_),
                       quote(entry().name), quote(key_), kRankMax);
    }
    numbers_->push_back(value);
    return true;
  }
  bool number_float(json::number_float_t, const std::string& text) override {
    return refuse_value(fmt::format("the number {}, not a 64-bit integer", quote(text)));
  }
  bool binary(json::binary_t&) override { return refuse_value("binary data"); }

  bool string(std::string& value) override {
    if (place_ == Place::kMetadata) {
      if (header_.metadata.size() == kSafetensorsMetadataMax) {
        throw InputError("{}, __metadata__: it has more than {} keys", quote(file_name_),
                         kSafetensorsMetadataMax);
      }
      header_.metadata[key_] = std::move(value);
      return true;
    }
    if (place_ != Place::kEntry || key_ != "dtype") return refuse_value("a string");
    for (const DType dtype : kDTypes) {
      if (value == name(dtype)) {
        entry().dtype = dtype;
        return true;
      }
    }
    throw InputError(
        "{}, tensor {}: dtype {} is not supported: expected one of F64, F32, F16, BF16, I64, I32, "
        "I16, I8, U8, BOOL; convert the tensor to one of these before saving{}",
        quote(file_name_), quote(entry().name), quote(value),
        value.starts_with('F') ? ", or convert the original weights, with --weights q4 or q8" : "");
  }

  bool start_object(std::size_t) override {
    if (place_ == Place::kStart) {
      place_ = Place::kHeader;
    } else if (place_ == Place::kHeader && key_ == kMetadataName) {
      place_ = Place::kMetadata;
    } else if (place_ == Place::kHeader) {
      place_ = Place::kEntry;
      if (header_.entries.size() == kTensorsMax) {
        throw InputError("{}: it has more than {} tensors: save the model in several files",
                         quote(file_name_), kTensorsMax);
      }
      header_.entries.push_back({.name = key_, .dtype = {}, .shape = {}, .data_offsets = {}});
    } else {
      return refuse_value("an object");
    }
    return true;
  }

  bool key(std::string& value) override {
    key_ = std::move(value);
    if (place_ == Place::kHeader && !names_.insert(key_).second) {
      throw InputError("{}: the header names tensor {} twice: save the file again, each name once",
                       quote(file_name_), quote(key_));
    }
    if (place_ == Place::kMetadata && header_.metadata.contains(key_)) {
      throw InputError("{}, __metadata__: key {} stands there twice: expected each key once",
                       quote(file_name_), quote(key_));
    }
    if (place_ == Place::kEntry) check_field_is_new();
    return true;
  }

  bool end_object() override {
    if (place_ == Place::kEntry) check_complete();
    place_ = place_ == Place::kHeader ? Place::kStart : Place::kHeader;
    return true;
  }

  bool start_array(std::size_t) override {
    if (place_ != Place::kEntry || key_ == "dtype") return refuse_value("an array");
    numbers_ = &(key_ == "shape" ? entry().shape : entry().data_offsets).emplace();
    place_ = Place::kNumbers;
    return true;
  }

  bool end_array() override {
    place_ = Place::kEntry;
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const json::exception&) override {
    throw InputError(
        "{}: the header is not valid JSON at its byte {}: the file is damaged, or it is not a "
        "safetensors file",
        quote(file_name_), position);
  }

 private:
  // Where in the header the next value stands. After the header's end it is kStart again, and the
  // parser itself refuses whatever follows.
  enum class Place { kStart, kHeader, kMetadata, kEntry, kNumbers };

  SafetensorsEntry& entry() { return header_.entries.back(); }

  void check_field_is_new() {
    const bool known = key_ == "dtype" || key_ == "shape" || key_ == "data_offsets";
    const bool given = (key_ == "dtype" && entry().dtype) || (key_ == "shape" && entry().shape) ||
                       (key_ == "data_offsets" && entry().data_offsets);
    if (known && !given) return;
    throw InputError(
        "{}, tensor {}: field {} {}: expected dtype, shape and data_offsets, each once",
        quote(file_name_), quote(entry().name), quote(key_),
        given ? "stands there twice" : "is not known");
  }

  void check_complete() {
    const char* missing = !entry().dtype          ? "dtype"
                          : !entry().shape        ? "shape"
                          : !entry().data_offsets ? "data_offsets"
                                                  : nullptr;
    if (missing != nullptr) {
      throw InputError(
          "{}, tensor {}: field '{}' is missing: expected dtype, shape and data_offsets",
          quote(file_name_), quote(entry().name), missing);
    }
    if (entry().data_offsets->size() != 2) {
      throw InputError("{}, tensor {}: data_offsets has {} numbers: expected begin and end",
                       quote(file_name_), quote(entry().name), entry().data_offsets->size());
    }
  }

  bool refuse_value(std::string_view found) {
    switch (place_) {
      case Place::kStart:
        throw InputError("{}: the header is {}: expected a JSON object of tensors",
                         quote(file_name_), found);
      case Place::kHeader:
        throw InputError("{}: {} is {}: expected an object", quote(file_name_), quote(key_), found);
      case Place::kMetadata:
        throw InputError("{}, __metadata__: {} is {}: expected a string", quote(file_name_),
                         quote(key_), found);
      case Place::kEntry:
      case Place::kNumbers:
        break;
    }
    throw InputError("{}, tensor {}: field {} holds {}: expected {}", quote(file_name_),
                     quote(entry().name), quote(key_), found,
                     key_ == "dtype" ? "a string" : "an array of whole numbers from 0");
  }

  SafetensorsHeader& header_;
  const std::string& file_name_;
  Place place_ = Place::kStart;
  std::string key_;
  std::set<std::string> names_;
  std::vector<uint64_t>* numbers_ = nullptr;  // while in kNumbers
};

// Throws InputError for anything but a JSON object of complete tensor entries, each field given
// once.
SafetensorsHeader parse_safetensors_header(std::string_view text, const std::string& file_name) {
  SafetensorsHeader header;
  HeaderHandler handler(header, file_name);
  // The parser takes a zero byte for the end of the text; after it anything could hide.
  if (const size_t zero = text.find('\0'); zero != std::string_view::npos) {
    throw InputError("{}: the header is not valid JSON at its byte {}: it is a zero byte",
                     quote(file_name), zero);
  }
  json::sax_parse(text.begin(), text.end(), &handler);
  return header;
}

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
