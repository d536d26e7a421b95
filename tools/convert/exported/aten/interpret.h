// SPDX-License-Identifier: Apache-2.0
// Evaluates PyTorch ops and whole programs on arrays in double precision. Folds constants, and
// serves as the reference for converted models.
//
//   add(Array [1, 2], 3)  ->  Array [4, 5]
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "convert/exported/read/array.h"
#include "convert/exported/read/call.h"
#include "convert/exported/read/exported_program.h"
#include "convert/files/input_limits.h"

namespace arenite::convert {
// Limits of an evaluation, since a graph of a few bytes can ask for any amount of work.
struct OpBudget {
  uint64_t elements = kFoldedElementsMax;                // of all results together: bounds time
  uint64_t live_elements = kFoldedLiveElementsMax;       // at a time: bounds memory
  uint64_t multiplications = kFoldedMultiplicationsMax;  // of matrix products

  // Deduct the cost of a computation before it runs. Throw InputError if too little is left.
  void take_elements(uint64_t count);
  void take_multiplications(uint64_t count);
};

// Computes `call`. Returns arrays, numbers for ops on symbolic numbers (sym_size), or nothing for
// ops that only assert. REQUIRES: no argument is a ValueRef, and all arrays have elements. Throws
// InputError, naming the op and its place in the author's source, for ops without a rule, active
// dropout, and invalid arguments.
std::vector<Argument> apply_op(const Call& call, OpBudget& budget);

// Returns one result of apply_op. Also throws InputError if the result is not an array.
Array apply_for_array(const Call& call, OpBudget& budget, size_t result = 0);

// Whether there is a rule for ops of this name (Call::op).
bool has_rule(std::string_view op);

// Returns why an op that makes random numbers is refused; null for other ops.
const char* why_random(std::string_view op);

// ---- decompositions, written once for arrays and for traced values ----

// Runs the ops that another op decomposes into.
class OpRunner {
 public:
  virtual ~OpRunner() = default;
  // Returns the first result of `part`.
  virtual Argument run(const Call& part) = 0;
  // Returns the shape and type of a tensor, with or without elements.
  virtual Array like(const Argument& tensor) const = 0;
  // Whether the tensor holds attention weights, whose dimensions keep their order.
  virtual bool is_fixed(const Argument&) const { return false; }
  // Whether the tensor has elements and does not depend on the model's input.
  virtual bool is_constant(const Argument&) const { return true; }
};

// Returns the first result of `call` computed by other ops; None if the op has no decomposition for
// these arguments. Throws OpError for invalid arguments.
Argument decomposed(const Call& call, OpRunner& runner);
bool is_decomposed(std::string_view op);

// ---- whole programs: the reference that conversions are checked against ----

// Returns the tensor outputs of `program`, in order. `inputs` are those of the user. Weights are
// loaded at their first use and released after their last one. Throws InputError for inputs of
// other sizes, and for what apply_op refuses.
std::vector<Array> interpret(const ExportedProgram& program, std::span<const Array> inputs,
                             OpBudget budget = {});

// Returns a generous budget for a program with these weights and an input of `input_elements`.
OpBudget interpreting_budget(const ExportedProgram& program, uint64_t input_elements);

// Returns the step limit for reading a program: tracing, comparing and measuring cost a few times
// as much as interpreting.
uint64_t reading_steps(const ExportedProgram& program);

}  // namespace arenite::convert
