// SPDX-License-Identifier: Apache-2.0
// The bytes are written as 64-bit words: compilers take a third of the time that single bytes take,
// and a quarter of the memory.
#include "cli/embed_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "convert/files/error.h"
#include "core/crc32c.h"

namespace arenite::tool {
namespace {

constexpr size_t kWordsPerRow = 5;
constexpr size_t kPieceBytes = 1 << 16;

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

constexpr std::string_view kPreamble = R"(// NOLINTBEGIN
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

)";

// $ stands for the identifier. The numbers of core/arena_formula.h are filled in, because an
// application sees none of the runtime's own headers.
constexpr std::string_view kFormula = R"(
constexpr std::size_t ${target}_arena_bytes(
    std::uint32_t positions, std::uint32_t tokens, std::uint32_t sequences,
    std::uint32_t threads{parameter}) {{
  const auto round_up = [](std::uint64_t n) {{ return (n + {unit} - 1) / {unit} * {unit}; }};
  const std::uint64_t all = (std::uint64_t{{positions}} + {nr} - 1) / {nr} * {nr};
{caches}  const std::uint64_t session = round_up({session}ull + {sequence}ull * sequences);
  const std::uint64_t kv_cache = round_up(sequences * cache);
  const std::uint64_t activations = round_up({token}ull * tokens + {outputs}{slack});
  const std::uint64_t scratch = round_up({row}ull * (longest + {padding}));
  return static_cast<std::size_t>(session + kv_cache + activations + threads * scratch);
}}
)";

// Caches that hold everything, and those that are rings.
constexpr std::string_view kAllHeld = R"(  const std::uint64_t held{i} = all;
)";
constexpr std::string_view kRing = R"(  const std::uint64_t ring{i} =
      ((std::uint64_t{{tokens}} + {behind} + {page} - 2) / {page} + 1) * {page};
  const std::uint64_t held{i} = ring{i} < all ? ring{i} : all;
)";

// Which rows a model gives out is a choice of the session, unless it pools.
bool chooses_outputs(const format::ModelReader& reader) {
  return reader.formula(0).activation_bytes_per_output != 0 && !reader.pooled();
}

// Bytes of the rows that are given out, as a term in front of the others; empty if there are none.
std::string output_bytes(const format::ModelReader& reader, const ArenaFormula& formula) {
  if (formula.activation_bytes_per_output == 0) return "";
  return fmt::format(
      "{}ull * ({}tokens < sequences ? tokens : sequences) +\n"
      "                                             ",
      formula.activation_bytes_per_output, chooses_outputs(reader) ? "all_outputs || " : "");
}

// Declares `cache`, bytes for each sequence, and `longest`, the positions of the largest one.
std::string cache_lines(const ArenaFormula& formula) {
  std::string text;
  std::string sum;
  for (uint32_t i = 0; i < formula.group_count; ++i) {
    const CacheGroup& group = formula.groups[i];
    text +=
        fmt::format(fmt::runtime(group.behind == kUnlimited ? kAllHeld : kRing), fmt::arg("i", i),
                    fmt::arg("behind", group.behind), fmt::arg("page", kPagePositions));
    sum += fmt::format("{0}{1}ull * (held{2} / {3}) +\n      {4}ull * ((held{2} + {5} - 1) / {5})",
                       i == 0 ? "" : " +\n      ", group.bytes_per_panel, i, formula.nr,
                       group.bytes_per_page, kPagePositions);
  }
  text += fmt::format("  const std::uint64_t cache = {};\n", sum.empty() ? "0" : sum);
  text += "  std::uint64_t longest = 0;\n";
  for (uint32_t i = 0; i < formula.group_count; ++i) {
    text += fmt::format("  if (held{0} > longest) longest = held{0};\n", i);
  }
  return text;
}

std::string formula_function(const std::string& identifier, const format::ModelReader& reader,
                             uint32_t index) {
  const ArenaFormula formula = reader.formula(index);
  std::string text = fmt::format(
      kFormula, fmt::arg("target", "_" + target_identifier(reader.packed(index))),
      fmt::arg("unit", kArenaUnit), fmt::arg("nr", formula.nr),
      fmt::arg("caches", cache_lines(formula)), fmt::arg("session", kSessionBytes),
      fmt::arg("sequence", kSequenceBytes),
      fmt::arg("parameter", chooses_outputs(reader) ? ", bool all_outputs = false" : ""),
      fmt::arg("outputs", output_bytes(reader, formula)),
      fmt::arg("token", formula.activation_bytes_per_token), fmt::arg("slack", kReadAheadBytes),
      fmt::arg("row", formula.score_rows * sizeof(float)),
      fmt::arg("padding", kScoreRowPadding + formula.nr));
  return text.replace(text.find('$'), 1, identifier);
}

// The function over all targets of the file.
std::string largest_function(const std::string& identifier, const format::ModelReader& reader) {
  const bool chooses = chooses_outputs(reader);
  std::string text = fmt::format(
      "\n// The largest of them: enough whichever kernels the CPU runs.\n"
      "constexpr std::size_t {}_arena_bytes(\n"
      "    std::uint32_t positions, std::uint32_t tokens, std::uint32_t sequences,\n"
      "    std::uint32_t threads{}) {{\n"
      "  std::size_t largest = 0;\n"
      "  for (const std::size_t bytes : {{\n",
      identifier, chooses ? ", bool all_outputs = false" : "");
  for (uint32_t i = 0; i < reader.packed_count(); ++i) {
    text += fmt::format("           {}_{}_arena_bytes(positions, tokens, sequences, threads{}),\n",
                        identifier, target_identifier(reader.packed(i)),
                        chooses ? ", all_outputs" : "");
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
  const std::vector<ArenaLayout> arenas = plan_targets(file, sizes);
  std::string text = fmt::format(
      "// The sizes given to arenite embed, for arenite::SessionOptions.\n"
      "inline constexpr std::uint32_t {0}_positions_max = {1};\n"
      "inline constexpr std::uint32_t {0}_tokens_max = {2};\n"
      "inline constexpr std::uint32_t {0}_sequences_max = {3};\n"
      "inline constexpr std::uint32_t {0}_threads = {4};\n"
      "\n// Bytes of the arena at these sizes, for each target; then the largest of them.\n",
      identifier, sizes.positions, sizes.tokens, sizes.sequences, sizes.threads);
  size_t largest = 0;
  for (uint32_t i = 0; i < arenas.size(); ++i) {
    const size_t bytes = arenas[i].plan.total_bytes;
    largest = std::max(largest, bytes);
    text += fmt::format("inline constexpr std::size_t {}_{}_arena_bytes_max = {};\n", identifier,
                        target_identifier(file.reader().packed(i)), bytes);
  }
  return text + fmt::format("inline constexpr std::size_t {}_arena_bytes_max = {};\n", identifier,
                            largest);
}

}  // namespace

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

std::string header_title(const VerifiedFile& file) {
  const std::string file_name = std::filesystem::path(file.name()).filename().string();
  return fmt::format(
      "// Generated by arenite embed from {}, do not edit.\n"
      "// {} bytes, CRC-32C {:08x}.\n",
      convert::quote(file_name), file.bytes().size(), crc32c(file.bytes()));
}

std::string target_identifier(const format::PackedView& packed) {
  return identifier_from(name(static_cast<Target>(packed.target)));
}

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
      "// accepts.");
  for (uint32_t i = 0; i < reader.packed_count(); ++i) {
    write(formula_function(identifier, reader, i));
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

}  // namespace arenite::tool
