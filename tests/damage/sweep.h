// SPDX-License-Identifier: Apache-2.0
// Loads damaged files, runs those that are accepted, and counts what became of them.
#ifndef ARENITE_TESTS_DAMAGE_SWEEP_H_
#define ARENITE_TESTS_DAMAGE_SWEEP_H_

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "damage/variants.h"
#include "support/hostile_file.h"

namespace arenite::test {

// Of the fates, in the order of Fate.
inline constexpr size_t kFates = 3;
using FateCounts = std::array<uint64_t, kFates>;
inline constexpr const char* kFateNames[kFates] = {"refused", "too_large", "ran"};

// Refused variants whose segments' checksums and formulas then made right are variants of their
// own, and counted after the kinds of damage.
using DamageCounts = std::array<FateCounts, kDamages + 1>;
inline constexpr size_t kRepaired = kDamages;

// One model and all its variants. While it exists, whatever ends the process names the variant in
// hand on stderr; so does one that takes more than 20 seconds of the CPU. One exists at a time.
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
