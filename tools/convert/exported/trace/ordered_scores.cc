// SPDX-License-Identifier: Apache-2.0
// Lowers ops on scores with permuted dimensions: runs the op on [.., queries, keys], then restores
// the permutation.
//
//   einsum("bqhd,bkhd->bqhk", q, k).softmax(-1)  ->  softmax over keys, dimensions still "bqhk"

#include <algorithm>
#include <iterator>

#include "convert/exported/recover/scores.h"
#include "convert/exported/trace/op_handlers.h"
#include "convert/exported/trace/tracer.h"

namespace arenite::convert {

namespace {

// Ops on single scores, and ops over keys.
constexpr std::string_view kOps[] = {"add", "sub",         "mul",   "div",     "neg",
                                     "to",  "masked_fill", "where", "softmax", "_softmax"};

// Permutes the dimensions of a constant to those of [.., queries, keys].
ConstantRef in_order(const ConstantRef& constant, const std::vector<size_t>& order) {
  if (constant->shape().empty()) return constant;
  const Shape shape = constant->shape(), strides = strides_of(shape);
  Movement movement{.shape = Shape(order.size(), 1)};
  movement.strides.assign(order.size(), 0);
  const size_t missing = order.size() - shape.size();
  for (size_t d = 0; d < shape.size(); ++d) {
    movement.shape[order[missing + d]] = shape[d];
    movement.strides[order[missing + d]] = strides[d];
  }
  movement.walk = movement.shape;
  return moved(movement, constant);
}

}  // namespace

std::optional<TracedValue> ordered_score_op(Tracer& tracer, const Call& call) {
  std::vector<size_t> order;
  for (const TracedValue& input : values_of(call)) {
    if (const ScoresRef& scores = input.as<ScoresRef>(); scores && order.empty()) {
      order = scores->order;
    }
  }
  // The parts of an einsum are ops of their own.
  if (order.empty() || call.op == "einsum") return std::nullopt;
  refuse_op_if(std::ranges::find(kOps, call.op) == std::end(kOps), kMovesScores);
  Call turned = bind<TracedRef>(call, [&](const TracedRef& ref) -> Argument {
    const ScoresRef& scores = ref->as<ScoresRef>();
    const ConstantRef& constant = ref->as<ConstantRef>();
    refuse_op_if(
        scores ? scores->order != order : !constant || constant->shape().size() > order.size(),
        kMovesScores);
    if (scores) return traced({in_order(*scores), ref->type});
    return traced({in_order(constant, order), ref->type});
  });
  for (NamedArgument& argument : turned.arguments) {
    if (argument.name == "dim") {
      argument.value = static_cast<int64_t>(order[call.dimension("dim", -1, order.size())]);
    }
  }
  const TracedValue made = tracer.trace(turned).at(0);
  const ScoresRef& scores = made.as<ScoresRef>();
  refuse_op_if(!scores, kMovesScores);
  return with_order(*scores, order);
}

}  // namespace arenite::convert
