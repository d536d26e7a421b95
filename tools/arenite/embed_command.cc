// SPDX-License-Identifier: Apache-2.0
// arenite embed: a model file as a header of C++ or C, for devices without files.
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <optional>

#include "arenite/arguments.h"
#include "arenite/commands.h"
#include "arenite/embed_header.h"
#include "arenite/progress.h"
#include "convert/atomic_file.h"

namespace arenite::tool {
namespace {

struct Arguments {
  std::filesystem::path model;
  std::filesystem::path output;
  std::optional<std::string> name;
  std::string language = "c++";
  SizeOptions sizes;
};

void run_embed(const Arguments& arguments) {
  require_other_file(arguments.output, {arguments.model});
  const VerifiedFile file(arguments.model);
  if (arguments.name) check_identifier(*arguments.name);
  const std::string identifier =
      arguments.name ? *arguments.name : identifier_from(arguments.model.stem().string());
  Progress progress("embedding " + arguments.model.string());
  convert::AtomicFile header(arguments.output);
  const bool is_c = arguments.language == "c";
  const auto write_as = is_c ? write_c_header : write_header;
  write_as(file, identifier, arguments.sizes,
           [&](std::string_view text) { header.write(std::as_bytes(std::span(text))); });
  header.commit();
  progress.done();
  if (is_c) {
    fmt::print("{}: {}_words, {} bytes\n", arguments.output.string(), identifier,
               header.bytes_written());
    return;
  }
  fmt::print("{}: {}_model(), {}_arena_bytes(...), {} bytes\n", arguments.output.string(),
             identifier, identifier, header.bytes_written());
}

}  // namespace

void add_embed(CLI::App& app) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand(
      "embed", "Write a model file as a header of C++ or C, with the size of its arena");
  command->footer(
      "\nThe header needs C++20 and nothing else. With --name recall it declares\n"
      "  recall_model()                  the file, as std::span<const std::byte>\n"
      "  recall_arena_bytes(positions, tokens, sequences, threads)\n"
      "                                  what arenite::plan_arena says, as a constant expression;\n"
      "                                  with several targets in the file, the largest of them\n"
      "  recall_arm64_arena_bytes(...)   the same for one target of the file\n"
      "  recall_arena_bytes_max, recall_arm64_arena_bytes_max,\n"
      "  recall_positions_max, recall_tokens_max, recall_sequences_max, recall_threads\n"
      "                                  for the sizes given here\n"
      "\nWith --language c it needs C99, is for one source file, and defines\n"
      "  RECALL_MODEL, RECALL_MODEL_BYTES\n"
      "                                  the file\n"
      "  RECALL_ARENA_BYTES_MAX, RECALL_ARM64_ARENA_BYTES_MAX,\n"
      "  RECALL_POSITIONS_MAX, RECALL_TOKENS_MAX, RECALL_SEQUENCES_MAX, RECALL_THREADS\n"
      "                                  for the sizes given here\n"
      "\nExample:\n"
      "  arenite embed recall.arn -o recall.h --positions 32 --tokens 1\n");
  command->add_option("model", arguments->model, "A model file")->required();
  command->add_option("-o,--output", arguments->output, "The header to write")->required();
  command->add_option("--name", arguments->name,
                      "What the names in it begin with; the file's name");
  command->add_option("--language", arguments->language, "Of the header: c++ or c")
      ->check(CLI::IsMember({"c++", "c"}))
      ->capture_default_str();
  add_size_options(*command, arguments->sizes);
  command->callback([arguments] { run_embed(*arguments); });
}

}  // namespace arenite::tool
