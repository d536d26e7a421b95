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
#include "convert/exported/trace/trace_shape.h"
#include "convert/graph/graph.h"

namespace arenite::convert {
struct ComplexPair {
  ElementSumRef real, imaginary;
};

// What is known of a value: nothing yet, a number of an extent, a constant, or how it depends on
// the model's input.
using TracedValue = std::variant<std::monostate, Argument, ConstantRef, ElementSumRef, FunctionRef,
                                 ScoresRef, ScoreRowRef, ComplexPair>;

// An op with what it is called with: its ValueRefs are indices of `inputs`.
struct Operation {
  OpCall call;
  std::vector<TracedValue> inputs;
  std::vector<ElementType> types;  // of the inputs

  // Of the argument of this name; null: it is no value.
  const TracedValue* value(std::string_view name) const;
};

class Tracer {
 public:
  // At the length of `lengths`.
  Tracer(std::shared_ptr<const ExportedProgram> program, const TraceShape& lengths);

  // The graph whose output is the program's output `index`. Throws InputError that names the op,
  // and where the author's code asks for it, for what is not recognised.
  void run(size_t index);

  GraphBuilder& builder() { return builder_; }

 private:
  // ---- the program ----
  void read_input(const ExportedInput& input);
  void step(const ExportedNode& node);
  Operation operation_of(const ExportedNode& node);
  std::vector<TracedValue> constants_of(const Operation& operation, const ExportedNode& node);
  bool is_about_shapes(const Operation& operation, std::vector<TracedValue>& results);
  std::vector<TracedValue> dependent(const Operation& operation);
  std::string name_of(const ExportedNode& node) const;
  std::string describe_cause(const ExportedNode& node, bool is_sum) const;
  void keep(uint32_t value, TracedValue reduced);

  // ---- values ----
  Shape shape_of(const TracedValue& value) const;
  OpCall with_arrays(const Operation& operation) const;
  ElementSumRef as_sum(const TracedValue& value);
  bool is_of_model(const ElementSum& value) const;
  ElementSumRef materialise(const FunctionRef& function);
  ElementSumRef activated(const ElementSumRef& base, const FoundActivation& found);
  ElementSumRef normalised(const ElementSumRef& base, NormSpec norm);
  ElementSumRef materialise_named(const FunctionRef& function);
  FunctionRef as_function(const TracedValue& value);
  Array array_of(const TracedValue& value) const;
  // Refuses what is computed of token ids.
  void require_no_ids(const Function& function) const;

  // ---- ops (reduce_*.cc), nothing for ops of other kinds ----
  std::optional<std::vector<TracedValue>> move(const Operation& operation);
  std::vector<TracedValue> moved_values(const std::vector<const TracedValue*>& parts,
                                        const std::vector<Movement>& movements, bool joins);
  std::optional<TracedValue> complex_op(const Operation& operation);
  std::optional<TracedValue> matrix_op(const Operation& operation);
  std::optional<TracedValue> convolution_op(const Operation& operation);
  std::optional<TracedValue> score_op(const Operation& operation);
  std::optional<TracedValue> softmax_of_rows(const Operation& operation);
  std::optional<TracedValue> written_softmax(const Operation& operation);
  std::optional<TracedValue> sum_op(const Operation& operation);
  std::optional<TracedValue> pooling_op(const Operation& operation);
  ElementSumRef sum_of_parts(const ElementSumRef& value, size_t axis);
  std::optional<TracedValue> norm_op(const Operation& operation);
  TracedValue function_op(const Operation& operation);

  TracedValue gated(const Operation& operation);
  TracedValue batch_norm(const Operation& operation);
  TracedValue group_norm(const Operation& operation);
  TracedValue attention(const Operation& operation);
  std::optional<TracedValue> pointwise_convolution(const Operation& operation);
  // By matrices of weights, one for each index of the first `shared` dimensions.
  TracedValue product_by_weights(const ElementSumRef& value, const ConstantRef& weights,
                                 size_t shared);

  TracedValue product_of_stacks(const ElementSumRef& value, const ConstantRef& stack);

  // ---- einsum (reduce_einsum.cc): dimensions are named by letters ----
  TracedValue einsum(const Operation& operation);
  TracedValue einsum_of_two(const TracedValue& a, const std::string& letters_a,
                            const TracedValue& b, const std::string& letters_b,
                            const std::string& result);
  TracedValue einsum_of_weights(const TracedValue& value, const std::string& own,
                                const ConstantRef& weight, const std::string& others,
                                const std::string& result);
  TracedValue einsum_of_queries(const TracedValue& a, const std::string& letters_a,
                                const TracedValue& b, const std::string& letters_b,
                                const std::string& result);
  TracedValue einsum_of_scores(const ScoresRef& scores, const std::string& letters,
                               const TracedValue& values, const std::string& of_values,
                               const std::string& result);
  TracedValue arranged(const TracedValue& value, const std::string& letters,
                       const std::vector<std::string>& groups);
  static std::vector<std::string> single(const std::string& letters);

  // ---- products ----
  TracedValue product(const TracedValue& a, const TracedValue& b);  // as matmul
  TracedValue looked_up(const ConstantRef& table, const TracedValue& rows);
  TracedValue linear(const TracedValue& value, const ConstantRef& weight, bool transposed,
                     const TracedValue* bias);

  std::shared_ptr<const ExportedProgram> program_;
  const TraceShape& lengths_;
  GraphBuilder builder_;
  OpBudget budget_;
  uint64_t elements_max_;  // of an array
  std::vector<TracedValue> values_;
  std::vector<std::string> own_names_;  // of nodes
  std::vector<uint64_t> costs_;         // numbers of elements that values_ hold
  uint64_t live_numbers_ = 0;
  std::vector<std::pair<ExpressionRef, ElementSumRef>> made_functions_;  // the last few
  size_t made_weights_ = 0;                                              // that have names of ours
  size_t functions_within_ = 0;  // that are being made into nodes, one within the other
};

bool is_dependent(const TracedValue& value);

ConstantRef with_shape_of(const ConstantRef& constant, const Shape& shape);

// Whether ops of this name make fewer elements of a dimension's.
bool is_reduction(std::string_view op);

// Arguments of an op that do not depend on the model's input.

// The argument as an array, where it is a constant or a number.
std::optional<Array> constant_argument(const Operation& operation, std::string_view name);

// How many positions the constants have that an op works with; 0: any number.
int64_t positions_max_of(const Operation& operation);

Array inverse(const Array& array);  // 1 / x of each element

// A program as the graph of one of its outputs, followed at one length.

struct Followed {
  Graph graph;
  int64_t positions_max = 0;
  std::unique_ptr<Tracer> tracer;
};

// The program without ops that this output does not need, such as a second output's.
ExportedProgram needed_part(const ExportedProgram& program, size_t output);

// Follows all ops that the output needs. What is seen only then is added to `lengths`: rows of
// constants that the program puts before each sequence, and how it cuts images into patches.
// Throws InputError where something is not recognised.
Followed follow(const std::shared_ptr<const ExportedProgram>& program, TraceShape& lengths,
                size_t output);

}  // namespace arenite::convert
