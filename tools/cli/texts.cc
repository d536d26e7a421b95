// SPDX-License-Identifier: Apache-2.0
// Reads bytes unchanged; the tokenizer decides what is text.
#include "cli/texts.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <set>

#include "arenite/text_stream.h"
#include "arenite/tokenizer.h"
#include "cli/arguments.h"
#include "convert/files/input_limits.h"
#include "convert/files/json_file.h"
#include "convert/files/memory.h"
#include "convert/tokenizers/unicode_library.h"
#include "core/utf8.h"
#include "format/tokenizer_reader.h"
#include "text/encoder.h"
#include "text/special_finder.h"

namespace arenite::tool {
namespace {

constexpr const char* kStandardInput = "the standard input";
constexpr size_t kUnknownNamed = 8;  // in a warning; more would not help
constexpr size_t kWordBytes = 256;   // longest word that is checked as a whole

std::string read_standard_input(const std::string& name, uint64_t bytes_max) {
  std::string text;
  char buffer[1 << 14];
  while (const size_t count = std::fread(buffer, 1, sizeof(buffer), stdin)) {
    text.append(buffer, count);
    if (text.size() > bytes_max) {
      throw convert::InputError("cannot read {}: it has more than {} bytes, which is the most",
                                name, bytes_max);
    }
  }
  if (std::ferror(stdin) != 0) {
    throw convert::InputError("cannot read {}: {}", name, std::strerror(errno));
  }
  return text;
}

struct NamedText {
  std::string name;  // for messages
  std::string text;
  size_t line = 0;                      // in the file; 0: not from a file
  std::optional<std::string> second{};  // of a pair
};

class TextEncoder {
 public:
  TextEncoder(const ModelFile& file, const TextOptions& options)
      : model_(file.model()), options_(options) {
    const Result<Tokenizer> tokenizer = Tokenizer::of(model_);
    if (!tokenizer.ok()) {
      throw convert::InputError(
          "{}: the file has no tokenizer: convert the model again with its tokenizer "
          "(--tokenizer), or give it token ids (arenite run)",
          convert::quote(file.name()));
    }
    tokenizer_ = *tokenizer;
    if (options.truncate) encode_options_.tokens_max = model_.positions_max();
  }

  // Encodes a line. Notes an error in the batch if such lines are to be skipped.
  void add_line(const NamedText& text, TextBatch& batch) const {
    if (!options_.skips_errors) return encode(text, batch);
    try {
      encode(text, batch);
    } catch (const convert::InputError& error) {
      batch.skipped.push_back({text.line, error.what()});
    }
  }

  void encode(const NamedText& text, TextBatch& batch) const {
    const size_t bytes = text.text.size() + text.second.value_or("").size();
    if (bytes > convert::kPromptBytesMax) {
      throw convert::InputError("{} has more than {} bytes, which is the most", text.name,
                                convert::kPromptBytesMax);
    }
    NamedText normal = text;
    if (options_.pairs && !text.second) split(normal);
    normal.text = normalized(normal.text, text.name);
    if (normal.second) normal.second = normalized(*normal.second, text.name);
    std::vector<TokenId> ids(
        convert::ids_for_text(model_, normal.text.size() + normal.second.value_or("").size()));
    std::vector<uint8_t> types(model_.token_types() > 1 ? ids.size() : 0);
    Diagnostic why;
    const Result<size_t> count = encode_into(normal, ids, types, why);
    if (!count.ok()) throw_status(text.name, count.status(), why);
    const uint32_t positions = model_.positions_max();
    if (positions != 0 && *count > positions) {
      throw convert::InputError(
          "{}: found {} tokens; at most {}, the longest sequence of the model: shorten "
          "the text, or have it cut with --truncate{}",
          text.name, *count, positions, text.line != 0 ? " or left out with --on-error skip" : "");
    }
    if (*count == 0) {
      throw convert::InputError("{}: the text has no tokens: expected at least one", text.name);
    }
    ids.resize(*count);
    if (!types.empty()) types.resize(*count);
    const std::string unknown = unknown_characters(model_, normal.text + normal.second.value_or(""),
                                                   encode_options_.read_specials);
    if (!unknown.empty()) batch.warnings.push_back(fmt::format("{}: {}", text.name, unknown));
    batch.texts.push_back(text.text);
    batch.ids.push_back(std::vector(ids));
    batch.types.push_back(std::vector(types));
  }

 private:
  std::string normalized(const std::string& text, const std::string& name) const {
    return convert::in_expected_form(model_, text, encode_options_.read_specials, name);
  }

  // Makes two texts of one with a tab.
  static void split(NamedText& text) {
    const size_t tab = text.text.find('\t');
    if (tab == std::string::npos) {
      throw convert::InputError("{}: expected two texts with a tab between them (--pairs)",
                                text.name);
    }
    text.second = text.text.substr(tab + 1);
    text.text.resize(tab);
  }

  Result<size_t> encode_into(const NamedText& text, std::vector<TokenId>& ids,
                             std::vector<uint8_t>& types, Diagnostic& why) const {
    if (!text.second) return tokenizer_.encode(text.text, encode_options_, ids, &why);
    return tokenizer_.encode_pair(text.text, *text.second, encode_options_, ids, types, &why);
  }

  const Model& model_;
  const TextOptions& options_;
  Tokenizer tokenizer_;
  EncodeOptions encode_options_;
};

// Reads the standard input line by line.
class InputLines {
 public:
  // Reads the next line without its "\n" or "\r\n". Stores a line that is too long only as far as
  // needed to reject it. Returns false at the end.
  bool next(std::string& line) {
    line.clear();
    bool has_line = false;
    while (begin_ < end_ || fill()) {
      has_line = true;
      const char* const from = buffer_ + begin_;
      const void* const found = std::memchr(from, '\n', end_ - begin_);
      const size_t count = found != nullptr
                               ? static_cast<size_t>(static_cast<const char*>(found) - from)
                               : end_ - begin_;
      if (line.size() <= convert::kPromptBytesMax) line.append(from, count);
      begin_ += count + (found != nullptr ? 1 : 0);
      if (found == nullptr) continue;
      if (line.ends_with('\r')) line.pop_back();
      break;
    }
    return has_line;
  }

  // Whether a part of another line, or the end, has arrived.
  bool is_ready() const {
    pollfd input = {STDIN_FILENO, POLLIN, 0};
    return begin_ < end_ || poll(&input, 1, 0) != 0;
  }

 private:
  bool fill() {
    ssize_t count = 0;
    do {
      count = read(STDIN_FILENO, buffer_, sizeof(buffer_));
    } while (count < 0 && errno == EINTR);
    if (count < 0) {
      throw convert::InputError("cannot read {}: {}", kStandardInput, std::strerror(errno));
    }
    begin_ = 0;
    end_ = static_cast<size_t>(count);
    return count != 0;
  }

  char buffer_[1 << 14];
  size_t begin_ = 0;
  size_t end_ = 0;
};

NamedText line_of(const std::string& source, size_t number, std::string_view line) {
  return {fmt::format("{}, line {}", source, number), std::string(line), number};
}

// Encodes line by line, so that an error is reported before later lines are encoded.
void encode_lines(const std::filesystem::path& file, const TextEncoder& encoder, TextBatch& batch) {
  const TextInput input = read_text(file, convert::kTextFileBytesMax);
  const std::string source = file == "-" ? input.name : convert::quote(input.name);
  std::string_view rest = input.text;
  size_t number = 0;
  for (std::string_view line; convert::take_line(rest, line);) {
    if (++number > convert::kTextsMax) {
      throw convert::InputError("{} has more than {} lines, which is the most: split it", source,
                                convert::kTextsMax);
    }
    encoder.add_line(line_of(source, number, line), batch);
  }
}

void require_texts(const TextBatch& batch, size_t texts) {
  if (texts != 0) return;
  if (batch.skipped.empty()) {
    throw convert::InputError("there are no texts: expected --text or a --file with lines");
  }
  throw convert::InputError("no text is left: all {} lines were skipped; the last was {}",
                            batch.skipped.size(), batch.skipped.back().reason);
}

// Lines of JSON that share calls: at most so many, and so many bytes.
constexpr size_t kLinesAtOnce = 256;
constexpr size_t kBytesAtOnce = 1 << 16;

// The answer to a line of JSON: its id, and results or an error.
struct JsonAnswer {
  Json object = Json::object();
  bool has_text = false;
};

// Reads {"id": anything, "text": "...", "second": "..."}. Sets the id in `object` before anything
// else is looked at. Throws InputError.
NamedText text_of_json(const NamedText& line, Json& object) {
  const auto refuse = [&](const char* found) {
    throw convert::InputError(
        "{}: {}; expected an object with \"text\", and \"id\" and \"second\" if there are any",
        line.name, found);
  };
  if (line.text.size() > convert::kPromptBytesMax) {
    throw convert::InputError("{} has more than {} bytes, which is the most", line.name,
                              convert::kPromptBytesMax);
  }
  const Json given(convert::parse_json(line.text, line.name));
  if (!given.is_object()) refuse("this is no object");
  if (given.contains("id")) object["id"] = given["id"];
  NamedText text = {line.name, "", line.line};
  for (const auto& [key, value] : given.items()) {
    if (key != "text" && key != "second") continue;  // what else a corpus has
    if (!value.is_string()) refuse("a text is no string");
    (key == "text" ? text.text : text.second.emplace()) = value.get<std::string>();
  }
  if (!given.contains("text")) refuse("there is no text");
  return text;
}

// Returns "'x' (U+0078)" for a character, or a word in quotes.
std::string name_of(std::string_view unknown) {
  const CodePoint first = decode_utf8(unknown);
  if (first.bytes != unknown.size() || first.value == kInvalidCodePoint) {
    return convert::quote(unknown);
  }
  return fmt::format("{} (U+{:04X})", convert::quote(unknown), first.value);
}

// Returns the first character, or word, of `text` that the vocabulary lacks. REQUIRES: `view`
// refuses unknown text, and `ids` has room for the text.
std::string_view first_unknown(const format::TokenizerView& view, std::string_view text,
                               std::span<TokenId> ids) {
  Diagnostic why;
  if (text::Encoder(view, text, ids).run(false, "text", &why).ok()) return {};
  size_t begin = why.index;
  while (begin > 0 && (static_cast<uint8_t>(text[begin]) & 0xC0) == 0x80) --begin;
  size_t end = begin;
  do {  // a prefix of an unknown word may be known
    end += decode_utf8(text.substr(end)).bytes;
    text::Encoder encoder(view, text.substr(begin, end - begin), ids);
    if (!encoder.run(false, "text", &why).ok()) break;
  } while (end < text.size());
  if (!view.steps.empty()) {  // of normalized text, only the last character is unknown
    begin = end - 1;
    while (begin > 0 && (static_cast<uint8_t>(text[begin]) & 0xC0) == 0x80) --begin;
  }
  return text.substr(begin, end - begin);
}

// Removes the next word, with spaces before it, from `text`; of a very long word, the beginning.
std::string_view take_word(std::string_view& text) {
  constexpr std::string_view kSpaces = " \t\r\n";
  const size_t begin = text.find_first_not_of(kSpaces);
  size_t end = std::min({text.find_first_of(kSpaces, begin), kWordBytes, text.size()});
  while (end < text.size() && end > 1 && (static_cast<uint8_t>(text[end]) & 0xC0) == 0x80) --end;
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(end);
  return word;
}

// Returns the distinct unknown characters and words of the text, at most one more than are named.
std::vector<std::string> all_unknown(format::TokenizerView view, std::string_view text,
                                     bool specials) {
  const text::SpecialFinder finder(view, specials);
  view.unknown = format::Unknown::kRefuse;
  view.prefix = format::Prefix::kNever;  // a word may be inside a text
  constexpr size_t kGrowth = 16;         // of a word by a normalizer
  std::vector<TokenId> ids(kGrowth * encode_tokens_max(kWordBytes));
  std::set<std::string_view> seen;
  std::vector<std::string> names;
  for (size_t position = 0; position < text.size();) {
    const text::SpecialMatch match = finder.find(text, position);
    std::string_view part = text.substr(position, match.begin - position);
    while (!part.empty()) {
      std::string_view word = take_word(part);
      if (!seen.insert(word).second) continue;
      for (std::string_view unknown; !(unknown = first_unknown(view, word, ids)).empty();) {
        word.remove_prefix(static_cast<size_t>(unknown.end() - word.begin()));
        const std::string name = name_of(unknown);
        if (std::ranges::find(names, name) == names.end()) names.push_back(name);
        if (names.size() > kUnknownNamed) return names;
      }
    }
    position = match.end;
  }
  return names;
}

}  // namespace

TextInput read_text(const std::filesystem::path& file, uint64_t bytes_max) {
  if (file == "-") {
    return {kStandardInput, read_standard_input(kStandardInput, bytes_max)};
  }
  const convert::FileMap map(file, bytes_max);
  return {file.string(), std::string(map.text())};
}

void add_text_options(CLI::App& command, TextOptions& options) {
  CLI::Option* const text =
      command.add_option("--text", options.texts, "A text; may be given more than once")
          ->allow_extra_args(false);
  add_file(command, "--file", options.file, "A file with a text on each line; - is the input")
      ->excludes(text);
  command
      .add_flag(
          "--json-lines", options.json_lines,
          "Read {\"id\", \"text\"} from each line of the input, answer each by a line of JSON")
      ->excludes(text)
      ->excludes("--file");
  static constexpr Choice<bool> kOnError[] = {{"stop", false}, {"skip", true}};
  add_choice(command, "--on-error", options.skips_errors, kOnError,
             "At a line that the model cannot take: stop, or skip it with a warning")
      ->default_str("stop")
      ->excludes(text);
  command.add_flag("--pairs", options.pairs, "Each text is two, with a tab between them");
  command.add_flag("--truncate", options.truncate,
                   "Cut texts that are longer than the model takes, instead of refusing them");
}

TextBatch encode_texts(const ModelFile& file, const TextOptions& options) {
  const TextEncoder encoder(file, options);
  TextBatch batch;
  for (const std::string& text : options.texts) {
    encoder.encode({fmt::format("--text {}", convert::quote(shorten(text))), text}, batch);
  }
  if (!options.file.empty()) encode_lines(options.file, encoder, batch);
  require_texts(batch, batch.texts.size());
  return batch;
}

void read_texts(const ModelFile& file, const TextOptions& options,
                const std::function<void(const TextBatch&)>& use) {
  if (options.file != "-") return use(encode_texts(file, options));
  const TextEncoder encoder(file, options);
  TextBatch last;
  InputLines lines;
  size_t texts = 0, number = 0;
  for (std::string line; lines.next(line);) {
    TextBatch batch;
    encoder.add_line(line_of(kStandardInput, ++number, line), batch);
    use(batch);
    texts += batch.texts.size();
    if (!batch.skipped.empty()) last = std::move(batch);
  }
  require_texts(last, texts);
}

std::string unknown_characters(const Model& model, std::string_view text, bool specials) {
  const format::TokenizerView view = format::tokenizer_view(model.file());
  if (view.unknown == format::Unknown::kRefuse) return "";  // encoding has reported it
  std::vector<std::string> names = all_unknown(view, text, specials);
  if (names.empty()) return "";
  const bool is_one = names.size() == 1;
  if (names.size() > kUnknownNamed) names.back() = "and more";
  return fmt::format("the vocabulary has no token for {}: {} {}", fmt::join(names, ", "),
                     is_one ? "it is" : "they are",
                     view.unknown == format::Unknown::kDrop
                         ? "left out"
                         : "read as " + convert::quote(view.bytes(view.unknown_token)));
}

void print_notes(const TextNotes& notes) {
  for (const SkippedLine& line : notes.skipped) print_warning("skipped " + line.reason);
  for (const std::string& warning : notes.warnings) print_warning(warning);
}

Session& TextRunner::session_for(std::span<const uint32_t> lengths,
                                 std::span<const SequenceGroup> groups) {
  const SessionOptions needed = options_for(lengths, groups);
  if (!session_ || needed.positions_max > options_.positions_max ||
      needed.tokens_max > options_.tokens_max || needed.sequences_max > options_.sequences_max) {
    options_.positions_max = std::max(options_.positions_max, needed.positions_max);
    options_.tokens_max = std::max(options_.tokens_max, needed.tokens_max);
    options_.sequences_max = std::max(options_.sequences_max, needed.sequences_max);
    options_.outputs = convert::authors_outputs(file_.model().file());
    options_.parallel = pool_.parallel_for();
    session_.reset();  // free the old arena before the new one is allocated
    session_.emplace(file_, options_);
  }
  return session_->session();
}

TextRunner::TextRunner(const ModelFile& file, uint32_t threads)
    : file_(file),
      pool_(threads),
      gives_one_row_(convert::has_row_of_sequence(file.model().file(),
                                                  convert::authors_outputs(file.model().file()))) {}

ArenaPlan TextRunner::run(const TextBatch& batch, const TextResults& use) {
  std::vector<uint32_t> lengths;
  for (const std::vector<TokenId>& ids : batch.ids) {
    lengths.push_back(static_cast<uint32_t>(ids.size()));
  }
  const std::vector<SequenceGroup> groups = group_sequences(lengths);
  Session& session = session_for(lengths, groups);
  for (const SequenceGroup& group : groups) {
    std::vector<TokenId> ids;
    std::vector<uint8_t> types;
    std::vector<uint32_t> given;
    for (size_t i = group.first; i < group.first + group.count; ++i) {
      ids.insert(ids.end(), batch.ids[i].begin(), batch.ids[i].end());
      types.insert(types.end(), batch.types[i].begin(), batch.types[i].end());
      given.push_back(convert::rows_given(file_.model(), options_.outputs, lengths[i], true));
      convert::refuse_if(!gives_one_row_ && given.back() < lengths[i],
                         "the model gives {} rows for a text of {} tokens", given.back(),
                         lengths[i]);
    }
    Diagnostic why;
    const Result<Output> output =
        session.run(TokenBatch{ids,
                               group.count,
                               0,
                               std::span(lengths).subspan(group.first, group.count),
                               {},
                               true,
                               types},
                    &why);
    if (!output.ok()) throw_status(file_.name(), output.status(), why);
    require_finite(file_.name(), *output);
    convert::CallRows rows(*output, file_.model(),
                           std::accumulate(given.begin(), given.end(), uint64_t{0}));
    for (size_t i = 0, begin = 0; i < group.count; begin += given[i++]) {
      // Rows of constants precede those of tokens.
      const size_t count = gives_one_row_ ? 1 : lengths[group.first + i];
      TextRows of_text;
      for (size_t row = given[i] - count; row < given[i]; ++row) {
        of_text.push_back(rows[begin + row]);
      }
      use(group.first + i, of_text);
    }
  }
  return session_->plan();
}

void answer_json_lines(const ModelFile& file, const TextOptions& options, TextRunner& runner,
                       const std::function<void(Json& answer, std::span<const TokenId> ids,
                                                const TextRows& rows)>& add) {
  const TextEncoder encoder(file, options);
  InputLines lines;
  size_t number = 0;
  const auto answer = [&](std::vector<JsonAnswer>& answers, const TextBatch& batch) {
    for (const std::string& warning : batch.warnings) print_warning(warning);
    std::vector<Json*> objects;
    for (JsonAnswer& one : answers) {
      if (one.has_text) objects.push_back(&one.object);
    }
    if (!objects.empty()) {
      runner.run(batch, [&](size_t index, const TextRows& rows) {
        add(*objects[index], batch.ids[index], rows);
      });
    }
    for (const JsonAnswer& one : answers) print_string(document(one.object, -1) + "\n");
    flush_output();
    answers.clear();
  };
  std::string line;
  for (bool has_more = true; has_more;) {
    std::vector<JsonAnswer> answers;
    TextBatch batch;
    try {
      for (size_t bytes = 0; answers.size() < kLinesAtOnce && bytes < kBytesAtOnce;) {
        if (!answers.empty() && !lines.is_ready()) break;  // somebody may wait for these
        if (!(has_more = lines.next(line))) break;
        bytes += line.size();
        const NamedText source = line_of(kStandardInput, ++number, line);
        JsonAnswer& one = answers.emplace_back();
        try {
          encoder.encode(text_of_json(source, one.object), batch);
          one.has_text = true;
        } catch (const convert::InputError& error) {
          if (!options.skips_errors) {
            answers.pop_back();
            throw;
          }
          one.object["error"] = error.what();
        }
      }
    } catch (const convert::InputError&) {
      answer(answers, batch);  // the lines before it
      throw;
    }
    answer(answers, batch);
  }
}

std::string text_of(const Tokenizer& tokenizer, std::span<const TokenId> ids,
                    const DecodeOptions& options) {
  TextStream stream(tokenizer, options);
  std::string text;
  for (const TokenId id : ids) {
    const TextParts parts = stream.next(id);
    text.append(parts.head).append(parts.tail);
  }
  return text.append(stream.finish().head);
}

std::string shorten(const std::string& text) {
  constexpr size_t kLength = 48;
  if (text.size() <= kLength) return text;
  size_t end = kLength;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end) + "...";
}

}  // namespace arenite::tool
