// SPDX-License-Identifier: Apache-2.0
// A model file as something that a linker takes: assembler source or an object file.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <string>

namespace arenite::tool {

inline constexpr const char* kDefaultSection = ".rodata.arenite";

// Which machine an object file is for.
enum class Abi { kX86_64, kAarch64, kArm, kRiscv64 };

// "x86_64", "aarch64", "arm" or "riscv64" (lp64d). Throws InputError for another name.
Abi abi_named(const std::string& name);

// Throws InputError unless `section` is a name that linker scripts can name.
void check_section(const std::string& section);

// What both forms define: the symbol, aligned as models must be, in this section.
struct EmbeddedData {
  std::string symbol;
  std::string section = kDefaultSection;
};

using WriteBytes = std::function<void(std::span<const std::byte>)>;

// GNU assembler source that includes the file where it lies when it is assembled.
void write_assembler(const std::filesystem::path& model, size_t model_bytes,
                     const EmbeddedData& data, const WriteBytes& write);

// A relocatable ELF object with a copy of the file. Throws InputError for one beyond 2 GB.
void write_object(std::span<const std::byte> model, Abi abi, const EmbeddedData& data,
                  const WriteBytes& write);

}  // namespace arenite::tool
