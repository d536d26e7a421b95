// SPDX-License-Identifier: Apache-2.0
// arenite inspect: what is in a model file and what it needs, on any CPU.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include <filesystem>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/inspect_facts.h"
#include "cli/report.h"
#include "cli/text_table.h"
#include "convert/files/error.h"
#include "convert/files/output_files.h"

namespace arenite::tool {
namespace {

struct Arguments {
  std::filesystem::path model;
  SizeOptions sizes;
  bool json = false;
  bool brief = false;
  std::filesystem::path report;
};

void print_facts(const ModelFacts& facts, const Arguments& arguments) {
  fmt::print("{}", arguments.json    ? facts_as_json(facts)
                   : arguments.brief ? facts_in_brief(facts)
                                     : facts_as_text(facts));
}

// The page says more than text can: what is printed beside it is brief.
void write_report(const VerifiedFile& file, const Arguments& arguments) {
  const ReportFacts facts = gather_report(file, arguments.sizes);
  const std::string report = render_report(facts, arguments.report);
  convert::AtomicFile output(arguments.report);
  output.write(std::as_bytes(std::span(report)));
  output.commit();
  if (arguments.json) {
    fmt::print("{}", facts_as_json(facts.model));
  } else {
    fmt::print("{}  {:<13} {}, {} bytes\n", facts_in_brief(facts.model), "report",
               convert::printable(arguments.report.string(), 80), grouped(report.size()));
  }
}

void run_inspect(const Arguments& arguments) {
  const convert::OutputGuard guard({{"--report", arguments.report}});
  const VerifiedFile file(arguments.model);
  if (arguments.report.empty()) {
    print_facts(gather_facts(file, arguments.sizes), arguments);
  } else {
    write_report(file, arguments);
  }
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
      "            positions_max (0: any), causal, kv_cache\n"
      "  sizes     positions, tokens, sequences, threads, kv_cache\n"
      "  ops[]     index, name, kind, reads_slots, writes_slot, multiply_adds_per_token,\n"
      "            multiply_adds_per_key, multiply_adds_per_pass, bytes_read_per_pass,\n"
      "            bytes_written_per_pass; and what its kind has: linear: tensor; attention:\n"
      "            heads, cache, mask, terms, terms_by, score_cap; activation: function, "
      "parameter, gated; ...\n"
      "  slots[]   index, label, width, column, first_op, last_op\n"
      "  tensors[] index, name, outputs, inputs, packed_bytes {target: bytes}\n"
      "  masks[]   index, kind, description, positions (0: any), lookback, lookahead (null: all), "
      "bytes,\n"
      "            dense_bytes\n"
      "  caches[]  index, kv_heads, head_dim, value_dim, bytes {target: bytes}\n"
      "  targets[] name, cpus, packings {f32, w8, q8, q4: {nr, kr, mr}}, offset, bytes, crc32c,\n"
      "            kernel_set, runs_here, chosen,\n"
      "            formula {activation_bytes_per_token, activation_bytes_per_output,\n"
      "            scratch_bytes_per_token, scratch_bytes_per_thread, nr, score_rows,\n"
      "            cache_groups[] {lookback (null: all), f32, int8 {per_panel, per_page}}},\n"
      "            arena {session_bytes,\n"
      "            kv_cache_bytes, activation_bytes, scratch_bytes, total_bytes}\n"
      "\n--report writes a page with plots, in one file. As .json it has all of the above, and in\n"
      "report what the page shows:\n"
      "  parameters; file_parts[] name, bytes; types[], layers[], parts[] name, tensors, numbers,\n"
      "  bytes, bytes_by_type; decode_bytes {target: first_token, last_position}; kernels[]\n"
      "  target, type, layout, kernel, tensors, bytes; tensors[] tensor, type, layer, part,\n"
      "  read_by (ops), bytes {target: bytes}, kernels {target: kernel}; distributions[] tensor,\n"
      "  numbers, sampled, not_finite, mean, standard_deviation, least, most, limit,\n"
      "  beyond_limit, counts (bins from -limit to limit); masks[] positions, visible_pairs, ops,\n"
      "  rows (# visible, + in part, . hidden); conversion (null: unknown)\n"
      "\nExamples:\n"
      "  arenite inspect attention.arn --positions 256 --tokens 1\n"
      "  arenite inspect intent.arn --report intent.html\n");
  command.add_option("model", arguments.model, "A model file")->required();
  CLI::Option* json = command.add_flag("--json", arguments.json, "Print JSON");
  command.add_flag("--brief", arguments.brief, "Print a few lines only")->excludes(json);
  add_report_option(command, arguments.report);
  add_size_options(command, arguments.sizes);
}

}  // namespace arenite::tool
