// SPDX-License-Identifier: Apache-2.0
// arenite inspect: shows the contents of a model file and its memory needs, on any CPU.

#include "cli/arguments.h"
#include "cli/inspect_facts.h"
#include "cli/process.h"
#include "cli/report_facts.h"

namespace arenite::tool {
namespace {

struct InspectArguments {
  std::filesystem::path model;
  SizeOptions sizes;
  bool json = false;
  bool brief = false;
  std::filesystem::path report;
  std::optional<std::string> board;
  double clock_mhz = 0.0;
};

// Writes --report. It says more than text can, so the text printed beside it is brief.
void write_report(const ReportFacts& facts, const InspectArguments& arguments) {
  const std::string text = render_report(facts, arguments.report);
  convert::AtomicFile output(arguments.report);
  output.write(std::as_bytes(std::span(text)));
  output.commit();
  if (arguments.json) return print_document(facts_of(facts.model));
  print_string(facts_in_brief(facts.model));
  print_output("  {:<13} {}, {} bytes\n", "report",
               convert::printable(arguments.report.string(), 80), grouped(output.bytes_written()));
}

void run_inspect(const InspectArguments& arguments) {
  const convert::OutputGuard guard({{"--report", arguments.report}});
  const VerifiedFile file(arguments.model);
  ModelFacts facts = gather_facts(file, arguments.sizes);
  if (arguments.board) add_board(*arguments.board, arguments.clock_mhz, facts);
  if (!arguments.report.empty()) return write_report(gather_report(std::move(facts)), arguments);
  if (arguments.json) return print_document(facts_of(facts));
  print_string(arguments.brief ? facts_in_brief(facts) : facts_as_text(facts));
}

}  // namespace

void add_inspect(CLI::App& app) {
  const auto [command, arguments] = add_command(
      app, run_inspect, "inspect", "Show what a model file holds and how much memory it needs",
      "\nThe file is verified first, and a damaged one is refused. The CPU need not be able to "
      "run it. All numbers are for the sizes given; 'arenite help json inspect' names the keys of "
      "--json, and of --report FILE.json, which has more.\n"
      "\n--board estimates what a call takes of a Cortex-M: instructions by rates that were "
      "measured in QEMU, within 10 % of what it counts; from them milliseconds, by cycles an "
      "instruction that are estimated from ARM's public figures, without memory that waits.\n"
      "\nExamples:\n"
      "  arenite inspect attention.arn --positions 256 --tokens 1\n"
      "  arenite inspect intent.arn --report intent.html\n"
      "  arenite inspect vibration.arn --brief --board nucleo-h743 --clock 400\n");
  add_model(command, arguments.model);
  CLI::Option* json = add_json_option(command, arguments.json);
  command.add_flag("--brief", arguments.brief, "Print a few lines only")->excludes(json);
  add_report_option(command, arguments.report);
  CLI::Option* const board =
      command
          .add_option("--board", arguments.board,
                      "Estimate what a call takes there: one of bundle's boards")
          ->type_name("NAME");
  add_real(command, "--clock", arguments.clock_mhz, "Clock of the board; its fastest by default",
           0.0, true, 10'000.0)
      ->type_name("MHZ")
      ->needs(board);
  add_size_options(command, arguments.sizes);
}

}  // namespace arenite::tool
