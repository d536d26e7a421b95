// SPDX-License-Identifier: Apache-2.0
// Reads fields of FlatBuffers tables like the generated accessors, which are a function for each
// type and field; these are one for all types, which a build for size does not inline. `entry` is a
// VT_ constant of the table's type.
// REQUIRES: is_well_formed (structure.h).
#pragma once

#include <cstdint>
#include <cstring>
#include <span>

namespace arenite::format {

template <typename T>
T read(const uint8_t* at) {
  T value;
  std::memcpy(&value, at, sizeof(value));
  return value;
}

// Where a field begins that lies in the table; null if it is absent.
inline const uint8_t* field_place(const void* table, uint16_t entry) {
  const uint8_t* const begin = static_cast<const uint8_t*>(table);
  const uint8_t* const vtable = begin - read<int32_t>(begin);
  const uint16_t offset = entry < read<uint16_t>(vtable) ? read<uint16_t>(vtable + entry) : 0;
  return offset == 0 ? nullptr : begin + offset;
}

// Where a list, a string or a table begins that a field leads to; null if it is absent.
inline const uint8_t* field_target(const void* table, uint16_t entry) {
  const uint8_t* const place = field_place(table, entry);
  return place == nullptr ? nullptr : place + read<uint32_t>(place);
}

inline uint32_t number_field(const void* table, uint16_t entry, uint32_t if_absent = 0) {
  const uint8_t* const place = field_place(table, entry);
  return place == nullptr ? if_absent : read<uint32_t>(place);
}

inline uint8_t byte_field(const void* table, uint16_t entry) {
  const uint8_t* const place = field_place(table, entry);
  return place == nullptr ? uint8_t{0} : *place;
}

inline const char* text_field(const void* table, uint16_t entry) {
  const uint8_t* const string = field_target(table, entry);
  return string == nullptr ? "" : reinterpret_cast<const char*>(string + sizeof(uint32_t));
}

inline uint32_t list_length(const void* table, uint16_t entry) {
  const uint8_t* const list = field_target(table, entry);
  return list == nullptr ? 0 : read<uint32_t>(list);
}

// The elements of a list, which begins at a multiple of 4, not of 8. Empty if it is absent.
template <typename T>
std::span<const T> list_field(const void* table, uint16_t entry) {
  const uint8_t* const list = field_target(table, entry);
  if (list == nullptr) return {};
  return {reinterpret_cast<const T*>(list + sizeof(uint32_t)), read<uint32_t>(list)};
}

// Element `index` of a list of tables or strings. REQUIRES: index < list_length(table, entry).
inline const uint8_t* list_target(const void* table, uint16_t entry, uint32_t index) {
  const uint8_t* const list = field_target(table, entry);
  const uint8_t* const element = list + sizeof(uint32_t) + size_t{index} * sizeof(uint32_t);
  return element + read<uint32_t>(element);
}
inline const char* list_text(const void* table, uint16_t entry, uint32_t index) {
  return reinterpret_cast<const char*>(list_target(table, entry, index) + sizeof(uint32_t));
}

}  // namespace arenite::format
