// SPDX-License-Identifier: Apache-2.0
// Writes the bytes of a model as assembler source or as an object file.
#include <elf.h>

#include <cstddef>
#include <cstring>

#include "arenite/model.h"
#include "cli/arguments.h"
#include "cli/embed.h"

namespace arenite::tool {
namespace {

// The object has a data section, one symbol, and the note that the stack need not be executable.
// Source: the System V ABI, chapters "Object Files" and "Symbol Table".

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

// Concatenates names. `add` returns the offset of a name.
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

// Writes header, model, symbols, names and section headers, each aligned as it must be.
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
  sections[kSymbols].sh_info = 1;  // index of the first global symbol
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

}  // namespace

Abi abi_named(const std::string& name) {
  std::string known;
  for (const AbiFacts& facts : kAbis) {
    if (name == facts.name) return facts.abi;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", facts.name);
  }
  throw convert::InputError("--abi {}: expected one of {}", convert::quote(name), known);
}

void check_section(const std::string& section) {
  constexpr const char* kLetters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
  if (!section.empty() && section.find_first_not_of(kLetters) == std::string::npos) return;
  throw convert::InputError(
      "--section {}: expected letters, digits, dots, dashes and underscores; for example {}",
      convert::quote(section), kDefaultSection);
}

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

}  // namespace arenite::tool
