// SPDX-License-Identifier: Apache-2.0
#include "format/op_table.h"

namespace arenite::format {

const OpRow& row_of(OpKind kind) { return kOps[static_cast<uint32_t>(kind)]; }

Access access_of(const OpView& op, uint32_t operand) {
  const OpRow& row = row_of(op.kind);
  const bool in_place =
      row.operands[kOutput].access == Access::kUpdate && op.views[kInput] == op.views[kOutput];
  const bool counts_as_output = in_place && operand == kInput;
  if (op.views[operand].width == 0 || counts_as_output) return Access::kNone;
  const Access access = row.operands[operand].access;
  return access == Access::kUpdate && !in_place ? Access::kWrite : access;
}

uint32_t number_of(const OpView& op, NumberType type) {
  for (uint32_t i = 0; i < kOpNumbers; ++i) {
    if (row_of(op.kind).numbers[i].type == type) return op.numbers[i];
  }
  return kAbsent;
}

}  // namespace arenite::format
