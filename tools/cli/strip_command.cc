// SPDX-License-Identifier: Apache-2.0
// arenite strip: a model file without its self-test, for devices that are short of flash.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/model_file.h"
#include "convert/files/output_files.h"
#include "convert/program/self_test.h"

namespace arenite::tool {
namespace {

struct Arguments {
  std::filesystem::path model;
  std::filesystem::path output;
};

void run_strip(const Arguments& arguments) {
  const convert::OutputGuard guard({{"--output", arguments.output}});
  const VerifiedFile file(arguments.model);
  convert::AlignedBytes stripped(file.bytes().size());
  std::ranges::copy(file.bytes(), stripped.data());
  convert::strip_self_test(stripped);
  convert::AtomicFile output(arguments.output);
  output.write(stripped.span());
  output.commit();
  const uint64_t removed = file.bytes().size() - output.bytes_written();
  fmt::print("{}: {} bytes, ", arguments.output.string(), output.bytes_written());
  if (removed == 0) {
    fmt::print("as before: there was no self-test\n");
  } else {
    fmt::print("{} less without the self-test\n", removed);
  }
}

}  // namespace

void add_strip(CLI::App& app) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command =
      app.add_subcommand("strip", "Write a model file without its self-test, to save flash");
  command->footer(
      "\nWeights, masks and tokenizer stay as they are. Session::self_test and arenite verify "
      "then\n"
      "have nothing to compare with: run them before.\n"
      "\nExample:\n"
      "  arenite strip recall.arn -o recall-flash.arn\n");
  command->add_option("model", arguments->model, "A model file")->required();
  command->add_option("-o,--output", arguments->output, "The model file to write")->required();
  command->callback([arguments] { run_strip(*arguments); });
}

}  // namespace arenite::tool
