// SPDX-License-Identifier: Apache-2.0
// Parses the header event by event: no tree is built, so depth and size of hostile JSON cost
// nothing, and a name that comes twice is seen.
#include "convert/files/safetensors_header.h"

#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "convert/files/error.h"
#include "convert/files/input_limits.h"

namespace arenite::convert {
namespace {

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
        "I16, I8, U8, BOOL; convert the tensor to one of these before saving",
        quote(file_name_), quote(entry().name), quote(value));
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

}  // namespace

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

}  // namespace arenite::convert
