// SPDX-License-Identifier: Apache-2.0
// PyTorch's ops on arrays of constants, in double precision.
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
// What ops may cost before a graph is refused: a file of a few bytes can ask for anything.
struct OpBudget {
  uint64_t elements = kFoldedElementsMax;                // of all results together, for time
  uint64_t live_elements = kFoldedLiveElementsMax;       // at a time, for memory
  uint64_t multiplications = kFoldedMultiplicationsMax;  // of matrix products

  // Take off what an op is about to compute. Throw InputError when there is not so much left.
  void take_elements(uint64_t count);
  void take_multiplications(uint64_t count);
};

// Computes `call`, none of whose arguments is a ValueRef and all of whose arrays have elements. The
// results are arrays, or numbers of ops on symbolic numbers (sym_size); an op that only asserts
// has none. Throws InputError for ops without a rule, dropout that is active, and arguments that
// the op cannot take; the message names the op and its place in the author's source.
std::vector<Argument> apply_op(const Call& call, OpBudget& budget);

// One of its results. Throws InputError also where that is no array.
Array apply_for_array(const Call& call, OpBudget& budget, size_t result = 0);

// Whether there is a rule for ops of this name (Call::op).
bool has_rule(std::string_view op);

// What is wrong with an op that makes random numbers; null: it is none such.
const char* why_random(std::string_view op);

// Ops that are made of others are written once: for numbers, which are computed, and for values of
// a model, which are traced.

// Runs the ops that others are made of.
class OpRunner {
 public:
  virtual ~OpRunner() = default;
  // The first result of `part`.
  virtual Argument run(const Call& part) = 0;
  // The shape and the type of a tensor, with or without its elements.
  virtual Array like(const Argument& tensor) const = 0;
  // Whether it is the weights of attention, whose dimensions stay in their order.
  virtual bool is_fixed(const Argument&) const { return false; }
  // Whether it is numbers, and does not depend on a model's input.
  virtual bool is_constant(const Argument&) const { return true; }
};

// The first result of `call` by the ops that it is made of. None where it is made of no others, or
// not with these arguments. Throws OpError for arguments that it cannot take.
Argument decomposed(const Call& call, OpRunner& runner);
bool is_decomposed(std::string_view op);

// Computes an exported program op by op in double precision, as the author's code did: the check of
// a conversion that shares nothing with it but the file.

// The outputs of `program`, in its order, those that are no tensors left out, for `inputs`, one for
// each input of the user. Weights are read when an op needs them, and go when no op does any more.
// Throws InputError for inputs of other types or sizes than the program takes, and as apply_op.
std::vector<Array> interpret(const ExportedProgram& program, std::span<const Array> inputs,
                             OpBudget budget = {});

// What `budget` must allow for a program of these weights and an input of so many elements, with
// plenty to spare.
OpBudget interpreting_budget(const ExportedProgram& program, uint64_t input_elements);

// The steps that reading a program may take: following, comparing and weighing it take a few times
// what interpreting it does.
uint64_t reading_steps(const ExportedProgram& program);

}  // namespace arenite::convert
