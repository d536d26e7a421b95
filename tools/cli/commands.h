// SPDX-License-Identifier: Apache-2.0
// The subcommands. Each add_ function declares its options and what to do when it is called.
#pragma once

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

// What they print with --json.
struct FactType;
FactType bench_facts();
FactType bundle_facts();
FactType classify_facts();
FactType convert_facts();
FactType embed_facts();
FactType embed_text_facts();
FactType generate_facts();
FactType inspect_facts();
FactType repack_facts();
FactType run_facts();
FactType strip_facts();
FactType verify_facts();

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
