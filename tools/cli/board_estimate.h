// SPDX-License-Identifier: Apache-2.0
// What a call takes of a board: instructions, by rates that were measured in QEMU; and, as coarse
// estimates, time and energy.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/boards.h"
#include "cli/model_cost.h"

namespace arenite::tool {

// What is known of a CPU, beside its rates.
struct CoreRow {
  const char* name;
  // Cycles an instruction, estimated from what ARM publishes: M4's TRM counts a cycle for most and
  // two for loads, about 1.3; the others do more CoreMark a MHz (3.42, 5.01, 4.02 and 4.40).
  // M0+ and M3 (2.46 and 3.34) take two cycles for loads and for branches that are taken. Vectors
  // of the M55 take two cycles, which partly overlap. No memory that waits is in this.
  double cycles;
  double vector_cycles;  // with kernels for vectors
  // Without an FPU, what our models take on rows of integers: examples/boards/README.md has more.
  const char* integer_rows = nullptr;
};

struct CallEstimate {
  std::string name;
  CallSize size;
  uint64_t instructions = 0;
  double milliseconds = 0.0;
  std::string energy_class;  // empty: nothing is known of the board
};

struct BoardEstimate {
  const Board* board = nullptr;
  const CoreRow* core = nullptr;
  Target target = Target::kPortable;
  double clock_mhz = 0.0;
  double cycles = 0.0;  // an instruction
  std::vector<CallEstimate> calls;
};

// What each class is, for people.
inline constexpr const char* kEnergyClasses =
    "A below 0.01 mJ a call, B below 0.1, C below 1, D below 10, E from there on";

// Instructions of one call of a function, for one of the file's targets. Numbers are finite, there
// is one sequence and one thread, and the call is not cut into slices. REQUIRES: there are rates.
double call_instructions(const format::ModelReader& model, uint32_t packed_index, uint32_t function,
                         const Feed& feed, TensorType kv_type, const char* core);

// The target of a file that a board takes, and its core's row; without calls. Throws InputError
// where there are no measured rates, or none of the targets runs there. clock_mhz 0: the board's.
BoardEstimate estimate_for(const format::ModelReader& model, const std::string& board,
                           double clock_mhz);

// Adds a call.
void add_call(const format::ModelReader& model, uint32_t function, const Feed& feed,
              TensorType kv_type, const std::string& name, const CallSize& size,
              BoardEstimate& estimate);

}  // namespace arenite::tool
