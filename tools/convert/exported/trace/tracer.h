// SPDX-License-Identifier: Apache-2.0
// Traces an exported program op by op: keeps for each value how it is made of elements of the
// converter's graph, and adds nodes for ops that compute.
//
//   F.linear(x, W)        ->  linear expression over a new linear node
//   h.transpose(1, 2)     ->  linear expression over the same node, with other element ids
//   h * torch.sigmoid(h)  ->  function of h, lowered to silu when it is read
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
  Tracer(std::shared_ptr<const ExportedProgram> program, const TraceShape& trace_shape);

  // Builds the graph of the program's output `index`. Throws InputError, with the op and its place
  // in the author's code, for an op that is not recognised; builder.found may then tell how to
  // start anew.
  void run(size_t index);

  // Returns the results of a call on traced values, of which at least one depends on the model's
  // input.
  std::vector<TracedValue> trace(const Call& call);
  // Returns the result of a call on constants, as a constant that is no value of the program.
  TracedValue constant_of(const Call& call);

  LinearExprRef as_sum(const TracedValue& value);
  FunctionRef as_function(const TracedValue& value);
  // Throws NotRecognised for a value that is no constant.
  Array array_of(const TracedValue& value) const;
  LinearExprRef linear(const TracedValue& value, const ConstantRef& weight, bool transposed,
                       const TracedValue* bias);
  // Whether some input may have other lengths.
  bool has_open_length() const;
  // Returns the budget, renewed for one op.
  OpBudget& op_budget();
  // Returns table[id] for each token id, [sequences, tokens, 1].
  LinearExprRef looked_up_number(const LinearExprRef& ids, const std::vector<double>& table);

  GraphBuilder builder;

 private:
  void read_input(const ExportedInput& input);
  void step(const Call& node);
  // slices the last token in place of rows that ids choose
  Call with_last_tokens(const Call& node);
  std::vector<Argument> results_of(const Call& node, const Call& call);
  std::vector<Argument> constants_of(const Call& call, const Call& node);
  // Returns the call with constants in place of sums of constants; nullopt if it has none.
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
  // Returns a function of single token ids as elements that the ids look up. Refuses any other
  // function of ids.
  LinearExprRef of_ids(const Function& function);
  void require_no_ids(const Function& function) const;

  std::shared_ptr<const ExportedProgram> program_;
  const TraceShape trace_shape_;
  OpBudget budget_;
  uint64_t elements_max_;  // in one array
  std::vector<Argument>
      values_;  // of the program: numbers, traced values, or None outside their lifetime
  std::vector<std::string> own_names_;  // of nodes
  std::vector<uint64_t> costs_;         // elements held by each of values_
  uint64_t live_numbers_ = 0;
  // The most recent ones.
  std::vector<std::pair<std::shared_ptr<const Call>, LinearExprRef>> made_functions_;
  // Keyed by the producer of the ids and by the table.
  std::map<std::pair<uint32_t, std::vector<double>>, LinearExprRef> numbers_of_ids_;
  size_t made_weights_ = 0;              // weights that the tracer has named
  const Function* outermost_ = nullptr;  // function that is being lowered
};

// ---- op handlers, in the order in which they are tried; nullopt for an op of another handler ----

using OpHandler = std::optional<TracedValue>(Tracer& tracer, const Call& call);

OpHandler complex_op, ordered_score_op, op_of_one, layer_op, decomposed_op, matrix_op,
    convolution_op, max_pool_op, nearest_op, mean_of_lines, written_softmax, score_op,
    softmax_of_rows, norm_op, sum_op, filled_by_ids, pooling_op;
// Keeps any op on single elements or rows as a function, which is lowered when it is read.
OpHandler function_op;
// Lowers an op by its decomposition into others.
OpHandler made_of_others;

// Returns the call with a number in place of an exponent that is a one-element constant.
Call with_numbers(const Call& call);

// Whether the call is no function of single elements or rows: slopes of channels in dimension 1,
// and cumulative sums over the columns of a row.
bool mixes_columns(Tracer& tracer, const Call& call);

// Moves token rows to the row axis of interleaved windows over them, if another value of the call
// is on such an axis.
Call with_rows_alike(Tracer& tracer, const Call& call);

// Turns padding by rows of zeros into a concatenation, where the number of rows is fixed. Returns
// any other call as it is.
Call with_rows_of_zeros(Tracer& tracer, const Call& call);

// Lowers a movement that repeats rows, where the number of rows is fixed; nullopt for any other
// movement.
std::optional<TracedValue> padded_rows(Tracer& tracer, const std::vector<TracedValue>& parts,
                                       const std::vector<Movement>& movements);

// Looks up rows by a function of the token ids: their positions, with or without padding, or equal
// rows for all ids. Probes with a few id sequences tell which.
LinearExprRef looked_up(Tracer& tracer, const ConstantRef& table, const TracedValue& given);

bool is_of_ids(const GraphBuilder& builder, const TracedValue& value);
// Adds added(f) to each score, where f is `function` of the token ids: a constant for each score,
// and an addend for each key's id.
ScoresRef masked_by_ids(Tracer& tracer, const Scores& scores, const Function& function,
                        const std::function<double(double)>& added);

// Throws NotRecognised if ops are nested too deep.
FunctionRef function_of(const LinearExprRef& base, Call call, Shape shape, size_t depth);

// Stacks per-sequence rows, or one token of each sequence, along `dim` as rows of their own;
// nullopt for any other values.
std::optional<LinearExprRef> stacked_rows(Tracer& tracer, const std::vector<TracedValue>& parts,
                                          size_t dim);
// Moves the base of a type conversion instead of its result; nullopt for any other function.
std::optional<std::vector<TracedValue>> moved_conversion(const FunctionRef& function,
                                                         const std::vector<Movement>& movements);

bool is_reduction(std::string_view op);

// Whether the sum has elements of nodes.
bool is_of_model(const GraphBuilder& builder, const LinearExpr& value);

// Returns the number of positions that the call's constants have; 0: no limit.
int64_t positions_max_of(const Call& call);

// ---- a program as the graph of one of its outputs, traced at one length ----

struct TracedProgram {
  Graph graph;
  std::vector<int64_t> positions_max{};  // of each input
  int64_t joined_positions_max = 0;      // of concatenations of inputs
  std::unique_ptr<Tracer> tracer;
};

// Traces all ops that the output needs. Adds to `trace_shape` the findings of the trace: prefix
// rows, and how images lie in their array. Throws InputError if something is not recognised.
TracedProgram trace_program(const std::shared_ptr<const ExportedProgram>& program,
                            TraceShape& trace_shape, size_t output);
// Traces one reading after the other, and returns the recognised one in `trace_shape`: features may
// be images, series, or columns before tokens, and rows may have to be kept apart.
TracedProgram follow_any(const std::shared_ptr<const ExportedProgram>& program,
                         TraceShape& trace_shape, size_t output);

}  // namespace arenite::convert
