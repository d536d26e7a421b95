// SPDX-License-Identifier: Apache-2.0
// arenite inspect: what is in a model file and what it needs, on any CPU.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include <filesystem>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/inspect_facts.h"
#include "convert/files/output_files.h"

namespace arenite::tool {
namespace {

struct Arguments {
  std::filesystem::path model;
  SizeOptions sizes;
  bool json = false;
  bool brief = false;
};

void run_inspect(const Arguments& arguments) {
  const convert::OutputGuard guard({});
  const VerifiedFile file(arguments.model);
  const ModelFacts facts = gather_facts(file, arguments.sizes);
  fmt::print("{}", arguments.json    ? facts_as_json(facts)
                   : arguments.brief ? facts_in_brief(facts)
                                     : facts_as_text(facts));
}

}  // namespace

void add_inspect(CLI::App& app) {
  const auto [command, arguments] = add_command(
      app, run_inspect, "inspect", "Show what a model file holds and how much memory it needs",
      "\nThe file is verified first, and a damaged one is refused. The CPU need not be able to "
      "run\n"
      "it. All numbers are for the sizes given; --json has the same numbers for programs, as one\n"
      "object:\n"
      "  file      path, bytes, metadata_bytes, format_version, producer\n"
      "  model     name, architecture, vocab_size, tokenizer (empty: none), token_types,\n"
      "            input_features, output_features, output_rows, labels, hidden_states,\n"
      "            positions_max (0: any), causal\n"
      "  sizes     positions, tokens, sequences, threads\n"
      "  ops[]     index, name, kind, reads_slots, writes_slot, multiply_adds_per_token,\n"
      "            multiply_adds_per_key, multiply_adds_per_pass, bytes_read_per_pass,\n"
      "            bytes_written_per_pass; and what its kind has: linear: tensor; attention:\n"
      "            heads, cache, mask; activation: function, parameter, gated; ...\n"
      "  slots[]   index, label, width, column, first_op, last_op\n"
      "  tensors[] index, name, outputs, inputs, packed_bytes {target: bytes}\n"
      "  masks[]   index, kind, description, positions (0: any), lookback, lookahead (null: all), "
      "bytes,\n"
      "            dense_bytes\n"
      "  caches[]  index, kv_heads, head_dim, value_dim, bytes {target: bytes}\n"
      "  targets[] name, packing, nr, mr, offset, bytes, crc32c, kernel_set, runs_here, chosen,\n"
      "            formula {activation_bytes_per_token, activation_bytes_per_output,\n"
      "            scratch_bytes_per_token, scratch_bytes_per_thread, nr, score_rows,\n"
      "            cache_groups[] {lookback (null: all), kv_type, bytes_per_panel,\n"
      "            bytes_per_page, scratch_bytes_per_thread}}, arena {session_bytes,\n"
      "            kv_cache_bytes, activation_bytes, scratch_bytes, total_bytes}\n"
      "\nExample:\n"
      "  arenite inspect attention.arn --positions 256 --tokens 1\n");
  command.add_option("model", arguments.model, "A model file")->required();
  CLI::Option* json = command.add_flag("--json", arguments.json, "Print JSON");
  command.add_flag("--brief", arguments.brief, "Print a few lines only")->excludes(json);
  add_size_options(command, arguments.sizes);
}

}  // namespace arenite::tool
