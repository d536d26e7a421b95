// SPDX-License-Identifier: Apache-2.0
// Reads texts from the command line, a file or the standard input, as plain lines or JSON objects,
// normalizes and tokenizes them, and runs them through an encoder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "arenite/tokenizer.h"
#include "cli/facts.h"
#include "cli/model_file.h"
#include "cli/session_sizes.h"
#include "convert/check/check_session.h"
#include "convert/files/thread_pool.h"

namespace CLI {
class App;
}  // namespace CLI

namespace arenite::tool {

struct TextInput {
  std::string name;  // name of the file, or "the standard input"
  std::string text;
};

// Returns the bytes of `file`; "-" is the standard input, which may be a pipe. Throws InputError
// for any other file that is not regular, and for more than `bytes_max` bytes: for a file before
// reading it, for the standard input as soon as it exceeds them.
TextInput read_text(const std::filesystem::path& file, uint64_t bytes_max);

struct TextOptions {
  std::vector<std::string> texts;
  std::filesystem::path file;  // one text per line; empty: none
  bool pairs = false;          // each text is a pair, separated by a tab
  bool truncate = false;       // cut texts that are too long for the model
  bool skips_errors = false;   // skip lines of the file that cannot be encoded
  bool json_lines = false;     // objects with a text on the standard input, answers on the output
};

// Declares --text, --file, --json-lines, --pairs, --truncate and --on-error. `options` must outlive
// the command.
void add_text_options(CLI::App& command, TextOptions& options);

// A line of the file that was skipped, and why.
struct SkippedLine {
  size_t line = 0;  // from 1
  std::string reason;
};

// Warnings and skipped lines of all texts together.
struct TextNotes {
  std::vector<std::string> warnings{};
  std::vector<SkippedLine> skipped{};
};

template <>
inline constexpr auto kFacts<SkippedLine> =
    std::tuple(Fact("line", [](const SkippedLine& f) { return Positive{f.line}; }),
               Fact("reason", &SkippedLine::reason));
inline constexpr auto kTextNotes = std::tuple(
    Fact("warnings", &TextNotes::warnings),
    Fact("skipped", "Lines of --file that --on-error skip left out", &TextNotes::skipped));
// Prints the notes as warnings on the standard error.
void print_notes(const TextNotes& notes);

struct TextBatch : TextNotes {
  std::vector<std::string> texts;
  std::vector<std::vector<TokenId>> ids;
  std::vector<std::vector<uint8_t>> types;  // of pairs, if the model has token types; else empty
};

// Encodes all texts. Throws InputError for a model without a tokenizer, for texts that are empty or
// too long unless these are skipped, and if no text is left.
TextBatch encode_texts(const ModelFile& file, const TextOptions& options);

// Like encode_texts, but calls `use` with a batch for each line of the standard input as soon as it
// arrives. The batch of a skipped line has no texts.
void read_texts(const ModelFile& file, const TextOptions& options,
                const std::function<void(const TextBatch&)>& use);

// Returns a warning about characters of the text that the vocabulary lacks: "the vocabulary has no
// token for 'x' (U+0078): it is left out". Empty if it lacks none. `specials` says whether names of
// special tokens are read as tokens.
std::string unknown_characters(const Model& model, std::string_view text, bool specials);

// Receives the output rows of text `index`: one, or one for each of its tokens.
using TextRows = std::vector<std::span<const float>>;
using TextResults = std::function<void(size_t index, const TextRows& rows)>;

// Runs texts in a session that grows as needed.
class TextRunner {
 public:
  TextRunner(const ModelFile& file, uint32_t threads);

  // Runs all texts, back to back, in as few calls as kGroupTokens allows. Returns the plan of the
  // arena. REQUIRES: at least one text.
  ArenaPlan run(const TextBatch& batch, const TextResults& use);

  // Whether a text has one row, not one for each token.
  bool gives_one_row() const { return gives_one_row_; }

 private:
  Session& session_for(std::span<const uint32_t> lengths, std::span<const SequenceGroup> groups);

  const ModelFile& file_;
  convert::ThreadPool pool_;
  SessionOptions options_;
  bool gives_one_row_;
  std::optional<ModelSession> session_;
};

// Answers --json-lines: reads {"id": anything, "text": "...", "second": "..."} from each line of
// the standard input and writes an object with the same id, to which `add` adds what the rows of
// the text say, in the order of the lines. Lines that have arrived share calls, up to a limit, so
// memory does not grow. A line that --on-error skip skips is answered by {"id", "error"}.
void answer_json_lines(const ModelFile& file, const TextOptions& options, TextRunner& runner,
                       const std::function<void(Json& answer, std::span<const TokenId> ids,
                                                const TextRows& rows)>& add);

// Returns the text of tokens, without special ones.
std::string text_of(const Tokenizer& tokenizer, std::span<const TokenId> ids,
                    const DecodeOptions& options = {});

// Returns the beginning of a text, short enough for a terminal line.
std::string shorten(const std::string& text);

}  // namespace arenite::tool
