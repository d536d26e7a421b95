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

}  // namespace arenite::tool
