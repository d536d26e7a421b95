// SPDX-License-Identifier: Apache-2.0
// The subcommands. Each add_ function declares its options and what to do when it is called.
#pragma once

#include "cli/facts.h"

namespace CLI {
class App;
}  // namespace CLI

namespace arenite::tool {

void add_bench(CLI::App& app);
void add_bundle(CLI::App& app);
void add_classify(CLI::App& app);
void add_convert(CLI::App& app);
void add_embed(CLI::App& app);
void add_embed_text(CLI::App& app);
void add_generate(CLI::App& app);
void add_help(CLI::App& app);
void add_inspect(CLI::App& app);
void add_repack(CLI::App& app);
void add_run(CLI::App& app);
void add_strip(CLI::App& app);
void add_verify(CLI::App& app);

// The schemas of what they print with --json.
Json bench_facts();
Json bundle_facts();
Json classify_facts();
Json convert_facts();
Json embed_facts();
Json embed_text_facts();
Json generate_facts();
Json inspect_facts();
Json repack_facts();
Json run_facts();
Json strip_facts();
Json verify_facts();

// --- The whole program but for what concerns the process: for main, and tests that call it ---

// Reads the arguments, calls the subcommand and flushes the standard output. Returns the exit code:
// 1 for bad input, 2 for bad usage, 3 for a bug of ours; a message was printed then.
int run_program(int argc, const char* const* argv);

// Prints a message and returns the exit code. Takes no memory: there may be none left.
int fail(int exit_code, const char* message, const char* detail = "") noexcept;

inline constexpr int kBadInput = 1;
inline constexpr int kBadUsage = 2;
inline constexpr int kBug = 3;

}  // namespace arenite::tool
