// SPDX-License-Identifier: Apache-2.0
// What torch.vmap leaves in a program: single numbers that stand for whole rows of them. Between
// its first and its last op the dimension of level n is the n-th from the back, so that numbers of
// several levels are stretched to each other as arrays are.
#include <algorithm>

#include "convert/exported/op_rules.h"

namespace arenite::convert {
namespace {

constexpr int64_t kLevelsMax = 8;

const Argument* argument(const CallArguments& call, size_t place) {
  const auto& arguments = call.call().arguments;
  return place < arguments.size() ? &arguments[place].value : nullptr;
}

int64_t level_argument(const CallArguments& call, size_t place) {
  const Argument* given = argument(call, place);
  if (given == nullptr || given->as<int64_t>() == nullptr) call.refuse("its numbers are missing");
  return *given->as<int64_t>();
}

const Array& tensor(const CallArguments& call) {
  const Argument* given = argument(call, 0);
  if (given == nullptr || given->as<Array>() == nullptr) call.refuse("its tensor is missing");
  return *given->as<Array>();
}

// _add_batch_dim(tensor, dim, level)
Results add_batch_dim(const CallArguments& call, OpBudget&) {
  const Array& self = tensor(call);
  const int64_t level = level_argument(call, 2);
  if (self.rank() != 1 || level_argument(call, 1) != 0 || level < 1 || level > kLevelsMax) {
    call.refuse("torch.vmap of more than single numbers is not understood");
  }
  Shape shape(static_cast<size_t>(level), 1);
  shape[0] = self.shape()[0];
  return {self.with_shape(shape)};
}

// _remove_batch_dim(tensor, level, size, out_dim): the last of them puts levels in their order.
Results remove_batch_dim(const CallArguments& call, OpBudget& budget) {
  const Array& self = tensor(call);
  const int64_t level = level_argument(call, 1), size = level_argument(call, 2);
  if (level < 1 || level > kLevelsMax || level_argument(call, 3) != 0) {
    call.refuse("torch.vmap of more than single numbers is not understood");
  }
  Shape shape = self.shape();
  while (shape.size() < static_cast<size_t>(level)) shape.insert(shape.begin(), 1);
  int64_t& extent = shape[shape.size() - static_cast<size_t>(level)];
  if (extent == 1) extent = size;  // another one is that of this length
  const Array all = stretched(self, shape);
  if (level > 1) return {all};
  Argument::List dims;
  for (size_t d = shape.size(); d-- > 0;) dims.emplace_back(static_cast<int64_t>(d));
  const OpCall turn = {"permute", "default", {}, {{"self", all}, {"dims", std::move(dims)}}, {}};
  return {apply_for_array(turn, budget)};
}

}  // namespace

OpRules batched_rules() {
  return {{"torch._functorch.predispatch._add_batch_dim", add_batch_dim},
          {"torch._functorch.predispatch._remove_batch_dim", remove_batch_dim}};
}

}  // namespace arenite::convert
