// SPDX-License-Identifier: Apache-2.0
// Ops that are made of others, written once: for numbers, which are computed, and for values of a
// model, which are traced.
#pragma once

#include <string_view>

#include "convert/exported/read/call.h"

namespace arenite::convert {

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

}  // namespace arenite::convert
