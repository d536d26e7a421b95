// SPDX-License-Identifier: Apache-2.0
// Where the offsets of a model file's FlatBuffer lie, found through the schema, so that a new field
// is found too.
#ifndef ARENITE_TESTS_DAMAGE_OFFSET_PLACES_H_
#define ARENITE_TESTS_DAMAGE_OFFSET_PLACES_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace arenite::test {

struct OffsetPlaces {
  // Of the numbers of 32 bits that lead to a table, a list or a string: fields of tables and
  // elements of lists. The root's comes first.
  std::vector<uint32_t> offsets;
  // Of the numbers of 16 bits that say where in its table a field is; a list for each record of
  // them, which tables of the same shape share.
  std::vector<std::vector<uint32_t>> fields;
};

// REQUIRES: sound metadata.
OffsetPlaces find_offsets(std::span<const std::byte> metadata);

}  // namespace arenite::test

#endif  // ARENITE_TESTS_DAMAGE_OFFSET_PLACES_H_
