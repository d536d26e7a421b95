// SPDX-License-Identifier: Apache-2.0
// The whole program but for what concerns the process: for main, and for tests that call it.
#pragma once

namespace arenite::tool {

// Reads the arguments, calls the subcommand and flushes the standard output. Returns the exit code:
// 1 for bad input, 2 for bad usage, 3 for a bug of ours; a message was printed then.
int run_program(int argc, const char* const* argv);

// Prints a message and returns the exit code. Takes no memory: there may be none left.
int fail(int exit_code, const char* message, const char* detail = "") noexcept;

inline constexpr int kBadInput = 1;
inline constexpr int kBadUsage = 2;
inline constexpr int kBug = 3;

}  // namespace arenite::tool
