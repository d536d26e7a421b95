// SPDX-License-Identifier: Apache-2.0
// What functions of one value are, which is found by computing them for numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "convert/exported/aten/interpret.h"
#include "convert/exported/read/call.h"
#include "convert/exported/recover/traced_value.h"
#include "convert/graph/graph.h"

namespace arenite::convert {
// The numbers that it is written with.
std::set<double> numbers_of(const Function& function);

// The function of all elements for elements of its base.
Array evaluate(const Function& function, const Array& base, OpBudget& budget);

// What a function is: scale_out * activation(scale_in * x + offset_in) + linear * x + offset_out, a
// norm or softmax of runs of the last dimension, or sums of what stands in them.
struct FoundActivation {
  ActivationNode activation;
  double scale_in = 1.0;
  double offset_in = 0.0;
  double scale_out = 1.0;
  double linear = 0.0;
  double offset_out = 0.0;
};
// linear * x + squares * relu(x)^2 + elu * (elu(x) - x), as xIELU.
struct FoundXielu {
  double linear = 0.0;
  double squares = 0.0;
  double elu = 0.0;
};
using FoundFunction =
    std::variant<FoundActivation, FoundXielu, NormSpec, RowFunctionNode, LinearSpec>;

// Nothing for a function that the runtime has no op for.
std::optional<FoundFunction> find_function(const Function& function, OpBudget& budget);

// The op of a function that compares numbers in a way that samples do not show: whether they are
// equal to one, or which of them are far from all samples. Null: there is none.
const Call* unseen_comparison(const Function& function, OpBudget& budget);

// What a function of single numbers or of rows is, told by its results.

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
std::optional<FoundXielu> find_xielu(const Samples& samples);
std::optional<NormSpec> find_norm(const Samples& samples);
std::optional<RowFunctionNode> find_softmax(const Samples& samples);

// A weight in float32 where a computed number is as good as that.
double as_written(double value);

}  // namespace arenite::convert
