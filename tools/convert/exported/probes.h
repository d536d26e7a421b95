// SPDX-License-Identifier: Apache-2.0
// What a function of single numbers or of rows is, told by its results.
#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <vector>

#include "convert/exported/functions.h"

namespace arenite::convert {

// Functions are the same where they agree to this share of the largest result.
inline constexpr double kAgreement = 1e-9;

// What a function gives for random rows.
struct Samples {
  size_t width = 0;          // of a row
  std::set<double> numbers;  // that the function is written with
  std::vector<double> x, y;  // of all rows, one after the other
  double largest = 0.0;      // of the results

  double error_max(double agreement) const;
};

// REQUIRES: as many results as numbers.
std::optional<FoundActivation> find_activation(const Samples& samples);
std::optional<NormSpec> find_norm(const Samples& samples);
std::optional<NormalizeNode> find_softmax(const Samples& samples);

// A weight in float32 where a computed number is as good as that.
double as_written(double value);

}  // namespace arenite::convert
