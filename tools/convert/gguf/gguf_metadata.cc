// SPDX-License-Identifier: Apache-2.0
// Turns GGUF values into JSON values.
#include "convert/gguf/gguf_metadata.h"

#include <cstring>
#include <string_view>

#include "convert/files/error.h"
#include "convert/files/input_limits.h"

namespace arenite::convert {
namespace {

using nlohmann::json;

constexpr uint64_t kArrayElementsMax = 4096;  // one for each layer, mostly

template <typename Number>
Number number(std::span<const std::byte> data, uint64_t index) {
  Number value;
  std::memcpy(&value, data.data() + index * sizeof value, sizeof value);
  return value;
}

// Whole numbers from 0 on become unsigned ones, as a JSON parser makes them.
json whole(int64_t value) { return value < 0 ? json(value) : json(static_cast<uint64_t>(value)); }

json element(const GgufValue& value, uint64_t index) {
  switch (value.type) {
    case GgufType::kU8:
      return uint64_t{number<uint8_t>(value.data, index)};
    case GgufType::kI8:
      return whole(number<int8_t>(value.data, index));
    case GgufType::kU16:
      return uint64_t{number<uint16_t>(value.data, index)};
    case GgufType::kI16:
      return whole(number<int16_t>(value.data, index));
    case GgufType::kU32:
      return uint64_t{number<uint32_t>(value.data, index)};
    case GgufType::kI32:
      return whole(number<int32_t>(value.data, index));
    case GgufType::kU64:
      return number<uint64_t>(value.data, index);
    case GgufType::kI64:
      return whole(number<int64_t>(value.data, index));
    case GgufType::kF32:
      return double{number<float>(value.data, index)};
    case GgufType::kF64:
      return number<double>(value.data, index);
    case GgufType::kBool:
      return number<uint8_t>(value.data, index) != 0;
    case GgufType::kString:
    case GgufType::kArray:
      break;
  }
  return nullptr;
}

json json_value(const GgufValue& value) {
  if (!value.is_array && value.type != GgufType::kString) return element(value, 0);
  json array = json::array();
  if (value.type == GgufType::kString) {
    for_each_string(value, [&](std::string_view text) { array.push_back(text); });
  } else {
    for (uint64_t i = 0; i < value.count; ++i) array.push_back(element(value, i));
  }
  return value.is_array ? array : array[0];
}

}  // namespace

ConfigFields gguf_fields(const GgufFile& file) {
  json object = json::object();
  uint64_t elements = 0;
  for (const auto& [key, value] : file.metadata()) {
    if (key.starts_with("tokenizer.")) continue;
    if (key.starts_with("general.") && key != "general.architecture") continue;
    if (value.count > kArrayElementsMax) {
      throw InputError("{}: metadata {} has {} elements: at most {} are expected",
                       quote(file.file_name()), quote(key), value.count, kArrayElementsMax);
    }
    elements += value.count;
    if (elements > kGgufElementsMax) {
      throw InputError("{}: its metadata have more than {} elements together",
                       quote(file.file_name()), kGgufElementsMax);
    }
    object[key] = json_value(value);
  }
  return ConfigFields(std::move(object), fmt::format("{}, metadata", quote(file.file_name())));
}

}  // namespace arenite::convert
