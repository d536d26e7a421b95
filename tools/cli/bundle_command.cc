// SPDX-License-Identifier: Apache-2.0
// arenite bundle: writes models and the sources that run them as a folder for firmware builds.

#include <cctype>
#include <map>

#include "arenite/model.h"
#include "arenite/version.h"
#include "cli/arguments.h"
#include "cli/boards.h"
#include "cli/bundle.h"
#include "cli/bundle_sources.h"
#include "cli/embed.h"
#include "cli/inspect_facts.h"
#include "core/needs.h"
#include "format/tokenizer_reader.h"

namespace arenite::tool {
namespace {

// --- The models of a bundle: one C header, and a file with the bytes of each ---

uint32_t input_features(const format::ModelReader& reader, uint32_t input = 0) {
  return reader.vocab_size(input) == 0 ? reader.slot(reader.input_slot(input)).width : 0;
}

// Defines the sizes that a program needs to feed the model.
std::string features_of(const BundledModel& model) {
  const format::ModelReader reader = model.file.reader();
  return fmt::format(
      "\n// Floats of a token going in, or 0 and how many tokens there are; floats of a row "
      "coming\n"
      "// out.\n"
      "#define {0}_INPUT_FEATURES {1}u\n"
      "#define {0}_VOCAB_SIZE {2}u\n"
      "#define {0}_OUTPUT_FEATURES {3}u\n\n",
      upper(model.identifier), input_features(reader), reader.vocab_size(),
      reader.slot(reader.output_slot()).width);
}

// Defines the output that main.c compares with.
std::string first_pass_of(const BundledModel& model) {
  const FirstPass pass = first_pass(model);
  std::string bits;
  for (const uint32_t word : pass.bits)
    bits += fmt::format("{}{:#010x}u", bits.empty() ? "" : ", ", word);
  return fmt::format(
      "// Every STEP-th number of the first pass of main.c, as bits, or COUNT is 0.\n"
      "#define {0}_FIRST_PASS {1}\n"
      "#define {0}_FIRST_PASS_COUNT {2}u\n"
      "#define {0}_FIRST_PASS_STEP {3}u\n",
      upper(model.identifier), bits.empty() ? "0" : bits, pass.bits.size(), pass.step);
}

std::string header(std::span<const BundledModel> models) {
  std::string text =
      "// The models of this bundle: where they are, and what they take. An arena has the bytes "
      "of\n"
      "// NAME_ARENA_BYTES_MAX; models that never run at once may share one.\n" +
      c_preamble() + "#include \"arenite/arenite.h\"\n\n";
  size_t arena_bytes = 0;
  uint32_t features = 1, tokens_min = 1;
  bool take_pairs = false;
  std::string each;
  for (const BundledModel& model : models) {
    const uint32_t shortest = std::max(1u, model.file.reader().tokens_min());
    text += c_declarations(model.file, model.identifier, model.sizes) + features_of(model) +
            fmt::format("#define {}_TOKENS_MIN {}u\n", upper(model.identifier), shortest) +
            first_pass_of(model);
    each += fmt::format(" EACH({}, {})", model.identifier, upper(model.identifier));
    arena_bytes = std::max(arena_bytes, model.arena_bytes);
    for (uint32_t i = 0; i < model.file.reader().inputs(); ++i) {
      features = std::max(features, input_features(model.file.reader(), i));
      tokens_min = std::max(tokens_min, model.file.reader().tokens_min(i));
      take_pairs = take_pairs || model.file.reader().takes_pairs(i);
    }
  }
  return text + fmt::format(
                    "// EACH(name, NAME) for each model.\n"
                    "#define ARENITE_MODELS(EACH){}\n\n"
                    "// The most that one of them takes.\n"
                    "#define ARENITE_MODELS_ARENA_BYTES_MAX ((size_t){}u)\n"
                    "#define ARENITE_MODELS_INPUT_FEATURES_MAX {}u\n"
                    "#define ARENITE_MODELS_TOKENS_MIN_MAX {}u\n{}"
                    "// NOLINTEND\n",
                    each, arena_bytes, features, tokens_min,
                    take_pairs ? "#define ARENITE_MODELS_TAKE_PAIRS 1\n" : "");
}

std::string array_source(const BundledModel& model) {
  std::string text = fmt::format(
      "// The bytes of a model, for flash; made by arenite bundle.\n"
      "#include \"arenite_model.h\"\n\n"
      "// NOLINTBEGIN\n"
      "ARENITE_ALIGNED const uint64_t {}_words[] = {{",
      model.identifier);
  write_words(model.file.bytes(), [&text](std::string_view piece) { text += piece; });
  return text + "\n};\n// NOLINTEND\n";
}

// C source whose assembler statement includes the file, found through the -I folders.
std::string file_source(const BundledModel& model) {
  return fmt::format(
      "// The bytes of a model, for flash: those of {0}.arn beside this file, which the assembler\n"
      "// includes. Compile in this folder, or with -I for it; made by arenite bundle.\n"
      "__asm__(\n"
      "    \".pushsection {1}, \\\"a\\\", %progbits\\n\"\n"
      "    \".balign {2}\\n\"\n"
      "    \".global {0}_words\\n\"\n"
      "    \".type {0}_words, %object\\n\"\n"
      "    \".size {0}_words, {3}\\n\"\n"
      "    \"{0}_words:\\n\"\n"
      "    \".incbin \\\"{0}.arn\\\"\\n\"\n"
      "    \".popsection\\n\");\n"
      "typedef int arenite_not_empty;\n",
      model.identifier, kDefaultSection, kModelAlignment, model.file.bytes().size());
}

// The form of a model's bytes: a C array, or a file that the assembler includes.
enum class ModelBytes { kArray, kFile };

// Returns arenite_model.h and the bytes of each model.
std::vector<FolderFile> model_files(std::span<const BundledModel> models, ModelBytes bytes) {
  std::vector<FolderFile> files = {{"arenite_model.h", header(models)}};
  for (const BundledModel& model : models) {
    const std::string source = fmt::format("arenite_model_{}.c", model.identifier);
    if (bytes == ModelBytes::kArray) {
      files.push_back({source, array_source(model)});
    } else {
      const std::span<const std::byte> data = model.file.bytes();
      files.push_back({source, file_source(model)});
      files.push_back({model.identifier + ".arn",
                       std::string(reinterpret_cast<const char*>(data.data()), data.size())});
    }
  }
  return files;
}

// --- The files of tools/bundle with the names of a bundle in them ---

// Templates have names between '@'. A line with @c@, @cc@ or @h@ is repeated for each C source, C++
// source or header; one with @model@ or @MODEL@, for each model. Other names stand for one text.

using Texts = std::map<std::string, std::string>;  // by name, without the '@'

// Replaces the names that `texts` has.
std::string filled(std::string line, const Texts& texts) {
  for (const auto& [name, text] : texts) {
    const std::string mark = "@" + name + "@";
    for (size_t at = line.find(mark); at != line.npos; at = line.find(mark, at + text.size())) {
      line.replace(at, mark.size(), text);
    }
  }
  return line;
}

bool has(const std::string& line, const char* name) {
  return line.find(fmt::format("@{}@", name)) != line.npos;
}

// A repeated line: the names that mark it, and the texts for each repetition.
struct List {
  std::vector<const char*> names;
  std::vector<Texts> items;
};

std::string filled_template(std::string_view text, const Texts& texts,
                            std::span<const List> lists) {
  std::string result;
  while (!text.empty()) {
    std::string line(text.substr(0, std::min(text.find('\n'), text.size() - 1) + 1));
    text.remove_prefix(line.size());
    line = filled(std::move(line), texts);
    const auto list = std::ranges::find_if(lists, [&line](const List& each) {
      return std::ranges::any_of(each.names, [&line](const char* name) { return has(line, name); });
    });
    if (list == lists.end()) {
      result += line;
    } else {
      for (const Texts& item : list->items) result += filled(line, item);
    }
  }
  return result;
}

List files_with(const char* name, std::string_view ending, std::span<const FolderFile> files) {
  List list = {{name}, {}};
  for (const FolderFile& file : files) {
    if (file.path.ends_with(ending)) list.items.push_back({{name, file.path}});
  }
  return list;
}

List list_of(std::span<const BundledModel> models) {
  List list = {{"model", "MODEL"}, {}};
  for (const BundledModel& model : models) {
    list.items.push_back({{"model", model.identifier},
                          {"MODEL", upper(model.identifier)},
                          {"model_bytes", grouped(model.file.bytes().size())},
                          {"model_arena_bytes", grouped(model.arena_bytes)}});
  }
  return list;
}

// Returns the texts for a board and its compiler.
Texts texts_of(const Board& board) {
  const std::string compilers = board.compilers;
  const bool other = !compilers.empty();
  return {{"board", board.name},
          {"compiler_c", other ? compilers + "gcc" : "cc"},
          {"compiler_cxx", other ? compilers + "g++" : "c++"},
          {"archiver", compilers + "ar"},
          {"cpu", board.flags},
          {"goal", board.own_script ? "firmware"
                   : other          ? "lib"
                                    : "self_test"},
          {"goal_words", board.own_script ? fmt::format("for {}: $(BUILD)/firmware", board.name)
                         : other          ? fmt::format("for {}: $(BUILD)/libarenite.a", board.name)
                                          : "for this machine: ./self_test"},
          {"flash_at", fmt::format("{:#x}", board.flash.at)},
          {"flash_bytes", fmt::format("{:#x}", board.flash.bytes)},
          {"ram_at", fmt::format("{:#x}", board.ram.at)},
          {"stack_bytes", fmt::format("{}", kStackBytes)},
          {"ram_bytes", fmt::format("{:#x}", board.ram.bytes)}};
}

// How a build system states the compiler options of each instruction set's files.
struct IsaWords {
  const char* name;      // the name in the templates
  const char* begin[2];  // for x86-64 and for ARM64
  const char* end;
  const char* line;     // {0}: the instruction set, {1}: options, {2}: files, {3}: architecture
  const char* between;  // joins files
  const char* quote;    // around options and files
};
constexpr IsaWords kIsaWords[] = {
    {"isa_cmake",
     {"if(CMAKE_SYSTEM_PROCESSOR MATCHES \"^(x86_64|AMD64|amd64)$\")\n",
      "if(CMAKE_SYSTEM_PROCESSOR MATCHES \"^(aarch64|arm64|ARM64)$\")\n"},
     "endif()\n",
     "  set_source_files_properties({2}\n    PROPERTIES COMPILE_OPTIONS \"{1}\")\n",
     "\n    ",
     ""},
    {"isa_make",
     {"ifneq ($(filter x86_64%,$(MACHINE)),)\n", "ifneq ($(filter aarch64% arm64%,$(MACHINE)),)\n"},
     "endif\n",
     "$(patsubst %,$(BUILD)/%.o,{2}): FLAGS_ISA := {1}\n",
     " ",
     ""},
    {"isa_meson",
     {"if host_machine.cpu_family() == 'x86_64'\n", "if host_machine.cpu_family() == 'aarch64'\n"},
     "endif\n",
     "  arenite_kernels += static_library('arenite_{0}',\n    {2},\n    c_args: kernel_args + "
     "[{1}], gnu_symbol_visibility: 'hidden', pic: true)\n",
     ",\n    ",
     "'"},
    {"isa_bazel",
     {"", ""},
     "",
     "cc_library(\n    name = \"arenite_{0}\",\n    srcs = [{2}],\n    hdrs = [],\n    copts = "
     "KERNEL_COPTS + select({{\n        \"@platforms//cpu:{3}\": [{1}],\n        "
     "\"//conditions:default\": [],\n    }}),\n    deps = [\":arenite_headers\"],\n)\n\n",
     ", ",
     "\""}};

std::string joined_words(std::span<const std::string> words, const IsaWords& system,
                         const char* between) {
  std::string text;
  for (const std::string& word : words) {
    text += fmt::format("{0}{1}{2}{1}", text.empty() ? "" : between, system.quote, word);
  }
  return text;
}

Texts isa_texts(std::span<const IsaFiles> all) {
  Texts texts;
  for (const IsaWords& system : kIsaWords) {
    std::string& text = texts[system.name];
    for (const bool is_arm : {false, true}) {
      std::string lines;
      for (const IsaFiles& own : all) {
        if (own.is_arm != is_arm) continue;
        std::vector<std::string> flags;
        std::istringstream words(own.flags);
        for (std::string word; words >> word;) flags.push_back(word);
        const bool is_cmake = std::string_view(system.name) == "isa_cmake";
        const char* const between = is_cmake ? ";" : *system.quote == '\0' ? " " : ", ";
        lines += fmt::format(
            fmt::runtime(system.line), own.isa, joined_words(flags, system, between),
            joined_words(own.files, system, system.between), is_arm ? "aarch64" : "x86_64");
      }
      if (!lines.empty()) text += system.begin[is_arm ? 1 : 0] + lines + system.end;
    }
  }
  std::string names;
  for (const IsaFiles& own : all) names += fmt::format("\":arenite_{}\", ", own.isa);
  texts["isa_deps_bazel"] = names;
  return texts;
}

// Returns main.c, the bundle's README and all build files, filled in from tools/bundle. `files` are
// the files of the bundle so far.
std::vector<FolderFile> files_from_templates(std::span<const BundledModel> models,
                                             std::span<const FolderFile> files,
                                             const Board& board) {
  std::vector<std::string> names;
  for (const BundledModel& model : models) names.push_back(model.identifier);
  Texts texts = texts_of(board);
  texts.insert({{"version", version()},
                {"models", fmt::format("{}", fmt::join(names, ", "))},
                {"models_list", fmt::format("{}", fmt::join(names, " "))},
                {"float_flags", kFloatFlags},
                {"kernel_flags", kKernelFlags}});
  const std::vector<IsaFiles> isas = isa_files(models);
  texts.merge(isa_texts(isas));
  // The C sources without kernels that are compiled with their own options.
  List plain = files_with("plain_c", ".c", files);
  std::erase_if(plain.items, [&isas](const Texts& item) {
    return std::ranges::any_of(isas, [&](const IsaFiles& own) {
      return std::ranges::find(own.files, item.begin()->second) != own.files.end();
    });
  });
  const List lists[] = {plain, files_with("c", ".c", files), files_with("cc", ".cc", files),
                        files_with("h", ".h", files), list_of(models)};
  const bool has_tokenizer = std::ranges::any_of(
      models, [](const BundledModel& model) { return format::has_tokenizer(model.file.bytes()); });
  constexpr std::string_view kFolder = "bundle/";
  std::vector<FolderFile> made;
  for (const EmbeddedSource& source : embedded_sources()) {
    if (!source.path.starts_with(kFolder)) continue;
    std::string path(source.path.substr(kFolder.size()));
    if (path.starts_with("board/") && !board.own_script) continue;
    if (path == "programs/text.c" && !has_tokenizer) continue;
    if (path.starts_with("pico/") && !std::string_view(board.name).starts_with("pico")) continue;
    if (path.ends_with(".in")) path.resize(path.size() - 3);
    made.push_back({path, filled_template(source.text(), texts, lists)});
  }
  return made;
}

// --- The command ---

struct BundleArguments {
  std::vector<std::filesystem::path> models;
  std::filesystem::path output;
  std::string board = "generic";
  SizeOptions sizes;
  bool incbin = false;
  bool archive = false;
  bool json = false;
};

// Throws unless the file has a single firmware target, or application targets with or without
// portable. Firmware has the kernels of one target, so other packings would waste flash.
// Applications choose a target when they load a model.
void require_bundled_target(const VerifiedFile& file) {
  const uint32_t targets = file.reader().file_targets();
  std::vector<std::string> names;
  for (uint32_t i = 0; i < kTargets; ++i) {
    const Target target = static_cast<Target>(i);
    if (targets == bit(target) && (targets & kPlainTargets) != 0) return;
    if ((targets & bit(target)) != 0) names.emplace_back(name(target));
  }
  const uint32_t of_firmware = targets & ~(kX86Targets | kArm64Targets);
  if (targets != of_firmware && (of_firmware & ~bit(Target::kPortable)) == 0) return;
  const bool has_portable = (targets & bit(Target::kPortable)) != 0;
  throw convert::InputError(
      "{}: found weights packed for {}, expected target portable{}, whose kernels are plain C for "
      "any CPU, one of a Cortex-M, or those of x86-64 and ARM64: arenite repack {} -o NEW.arn "
      "--target portable",
      convert::quote(file.name()), fmt::format("{}", fmt::join(names, " and ")),
      has_portable ? " alone" : "", convert::printable(file.name()));
}

// Beyond this size compilers take minutes and gigabytes.
constexpr size_t kArrayBytesMax = size_t{64} << 20;

BundledModel open_model(const std::filesystem::path& path, const BundleArguments& arguments) {
  BundledModel model = {identifier_from(path.stem().string()), VerifiedFile(path), {}, 0};
  require_bundled_target(model.file);
  if (!arguments.incbin && model.file.bytes().size() > kArrayBytesMax) {
    throw convert::InputError("{}: found {} bytes, expected at most {} for a C array: use --incbin",
                              convert::quote(model.file.name()), model.file.bytes().size(),
                              kArrayBytesMax);
  }
  model.sizes = resolve_sizes(model.file, arguments.sizes);
  // The CPU chooses among the targets, so that the arena is that of the largest.
  for (const ArenaLayout& layout : plan_targets(model.file, model.sizes)) {
    model.arena_bytes = std::max<size_t>(model.arena_bytes, layout.plan.total_bytes);
  }
  return model;
}

// Throws if another model's name differs only in case: macros and files would collide.
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

// Returns the XNNPACK sources of a bundle.
std::vector<std::string> kernels_in(std::span<const FolderFile> files) {
  std::vector<std::string> kernels;
  for (const FolderFile& file : files) {
    if (file.path.starts_with("xnnpack_")) kernels.push_back(file.path);
  }
  return kernels;
}

struct BundleFacts {
  const std::filesystem::path& folder;
  const Board& board;
  std::span<const BundledModel> models;
  std::span<const FolderFile> files;
  std::span<const std::string> kept;
};

std::vector<std::string> needs_in(const BundleFacts& facts) {
  std::vector<std::string> names;
  const NeedSet needs = needs_of(facts.models);
  for (uint32_t i = 0; i < kNeeds; ++i) {
    if (needs.has_any(static_cast<Need>(i))) names.push_back(need_name(static_cast<Need>(i)));
  }
  return names;
}

}  // namespace

template <>
inline constexpr auto kFacts<BundledModel> =
    std::tuple(Fact("name", "Prefix of its names in the sources", &BundledModel::identifier),
               Fact("file", [](const BundledModel& f) { return f.file.name(); }),
               Fact("bytes", "Bytes of the model file",
                    [](const BundledModel& f) { return f.file.bytes().size(); }),
               Fact("positions", [](const BundledModel& f) { return f.sizes.positions; }),
               Fact("tokens", "In a call", [](const BundledModel& f) { return f.sizes.tokens; }),
               Fact("sequences", [](const BundledModel& f) { return f.sizes.sequences; }),
               Fact("arena_bytes", "For these sizes", &BundledModel::arena_bytes));

template <>
inline constexpr auto kFacts<Board> = std::tuple(
    Fact("name", &Board::name), Fact("chip", &Board::chip),
    Fact("flags", "Compiler flags for the CPU", &Board::flags),
    Fact("flash_bytes", "0 where not known", [](const Board& f) { return f.flash.bytes; }),
    Fact("ram_bytes", "0 where not known", [](const Board& f) { return f.ram.bytes; }));

template <>
inline constexpr auto kFacts<FolderFile> =
    std::tuple(Fact("path", "In the folder", &FolderFile::path),
               Fact("bytes", [](const FolderFile& f) { return f.text.size(); }));

template <>
constexpr auto kFacts<BundleFacts> =
    std::tuple(Fact(
                   "folder", [](const BundleFacts& f) -> auto& { return f.folder; }),
               Fact(
                   "board", [](const BundleFacts& f) -> auto& { return f.board; }),
               Fact("models", &BundleFacts::models),
               Fact("needs", "The parts of the runtime that the models need", needs_in),
               Fact("kernels", "The files with XNNPACK's microkernels",
                    [](const BundleFacts& f) { return kernels_in(f.files); }),
               Fact("files", &BundleFacts::files),
               Fact("kept", "Files changed by hand since an earlier bundle, which are kept",
                    &BundleFacts::kept));

Json bundle_facts() { return schema_of<BundleFacts>(); }

namespace {

std::string as_text(const BundleArguments& arguments, const Board& board,
                    std::span<const BundledModel> models, std::span<const FolderFile> files,
                    std::span<const std::string> kept) {
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
  std::string table_text = table.text();
  if (!kept.empty()) {
    table_text += fmt::format("Kept as you changed them: {}\n",
                              convert::printable(fmt::format("{}", fmt::join(kept, ", "))));
  }
  return text + table_text + memory_text(board, models) +
         "Begin with main.c; README.md says how each build system takes it.\n";
}

void run_bundle(const BundleArguments& arguments) {
  const Board& board = board_named(arguments.board);
  require_bundle_folder(arguments.output);
  if (arguments.archive) require_compilers(board);
  std::vector<BundledModel> models;
  for (const std::filesystem::path& path : arguments.models) {
    BundledModel model = open_model(path, arguments);
    require_other_name(models, model);
    models.push_back(std::move(model));
  }
  require_fitting(board, models);
  Progress progress("writing " + arguments.output.string());
  std::vector<FolderFile> files = runtime_files(models);
  for (FolderFile& file :
       model_files(models, arguments.incbin ? ModelBytes::kFile : ModelBytes::kArray)) {
    files.push_back(std::move(file));
  }
  for (FolderFile& file : files_from_templates(models, files, board)) {
    files.push_back(std::move(file));
  }
  if (arguments.archive) add_archive(board, arguments.output, files);
  std::ranges::sort(files, {}, &FolderFile::path);
  const std::vector<std::string> kept = write_bundle(arguments.output, files);
  progress.done();
  if (arguments.json) return print_json(BundleFacts{arguments.output, board, models, files, kept});
  print_string(as_text(arguments, board, models, files, kept));
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
      "CMSIS-Packs want. Its README.md says how each takes it. Models for firmware must be "
      "packed for one target, portable or that of a Cortex-M (arenite help targets); those for "
      "applications for any of x86-64 and ARM64, among which the CPU chooses. A bundle that is "
      "made anew in its folder leaves what you added or changed there.\n"
      "\nExamples:\n"
      "  arenite convert models/vibration -o vibration.arn --target portable\n"
      "  arenite bundle vibration.arn -o firmware/arenite\n"
      "  arenite bundle vibration.arn -o firmware --board nucleo-f446\n"
      "  make -C firmware\n");
  command
      .add_option("model", arguments.models,
                  "Model files, packed for the CPUs that the bundle is for")
      ->type_name(kFileType)
      ->required();
  command.add_option("-o,--output", arguments.output, "The folder to make")
      ->type_name("FOLDER")
      ->required();
  std::vector<const char*> names;
  for (const Board& board : boards()) names.push_back(board.name);
  command
      .add_option(
          "--board", arguments.board,
          fmt::format(
              "Board: {}. Sets compilers and their options, and refuses models that do not fit",
              fmt::join(names, ", ")))
      ->type_name("NAME");
  command.add_flag("--incbin", arguments.incbin,
                   "Keep models as files that the assembler includes, not as C arrays");
  command.add_flag("--archive", arguments.archive,
                   "Compile it for the board, and put libarenite.a and the headers of C into src/, "
                   "for builds without C++20 such as older cores of Arduino");
  add_json_option(command, arguments.json);
  add_size_options(command, arguments.sizes);
  // The bundle's runtime uses the cache type of the file, and main.c uses one thread.
  for (const char* option : {"--kv", "--threads"}) {
    command.remove_option(command.get_option(option));
  }
}

}  // namespace arenite::tool
