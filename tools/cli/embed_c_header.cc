// SPDX-License-Identifier: Apache-2.0
// A model file as a header of C99. C has no inline variables: with the bytes in it, it is for one
// source file.
#include <fmt/format.h>

#include "cli/embed_header.h"

namespace arenite::tool {
namespace {

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

std::string upper(std::string text) {
  for (char& c : text) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  return text;
}

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

}  // namespace

void write_c_header(const VerifiedFile& file, const std::string& identifier,
                    const SizeOptions& sizes, BytesIn bytes_in, const WriteText& write) {
  const std::string prefix = upper(identifier);
  write(header_title(file));
  write(kCPreamble);
  write(c_constants(file, prefix, resolve_sizes(file, sizes)));
  write(
      fmt::format("\n// The model file, for arenite_model_load.\n"
                  "#define {0}_MODEL ((const void*){1}_words)\n"
                  "#define {0}_MODEL_BYTES ((size_t){2}u)\n\n",
                  prefix, identifier, file.bytes().size()));
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

}  // namespace arenite::tool
