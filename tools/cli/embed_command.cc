// SPDX-License-Identifier: Apache-2.0
// arenite embed: a model file as a header of C++ or C, with the bytes in it or in a file for the
// linker.
#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "arenite/model.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/embed.h"
#include "cli/facts.h"
#include "cli/process.h"
#include "convert/check/check_session.h"
#include "convert/files/error.h"
#include "convert/files/output_files.h"
#include "core/crc32c.h"

namespace arenite::tool {
namespace {

// --- The bytes as something that a linker takes: assembler source or an object file ---

// Which machine an object file is for.
enum class Abi { kX86_64, kAarch64, kArm, kRiscv64 };

// What both forms define: the symbol, aligned as models must be, in this section.
struct EmbeddedData {
  std::string symbol;
  std::string section = kDefaultSection;
};

using WriteBytes = std::function<void(std::span<const std::byte>)>;

// The object has one section of data, one symbol, and the note that the stack need not be
// executable. Source: the System V ABI, chapters "Object Files" and "Symbol Table".

struct AbiFacts {
  const char* name;
  Abi abi;
  uint16_t machine;
  uint32_t flags;
  bool is_64_bit;
};

constexpr AbiFacts kAbis[] = {
    {"x86_64", Abi::kX86_64, EM_X86_64, 0, true},
    {"aarch64", Abi::kAarch64, EM_AARCH64, 0, true},
    {"arm", Abi::kArm, EM_ARM, EF_ARM_EABI_VER5, false},
    {"riscv64", Abi::kRiscv64, EM_RISCV, EF_RISCV_RVC | EF_RISCV_FLOAT_ABI_DOUBLE, true},
};

struct Elf32 {
  using Header = Elf32_Ehdr;
  using Section = Elf32_Shdr;
  using Symbol = Elf32_Sym;
  static constexpr unsigned char kClass = ELFCLASS32;
};

struct Elf64 {
  using Header = Elf64_Ehdr;
  using Section = Elf64_Shdr;
  using Symbol = Elf64_Sym;
  static constexpr unsigned char kClass = ELFCLASS64;
};

enum SectionIndex : uint16_t { kNull, kData, kSymbols, kNames, kStackNote, kSections };

template <typename T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

// Names one after the other, each after the offset that `add` returns.
class StringTable {
 public:
  uint32_t add(const std::string& name) {
    const auto offset = static_cast<uint32_t>(text_.size());
    text_ += name + '\0';
    return offset;
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_ = std::string(1, '\0');
};

template <typename Elf>
typename Elf::Header header_for(const AbiFacts& abi, uint64_t sections_at) {
  typename Elf::Header header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = Elf::kClass;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_VERSION] = EV_CURRENT;
  header.e_type = ET_REL;
  header.e_machine = abi.machine;
  header.e_version = EV_CURRENT;
  header.e_flags = abi.flags;
  header.e_ehsize = sizeof(typename Elf::Header);
  header.e_shentsize = sizeof(typename Elf::Section);
  header.e_shnum = kSections;
  header.e_shstrndx = kNames;
  header.e_shoff = static_cast<decltype(header.e_shoff)>(sections_at);
  return header;
}

// Header, model, symbols, names, section headers, each where it must be aligned.
template <typename Elf>
void write_elf(std::span<const std::byte> model, const AbiFacts& abi, const EmbeddedData& data,
               const WriteBytes& write) {
  using Offset = decltype(Elf::Section::sh_offset);
  StringTable names;
  typename Elf::Symbol symbols[2] = {};
  symbols[1].st_name = names.add(data.symbol);
  symbols[1].st_info = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT);
  symbols[1].st_shndx = kData;
  symbols[1].st_size = static_cast<Offset>(model.size());

  typename Elf::Section sections[kSections] = {};
  const auto describe = [&](SectionIndex index, const char* name, uint32_t type, size_t bytes,
                            size_t alignment) {
    sections[index].sh_name = names.add(name);
    sections[index].sh_type = type;
    sections[index].sh_size = static_cast<Offset>(bytes);
    sections[index].sh_addralign = static_cast<Offset>(alignment);
  };
  describe(kData, data.section.c_str(), SHT_PROGBITS, model.size(), kModelAlignment);
  sections[kData].sh_flags = SHF_ALLOC;
  describe(kSymbols, ".symtab", SHT_SYMTAB, sizeof(symbols), alignof(uint64_t));
  sections[kSymbols].sh_link = kNames;
  sections[kSymbols].sh_info = 1;  // the first symbol that is global
  sections[kSymbols].sh_entsize = sizeof(symbols[0]);
  describe(kStackNote, ".note.GNU-stack", SHT_PROGBITS, 0, 1);
  describe(kNames, ".strtab", SHT_STRTAB, 0, 1);
  sections[kNames].sh_size = static_cast<Offset>(names.text().size());

  uint64_t end = sizeof(typename Elf::Header);
  for (const SectionIndex index : {kData, kSymbols, kNames, kStackNote}) {
    const uint64_t alignment = sections[index].sh_addralign;
    end = (end + alignment - 1) / alignment * alignment;
    sections[index].sh_offset = static_cast<Offset>(end);
    end += sections[index].sh_size;
  }
  const uint64_t sections_at = (end + kModelAlignment - 1) / kModelAlignment * kModelAlignment;

  uint64_t written = 0;
  const auto put = [&](uint64_t offset, std::span<const std::byte> bytes) {
    write(std::vector<std::byte>(offset - written));
    write(bytes);
    written = offset + bytes.size();
  };
  put(0, bytes_of(header_for<Elf>(abi, sections_at)));
  put(sections[kData].sh_offset, model);
  put(sections[kSymbols].sh_offset, std::as_bytes(std::span(symbols)));
  put(sections[kNames].sh_offset, std::as_bytes(std::span(names.text())));
  put(sections_at, std::as_bytes(std::span(sections)));
}

// "x86_64", "aarch64", "arm" or "riscv64" (lp64d). Throws InputError for another name.
Abi abi_named(const std::string& name) {
  std::string known;
  for (const AbiFacts& facts : kAbis) {
    if (name == facts.name) return facts.abi;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", facts.name);
  }
  throw convert::InputError("--abi {}: expected one of {}", convert::quote(name), known);
}

// Throws InputError unless `section` is a name that linker scripts can name.
void check_section(const std::string& section) {
  constexpr const char* kLetters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
  if (!section.empty() && section.find_first_not_of(kLetters) == std::string::npos) return;
  throw convert::InputError(
      "--section {}: expected letters, digits, dots, dashes and underscores; for example {}",
      convert::quote(section), kDefaultSection);
}

// GNU assembler source that includes the file where it lies when it is assembled.
void write_assembler(const std::filesystem::path& model, size_t model_bytes,
                     const EmbeddedData& data, const WriteBytes& write) {
  std::string path;
  for (const char c : std::filesystem::absolute(model).string()) {
    if (c == '"' || c == '\\') path += '\\';
    path += c;
  }
  const std::string text = fmt::format(
      "/* Generated by arenite embed, do not edit. */\n"
      "    .section {section}, \"a\", %progbits\n"
      "    .balign {alignment}\n"
      "    .global {symbol}\n"
      "    .type {symbol}, %object\n"
      "    .size {symbol}, {bytes}\n"
      "{symbol}:\n"
      "    .incbin \"{path}\", 0, {bytes}\n"
      "    .section .note.GNU-stack, \"\", %progbits\n",
      fmt::arg("section", data.section), fmt::arg("alignment", kModelAlignment),
      fmt::arg("symbol", data.symbol), fmt::arg("bytes", model_bytes), fmt::arg("path", path));
  write(std::as_bytes(std::span(text)));
}

// A relocatable ELF object with a copy of the file. Throws InputError for one beyond 2 GB.
void write_object(std::span<const std::byte> model, Abi abi, const EmbeddedData& data,
                  const WriteBytes& write) {
  constexpr size_t kBytesMax = size_t{1} << 31;
  if (model.size() > kBytesMax) {
    throw convert::InputError("the model has {} bytes: at most {} fit an object file", model.size(),
                              kBytesMax);
  }
  for (const AbiFacts& facts : kAbis) {
    if (facts.abi != abi) continue;
    facts.is_64_bit ? write_elf<Elf64>(model, facts, data, write)
                    : write_elf<Elf32>(model, facts, data, write);
  }
}

// --- Headers of C++ and C ---
//
// The bytes are written as 64-bit words: compilers take a third of the time that single bytes
// take, and a quarter of the memory. A header of C that holds them is for one source file, since C
// has no inline variables.

constexpr size_t kWordsPerRow = 5;
constexpr size_t kPieceBytes = 1 << 16;

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

// "x86_64_v3"
std::string target_identifier(const format::PackedView& packed) {
  return identifier_from(name(static_cast<Target>(packed.target)));
}

// What both headers begin with: where they come from.
std::string header_title(const VerifiedFile& file) {
  const std::string file_name = std::filesystem::path(file.name()).filename().string();
  return fmt::format(
      "// Generated by arenite embed from {}, do not edit.\n"
      "// {} bytes, CRC-32C {:08x}.\n",
      convert::quote(file_name), file.bytes().size(), crc32c(file.bytes()));
}

// A line for each target's bytes of the arena at these sizes; then one, without a target, for the
// largest of them. Throws like plan_targets.
std::string arena_lines(
    const VerifiedFile& file, const SizeOptions& sizes,
    const std::function<std::string(const std::string& target, size_t bytes)>& line) {
  std::string text;
  size_t largest = 0;
  for (uint32_t i = 0; const ArenaLayout& arena : plan_targets(file, sizes)) {
    const size_t bytes = arena.plan.total_bytes;
    largest = std::max(largest, bytes);
    text += line(target_identifier(file.reader().packed(i++)), bytes);
  }
  return text + line("", largest);
}

constexpr std::string_view kPreamble = R"(// NOLINTBEGIN
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "arenite/arena_formula.h"

)";

// The parameters of a function that evaluates a formula, with or without their types and defaults.
std::string parameters(const format::ModelReader& reader, bool declared) {
  if (!declared) {
    return fmt::format("positions, tokens, sequences, threads{}, kv_type",
                       convert::leaves_rows_open(reader) ? ", all_outputs" : "");
  }
  return fmt::format(
      "std::uint32_t positions, std::uint32_t tokens, std::uint32_t sequences,\n"
      "    std::uint32_t threads{},\n"
      "    arenite::TensorType kv_type = arenite::TensorType::{}",
      convert::leaves_rows_open(reader) ? ", bool all_outputs = false" : "",
      reader.kv_cache() == TensorType::kInt8 ? "kInt8" : "kF32");
}

std::string coefficients(const ArenaFormula& formula) {
  std::string groups;
  for (uint32_t i = 0; i < formula.group_count; ++i) {
    const CacheGroup& group = formula.groups[i];
    groups += fmt::format(
        "\n         {{.lookback = {}u,\n"
        "          .f32 = {{.per_panel = {}u, .per_page = {}u}},\n"
        "          .int8 = {{.per_panel = {}u, .per_page = {}u}}}},",
        group.lookback, group.f32.per_panel, group.f32.per_page, group.int8.per_panel,
        group.int8.per_page);
  }
  return fmt::format(
      "    .activation_bytes_per_token = {}u,\n"
      "    .activation_bytes_per_output = {}u,\n"
      "    .scratch_bytes_per_token = {}u,\n"
      "    .scratch_bytes_per_thread = {}u,\n"
      "    .nr = {}u,\n"
      "    .score_rows = {}u,\n"
      "    .group_count = {}u,\n"
      "    .groups = {{{}}},\n",
      formula.activation_bytes_per_token, formula.activation_bytes_per_output,
      formula.scratch_bytes_per_token, formula.scratch_bytes_per_thread, formula.nr,
      formula.score_rows, formula.group_count, groups);
}

// One target's formula, and the function that evaluates it.
std::string formula_of_target(const std::string& identifier, const format::ModelReader& reader,
                              uint32_t index) {
  const std::string prefix = identifier + "_" + target_identifier(reader.packed(index));
  return fmt::format(
      "\ninline constexpr arenite::ArenaFormula {0}_arena_formula = {{\n{1}}};\n"
      "constexpr std::size_t {0}_arena_bytes(\n"
      "    {2}) {{\n"
      "  return arenite::arena_bytes(\n"
      "      {0}_arena_formula,\n"
      "      {{positions, tokens, sequences,\n"
      "       arenite::outputs_max({3}, tokens, sequences{4}), threads, kv_type}}{4});\n"
      "}}\n",
      prefix, coefficients(reader.formula(index)), parameters(reader, true),
      convert::leaves_rows_open(reader) ? "all_outputs" : "false",
      reader.prefix_rows() == 0 ? "" : fmt::format(", {}u", reader.prefix_rows()));
}

// The function over all targets of the file.
std::string largest_function(const std::string& identifier, const format::ModelReader& reader) {
  std::string text = fmt::format(
      "\n// The largest of them: enough whichever kernels the CPU runs.\n"
      "constexpr std::size_t {}_arena_bytes(\n"
      "    {}) {{\n"
      "  std::size_t largest = 0;\n"
      "  for (const std::size_t bytes : {{\n",
      identifier, parameters(reader, true));
  for (uint32_t i = 0; i < reader.packed_count(); ++i) {
    text += fmt::format("           {}_{}_arena_bytes({}),\n", identifier,
                        target_identifier(reader.packed(i)), parameters(reader, false));
  }
  return text +
         "       }) {\n"
         "    if (bytes > largest) largest = bytes;\n"
         "  }\n"
         "  return largest;\n"
         "}\n";
}

std::string constants(const VerifiedFile& file, const std::string& identifier,
                      const SizeOptions& sizes) {
  return fmt::format(
             "// The sizes given to arenite embed, for arenite::SessionOptions.\n"
             "inline constexpr std::uint32_t {0}_positions_max = {1};\n"
             "inline constexpr std::uint32_t {0}_tokens_max = {2};\n"
             "inline constexpr std::uint32_t {0}_sequences_max = {3};\n"
             "inline constexpr std::uint32_t {0}_threads = {4};\n"
             "\n// Bytes of the arena at these sizes, for each target; then the largest of them.\n",
             identifier, sizes.positions, sizes.tokens, sizes.sequences, sizes.threads) +
         arena_lines(file, sizes, [&](const std::string& target, size_t bytes) {
           return fmt::format("inline constexpr std::size_t {}{}_arena_bytes_max = {};\n",
                              identifier, target.empty() ? "" : "_" + target, bytes);
         });
}

constexpr std::string_view kCPreamble =
    R"(// NOLINTBEGIN
#pragma once

#include <stddef.h>
#include <stdint.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the words are little-endian"
#endif

)";

constexpr std::string_view kCWordsBegin = R"(// For one source file of a program.
#if defined(__GNUC__)
__attribute__((aligned(64)))
#else
_Alignas(64)
#endif
static const uint64_t {}_words[] = {{)";

constexpr std::string_view kCWordsElsewhere = R"(#ifdef __cplusplus
extern "C"
#else
extern
#endif
const uint64_t {}_words[{}];
)";

std::string c_constants(const VerifiedFile& file, const std::string& prefix,
                        const SizeOptions& sizes) {
  return fmt::format(
             "// The sizes given to arenite embed, for arenite_session_options.\n"
             "#define {0}_POSITIONS_MAX {1}u\n"
             "#define {0}_TOKENS_MAX {2}u\n"
             "#define {0}_SEQUENCES_MAX {3}u\n"
             "#define {0}_THREADS {4}u\n"
             "\n// Bytes of the arena at these sizes, for each target; then the largest of them.\n",
             prefix, sizes.positions, sizes.tokens, sizes.sequences, sizes.threads) +
         arena_lines(file, sizes, [&](const std::string& target, size_t bytes) {
           return fmt::format("#define {}{}_ARENA_BYTES_MAX ((size_t){}u)\n", prefix,
                              target.empty() ? "" : "_" + upper(target), bytes);
         });
}

// The sizes, and where the file is.
std::string c_macros(const VerifiedFile& file, const std::string& identifier,
                     const SizeOptions& sizes) {
  const std::string prefix = upper(identifier);
  return c_constants(file, prefix, resolve_sizes(file, sizes)) +
         fmt::format(
             "\n// The model file, for arenite_model_load.\n"
             "#define {0}_MODEL ((const void*){1}_words)\n"
             "#define {0}_MODEL_BYTES ((size_t){2}u)\n\n",
             prefix, identifier, file.bytes().size());
}

}  // namespace

std::string upper(std::string text) {
  for (char& c : text) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  return text;
}

std::string identifier_from(std::string_view text) {
  std::string identifier;
  for (const char c : text) {
    const bool kept = is_letter(c) || (is_digit(c) && !identifier.empty());
    if (kept) identifier += c;
    if (!kept && !identifier.empty() && identifier.back() != '_') identifier += '_';
  }
  while (!identifier.empty() && identifier.back() == '_') identifier.pop_back();
  return identifier.empty() ? "embedded" : identifier;
}

void check_identifier(const std::string& name) {
  if (name.empty() || identifier_from(name) != name) {
    throw convert::InputError(
        "--name {}: expected letters, digits and single underscores, beginning with a letter and "
        "not ending with an underscore; for example {}",
        convert::quote(name), identifier_from(name));
  }
}

void write_header(const VerifiedFile& file, const std::string& identifier, const SizeOptions& sizes,
                  BytesIn bytes_in, const WriteText& write) {
  const SizeOptions resolved = resolve_sizes(file, sizes);
  const format::ModelReader reader = file.reader();
  write(header_title(file));
  write(kPreamble);
  write(constants(file, identifier, resolved));
  write(
      "\n// The same for any sizes, each at least 1: what arenite::plan_arena says of sizes that "
      "it\n"
      "// accepts, and SIZE_MAX for others that make no arena.\n");
  for (uint32_t i = 0; i < reader.packed_count(); ++i) {
    write(formula_of_target(identifier, reader, i));
  }
  write(largest_function(identifier, reader));
  write(fmt::format(
      "static_assert({0}_arena_bytes({0}_positions_max, {0}_tokens_max, {0}_sequences_max,\n"
      "                            {0}_threads) == {0}_arena_bytes_max);\n"
      "static_assert(std::endian::native == std::endian::little, \"the words are "
      "little-endian\");\n\n",
      identifier));
  const uint64_t words = (file.bytes().size() + sizeof(uint64_t) - 1) / sizeof(uint64_t);
  if (bytes_in == BytesIn::kHeader) {
    write(fmt::format("alignas(64) inline constexpr std::uint64_t {}_words[] = {{", identifier));
    write_words(file.bytes(), write);
    write("\n};\n");
  } else {
    write(fmt::format("extern \"C\" const std::uint64_t {}_words[{}];\n", identifier, words));
  }
  write(
      fmt::format("\n// The model file, for arenite::Model::load.\n"
                  "inline std::span<const std::byte> {0}_model() {{\n"
                  "  return std::as_bytes(std::span({0}_words)).first({1});\n"
                  "}}\n"
                  "// NOLINTEND\n",
                  identifier, file.bytes().size()));
}

std::string c_preamble() { return std::string(kCPreamble); }

std::string c_declarations(const VerifiedFile& file, const std::string& identifier,
                           const SizeOptions& sizes) {
  const size_t words = (file.bytes().size() + sizeof(uint64_t) - 1) / sizeof(uint64_t);
  return header_title(file) + c_macros(file, identifier, sizes) +
         fmt::format(kCWordsElsewhere, identifier, words);
}

// Little-endian.
void write_words(std::span<const std::byte> bytes, const WriteText& write) {
  std::string text;
  for (size_t at = 0, words = 0; at < bytes.size(); at += sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, std::min(sizeof(word), bytes.size() - at));
    text += fmt::format("{}0x{:x},", words % kWordsPerRow == 0 ? "\n" : " ", word);
    ++words;
    if (text.size() < kPieceBytes) continue;
    write(text);
    text.clear();
  }
  write(text);
}

void write_c_header(const VerifiedFile& file, const std::string& identifier,
                    const SizeOptions& sizes, BytesIn bytes_in, const WriteText& write) {
  write(header_title(file));
  write(kCPreamble);
  write(c_macros(file, identifier, sizes));
  if (bytes_in == BytesIn::kHeader) {
    write(fmt::format(kCWordsBegin, identifier));
    write_words(file.bytes(), write);
    write("\n};\n");
  } else {
    const size_t words = (file.bytes().size() + sizeof(uint64_t) - 1) / sizeof(uint64_t);
    write(fmt::format(kCWordsElsewhere, identifier, words));
  }
  write("// NOLINTEND\n");
}

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
