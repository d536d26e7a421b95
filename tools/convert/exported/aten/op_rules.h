// SPDX-License-Identifier: Apache-2.0
// How the rules of ops that compute are written, and where they are.
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
using OpRules = std::map<std::string_view, OpRule>;  // by the op

const OpRules& op_rules();  // all of them

OpRules elementwise_rules();  // on single numbers, stretched to one shape
OpRules row_rules();          // along dimensions: sums, extremes, softmax, norms, products
OpRules constant_rules();     // of constants alone: interpolate, functions of matrices
OpRules creation_rules();     // from numbers alone, on symbolic numbers, and what only asserts

// A rule for each row of a table: run(call, row).
template <typename Row, size_t kCount>
void add_rows(OpRules& rules, const Row (&rows)[kCount], Results (*run)(const Call&, const Row&)) {
  for (const Row& row : rows) {
    rules[row.op] = [&row, run](const Call& call, OpBudget&) { return run(call, row); };
  }
}

// An op that there is a rule for, and other names that PyTorch has for it.
struct OtherNames {
  std::string_view op;
  std::vector<std::string_view> others;
};
const std::vector<OtherNames>& other_names();

template <typename Rules>
void add_other_names(Rules& rules) {
  for (const auto& [op, others] : other_names()) {
    const auto rule = rules.find(op);
    if (rule == rules.end()) continue;
    for (const std::string_view other : others) rules[other] = rule->second;
  }
}

// A number beside tensors that an op takes, as its schema calls it.
struct Parameter {
  const char* name = nullptr;
  std::optional<double> default_value{};  // absent: it has to be given
};

// Its value; 0 where the op takes none.
inline double value_of(const Call& call, const Parameter& parameter) {
  if (parameter.name == nullptr) return 0.0;
  return parameter.default_value ? call.real(parameter.name, *parameter.default_value)
                                 : call.real(parameter.name);
}

// An operand of arithmetic: a tensor, or a number, which is an array without dimensions.
struct Operand {
  Array array;
  bool is_number = false;  // no tensor: it does not decide the type within a kind
};

Operand operand(const Call& call, std::string_view name);

// The elements of `array` stretched to `shape`. Throws ShapeError where they cannot be.
Array stretched(const Array& array, const Shape& shape);

// Of ops on real numbers, which give real numbers for whole ones, too.
inline ElementType real_type(ElementType type) {
  return is_real(type) || is_complex(type) ? type : ElementType::kF32;
}

// Refuses complex arrays.
const Array& real_array(const Call& call, std::string_view name);

// What a decomposition is written with: calls that are parts of the one that is decomposed.
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

// A discrete Fourier transform along some dimensions: sums of numbers times exp(i sign angle),
// times `factor`. Refuses those of other lengths than the dimensions have.
struct FourierTransform {
  std::vector<size_t> dims;
  double sign = -1.0;
  double factor = 1.0;
};
bool is_fourier(std::string_view op);
FourierTransform fourier_transform(const Call& call, const Shape& shape);

// As many numbers as a kernel has dimensions; one stands for all.
Shape each_of(const Call& call, const char* name, size_t count, const Shape& otherwise);

// Of convolutions, parts of which are others (row_ops.cc).
Argument transposed_convolution(const Call& call, const Parts& parts);
Argument convolution_over_frames(const Call& call, const Parts& parts);

// Of dimensions that are named by letters (einsum.cc).
Argument einsum(const Call& call, const Parts& parts);

// How ops that move elements are written.

using Movements = std::vector<Movement>;

struct MovementRule {
  std::string_view op;
  std::function<Movements(const Call&)> make;
  std::string_view moved = "self";  // the argument that is moved: a tensor, or a list of them
  std::string_view moved_also{};    // a second one, whose elements follow, or empty
};

std::vector<MovementRule> gathering_rules();  // element by element

// All elements of `shape`, or of "self", in order.
Movement whole(const Shape& shape);
Movement whole(const Call& call);

// The dimension that `name` says, of a tensor that is no scalar.
size_t dimension_of(const Call& call, const Shape& shape, const char* name = "dim");

// An index from the end counts back. Refuses what is no row.
int64_t row_of(const Call& call, int64_t index, int64_t extent);

// Which elements of its input each result of a convolution is made of.

struct Convolution {
  Shape stride, padding_before, padding_after, dilation;  // of each spatial dimension
  int64_t groups = 1;
};

// Refuses what is no plain convolution. `weight` is [outputs, channels, kernel...].
Convolution convolution_of(const Call& call, const Array& weight);

// [sequences, outputs, places...] of an input [sequences, channels, ...]. Refuses shapes that do
// not go together.
Shape convolved_shape(const Call& call, const Array& input, const Array& weight,
                      const Convolution& convolution);

// [sequences, groups, places, channels * kernel] of an input without padding: what is multiplied
// with the weights for each place.
Movement windows(const Shape& input, const Shape& result, const Shape& weight,
                 const Convolution& convolution);

}  // namespace arenite::convert
