// SPDX-License-Identifier: Apache-2.0
#include "format/fields.h"

#include <bit>
#include <cstring>

namespace arenite::format {
namespace {

template <typename T>
T read(const uint8_t* at) {
  T value;
  std::memcpy(&value, at, sizeof(value));
  return value;
}

}  // namespace

const uint8_t* field_place(const void* table, uint16_t entry) {
  const uint8_t* const begin = static_cast<const uint8_t*>(table);
  const uint8_t* const vtable = begin - read<int32_t>(begin);
  const uint16_t offset = entry < read<uint16_t>(vtable) ? read<uint16_t>(vtable + entry) : 0;
  return offset == 0 ? nullptr : begin + offset;
}

const uint8_t* field_target(const void* table, uint16_t entry) {
  const uint8_t* const place = field_place(table, entry);
  return place == nullptr ? nullptr : place + read<uint32_t>(place);
}

uint32_t number_field(const void* table, uint16_t entry, uint32_t if_absent) {
  const uint8_t* const place = field_place(table, entry);
  return place == nullptr ? if_absent : read<uint32_t>(place);
}

float float_field(const void* table, uint16_t entry, float if_absent) {
  return std::bit_cast<float>(number_field(table, entry, std::bit_cast<uint32_t>(if_absent)));
}

uint8_t byte_field(const void* table, uint16_t entry) {
  const uint8_t* const place = field_place(table, entry);
  return place == nullptr ? uint8_t{0} : *place;
}

const char* text_field(const void* table, uint16_t entry) {
  const uint8_t* const string = field_target(table, entry);
  return string == nullptr ? "" : reinterpret_cast<const char*>(string + sizeof(uint32_t));
}

uint32_t list_length(const void* table, uint16_t entry) {
  const uint8_t* const list = field_target(table, entry);
  return list == nullptr ? 0 : read<uint32_t>(list);
}

const uint8_t* list_target(const void* table, uint16_t entry, uint32_t index) {
  const uint8_t* const element =
      field_target(table, entry) + sizeof(uint32_t) + size_t{index} * sizeof(uint32_t);
  return element + read<uint32_t>(element);
}

const char* list_text(const void* table, uint16_t entry, uint32_t index) {
  return reinterpret_cast<const char*>(list_target(table, entry, index) + sizeof(uint32_t));
}

}  // namespace arenite::format
