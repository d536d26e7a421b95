// SPDX-License-Identifier: Apache-2.0
// Boards that `arenite bundle` knows: how to compile for them, where their memory is, and whether a
// model fits. A board of your own is `generic`, which leaves all of that to its build.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "cli/bundle.h"

namespace arenite::tool {

struct Memory {
  uint32_t at;
  uint32_t bytes;  // 0: not known
};

struct Cpu {
  const char* compilers;  // what the names of the compilers begin with
  const char* flags;
  uint32_t targets;  // bit set of Target, those that it runs
  const char* core;  // one with measured rates, such as "Cortex-M7"; else empty
};

struct Board : Cpu {
  const char* name;
  const char* chip;
  Memory flash;
  Memory ram;
  bool own_script;  // the bundle has start-up code and a linker script, else the vendor's build has
  double clock_mhz;           // the fastest that it is sold for; 0: not known
  double microwatts_per_mhz;  // a coarse figure for a CPU that runs from flash; 0: not known
};

std::span<const Board> boards();
// Throws InputError that lists them.
const Board& board_named(const std::string& name);

// What the linker script keeps for the stack: a call of the runtime takes at most half of it.
inline constexpr uint32_t kStackBytes = 8 << 10;
// The least that code of the runtime and its kernels takes on any of these boards.
inline constexpr uint32_t kCodeBytesMin = 32 << 10;

// Flash and RAM of the models beside what the board has, a line each. Models share one arena.
std::string memory_text(const Board& board, std::span<const BundledModel> models);

// Throws InputError, with the packages that have them, where the board's compilers are not there.
void require_compilers(const Board& board);
// Compiles the files of a bundle beside `output`, and adds the archive and the headers of C to
// them, where Arduino looks for them: in src/, with the archive in the folder of its core. Throws
// InputError if they do not compile. REQUIRES: require_compilers.
void add_archive(const Board& board, const std::filesystem::path& output,
                 std::vector<FolderFile>& files);

// Throws InputError where the models are certain not to fit or not to run, with the numbers and
// with what would.
void require_fitting(const Board& board, std::span<const BundledModel> models);

}  // namespace arenite::tool
