// SPDX-License-Identifier: Apache-2.0
// Texts from the command line, a file or the standard input: read, normalized, turned into tokens,
// and run through an encoder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/facts.h"
#include "cli/model_file.h"
#include "cli/session_sizes.h"
#include "cli/thread_pool.h"
#include "convert/check/check_session.h"

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
  bool skips_errors = false;   // lines of the file that cannot be read are left out
};

// Declares --text, --file, --pairs, --truncate and --on-error. `options` must outlive the command.
void add_text_options(CLI::App& command, TextOptions& options);

// A line of the file that was left out, and why.
struct SkippedLine {
  size_t line = 0;  // from 1
  std::string reason;
};

// What is said of texts as a whole.
struct TextNotes {
  std::vector<std::string> warnings{};
  std::vector<SkippedLine> skipped{};
};

template <>
inline constexpr auto kFacts<SkippedLine> =
    std::tuple(Fact("line", [](const SkippedLine& f) { return Positive{f.line}; }),
               Fact("reason", &SkippedLine::reason));
inline constexpr auto kTextNotes =
    std::tuple(Fact("warnings", &TextNotes::warnings),
               Fact("skipped", "Of --file, with --on-error skip", &TextNotes::skipped));
// As warnings on the standard error.
void print_notes(const TextNotes& notes);

struct TextBatch : TextNotes {
  std::vector<std::string> texts;
  std::vector<std::vector<TokenId>> ids;
  std::vector<std::vector<uint8_t>> types;  // of pairs, where the model knows types; else empty
};

// All texts. Throws InputError for a model without a tokenizer, for texts that are empty or too
// long unless they are to be skipped, and where no text is left.
TextBatch encode_texts(const ModelFile& file, const TextOptions& options);

// The same, but each line of the standard input alone and as soon as it is there. A batch has no
// text where its line was skipped.
void read_texts(const ModelFile& file, const TextOptions& options,
                const std::function<void(const TextBatch&)>& use);

// What the vocabulary cannot say of a text, for a warning: "the vocabulary has no token for 'x'
// (U+0078): it is left out"; empty where it can say all of it. `specials`: whether names of
// special tokens are read.
std::string unknown_characters(const Model& model, std::string_view text, bool specials);

// Receives what texts [first, first + lengths.size()) gave; each has that many tokens.
using TextResults =
    std::function<void(size_t first, std::span<const uint32_t> lengths, convert::CallRows& rows)>;

// Runs texts in a session that grows with them.
class TextRunner {
 public:
  TextRunner(const ModelFile& file, uint32_t threads) : file_(file), pool_(threads) {}

  // All texts, back to back in as few calls as kGroupTokens asks for. Returns the arena's plan.
  // REQUIRES: at least one.
  ArenaPlan run(const TextBatch& batch, const TextResults& use);

 private:
  Session& session_for(std::span<const uint32_t> lengths, std::span<const SequenceGroup> groups);

  const ModelFile& file_;
  ThreadPool pool_;
  SessionOptions options_;
  std::optional<ModelSession> session_;
};

// The first characters of a text, for a line of a terminal.
std::string shorten(const std::string& text);

}  // namespace arenite::tool
