// SPDX-License-Identifier: Apache-2.0
// arenite embed: a model file as a header of C++ or C, with the bytes in it or in a file for the
// linker.
#include <fmt/format.h>

#include <filesystem>
#include <optional>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/embed_data.h"
#include "cli/embed_header.h"
#include "cli/facts.h"
#include "cli/process.h"
#include "convert/files/error.h"
#include "convert/files/output_files.h"

namespace arenite::tool {
namespace {

struct EmbedArguments {
  std::filesystem::path model;
  std::filesystem::path output;
  std::optional<std::string> name;
  std::string language = "c++";
  std::filesystem::path data;  // empty: the bytes are in the header
  std::string abi;
  std::optional<std::string> section;
  SizeOptions sizes;
  bool json = false;
};

std::vector<std::string> languages() { return {"c++", "c"}; }

struct DataFacts {
  std::filesystem::path path;
  std::string symbol, section;
  uint64_t bytes = 0;
};

struct EmbedFacts {
  std::string name;
  OneOf<languages> language;
  WrittenPath header;
  std::optional<DataFacts> data{};
};

// The bytes, in a file of their own for the linker.
void write_data(const EmbedArguments& arguments, const VerifiedFile& file, const EmbeddedData& data,
                convert::AtomicFile& output) {
  const WriteBytes write = [&](std::span<const std::byte> bytes) { output.write(bytes); };
  if (arguments.abi.empty()) {
    write_assembler(arguments.model, file.bytes().size(), data, write);
  } else {
    write_object(file.bytes(), abi_named(arguments.abi), data, write);
  }
}

void check_data_options(const EmbedArguments& arguments) {
  if (!arguments.abi.empty()) (void)abi_named(arguments.abi);
  if (arguments.section) check_section(*arguments.section);
  if (!arguments.data.empty() || (arguments.abi.empty() && !arguments.section)) return;
  throw convert::InputError(
      "--abi and --section are of the file that --data names, and there is none");
}

void run_embed(const EmbedArguments& arguments) {
  const convert::OutputGuard guard({{"--output", arguments.output}, {"--data", arguments.data}});
  const VerifiedFile file(arguments.model);
  if (arguments.name) check_identifier(*arguments.name);
  check_data_options(arguments);
  const std::string identifier =
      arguments.name ? *arguments.name : identifier_from(arguments.model.stem().string());
  Progress progress("embedding " + arguments.model.string());
  convert::AtomicFile header(arguments.output);
  std::optional<convert::AtomicFile> data_file;
  const EmbeddedData data = {identifier + "_words", arguments.section.value_or(kDefaultSection)};
  const bool is_c = arguments.language == "c";
  const auto write_as = is_c ? write_c_header : write_header;
  const bool has_data = !arguments.data.empty();
  write_as(file, identifier, arguments.sizes, has_data ? BytesIn::kAnotherFile : BytesIn::kHeader,
           [&](std::string_view text) { header.write(std::as_bytes(std::span(text))); });
  if (has_data) write_data(arguments, file, data, data_file.emplace(arguments.data));
  convert::AtomicFile* const files[] = {&header, has_data ? &*data_file : nullptr};
  convert::commit_together(files);
  progress.done();
  if (arguments.json) {
    EmbedFacts facts = {
        identifier, {arguments.language}, {arguments.output, header.bytes_written()}};
    if (has_data) {
      facts.data = {arguments.data, data.symbol, data.section, file.bytes().size()};
    }
    return print_json(facts);
  }
  const std::string names = is_c ? fmt::format("{}_words", identifier)
                                 : fmt::format("{0}_model(), {0}_arena_bytes(...)", identifier);
  fmt::print("{}: {}, {} bytes\n", arguments.output.string(), names, header.bytes_written());
  if (has_data) {
    fmt::print("{}: {}, {} bytes in section {}\n", arguments.data.string(), data.symbol,
               file.bytes().size(), data.section);
  }
}

}  // namespace

template <>
constexpr auto kFacts<DataFacts> = std::tuple(Fact("path", &DataFacts::path),
                                              Fact("symbol", &DataFacts::symbol),
                                              Fact("section", &DataFacts::section),
                                              Fact("bytes", &DataFacts::bytes));

template <>
constexpr auto kFacts<EmbedFacts> = std::tuple(
    Fact("name", "What its names begin with", &EmbedFacts::name),
    Fact("language", &EmbedFacts::language), Fact("header", &EmbedFacts::header),
    Fact("data", "The file for the linker; null: the bytes are in the header", &EmbedFacts::data));

FactType embed_facts() { return type_of_fact<EmbedFacts>(); }

void add_embed(CLI::App& app) {
  const auto [command, arguments] = add_command(
      app, run_embed, "embed",
      "Write a model file as a header of C++ or C, with the size of its arena",
      "\nThe header needs C++20 and Arenite's own headers. With --name recall it declares\n"
      "  recall_model()                  the file, as std::span<const std::byte>\n"
      "  recall_arena_bytes(positions, tokens, sequences, threads)\n"
      "                                  as a constant expression, of the largest target\n"
      "  recall_arm64_arena_bytes(...)   the same for one target of the file\n"
      "  recall_arm64_arena_formula      its coefficients (arenite/arena_formula.h)\n"
      "  recall_arena_bytes_max, recall_positions_max, recall_tokens_max,\n"
      "  recall_sequences_max, recall_threads            for the sizes given here\n"
      "\nWith --language c it needs C99, is for one source file unless --data is given, and has\n"
      "  RECALL_MODEL, RECALL_MODEL_BYTES, and the last two lines above in capitals\n"
      "\nWith --data the bytes, aligned to 64, go to another file for the linker, in section "
      ".rodata.arenite unless --section names one.\n"
      "\nExamples:\n"
      "  arenite embed recall.arn -o recall.h --positions 32 --tokens 1\n"
      "  arenite embed recall.arn -o recall.h --data recall.S --section .flash.models\n"
      "  arenite embed recall.arn -o recall.h --data recall.o --abi arm\n");
  command.add_option("model", arguments.model, "A model file")->type_name(kFileType)->required();
  command.add_option("-o,--output", arguments.output, "The header to write")
      ->type_name(kFileType)
      ->required();
  command.add_option("--name", arguments.name, "What the names in it begin with; the file's name");
  command.add_option("--language", arguments.language, "Of the header: c++ or c")
      ->check(CLI::IsMember({"c++", "c"}))
      ->capture_default_str();
  command
      .add_option("--data", arguments.data,
                  "Write the bytes here instead, as assembler source or an object file")
      ->type_name(kFileType);
  command.add_option("--abi", arguments.abi,
                     "Make --data an ELF object for x86_64, aarch64, arm or riscv64");
  command.add_option("--section", arguments.section, "Section of the bytes in --data");
  add_size_options(command, arguments.sizes);
  add_json_option(command, arguments.json);
}

}  // namespace arenite::tool
