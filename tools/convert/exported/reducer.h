// SPDX-License-Identifier: Apache-2.0
// Follows an exported program op by op, and keeps of each value how it is made of nodes of the
// converter's graph.
#pragma once

#include <complex>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "convert/exported/affine.h"
#include "convert/exported/array_ops.h"
#include "convert/exported/constant.h"
#include "convert/exported/exported_program.h"
#include "convert/exported/functions.h"
#include "convert/exported/graph_builder.h"
#include "convert/exported/lengths.h"
#include "convert/exported/scores.h"

namespace arenite::convert {

struct ComplexPair {
  AffineRef real, imaginary;
};

// What is known of a value: nothing yet, a number of an extent, a constant, or how it depends on
// the model's input.
using Reduced = std::variant<std::monostate, Argument, ConstantRef, AffineRef, FunctionRef,
                             ScoresRef, ScoreRowRef, ComplexPair>;

// An op with what it is called with: its ValueRefs are indices of `inputs`.
struct Operation {
  OpCall call;
  std::vector<Reduced> inputs;
  std::vector<ElementType> types;  // of the inputs

  // Of the argument of this name; null: it is no value.
  const Reduced* value(std::string_view name) const;
};

class Reducer {
 public:
  // At the length of `lengths`.
  Reducer(std::shared_ptr<const ExportedProgram> program, const Lengths& lengths);

  // The graph whose output is the program's output `index`. Throws InputError that names the op,
  // and where the author's code asks for it, for what is not recognised.
  void run(size_t index);

  GraphBuilder& builder() { return builder_; }

 private:
  // ---- the program ----
  void read_input(const ExportedInput& input);
  void step(const ExportedNode& node);
  Operation operation_of(const ExportedNode& node);
  std::vector<Reduced> constants_of(const Operation& operation, const ExportedNode& node);
  bool is_about_shapes(const Operation& operation, std::vector<Reduced>& results);
  std::vector<Reduced> dependent(const Operation& operation);
  std::string name_of(const ExportedNode& node) const;
  std::string describe_cause(const ExportedNode& node, bool is_sum) const;
  void keep(uint32_t value, Reduced reduced);

  // ---- values ----
  Shape shape_of(const Reduced& value) const;
  OpCall with_arrays(const Operation& operation) const;
  AffineRef as_affine(const Reduced& value);
  bool is_of_model(const Affine& value) const;
  AffineRef materialise(const FunctionRef& function);
  AffineRef activated(const AffineRef& base, const FoundActivation& found);
  AffineRef normalised(const AffineRef& base, NormSpec norm);
  AffineRef materialise_named(const FunctionRef& function);
  FunctionRef as_function(const Reduced& value);
  Array array_of(const Reduced& value) const;
  // Refuses what is computed of token ids.
  void require_no_ids(const Function& function) const;

  // ---- ops (reduce_*.cc), nothing for ops of other kinds ----
  std::optional<std::vector<Reduced>> move(const Operation& operation);
  std::vector<Reduced> moved_values(const std::vector<const Reduced*>& parts,
                                    const std::vector<Movement>& movements, bool joins);
  std::optional<Reduced> complex_op(const Operation& operation);
  std::optional<Reduced> matrix_op(const Operation& operation);
  std::optional<Reduced> convolution_op(const Operation& operation);
  std::optional<Reduced> score_op(const Operation& operation);
  std::optional<Reduced> softmax_of_rows(const Operation& operation);
  std::optional<Reduced> written_softmax(const Operation& operation);
  std::optional<Reduced> sum_op(const Operation& operation);
  std::optional<Reduced> pooling_op(const Operation& operation);
  AffineRef sum_of_parts(const AffineRef& value, size_t axis);
  std::optional<Reduced> norm_op(const Operation& operation);
  Reduced function_op(const Operation& operation);

  Reduced gated(const Operation& operation);
  Reduced batch_norm(const Operation& operation);
  Reduced group_norm(const Operation& operation);
  Reduced attention(const Operation& operation);
  std::optional<Reduced> pointwise_convolution(const Operation& operation);
  // By matrices of weights, one for each index of the first `shared` dimensions.
  Reduced product_by_weights(const AffineRef& value, const ConstantRef& weights, size_t shared);

  Reduced product_of_stacks(const AffineRef& value, const ConstantRef& stack);

  // ---- einsum (reduce_einsum.cc): dimensions are named by letters ----
  Reduced einsum(const Operation& operation);
  Reduced einsum_of_two(const Reduced& a, const std::string& letters_a, const Reduced& b,
                        const std::string& letters_b, const std::string& result);
  Reduced einsum_of_weights(const Reduced& value, const std::string& own, const ConstantRef& weight,
                            const std::string& others, const std::string& result);
  Reduced einsum_of_queries(const Reduced& a, const std::string& letters_a, const Reduced& b,
                            const std::string& letters_b, const std::string& result);
  Reduced einsum_of_scores(const ScoresRef& scores, const std::string& letters,
                           const Reduced& values, const std::string& of_values,
                           const std::string& result);
  Reduced arranged(const Reduced& value, const std::string& letters,
                   const std::vector<std::string>& groups);
  static std::vector<std::string> single(const std::string& letters);

  // ---- products ----
  Reduced product(const Reduced& a, const Reduced& b);  // as matmul
  Reduced looked_up(const ConstantRef& table, const Reduced& rows);
  Reduced linear(const Reduced& value, const ConstantRef& weight, bool transposed,
                 const Reduced* bias);

  std::shared_ptr<const ExportedProgram> program_;
  const Lengths& lengths_;
  GraphBuilder builder_;
  OpBudget budget_;
  uint64_t elements_max_;  // of an array
  std::vector<Reduced> values_;
  std::vector<std::string> own_names_;  // of nodes
  std::vector<uint64_t> costs_;         // numbers of elements that values_ hold
  uint64_t live_numbers_ = 0;
  std::vector<std::pair<ExpressionRef, AffineRef>> made_functions_;  // the last few
  size_t made_weights_ = 0;                                          // that have names of ours
  size_t functions_within_ = 0;  // that are being made into nodes, one within the other
};

bool is_dependent(const Reduced& value);

ConstantRef with_shape_of(const ConstantRef& constant, const Shape& shape);

// Whether ops of this name make fewer elements of a dimension's.
bool is_reduction(std::string_view op);

}  // namespace arenite::convert
