// SPDX-License-Identifier: Apache-2.0
// Loads damaged files, runs the accepted ones, and counts the outcomes.
#ifndef ARENITE_TESTS_DAMAGE_SWEEP_H_
#define ARENITE_TESTS_DAMAGE_SWEEP_H_

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "damage/variants.h"
#include "support/hostile_file.h"

namespace arenite::test {

// Outcomes of loading and running a file; the names are in the order of Fate.
inline constexpr size_t kFates = 3;
using FateCounts = std::array<uint64_t, kFates>;
inline constexpr const char* kFateNames[kFates] = {"refused", "too_large", "ran"};

// Counts by kind of damage. The last element counts refused variants again after repair of their
// segments' checksums and formulas.
using DamageCounts = std::array<FateCounts, kDamages + 1>;
inline constexpr size_t kRepaired = kDamages;

// Loads and runs variants of one model. While the object exists, a fault, or a variant that takes
// more than 20 seconds of CPU time, prints the current variant's name on stderr and ends the
// process. At most one Sweep exists at a time.
class Sweep {
 public:
  // `file` is sound, and aligned to kModelAlignment.
  Sweep(std::string name, std::span<const std::byte> file);
  ~Sweep();
  Sweep(const Sweep&) = delete;
  Sweep& operator=(const Sweep&) = delete;

  const Variants& variants() const { return variants_; }
  const DamageCounts& counts() const { return counts_; }
  void set_counts(const DamageCounts& counts) { counts_ = counts; }

  void take(uint64_t number);
  std::string in_hand() const;

 private:
  std::string name_;
  Effort effort_;
  Variants variants_;
  DamageCounts counts_{};
  uint64_t number_ = 0;
  bool repaired_ = false;
};

}  // namespace arenite::test

#endif  // ARENITE_TESTS_DAMAGE_SWEEP_H_
