// SPDX-License-Identifier: Apache-2.0
// Rules of ops and their tables. An OpRule computes an op, Parts decomposes one, a MovementRule
// moves elements. A new op is a row of one of the tables.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "convert/exported/aten/interpret.h"
#include "convert/exported/aten/movement.h"
#include "convert/exported/read/call.h"

namespace arenite::convert {
using Results = std::vector<Argument>;
using OpRule = std::function<Results(const Call&, OpBudget&)>;
using OpRules = std::map<std::string_view, OpRule>;  // by op

const OpRules& op_rules();  // all of the following

OpRules elementwise_rules();  // elementwise, with broadcasting
OpRules row_rules();       // along dimensions: reductions, softmax, norms, products, convolutions
OpRules constant_rules();  // on constants only: interpolation, functions of matrices, quantization
OpRules creation_rules();  // new tensors, symbolic numbers, assertions

// Adds the rule run(call, row) for each row of a table.
template <typename Row, size_t kCount>
void add_rows(OpRules& rules, const Row (&rows)[kCount], Results (*run)(const Call&, const Row&)) {
  for (const Row& row : rows) {
    rules[row.op] = [&row, run](const Call& call, OpBudget&) { return run(call, row); };
  }
}

// An op that has a rule, and PyTorch's other names for it.
struct OpAliases {
  std::string_view op;
  std::vector<std::string_view> others;
};
const std::vector<OpAliases>& op_aliases();

template <typename Rules>
void add_other_names(Rules& rules) {
  for (const auto& [op, others] : op_aliases()) {
    const auto rule = rules.find(op);
    if (rule == rules.end()) continue;
    for (const std::string_view other : others) rules[other] = rule->second;
  }
}

// A numeric argument of an op, by its name in the schema.
struct Parameter {
  const char* name = nullptr;
  std::optional<double> default_value{};  // absent: required
};

// Returns the argument's value; 0 if the op has none.
inline double value_of(const Call& call, const Parameter& parameter) {
  if (parameter.name == nullptr) return 0.0;
  return parameter.default_value ? call.real(parameter.name, *parameter.default_value)
                                 : call.real(parameter.name);
}

// An operand of arithmetic: a tensor, or a number as an array of rank 0.
struct Operand {
  Array array;
  bool is_number = false;  // does not decide the type within a kind
};

Operand operand(const Call& call, std::string_view name);

// Broadcasts `array` to `shape`. Throws ShapeError if it does not fit.
Array stretched(const Array& array, const Shape& shape);

// Returns the result type of real functions, which give float32 for integer arguments.
inline ElementType real_type(ElementType type) {
  return is_real(type) || is_complex(type) ? type : ElementType::kF32;
}

// Returns the argument; refuses complex arrays.
const Array& real_array(const Call& call, std::string_view name);

// Decomposes an op: each call runs an op as a part of the decomposed one.
class Parts {
 public:
  Parts(const Call& call, OpRunner& runner) : call_(call), runner_(runner) {}

  Argument operator()(const char* op, std::vector<NamedArgument> arguments,
                      const char* overload = "") const {
    return runner_.run({.op = op,
                        .overload = overload,
                        .arguments = std::move(arguments),
                        .stack_trace = call_.stack_trace,
                        .part_of = call_.target()});
  }
  Argument times(const Argument& a, const Argument& b) const {
    return (*this)("mul", {{"self", a}, {"other", b}});
  }
  Argument plus(const Argument& a, const Argument& b) const {
    return (*this)("add", {{"self", a}, {"other", b}});
  }
  Argument view(const Argument& value, const Shape& shape) const {
    return (*this)("view", {{"self", value}, {"size", list(shape)}});
  }
  Shape shape(const Argument& tensor) const { return runner_.like(tensor).shape(); }
  bool is_bool(const Argument& tensor) const {
    return runner_.like(tensor).type() == ElementType::kBool;
  }
  bool is_fixed(const Argument& tensor) const { return runner_.is_fixed(tensor); }
  bool is_constant(const Argument& tensor) const { return runner_.is_constant(tensor); }

  static Argument list(const std::vector<int64_t>& numbers) {
    return Argument::List(numbers.begin(), numbers.end());
  }

 private:
  const Call& call_;
  OpRunner& runner_;
};

// A discrete Fourier transform along each of `dims`: factor * sum_n x[n] e^(i sign 2 pi k n / N). A
// length other than the dimension's extent is refused.
struct FourierTransform {
  std::vector<size_t> dims;
  double sign = -1.0;
  double factor = 1.0;
};
bool is_fourier(std::string_view op);
FourierTransform fourier_transform(const Call& call, const Shape& shape);

// Returns a value for each dimension of a kernel; a single value stands for all.
Shape each_of(const Call& call, const char* name, size_t count, const Shape& otherwise);

// Decompose to plain convolutions (row_ops.cc).
Argument transposed_convolution(const Call& call, const Parts& parts);
Argument convolution_over_frames(const Call& call, const Parts& parts);

// Decomposes to sums and matrix products (einsum.cc).
Argument einsum(const Call& call, const Parts& parts);

// ---- rules of ops that move elements ----

using Movements = std::vector<Movement>;

struct MovementRule {
  std::string_view op;
  std::function<Movements(const Call&)> make;
  std::string_view moved = "self";  // the argument that is moved: a tensor or a list
  std::string_view moved_also{};    // a second one, whose elements follow; may be empty
};

std::vector<MovementRule> gathering_rules();  // without strides

// Returns the identity movement of `shape`, or of the argument "self".
Movement whole(const Shape& shape);
Movement whole(const Call& call);

// Returns the dimension that argument `name` gives; refuses scalars.
size_t dimension_of(const Call& call, const Shape& shape, const char* name = "dim");

// Returns an index in [0, extent); a negative one counts from the end. Refuses others.
int64_t row_of(const Call& call, int64_t index, int64_t extent);

// The geometry of a convolution.

struct Convolution {
  Shape stride, padding_before, padding_after, dilation;  // of each spatial dimension
  int64_t groups = 1;
};

// Reads the geometry; refuses transposed convolutions. `weight` is [outputs, channels, kernel..].
Convolution convolution_of(const Call& call, const Array& weight);

// Returns [sequences, outputs, places..] for an input [sequences, channels, ..]. Refuses shapes
// that do not fit.
Shape convolved_shape(const Call& call, const Array& input, const Array& weight,
                      const Convolution& convolution);

// Returns the windows [sequences, groups, places, channels * kernel] of an already padded input.
// These rows are multiplied by the weights.
Movement windows(const Shape& input, const Shape& result, const Shape& weight,
                 const Convolution& convolution);

}  // namespace arenite::convert
