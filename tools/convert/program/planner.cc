// SPDX-License-Identifier: Apache-2.0
// Greedy placement by width, in a step for each pair of slots.
#include "convert/program/program.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>

namespace arenite::convert {
namespace {

using format::SlotView;

// REQUIRES: there are ops.
void find_lifetimes(Program& program) {
  const uint32_t last_op = static_cast<uint32_t>(program.ops.size()) - 1;
  for (SlotView& slot : program.slots) {
    slot.first_op = last_op;
    slot.last_op = 0;
  }
  for (uint32_t i = 0; i <= last_op; ++i) {
    for (const format::ColumnView& view : program.ops[i].body.views) {
      if (view.width == 0) continue;
      SlotView& slot = program.slots[view.slot];
      slot.first_op = std::min(slot.first_op, i);
      slot.last_op = std::max(slot.last_op, i);
    }
  }
  if (program.vocab_size == 0) program.slots[program.input_slot].first_op = 0;
  program.slots[program.output_slot].last_op = last_op;
}

// Rows of tokens and rows of outputs have an area each.
bool alive_together(const SlotView& a, const SlotView& b) {
  return a.per_output == b.per_output && a.first_op <= b.last_op && b.first_op <= a.last_op;
}

bool overlap(const SlotView& a, const SlotView& b) {
  return a.offset < b.offset + b.width && b.offset < a.offset + a.width;
}

}  // namespace

void place_slots(Program& program) {
  if (program.ops.empty()) return;
  find_lifetimes(program);
  std::vector<size_t> order(program.slots.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return program.slots[a].width > program.slots[b].width;
  });
  std::vector<SlotView> placed;
  for (const size_t index : order) {
    SlotView& slot = program.slots[index];
    slot.offset = 0;
    // In the order of their offsets, so that what was passed is never in the way again.
    for (const SlotView& other : placed) {
      if (alive_together(slot, other) && overlap(slot, other)) {
        slot.offset = other.offset + other.width;
      }
    }
    placed.insert(std::ranges::upper_bound(placed, slot.offset, {}, &SlotView::offset), slot);
  }
  for (size_t a = 0; a < placed.size(); ++a) {
    for (size_t b = 0; b < a; ++b) {
      if (alive_together(placed[a], placed[b]) && overlap(placed[a], placed[b])) {
        throw std::logic_error("the planner let two slots overlap: this is a bug");
      }
    }
  }
}

}  // namespace arenite::convert
