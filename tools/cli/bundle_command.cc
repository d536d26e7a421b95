// SPDX-License-Identifier: Apache-2.0
// arenite bundle: models with the sources that run them, as a folder for any firmware's build.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <string>
#include <vector>

#include "cli/arguments.h"
#include "cli/bundle.h"
#include "cli/commands.h"
#include "cli/embed_header.h"
#include "cli/facts.h"
#include "cli/process.h"
#include "cli/text_table.h"
#include "convert/files/error.h"
#include "core/needs.h"

namespace arenite::tool {
namespace {

struct BundleArguments {
  std::vector<std::filesystem::path> models;
  std::filesystem::path output;
  SizeOptions sizes;
  bool incbin = false;
  bool json = false;
};

// A bundle has the kernels of plain C: what is packed for others would lie in flash for nothing.
void require_portable_alone(const VerifiedFile& file) {
  std::vector<std::string> others;
  for (uint32_t i = 0; i < file.reader().packed_count(); ++i) {
    const Target target = static_cast<Target>(file.reader().packed(i).target);
    if (target != Target::kPortable) others.emplace_back(name(target));
  }
  if (others.empty()) return;
  const bool has_portable = (file.reader().file_targets() & bit(Target::kPortable)) != 0;
  throw convert::InputError(
      "{}: found weights packed for {}{}, expected target portable{}, whose kernels are plain C "
      "for any CPU: arenite repack {} -o NEW.arn --target portable",
      convert::quote(file.name()), has_portable ? "portable and " : "",
      fmt::format("{}", fmt::join(others, ", ")), has_portable ? " alone" : "",
      convert::printable(file.name()));
}

// Compilers take minutes and gigabytes for more.
constexpr size_t kArrayBytesMax = size_t{64} << 20;

BundledModel open_model(const std::filesystem::path& path, const BundleArguments& arguments) {
  BundledModel model = {identifier_from(path.stem().string()), VerifiedFile(path), {}, 0};
  require_portable_alone(model.file);
  if (!arguments.incbin && model.file.bytes().size() > kArrayBytesMax) {
    throw convert::InputError("{}: found {} bytes, expected at most {} for a C array: use --incbin",
                              convert::quote(model.file.name()), model.file.bytes().size(),
                              kArrayBytesMax);
  }
  model.sizes = resolve_sizes(model.file, arguments.sizes);
  model.arena_bytes = plan_targets(model.file, model.sizes).front().plan.total_bytes;
  return model;
}

// Names of macros and files have one case: no two models may differ in it alone.
void require_other_name(std::span<const BundledModel> models, const BundledModel& added) {
  const auto same_letter = [](unsigned char a, unsigned char b) {
    return std::tolower(a) == std::tolower(b);
  };
  for (const BundledModel& model : models) {
    if (!std::ranges::equal(model.identifier, added.identifier, same_letter)) continue;
    throw convert::InputError("{} and {}: both models would be called {}: rename one of the files",
                              convert::quote(model.file.name()), convert::quote(added.file.name()),
                              added.identifier);
  }
}

// The kernels of a bundle, which are its sources from XNNPACK.
std::vector<std::string> kernels_in(std::span<const FolderFile> files) {
  std::vector<std::string> kernels;
  for (const FolderFile& file : files) {
    if (file.path.starts_with("xnnpack_")) kernels.push_back(file.path);
  }
  return kernels;
}

struct BundleFacts {
  const std::filesystem::path& folder;
  std::span<const BundledModel> models;
  std::span<const FolderFile> files;
};

std::vector<std::string> needs_in(const BundleFacts& facts) {
  std::vector<std::string> names;
  const uint64_t needs = needs_of(facts.models);
  for (uint32_t i = 0; i < kNeeds; ++i) {
    if ((needs >> i & 1u) != 0) names.emplace_back(kNeedNames[i]);
  }
  return names;
}

}  // namespace

template <>
inline constexpr auto kFacts<BundledModel> = std::tuple(
    Fact("name", "What its names begin with", &BundledModel::identifier),
    Fact("file", [](const BundledModel& f) { return f.file.name(); }),
    Fact("bytes", "Of the model file", [](const BundledModel& f) { return f.file.bytes().size(); }),
    Fact("positions", [](const BundledModel& f) { return f.sizes.positions; }),
    Fact("tokens", "In a call", [](const BundledModel& f) { return f.sizes.tokens; }),
    Fact("sequences", [](const BundledModel& f) { return f.sizes.sequences; }),
    Fact("arena_bytes", "For these sizes", &BundledModel::arena_bytes));

template <>
inline constexpr auto kFacts<FolderFile> =
    std::tuple(Fact("path", "In the folder", &FolderFile::path),
               Fact("bytes", [](const FolderFile& f) { return f.text.size(); }));

template <>
constexpr auto kFacts<BundleFacts> =
    std::tuple(Fact(
                   "folder", [](const BundleFacts& f) -> auto& { return f.folder; }),
               Fact("models", &BundleFacts::models),
               Fact("needs", "The parts of the runtime that the models need", needs_in),
               Fact("kernels", "The files with XNNPACK's microkernels",
                    [](const BundleFacts& f) { return kernels_in(f.files); }),
               Fact("files", &BundleFacts::files));

FactType bundle_facts() { return type_of_fact<BundleFacts>(); }

namespace {

std::string as_text(const BundleArguments& arguments, std::span<const BundledModel> models,
                    std::span<const FolderFile> files) {
  size_t bytes = 0;
  for (const FolderFile& file : files) bytes += file.text.size();
  std::string text = fmt::format("{}: {} files, {} bytes; {} microkernels\n",
                                 convert::printable(arguments.output.string()), files.size(),
                                 grouped(bytes), kernels_in(files).size());
  TextTable table({"model", ">bytes", ">arena bytes", ">positions", ">tokens in a call"});
  for (const BundledModel& model : models) {
    table.add_row({model.identifier, grouped(model.file.bytes().size()), grouped(model.arena_bytes),
                   grouped(model.sizes.positions), grouped(model.sizes.tokens)});
  }
  return text + table.text() +
         "Begin with main.c; README.md says how each build system takes it.\n";
}

void run_bundle(const BundleArguments& arguments) {
  convert::require_new_folder(arguments.output);
  std::vector<BundledModel> models;
  for (const std::filesystem::path& path : arguments.models) {
    BundledModel model = open_model(path, arguments);
    require_other_name(models, model);
    models.push_back(std::move(model));
  }
  Progress progress("writing " + arguments.output.string());
  std::vector<FolderFile> files = runtime_files(models);
  for (FolderFile& file :
       model_files(models, arguments.incbin ? ModelBytes::kFile : ModelBytes::kArray)) {
    files.push_back(std::move(file));
  }
  for (FolderFile& file : files_from_templates(models, files)) files.push_back(std::move(file));
  std::ranges::sort(files, {}, &FolderFile::path);
  convert::write_folder(arguments.output, files);
  progress.done();
  if (arguments.json) return print_json(BundleFacts{arguments.output, models, files});
  print_string(as_text(arguments, models, files));
}

}  // namespace

void add_bundle(CLI::App& app) {
  const auto [command, arguments] = add_command(
      app, run_bundle, "bundle",
      "Write models and the sources that run them as a folder for any firmware's build",
      "\nThe folder holds the parts of the runtime that these models need and no others, with "
      "their microkernels, generated headers and FlatBuffers' headers; the models as C; sizes in "
      "arenite_model.h; and main.c to start from. It needs no CMake, no flatc and no network: a "
      "C++20 compiler takes it as it is.\n"
      "  c++ -std=c++20 -c *.cc && cc -c *.c\n"
      "\nWith it come a Makefile and what CMake, Arduino, PlatformIO, Zephyr, ESP-IDF and "
      "CMSIS-Packs want. Its README.md says how each takes it. Models must be packed for target "
      "portable alone (arenite convert --target portable), and share the runtime.\n"
      "\nExamples:\n"
      "  arenite convert models/vibration -o vibration.arn --target portable\n"
      "  arenite bundle vibration.arn -o firmware/arenite\n");
  command.add_option("model", arguments.models, "Model files, packed for target portable")
      ->type_name(kFileType)
      ->required();
  command.add_option("-o,--output", arguments.output, "The folder to make")
      ->type_name("FOLDER")
      ->required();
  command.add_flag("--incbin", arguments.incbin,
                   "Keep models as files that the assembler includes, not as C arrays");
  add_json_option(command, arguments.json);
  add_size_options(command, arguments.sizes);
  // The runtime of a bundle has the cache that the file asks for, and main.c has one thread.
  for (const char* option : {"--kv", "--threads"}) {
    command.remove_option(command.get_option(option));
  }
}

}  // namespace arenite::tool
