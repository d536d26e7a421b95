// SPDX-License-Identifier: Apache-2.0
// Functions of one value that work on each of its rows by itself, kept as the ops that the author
// wrote. What they are is found by computing them for numbers.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "convert/exported/affine.h"
#include "convert/exported/argument.h"
#include "convert/exported/array_ops.h"
#include "convert/graph/graph.h"

namespace arenite::convert {

// An op of the author's; or, without a name, the value that the function is of.
struct Expression {
  OpCall call{};  // its ValueRefs are indices of `inputs`
  std::vector<std::shared_ptr<const Expression>> inputs{};
  Shape shape{};
  size_t depth = 0;  // of ops: kExportedLevelsMax at most, as a person writes a formula

  bool is_base() const { return call.op.empty(); }
};

using ExpressionRef = std::shared_ptr<const Expression>;

// expression(base), where base is a value of one node.
struct Function {
  AffineRef base;
  ExpressionRef expression;
  std::string name{};  // of the author's op that made it
};

using FunctionRef = std::shared_ptr<const Function>;

// The expression of all elements for elements of its base.
Array evaluate(const Expression& expression, const Array& base, OpBudget& budget);

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
using FoundFunction = std::variant<FoundActivation, NormSpec, NormalizeNode, LinearSpec>;

// Nothing for a function that the runtime has no op for. `base` is the shape of what it is of.
std::optional<FoundFunction> find_function(const Expression& expression, const Shape& base,
                                           OpBudget& budget);

}  // namespace arenite::convert
