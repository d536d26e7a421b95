// SPDX-License-Identifier: Apache-2.0
// Follows an exported program op by op, and keeps of each value how it is made of nodes of the
// converter's graph.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "convert/exported/aten/interpret.h"
#include "convert/exported/read/exported_program.h"
#include "convert/exported/recover/functions.h"
#include "convert/exported/recover/graph_builder.h"
#include "convert/exported/recover/scores.h"
#include "convert/exported/trace/trace_shape.h"
#include "convert/graph/graph.h"

namespace arenite::convert {

class Tracer {
 public:
  // At the length of `trace_shape`.
  Tracer(std::shared_ptr<const ExportedProgram> program, const TraceShape& trace_shape);

  // The graph whose output is the program's output `index`. Throws InputError that names the op,
  // and where the author's code asks for it, for what is not recognised; what `builder.found` says
  // then lets it be followed anew.
  void run(size_t index);

  // What a call gives one of whose tensors, all of which are traced values, depends on the model's
  // input.
  std::vector<TracedValue> trace(const Call& call);
  // The same of constants alone, as a constant that is no value of the program.
  TracedValue constant_of(const Call& call);

  LinearExprRef as_sum(const TracedValue& value);
  FunctionRef as_function(const TracedValue& value);
  // Throws NotRecognised for a value that is no constant.
  Array array_of(const TracedValue& value) const;
  LinearExprRef linear(const TracedValue& value, const ConstantRef& weight, bool transposed,
                       const TracedValue* bias);
  // Whether some input may have other lengths.
  bool has_open_length() const;
  // The budget of one op.
  OpBudget& op_budget();
  // A number of each token id, which the table has one of for each: [sequences, tokens, 1].
  LinearExprRef looked_up_number(const LinearExprRef& ids, const std::vector<double>& table);

  GraphBuilder builder;

 private:
  void read_input(const ExportedInput& input);
  void step(const Call& node);
  Call with_last_tokens(const Call& node);  // in place of rows that token ids choose
  std::vector<Argument> results_of(const Call& node, const Call& call);
  std::vector<Argument> constants_of(const Call& call, const Call& node);
  // The call with constants in place of sums of constants; nothing where it has none.
  std::optional<Call> with_constants(const Call& node, const Call& call) const;
  std::optional<std::vector<Argument>> results_of_shapes(const Call& call);
  std::string name_of(const Call& node) const;
  void keep(uint32_t value, Argument kept);
  std::optional<std::vector<TracedValue>> move(const Call& call);
  std::vector<TracedValue> moved_values(const std::vector<TracedValue>& parts,
                                        const std::vector<Movement>& movements,
                                        std::optional<size_t> joins);

  // ---- functions as nodes (trace_expressions.cc) ----
  LinearExprRef materialise(const FunctionRef& function);
  LinearExprRef materialise_named(const Function& function);
  std::optional<LinearExprRef> sum_of_columns(const Function& function);
  LinearExprRef of_shifted(Activation kind, const FunctionRef& function);
  std::optional<LinearExprRef> root_or_quotient(const Function& function);
  LinearExprRef op_on_nodes(const Function& function);
  // A function of single token ids as numbers that they look up. Refuses any other function of ids.
  LinearExprRef of_ids(const Function& function);
  // Refuses what is computed of token ids.
  void require_no_ids(const Function& function) const;

  std::shared_ptr<const ExportedProgram> program_;
  const TraceShape trace_shape_;
  OpBudget budget_;
  uint64_t elements_max_;  // of an array
  std::vector<Argument>
      values_;  // of the program: numbers, traced values, or None before and after
  std::vector<std::string> own_names_;  // of nodes
  std::vector<uint64_t> costs_;         // numbers of elements that values_ hold
  uint64_t live_numbers_ = 0;
  // The last few.
  std::vector<std::pair<std::shared_ptr<const Call>, LinearExprRef>> made_functions_;
  // By the producer of the ids, and by their tables.
  std::map<std::pair<uint32_t, std::vector<double>>, LinearExprRef> numbers_of_ids_;
  size_t made_weights_ = 0;              // that have names of ours
  const Function* outermost_ = nullptr;  // that is being made into nodes
};

// ---- ops, in the order in which they are tried; nothing for an op that is none such ----

using OpHandler = std::optional<TracedValue>(Tracer& tracer, const Call& call);

OpHandler complex_op, ordered_score_op, op_of_one, layer_op, decomposed_op, matrix_op,
    convolution_op, max_pool_op, nearest_op, mean_of_lines, written_softmax, score_op,
    softmax_of_rows, norm_op, sum_op, filled_by_ids, pooling_op;
// Any op that works on each number or each row by itself, for later.
OpHandler function_op;
// An op that is made of others, by these.
OpHandler made_of_others;

// The call with a number in place of an exponent that is a constant of one.
Call with_numbers(const Call& call);

// Whether the call is a function of no single number, nor of a row: slopes of channels, dimension
// 1, and sums of a row's numbers that go on from one to the next.
bool mixes_columns(Tracer& tracer, const Call& call);

// The call with rows of tokens in turn of windows over these, where other values have such rows.
Call with_rows_alike(Tracer& tracer, const Call& call);

// A call that pads rows of a fixed number by rows of zeros, as one that puts these beside them. Any
// other call as it is.
Call with_rows_of_zeros(Tracer& tracer, const Call& call);

// What a movement makes of rows of a fixed number, more of them; nothing for any other movement.
std::optional<TracedValue> padded_rows(Tracer& tracer, const std::vector<TracedValue>& parts,
                                       const std::vector<Movement>& movements);

// Rows that are looked up by what is computed of the token ids: their positions, with or without
// padding, or the same row for all. Which it is shows for a few sequences of ids.
LinearExprRef looked_up(Tracer& tracer, const ConstantRef& table, const TracedValue& given);

// Whether a value is a function of token ids.
bool is_of_ids(const GraphBuilder& builder, const TracedValue& value);
// Scores with what is made of each number of `function`, a function of token ids, added to them:
// a constant, and a number of each key's id.
ScoresRef masked_by_ids(Tracer& tracer, const Scores& scores, const Function& function,
                        const std::function<double(double)>& added);

// Throws NotRecognised for ops that are too deep, one within the other.
FunctionRef function_of(const LinearExprRef& base, Call call, Shape shape, size_t depth);

// Rows of whole sequences, or one token's of each, as rows of their own that follow each other
// along `dim`; nothing for any other values.
std::optional<LinearExprRef> stacked_rows(Tracer& tracer, const std::vector<TracedValue>& parts,
                                          size_t dim);
// Parts of what is converted to another type, as parts of its base that are; nothing for any other
// function.
std::optional<std::vector<TracedValue>> moved_conversion(const FunctionRef& function,
                                                         const std::vector<Movement>& movements);

// Whether ops of this name make fewer elements of a dimension's.
bool is_reduction(std::string_view op);

// Whether any number of the model is in the sum.
bool is_of_model(const GraphBuilder& builder, const LinearExpr& value);

// How many positions the constants have that an op works with; 0: any number.
int64_t positions_max_of(const Call& call);

// A program as the graph of one of its outputs, followed at one length.

struct TracedProgram {
  Graph graph;
  std::vector<int64_t> positions_max{};  // of each input
  int64_t joined_positions_max = 0;      // of rows of several inputs
  std::unique_ptr<Tracer> tracer;
};

// Follows all ops that the output needs. What is seen only then is added to `trace_shape`: rows of
// constants that the program puts before each sequence, and how images lie in their array. Throws
// InputError where something is not recognised.
TracedProgram trace_program(const std::shared_ptr<const ExportedProgram>& program,
                            TraceShape& trace_shape, size_t output);
// The same in one reading after the other, which `trace_shape` then says: what has the shape of
// features may be images or series that the program cuts, or have its columns before tokens, and
// rows may have to be kept apart.
TracedProgram follow_any(const std::shared_ptr<const ExportedProgram>& program,
                         TraceShape& trace_shape, size_t output);

}  // namespace arenite::convert
