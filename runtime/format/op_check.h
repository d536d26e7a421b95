// SPDX-License-Identifier: Apache-2.0
// An op as the verifier looks at it, and what ops of several kinds are checked for.
#pragma once

#include "arenite/checked_math.h"
#include "format/verify_parts.h"

namespace arenite::format {

// What each check needs to know.
struct OpCheck {
  const ModelReader& model;
  uint32_t index;  // of the op
  bool causal;     // the model
  const Refusal& refuse;
  const OpView& op;
  const OpRow& row;

  Message field(Operand operand) const { return row.operands[operand].field; }
  Message number_field(uint32_t number) const { return row.numbers[number].field; }

  bool width(Operand operand, Checked expected) const {
    const uint32_t found = op.views[operand].width;
    if (found != 0 && found == expected.saturated()) return true;
    return refuse("the columns have another width than the op needs", field(operand), index, found,
                  expected.saturated());
  }

  // A number of parts that an operand is made of.
  bool divides(uint32_t number, Operand operand) const {
    const uint32_t parts = op.numbers[number];
    const uint32_t columns = op.views[operand].width;
    if (parts != 0 && columns % parts == 0) return true;
    return refuse("the parts do not divide the columns", number_field(number), index, parts,
                  columns);
  }

  // REQUIRES: not absent, and verify_numbers.
  const TensorShape& tensor(uint32_t number) const { return model.tensor(op.numbers[number]); }

  bool has(uint32_t number) const { return op.numbers[number] != kAbsent; }

  // A tensor of one row, as wide as `width`.
  bool vector(uint32_t number, uint32_t width) const {
    if (has(number) && tensor(number).outputs == 1 && tensor(number).inputs == width) return true;
    return refuse("a vector has another length than the op needs", number_field(number), index,
                  has(number) ? tensor(number).inputs : 0, width);
  }

  // A table [positions, width] that reaches as far as the model's sequences do.
  bool positions(uint32_t number, uint32_t offset, uint32_t width) const {
    const TensorShape& table = tensor(number);
    const uint32_t positions = model.rows_max();
    const Checked needed = Checked(positions) + offset;
    if (positions == 0 || table.outputs < needed.saturated()) {
      return refuse("a table of positions is shorter than the context", number_field(number), index,
                    table.outputs, needed.saturated());
    }
    if (table.inputs == width) return true;
    return refuse("a table of positions has another width than the op needs", number_field(number),
                  index, table.inputs, width);
  }
};

bool verify_attention(const OpCheck& check);

}  // namespace arenite::format
