// SPDX-License-Identifier: Apache-2.0
// Follows an exported program op by op, and keeps of each value how it is made of nodes of the
// converter's graph.
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "convert/exported/aten/interpret.h"
#include "convert/exported/read/exported_program.h"
#include "convert/exported/recover/constant.h"
#include "convert/exported/recover/element_sum.h"
#include "convert/exported/recover/functions.h"
#include "convert/exported/recover/graph_builder.h"
#include "convert/exported/recover/scores.h"
#include "convert/exported/recover/traced_value.h"
#include "convert/exported/trace/trace_shape.h"
#include "convert/graph/graph.h"

namespace arenite::convert {

class Tracer {
 public:
  // At the length of `trace_shape`.
  Tracer(std::shared_ptr<const ExportedProgram> program, const TraceShape& trace_shape);

  // The graph whose output is the program's output `index`. Throws InputError that names the op,
  // and where the author's code asks for it, for what is not recognised.
  void run(size_t index);

  GraphBuilder& builder() { return builder_; }
  OpBudget& budget() { return budget_; }

  // What a call gives one of whose tensors, all of which are traced values, depends on the model's
  // input.
  std::vector<TracedValue> trace(const Call& call);
  // The same of constants alone, as a constant that is no value of the program.
  TracedValue constant_of(const Call& call);

  ElementSumRef as_sum(const TracedValue& value);
  FunctionRef as_function(const TracedValue& value);
  // Throws NotRecognised for a value that is no constant.
  Array array_of(const TracedValue& value) const;
  // Whether any number of the model is in the sum.
  bool is_of_model(const ElementSum& value) const;
  ElementSumRef linear(const TracedValue& value, const ConstantRef& weight, bool transposed,
                       const TracedValue* bias);

 private:
  void read_input(const ExportedInput& input);
  void step(const Call& node);
  void step_named(const Call& node);
  Call with_values(const Call& node);
  std::vector<Argument> constants_of(const Call& call, const Call& node);
  std::optional<std::vector<Argument>> results_of_shapes(const Call& call);
  std::string name_of(const Call& node) const;
  std::string describe_cause(const Call& node, bool is_sum) const;
  void keep(uint32_t value, Argument kept);
  std::optional<std::vector<TracedValue>> move(const Call& call);
  FunctionRef moved_function(const Call& call, const FunctionRef& function,
                             const Shape& shape) const;
  std::vector<TracedValue> moved_values(const std::vector<TracedValue>& parts,
                                        const std::vector<Movement>& movements, bool joins);

  // ---- functions as nodes (trace_expressions.cc) ----
  ElementSumRef materialise(const FunctionRef& function);
  ElementSumRef materialise_named(const Function& function);
  ElementSumRef activated(const ElementSumRef& base, const FoundActivation& found);
  ElementSumRef normalised(const ElementSumRef& base, NormSpec norm);
  // Refuses what is computed of token ids.
  void require_no_ids(const Function& function) const;

  std::shared_ptr<const ExportedProgram> program_;
  const TraceShape& trace_shape_;
  GraphBuilder builder_;
  OpBudget budget_;
  uint64_t elements_max_;  // of an array
  std::vector<Argument>
      values_;  // of the program: numbers, traced values, or None before and after
  std::vector<std::string> own_names_;  // of nodes
  std::vector<uint64_t> costs_;         // numbers of elements that values_ hold
  uint64_t live_numbers_ = 0;
  // The last few.
  std::vector<std::pair<std::shared_ptr<const Call>, ElementSumRef>> made_functions_;
  size_t made_weights_ = 0;      // that have names of ours
  size_t functions_within_ = 0;  // that are being made into nodes, one within the other
};

// ---- ops, in the order in which they are tried; nothing for an op that is none such ----

std::optional<TracedValue> complex_op(Tracer& tracer, const Call& call);
std::optional<TracedValue> layer_op(Tracer& tracer, const Call& call);
std::optional<TracedValue> decomposed_op(Tracer& tracer, const Call& call);
std::optional<TracedValue> matrix_op(Tracer& tracer, const Call& call);
std::optional<TracedValue> pointwise_convolution(Tracer& tracer, const Call& call);
std::optional<TracedValue> convolution_op(Tracer& tracer, const Call& call);
std::optional<TracedValue> written_softmax(Tracer& tracer, const Call& call);
std::optional<TracedValue> score_op(Tracer& tracer, const Call& call);
std::optional<TracedValue> softmax_of_rows(Tracer& tracer, const Call& call);
std::optional<TracedValue> norm_op(Tracer& tracer, const Call& call);
std::optional<TracedValue> sum_op(Tracer& tracer, const Call& call);
std::optional<TracedValue> pooling_op(Tracer& tracer, const Call& call);
// Any op that works on each number or each row by itself, for later.
std::optional<TracedValue> function_op(Tracer& tracer, const Call& call);

// Rows that are looked up by what is computed of the token ids: their positions, with or without
// padding, or the same row for all. Which it is shows for a few sequences of ids.
ElementSumRef looked_up(Tracer& tracer, const ConstantRef& table, const TracedValue& given);

// Throws NotRecognised for ops that are too deep, one within the other.
FunctionRef function_of(const ElementSumRef& base, Call call, Shape shape, size_t depth);

// Whether ops of this name make fewer elements of a dimension's.
bool is_reduction(std::string_view op);

// The argument as an array, where it is a constant or a number.
std::optional<Array> constant_argument(const Call& call, std::string_view name);

// How many positions the constants have that an op works with; 0: any number.
int64_t positions_max_of(const Call& call);

Array inverse(const Array& array);  // 1 / x of each element

// A program as the graph of one of its outputs, followed at one length.

struct Followed {
  Graph graph;
  int64_t positions_max = 0;
  std::unique_ptr<Tracer> tracer;
};

// The program without ops that this output does not need, such as a second output's.
ExportedProgram needed_part(const ExportedProgram& program, size_t output);

// Follows all ops that the output needs. What is seen only then is added to `trace_shape`: rows of
// constants that the program puts before each sequence, and how it cuts images into patches.
// Throws InputError where something is not recognised.
Followed follow(const std::shared_ptr<const ExportedProgram>& program, TraceShape& trace_shape,
                size_t output);

}  // namespace arenite::convert
