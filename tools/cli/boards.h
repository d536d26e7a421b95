// SPDX-License-Identifier: Apache-2.0
// The boards that `arenite bundle` knows: compiler options, memory map, and a check that the models
// fit. For any other board there is `generic`, which leaves all of that to the user's build.
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
  uint32_t bytes;  // 0: unknown
};

struct Cpu {
  const char* compilers;  // prefix of the compilers' names
  const char* flags;
  uint32_t targets;  // bit set of the Targets that it runs
  const char* core;  // a core with measured rates, such as "Cortex-M7"; else empty
};

struct Board : Cpu {
  const char* name;
  const char* chip;
  Memory flash;
  Memory ram;
  bool own_script;   // the bundle, not the vendor's build, has start-up code and a linker script
  double clock_mhz;  // the highest rated clock; 0: unknown
};

std::span<const Board> boards();
// Throws an InputError that lists the boards if there is none of this name.
const Board& board_named(const std::string& name);

// The linker script reserves this for the stack. A call of the runtime takes at most half of it.
inline constexpr uint32_t kStackBytes = 8 << 10;
// Lower bound of the code size of the runtime and its kernels on any of these boards.
inline constexpr uint32_t kCodeBytesMin = 32 << 10;

// Returns a line each for flash and RAM: the models' bytes and the board's. Models share one arena.
std::string memory_text(const Board& board, std::span<const BundledModel> models);

// Throws InputError, with the packages to install, if the board's compilers are missing.
void require_compilers(const Board& board);
// Compiles the files of a bundle in a folder beside `output`. Adds the static library and the C
// headers to `files` where Arduino looks for them: in src/, with the library in the folder of its
// core. Throws InputError if the files do not compile. REQUIRES: require_compilers.
void add_archive(const Board& board, const std::filesystem::path& output,
                 std::vector<FolderFile>& files);

// Throws InputError if the models certainly do not fit or run. The message says what would fit.
void require_fitting(const Board& board, std::span<const BundledModel> models);

}  // namespace arenite::tool
