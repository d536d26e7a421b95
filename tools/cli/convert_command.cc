// SPDX-License-Identifier: Apache-2.0
// arenite convert: from a checkpoint to a model file, and what it made.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <span>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/convert_options.h"
#include "cli/convert_report.h"
#include "cli/process.h"
#include "cli/report.h"
#include "cli/report_facts.h"
#include "convert/check/pack_model.h"
#include "convert/convert.h"
#include "convert/files/error.h"
#include "convert/files/output_files.h"
#include "convert/files/progress.h"
#include "convert/graph/graph.h"

namespace arenite::tool {
namespace {

constexpr size_t kWriteBytes = 16 << 20;  // between two looks at the progress

// Compares, writes and reports. A conversion that is not what its author expects leaves no file.
void finish(convert::Conversion& conversion, const ConvertArguments& arguments,
            Progress& progress) {
  std::vector<convert::AuthorCheck> expect;
  const convert::AlignedBytes* const in_float32 =
      conversion.quantization ? &conversion.quantization->reference : nullptr;
  for (const convert::AuthorFiles& files : author_files(arguments)) {
    expect.push_back(convert::check_against_author(conversion, files, arguments.checkpoint.string(),
                                                   in_float32));
  }
  if (arguments.explain) {
    progress.done();
    fmt::print("as recognised\n{}\n", convert::print_graph(conversion.graph));
    fmt::print("after the passes\n{}\n", convert::print_graph(conversion.rewritten));
  }
  if (arguments.no_self_test) convert::strip_self_test(conversion.file);
  const ConversionFacts found =
      conversion_facts(conversion, convert::quote(arguments.checkpoint.string()),
                       describe_weights(arguments), arguments.limits);
  require_limits(found);
  const VerifiedFile verified(arguments.output.string(), conversion.file.span());
  const ReportFacts facts = gather_report(verified, resolve_sizes(verified, {}), found);
  convert::AtomicFile file(arguments.output);
  const std::span<const std::byte> bytes = conversion.file.span();
  for (size_t begin = 0; begin < bytes.size(); begin += kWriteBytes) {
    progress.at("writing", static_cast<double>(begin) / static_cast<double>(bytes.size()));
    file.write(bytes.subspan(begin, std::min(kWriteBytes, bytes.size() - begin)));
  }
  std::optional<convert::AtomicFile> page;
  if (!arguments.report.empty()) {
    const std::string report = render_report(facts, arguments.report);
    page.emplace(arguments.report).write(std::as_bytes(std::span(report)));
  }
  convert::AtomicFile* const files[] = {&file, page ? &*page : nullptr};
  convert::commit_together(files);
  progress.done();
  const WrittenFile written = {arguments.output, expect};
  if (arguments.json) {
    fmt::print("{}", conversion_as_json(conversion, written, facts));
  } else {
    print_conversion(conversion, written, facts);
  }
}

void run_convert(const ConvertArguments& arguments) {
  const convert::OutputGuard guard(
      {{"--output", arguments.output}, {"--report", arguments.report}});
  const std::filesystem::path& checkpoint = arguments.checkpoint;
  require_no_part_of(checkpoint, arguments.output);
  for (const auto& [input, outputs] : arguments.expect) {
    convert::note_read(input);
    convert::note_read(outputs);
  }
  const std::string name =
      arguments.name.empty() ? arguments.output.stem().string() : arguments.name;
  const std::vector<Target> targets = convert::parse_targets(arguments.targets);
  Progress progress("converting " + checkpoint.string());
  convert::Conversion conversion;
  on_known_stack([&] {
    const convert::ProgressListener listener(
        [&](const std::string& stage, double share) { progress.at(stage, share); });
    conversion = convert::convert_model(checkpoint, name, convert_options(arguments), targets);
  });
  if (conversion.module() != nullptr) refuse_model_options(arguments);
  finish(conversion, arguments, progress);
}

constexpr const char* kFooter =
    "\nExamples:\n"
    "  arenite convert model.pt2 -o model.arn\n"
    "  arenite convert models/home-intent -o intent.arn\n"
    "  arenite convert attention.safetensors -o attention.arn --heads 12\n";

}  // namespace

void add_convert(CLI::App& app) {
  const auto [command, arguments] = add_command(
      app, run_convert, "convert",
      "Convert a decoder, an encoder or one attention module into a model file", kFooter);
  command.set_help_all_flag("--help-all", "The same with the options that are named below");
  add_convert_options(command, arguments);
  add_limit_options(command, arguments.limits);
  add_report_option(command, arguments.report);
}

}  // namespace arenite::tool
