// SPDX-License-Identifier: Apache-2.0
// How the rules of ops that compute are written, and where they are.
#pragma once

#include <map>
#include <string_view>
#include <vector>

#include "convert/exported/array_ops.h"
#include "convert/exported/call_arguments.h"

namespace arenite::convert {

using Results = std::vector<Argument>;
using OpRule = Results (*)(const CallArguments&, OpBudget&);
using OpRules = std::map<std::string_view, OpRule>;  // by the op

OpRules unary_rules();      // one number after the other
OpRules binary_rules();     // of two numbers each, stretched to one shape
OpRules choosing_rules();   // where, masks, limits
OpRules complex_rules();    // complex numbers and their parts
OpRules reduction_rules();  // along dimensions
OpRules softmax_rules();    // along dimensions, and the sizes stay
OpRules norm_rules();       // of rows
OpRules product_rules();    // of matrices
OpRules attention_rules();
OpRules batched_rules();  // of torch.vmap
OpRules convolution_rules();
OpRules creation_rules();  // from numbers alone
OpRules symbol_rules();    // on symbolic numbers, and what only asserts

// An operand of arithmetic: a tensor, or a number, which is an array without dimensions.
struct Operand {
  Array array;
  bool is_number = false;  // no tensor: it does not decide the type within a kind
};

Operand operand(const CallArguments& call, std::string_view name);

// What PyTorch computes with: tensors with dimensions first, then those without, then numbers.
ElementType result_type(const Operand& a, const Operand& b);
// The same for ops that give real numbers for whole ones, too.
ElementType real_type(ElementType type);

// The elements of `array` stretched to `shape`. REQUIRES: broadcast(array.shape(), shape) == shape.
Array stretched(const Array& array, const Shape& shape);

}  // namespace arenite::convert
