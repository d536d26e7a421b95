// SPDX-License-Identifier: Apache-2.0
// Identifies a function of one value as an op of the runtime, by evaluating it on samples.
//
//   x * sigmoid(1.702 * x)                  ->  FoundActivation{kSilu, scale_in 1.702, ..}
//   x * rsqrt(x.pow(2).mean(-1) + e) * g    ->  NormSpec{kRms, epsilon e, gain g}
//   x @ constant                            ->  LinearSpec
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
// Returns the scalar constants of the function's ops.
std::set<double> scalar_constants(const Function& function);

// Evaluates the function on the elements `base`.
Array evaluate(const Function& function, const Array& base, OpBudget& budget);

// scale_out * activation(scale_in * x + offset_in) + linear * x + offset_out
struct FoundActivation {
  ActivationNode activation;
  double scale_in = 1.0;
  double offset_in = 0.0;
  double scale_out = 1.0;
  double linear = 0.0;
  double offset_out = 0.0;
};
// The activation xIELU: linear * x + squares * relu(x)^2 + elu * (elu(x) - x).
struct FoundXielu {
  double linear = 0.0;
  double squares = 0.0;
  double elu = 0.0;
};
// Norms, softmax and linear maps act on each row along the last dimension.
using FoundFunction =
    std::variant<FoundActivation, FoundXielu, NormSpec, RowFunctionNode, LinearSpec>;

// Returns nullopt if no op of the runtime matches the samples.
std::optional<FoundFunction> find_function(const Function& function, OpBudget& budget);

// Returns a comparison in the function that random samples cannot exercise: equality, or a
// threshold far outside all samples. Null if there is none.
const Call* unseen_comparison(const Function& function, OpBudget& budget);

// ---- matching samples ----

// Two functions agree if they differ by at most this share of the largest result.
inline constexpr double kAgreement = 1e-9;

// Inputs and results of a function for random rows.
struct Samples {
  size_t width = 0;          // of a row
  std::set<double> numbers;  // scalar constants of the function
  std::vector<double> x, y;  // of all rows, concatenated
  double largest = 0.0;      // magnitude of y

  double error_max(double agreement) const;
};

// Each returns nullopt if the samples do not match. REQUIRES: x and y of equal size.
std::optional<FoundActivation> find_activation(const Samples& samples);
std::optional<FoundXielu> find_xielu(const Samples& samples);
std::optional<NormSpec> find_norm(const Samples& samples);
std::optional<RowFunctionNode> find_softmax(const Samples& samples);

// Rounds to the nearest float32 if the difference is numerical noise.
double as_written(double value);

}  // namespace arenite::convert
