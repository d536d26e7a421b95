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

}  // namespace arenite::tool
