// SPDX-License-Identifier: Apache-2.0
// Traces an exported program op by op. Keeps each value as an expression over elements of the
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

  // Builds the graph of output `index` of the program. Throws InputError, with the op and its
  // source line, for an op that is not recognised. If builder.found is set then, the trace must be
  // restarted with that layout.
  void run(size_t index);

  // Returns the results of a call. REQUIRES: an argument depends on the model's input.
  std::vector<TracedValue> trace(const Call& call);
  // Returns the result of a call on constants, as a constant made by the tracer.
  TracedValue constant_of(const Call& call);

  LinearExprRef as_sum(const TracedValue& value);
  FunctionRef as_function(const TracedValue& value);
  // Returns the elements of a constant. Throws NotRecognised for any other value.
  Array array_of(const TracedValue& value) const;
  LinearExprRef linear(const TracedValue& value, const ConstantRef& weight, bool transposed,
                       const TracedValue* bias);
  // Whether an input may have other lengths than the example.
  bool has_open_length() const;
  // Returns the budget of array elements, reset for one op.
  OpBudget& op_budget();
  // Looks up table[id] for each token id, [sequences, tokens, 1].
  LinearExprRef looked_up_number(const LinearExprRef& ids, const std::vector<double>& table);
  // Throws NotRecognised for a function of token ids.
  void require_no_ids(const Function& function) const;

  GraphBuilder builder;

 private:
  void read_input(const ExportedInput& input);
  TracedValue marks_input(const ExportedValue& value);
  LinearExprRef marked_features(const ExportedInput& input, const Shape& shape);
  void step(const Call& node);
  // Replaces a lookup of each sequence's last token, found by ids, by a slice.
  Call with_last_tokens(const Call& node);
  std::vector<Argument> results_of(const Call& node, const Call& call);
  std::vector<Argument> constants_of(const Call& call, const Call& node);
  // Replaces arguments that are sums of constants by constants; nullopt if there are none.
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

  std::shared_ptr<const ExportedProgram> program_;
  const TraceShape trace_shape_;
  OpBudget budget_;
  uint64_t elements_max_;               // in one array
  std::vector<Argument> values_;        // by value id; None before the op and after the last use
  std::vector<std::string> own_names_;  // of ops without weights
  std::vector<uint64_t> costs_;         // elements in memory, by value id
  uint64_t live_numbers_ = 0;
  // Cached functions and the nodes made for them.
  std::vector<std::pair<std::shared_ptr<const Call>, LinearExprRef>> made_functions_;
  // Cached lookups, by the column of the ids and the table.
  std::map<std::pair<Column, std::vector<double>>, LinearExprRef> numbers_of_ids_;
  size_t made_weights_ = 0;              // count of weights that the tracer named
  const Function* outermost_ = nullptr;  // function that is lowered, with all nested ops
};

}  // namespace arenite::convert
