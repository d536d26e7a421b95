// SPDX-License-Identifier: Apache-2.0
// The subcommands. Each add_ function declares a subcommand, its options and its callback.
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
void add_tokenize(CLI::App& app);
void add_transcribe(CLI::App& app);
void add_verify(CLI::App& app);

// The schemas of the commands' --json output.
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
Json tokenize_facts();
Json transcribe_facts();
Json verify_facts();

// --- The whole program except for its process setup: for main and for tests that call it ---

// Parses the arguments, runs the subcommand and flushes the standard output. Returns the exit code:
// 0, or after an error message 1 for bad input, 2 for bad usage and 3 for a bug in this program.
int run_program(int argc, const char* const* argv);

// Prints a message and returns `exit_code`. Allocates no memory, because there may be none left.
int fail(int exit_code, const char* message, const char* detail = "") noexcept;

inline constexpr int kBadInput = 1;
inline constexpr int kBadUsage = 2;
inline constexpr int kBug = 3;

}  // namespace arenite::tool
