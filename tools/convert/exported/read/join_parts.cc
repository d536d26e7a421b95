// SPDX-License-Identifier: Apache-2.0
#include "convert/exported/read/join_parts.h"

#include <cstdint>
#include <limits>
#include <map>

namespace arenite::convert {
namespace {

// Matches a softmax that returns 0 if all scores are -infinity: where(all(scores == -inf), 0,
// softmax(scores)).
void join_safe_softmax(Call& node, const auto& read) {
  const Call* const weights = read(&node, "other", "_softmax", "softmax");
  const Call* const zeros = read(&node, "self", "full_like", "zeros_like");
  const Call* rows = read(&node, "condition", "logical_not", "all");
  const bool is_all = rows != nullptr && rows->op == "all";
  if (!is_all) rows = read(rows, "self", "any");
  const Call* hidden = is_all ? rows : read(rows, "self", "logical_not");
  hidden = read(hidden, "self", "eq");
  if (weights == nullptr || zeros == nullptr || hidden == nullptr) return;
  const ValueRef* const scores = weights->argument("self").as<ValueRef>();
  const ValueRef* const compared = hidden->argument("self").as<ValueRef>();
  const bool is_of_scores = scores != nullptr && compared != nullptr &&
                            scores->value == compared->value && hidden->overload == "Scalar" &&
                            hidden->real("other") == -std::numeric_limits<double>::infinity() &&
                            rows->has("dim") && rows->integer("dim") == weights->integer("dim") &&
                            rows->flag("keepdim", false) && zeros->real("fill_value", 0.0) == 0.0;
  if (!is_of_scores) return;
  node.arguments = {{"self", *scores}, {"dim", weights->integer("dim")}};
  node.op = "_safe_softmax";
  node.overload = "default";
}

// Matches a product of batched rows with a single matrix: bmm(rows, view(expand(matrix))).
void join_product(const ExportedProgram& program, Call& node, const auto& read) {
  const auto sizes = [&](const Call& call) { return program.values[call.outputs[0]].sizes; };
  const Call* viewed = read(&node, "mat2", "view", "expand");
  const bool is_view = viewed != nullptr && viewed->op == "view";
  const Call* const expanded = is_view ? read(viewed, "self", "expand") : viewed;
  const Argument* const self = expanded == nullptr ? nullptr : expanded->find("self");
  const ValueRef* const matrix = self == nullptr ? nullptr : self->as<ValueRef>();
  if (matrix == nullptr || program.values[matrix->value].sizes.size() != 2 ||
      sizes(*viewed) != sizes(*expanded)) {
    return;
  }
  node.arguments = {{"self", node.argument("self")}, {"other", *matrix}};
  node.op = "matmul";
}

}  // namespace

void join_parts(ExportedProgram& program) {
  std::map<uint32_t, Call*> givers;
  const auto read = [&](const Call* call, const char* name, auto... ops) -> Call* {
    const Argument* argument = call == nullptr ? nullptr : call->find(name);
    const ValueRef* ref = argument == nullptr ? nullptr : argument->as<ValueRef>();
    const auto found = ref == nullptr ? givers.end() : givers.find(ref->value);
    return found != givers.end() && is_one_of(found->second->op, {ops...}) ? found->second
                                                                           : nullptr;
  };
  for (Call& node : program.nodes) {
    for (const uint32_t value : node.outputs) givers[value] = &node;
    if (node.op == "where") join_safe_softmax(node, read);
    if (node.op == "bmm") join_product(program, node, read);
  }
}

}  // namespace arenite::convert
