// SPDX-License-Identifier: Apache-2.0
// Finds the offsets in a model file's FlatBuffer through the schema, so that new fields are
// covered.
#ifndef ARENITE_TESTS_DAMAGE_OFFSET_PLACES_H_
#define ARENITE_TESTS_DAMAGE_OFFSET_PLACES_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace arenite::test {

struct OffsetPlaces {
  // Positions of the 32-bit offsets to a table, a vector or a string, in fields of tables and
  // elements of vectors. The root's offset comes first.
  std::vector<uint32_t> offsets;
  // Positions of the 16-bit field offsets in vtables, one list per vtable. Tables of the same shape
  // share a vtable.
  std::vector<std::vector<uint32_t>> fields;
};

// REQUIRES: sound metadata.
OffsetPlaces find_offsets(std::span<const std::byte> metadata);

}  // namespace arenite::test

#endif  // ARENITE_TESTS_DAMAGE_OFFSET_PLACES_H_
