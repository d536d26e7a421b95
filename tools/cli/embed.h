// SPDX-License-Identifier: Apache-2.0
// Writes a model file as a C++ or C header, with its bytes and the size of its arena as constant
// expressions, or its bytes as an object or assembler file for the linker.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "cli/model_file.h"
#include "cli/session_sizes.h"

namespace arenite::tool {

// Makes a nonempty prefix for C++ names: replaces the other characters of `text` by '_'.
std::string identifier_from(std::string_view text);
// Converts to upper case, as in macro names.
std::string upper(std::string text);

// Throws InputError unless `name` followed by "_model" is a C++ identifier.
void check_identifier(const std::string& name);

// Receives the text of a header piece by piece.
using WriteText = std::function<void(std::string_view)>;

// The place of the model's bytes: the header, or another file at symbol <identifier>_words.
enum class BytesIn { kHeader, kAnotherFile };

// Writes a C++ header, whose names all begin with `identifier`. Throws InputError if the model
// cannot serve the sizes.
void write_header(const VerifiedFile& file, const std::string& identifier, const SizeOptions& sizes,
                  BytesIn bytes_in, const WriteText& write);

// Writes a C99 header. It has no functions; its arena size is the one at `sizes`.
void write_c_header(const VerifiedFile& file, const std::string& identifier,
                    const SizeOptions& sizes, BytesIn bytes_in, const WriteText& write);

// The parts of a C header for several models whose bytes are elsewhere: the lines before all
// declarations, and the declarations of one model.
std::string c_preamble();
std::string c_declarations(const VerifiedFile& file, const std::string& identifier,
                           const SizeOptions& sizes);

// Writes the initializers of the 64-bit words, without the braces around them.
void write_words(std::span<const std::byte> bytes, const WriteText& write);

// ---- the bytes for a linker (embed_data.cc) ----

inline constexpr const char* kDefaultSection = ".rodata.arenite";

enum class Abi { kX86_64, kAarch64, kArm, kRiscv64 };

// The symbol and section of the model's bytes, aligned to kModelAlignment: equal in assembler
// source and object file.
struct EmbeddedData {
  std::string symbol;
  std::string section = kDefaultSection;
};

using WriteBytes = std::function<void(std::span<const std::byte>)>;

// Accepts "x86_64", "aarch64", "arm" and "riscv64" (lp64d). Throws InputError for another name.
Abi abi_named(const std::string& name);

// Throws InputError unless linker scripts can refer to `section`.
void check_section(const std::string& section);

// Writes GNU assembler source that includes the file when it is assembled.
void write_assembler(const std::filesystem::path& model, size_t model_bytes,
                     const EmbeddedData& data, const WriteBytes& write);

// Writes a relocatable ELF object with a copy of the file. Throws InputError beyond 2 GB.
void write_object(std::span<const std::byte> model, Abi abi, const EmbeddedData& data,
                  const WriteBytes& write);

}  // namespace arenite::tool
