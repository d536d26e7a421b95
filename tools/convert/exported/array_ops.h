// SPDX-License-Identifier: Apache-2.0
// PyTorch's ops on arrays of constants, in double precision.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "convert/exported/argument.h"
#include "convert/exported/array.h"
#include "convert/files/input_limits.h"

namespace arenite::convert {

// What ops may cost before a graph is refused: a file of a few bytes can ask for anything.
struct OpBudget {
  uint64_t elements = kFoldedElementsMax;                // of all results together, for time
  uint64_t live_elements = kFoldedLiveElementsMax;       // of those that are kept, for memory
  uint64_t multiplications = kFoldedMultiplicationsMax;  // of matrix products

  // Take off what an op is about to compute. Throw InputError when there is not so much left.
  void take_elements(uint64_t count);
  void take_multiplications(uint64_t count);
  // For results that are kept no longer.
  void give_back(uint64_t count) { live_elements += count; }
};

// Computes `call`, none of whose arguments is a ValueRef and all of whose arrays have elements. The
// results are arrays, or numbers of ops on symbolic numbers (sym_size); an op that only asserts
// has none. Throws InputError for ops without a rule, dropout that is active, and arguments that
// the op cannot take; the message names the op and its place in the author's source.
std::vector<Argument> apply_op(const OpCall& call, OpBudget& budget);

// One of its results. Throws InputError also where that is no array.
Array apply_for_array(const OpCall& call, OpBudget& budget, size_t result = 0);

// Whether there is a rule for ops of this name (OpCall::op).
bool has_rule(std::string_view op);

}  // namespace arenite::convert
