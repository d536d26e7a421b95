// SPDX-License-Identifier: Apache-2.0
// Reads fields of FlatBuffers tables like the generated accessors, which are a function for each
// type and field; these are one for all. `entry` is a VT_ constant of the table's type.
// REQUIRES: is_well_formed (structure.h).
#pragma once

#include <cstdint>
#include <span>

namespace arenite::format {

// Where a field begins that lies in the table; null if it is absent.
const uint8_t* field_place(const void* table, uint16_t entry);

// Where a list, a string or a table begins that a field leads to; null if it is absent.
const uint8_t* field_target(const void* table, uint16_t entry);

uint32_t number_field(const void* table, uint16_t entry, uint32_t if_absent = 0);
float float_field(const void* table, uint16_t entry, float if_absent = 0.0f);
uint8_t byte_field(const void* table, uint16_t entry);
const char* text_field(const void* table, uint16_t entry);  // "" if it is absent

uint32_t list_length(const void* table, uint16_t entry);

// Element `index` of a list of strings or tables. REQUIRES: index < list_length(table, entry).
const uint8_t* list_target(const void* table, uint16_t entry, uint32_t index);
const char* list_text(const void* table, uint16_t entry, uint32_t index);  // of a string

// The elements of a list, which begins at a multiple of 4, not of 8. Empty if it is absent.
template <typename T>
std::span<const T> list_field(const void* table, uint16_t entry) {
  const uint8_t* const list = field_target(table, entry);
  if (list == nullptr) return {};
  return {reinterpret_cast<const T*>(list + sizeof(uint32_t)), list_length(table, entry)};
}

}  // namespace arenite::format
