// SPDX-License-Identifier: Apache-2.0
// A model file as a header of C++ or C, its bytes and the size of its arena as constant
// expressions; or its bytes as a file for the linker.
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

// A prefix for C++ names made of `text`: other characters become '_'; never empty.
std::string identifier_from(std::string_view text);
// As names of macros are written.
std::string upper(std::string text);

// Throws InputError unless `name` can stand before "_model" in a C++ name.
void check_identifier(const std::string& name);

// Takes the text of a header, piece by piece.
using WriteText = std::function<void(std::string_view)>;

// Where the bytes of the model are: in the header, or after the symbol <identifier>_words.
enum class BytesIn { kHeader, kAnotherFile };

// Writes a header of C++. All names in it begin with `identifier`. Throws InputError if the model
// cannot serve the sizes.
void write_header(const VerifiedFile& file, const std::string& identifier, const SizeOptions& sizes,
                  BytesIn bytes_in, const WriteText& write);

// The same for C99, without the functions: the arena's bytes are those at `sizes`.
void write_c_header(const VerifiedFile& file, const std::string& identifier,
                    const SizeOptions& sizes, BytesIn bytes_in, const WriteText& write);

// What a header of C declares of one model whose bytes are elsewhere, and what comes before all of
// them: for a header of several models.
std::string c_preamble();
std::string c_declarations(const VerifiedFile& file, const std::string& identifier,
                           const SizeOptions& sizes);

// The initializers of the words, between braces.
void write_words(std::span<const std::byte> bytes, const WriteText& write);

// ---- the bytes for a linker (embed_data.cc) ----

inline constexpr const char* kDefaultSection = ".rodata.arenite";

// Which machine an object file is for.
enum class Abi { kX86_64, kAarch64, kArm, kRiscv64 };

// What both forms define: the symbol, aligned as models must be, in this section.
struct EmbeddedData {
  std::string symbol;
  std::string section = kDefaultSection;
};

using WriteBytes = std::function<void(std::span<const std::byte>)>;

// "x86_64", "aarch64", "arm" or "riscv64" (lp64d). Throws InputError for another name.
Abi abi_named(const std::string& name);

// Throws InputError unless `section` is a name that linker scripts can name.
void check_section(const std::string& section);

// GNU assembler source that includes the file where it lies when it is assembled.
void write_assembler(const std::filesystem::path& model, size_t model_bytes,
                     const EmbeddedData& data, const WriteBytes& write);

// A relocatable ELF object with a copy of the file. Throws InputError for one beyond 2 GB.
void write_object(std::span<const std::byte> model, Abi abi, const EmbeddedData& data,
                  const WriteBytes& write);

}  // namespace arenite::tool
