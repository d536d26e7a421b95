// SPDX-License-Identifier: Apache-2.0
// Compares results within an error bound, or bit by bit.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <span>

namespace arenite::test {

// Half a unit in the last place of 1: the relative error of one rounding.
inline constexpr double kRounding = 0x1p-24;

// Every bit is the same, the sign of zeros included.
inline ::testing::AssertionResult same_bits(std::span<const float> found,
                                            std::span<const float> expected) {
  if (found.size() != expected.size()) {
    return ::testing::AssertionFailure() << found.size() << " values, not " << expected.size();
  }
  for (size_t i = 0; i < found.size(); ++i) {
    if (std::bit_cast<uint32_t>(found[i]) == std::bit_cast<uint32_t>(expected[i])) continue;
    return ::testing::AssertionFailure()
           << "value " << i << " is " << ::testing::PrintToString(found[i]) << ", not "
           << ::testing::PrintToString(expected[i]);
  }
  return ::testing::AssertionSuccess();
}

// Compares bit by bit; any NaN equals any other.
inline ::testing::AssertionResult same_bits_or_nan(std::span<const float> found,
                                                   std::span<const float> expected) {
  if (found.size() != expected.size()) return same_bits(found, expected);
  for (size_t i = 0; i < found.size(); ++i) {
    if (std::isnan(found[i]) && std::isnan(expected[i])) continue;
    const ::testing::AssertionResult same = same_bits({&found[i], 1}, {&expected[i], 1});
    if (!same)
      return ::testing::AssertionFailure() << "from value " << i << " on: " << same.message();
  }
  return ::testing::AssertionSuccess();
}

// |found - expected| <= tolerance everywhere; NaN is near nothing.
inline ::testing::AssertionResult all_near(std::span<const float> found,
                                           std::span<const double> expected, double tolerance) {
  if (found.size() != expected.size()) {
    return ::testing::AssertionFailure() << found.size() << " values, not " << expected.size();
  }
  for (size_t i = 0; i < found.size(); ++i) {
    if (std::abs(double{found[i]} - expected[i]) <= tolerance) continue;
    return ::testing::AssertionFailure()
           << "value " << i << " is " << found[i] << ", not " << expected[i] << " +- " << tolerance;
  }
  return ::testing::AssertionSuccess();
}

}  // namespace arenite::test
