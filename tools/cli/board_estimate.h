// SPDX-License-Identifier: Apache-2.0
// Estimates what a call costs on a board: instructions, by rates measured in QEMU, and from these
// a coarse figure for time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/boards.h"
#include "cli/model_cost.h"

namespace arenite::tool {

// Facts about a CPU besides its instruction rates.
struct CoreRow {
  const char* name;
  // Cycles per instruction, estimated from ARM's publications. The M4's TRM gives one cycle for
  // most instructions and two for loads: about 1.3. The others are scaled by CoreMark per MHz (M4
  // 3.42; M7 5.01, M33 4.02, M55 4.40). M0+ and M3 (2.46 and 3.34) take two cycles for loads and
  // for taken branches. Vector instructions of the M55 take two cycles, which partly overlap. Wait
  // states of memory are not included.
  double cycles;
  double vector_cycles;  // with vector kernels
  // For CPUs without an FPU: what the project's models cost with integer rows, in words for people;
  // examples/boards/README.md has more.
  const char* integer_rows = nullptr;
};

struct CallEstimate {
  std::string name;
  CallSize size;
  uint64_t instructions = 0;
  double milliseconds = 0.0;
};

struct BoardEstimate {
  const Board* board = nullptr;
  const CoreRow* core = nullptr;
  Target target = Target::kPortable;
  double clock_mhz = 0.0;
  double cycles = 0.0;  // per instruction
  std::vector<CallEstimate> calls;
};

// Returns the instructions of a whole call of a function for target `packed_index`, with a single
// sequence and thread and finite values. REQUIRES: `core` has measured rates.
double call_instructions(const format::ModelReader& model, uint32_t packed_index, uint32_t function,
                         const Feed& feed, TensorType kv_type, const char* core);

// Picks the file's target for the board and the row of its core, without calls. clock_mhz 0: the
// board's. Throws InputError without measured rates, or if none of the targets runs there.
BoardEstimate estimate_for(const format::ModelReader& model, const std::string& board,
                           double clock_mhz);

// Estimates one call and adds it to `estimate`.
void add_call(const format::ModelReader& model, uint32_t function, const Feed& feed,
              TensorType kv_type, const std::string& name, const CallSize& size,
              BoardEstimate& estimate);

}  // namespace arenite::tool
