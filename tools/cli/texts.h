// SPDX-License-Identifier: Apache-2.0
// Texts from the command line, a file or the standard input: read, normalized, turned into tokens,
// and run through an encoder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/model_file.h"
#include "convert/check/call_rows.h"

namespace CLI {
class App;
}  // namespace CLI

namespace arenite::tool {

struct TextInput {
  std::string name;  // of the file, or "the standard input"
  std::string text;
};

// The bytes of `file`; "-" is the standard input, which may be a pipe or anything else. Throws
// InputError for other files that are not regular, and beyond `bytes_max`: for a file before it is
// read, for the standard input as soon as it has given more.
TextInput read_text(const std::filesystem::path& file, uint64_t bytes_max);

struct TextOptions {
  std::vector<std::string> texts;
  std::filesystem::path file;  // one text a line; empty: none
  bool pairs = false;          // each text is two, with a tab between them
  bool truncate = false;       // of texts too long for the model, the first tokens
};

// Declares --text, --file, --pairs and --truncate. `options` must outlive the command.
void add_text_options(CLI::App& command, TextOptions& options);

struct TextBatch {
  std::vector<std::string> texts;
  std::vector<std::vector<TokenId>> ids;
  std::vector<std::vector<uint8_t>> types;  // of pairs, where the model knows types; else empty
};

// Throws InputError for a model without a tokenizer, and for texts that are empty or too long.
TextBatch encode_texts(const ModelFile& file, const TextOptions& options);

// Receives what texts [first, first + lengths.size()) gave; each has that many tokens.
using TextResults =
    std::function<void(size_t first, std::span<const uint32_t> lengths, convert::CallRows& rows)>;

// Runs all texts, back to back in as few calls as kGroupTokens asks for. Returns the arena's plan.
ArenaPlan run_texts(const ModelFile& file, const TextBatch& batch, uint32_t threads,
                    const TextResults& use);

// The first characters of a text, for a line of a terminal.
std::string shorten(const std::string& text);

}  // namespace arenite::tool
