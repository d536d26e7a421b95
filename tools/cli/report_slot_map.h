// SPDX-License-Identifier: Apache-2.0
// The map of an arena's activations: slots as rectangles over the ops that need them.
#pragma once

#include <cstdint>
#include <string>

#include "cli/inspect_facts.h"
#include "cli/report_plots.h"

namespace arenite::tool {

// What a map shows: the slots of one area, over the ops [first_op, end_op).
struct SlotMap {
  const ModelFacts& model;
  bool per_output = false;  // the area of the rows that are given out, or that of the tokens
  uint32_t first_op = 0;
  uint32_t end_op = 0;

  uint64_t columns() const;       // floats a row of the area; 0: there is nothing to draw
  bool has_op_names() const;      // few enough ops for that
  uint32_t ops_left_out() const;  // in the middle of a very long program
};

// Ops go from left to right, the area's columns from top to bottom.
std::string draw_slot_map(const SlotMap& map, const DrawingText& text);

// Whether a slot holds what a call is given, and not what an op makes.
bool is_input(const ModelFacts& model, size_t slot);

// The class of the palette for a slot: that of the kind of op that fills it.
std::string slot_color(const ModelFacts& model, size_t slot);

}  // namespace arenite::tool
