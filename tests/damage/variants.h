// SPDX-License-Identifier: Apache-2.0
// Enumerates all small damages of a model file by number. Each is made in place on demand, in
// memory that ends at a guard page.
#ifndef ARENITE_TESTS_DAMAGE_VARIANTS_H_
#define ARENITE_TESTS_DAMAGE_VARIANTS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "format/file_layout.h"
#include "support/guarded_buffer.h"

namespace arenite::test {

// Where a kind touches the metadata, its checksum is made right again.
enum class Damage : uint8_t {
  kByte,            // another value of a byte of the metadata
  kFooterByte,      // another value of a byte of the footer
  kCut,             // the first bytes of the file
  kCutWithFooter,   // the same, then a footer that says so
  kMetadataLength,  // a footer that says that the metadata is shorter or longer
  kTargets,         // two offsets, each of which leads to where the other did
  kOffsets,         // two offsets, each of which has the other's number
  kFields,          // two numbers of a record of where a table's fields are
};
inline constexpr size_t kDamages = 8;
inline constexpr const char* kDamageNames[kDamages] = {
    "byte of the metadata",   "byte of the footer",     "cut",
    "cut, with a footer",     "length of the metadata", "targets of two offsets",
    "numbers of two offsets", "places of two fields"};

class Variants {
 public:
  explicit Variants(std::span<const std::byte> file);

  uint64_t count() const { return ends_.back(); }
  uint64_t count(Damage kind) const { return last(kind) - first(kind); }
  uint64_t first(Damage kind) const;  // number of the first variant of a kind
  uint64_t last(Damage kind) const { return ends_[static_cast<size_t>(kind)]; }
  Damage kind(uint64_t number) const;
  std::string name(uint64_t number) const;

  // The damaged file, until the next one is made. REQUIRES: number < count().
  std::span<std::byte> make(uint64_t number);

  // Makes checksums of segments and arena formulas of the variant in hand right, too. False if that
  // changes nothing, or undoes the damage.
  bool repair();

 private:
  struct Pair {
    uint32_t one;
    uint32_t other;
  };

  std::span<std::byte> restored(size_t bytes);
  void put_footer(std::span<std::byte> file, uint64_t metadata_bytes);
  void swap(Damage kind, Pair pair);
  const Pair& pair(uint64_t number, Damage kind) const;
  void add_pairs();

  std::span<const std::byte> file_;
  format::Footer footer_;
  size_t metadata_bytes_;
  GuardedBuffer memory_;
  std::vector<std::byte> before_repair_;
  std::array<std::vector<Pair>, kDamages> pairs_;
  std::array<uint64_t, kDamages> ends_;
  bool all_is_damaged_ = true;
};

}  // namespace arenite::test

#endif  // ARENITE_TESTS_DAMAGE_VARIANTS_H_
