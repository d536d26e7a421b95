// SPDX-License-Identifier: Apache-2.0
// Reads bytes as they are, and leaves what is text and what is not to the tokenizer.
#include "cli/texts.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "arenite/tokenizer.h"
#include "cli/command_line.h"
#include "cli/session_sizes.h"
#include "cli/thread_pool.h"
#include "convert/files/error.h"
#include "convert/files/input_limits.h"
#include "convert/files/memory.h"
#include "convert/tokenizers/expected_form.h"

namespace arenite::tool {
namespace {

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

  void encode(const NamedText& text, TextBatch& batch) const {
    // Normalizing leaves a tab as it is, so both texts of a pair are normalized at once.
    const NamedText normal = {
        text.name,
        convert::in_expected_form(model_, text.text, encode_options_.read_specials, text.name)};
    std::vector<TokenId> ids(encode_tokens_max(normal.text.size()));
    std::vector<uint8_t> types;
    Diagnostic why;
    const Result<size_t> count = encode_into(normal, ids, types, why);
    if (!count.ok()) throw_status(text.name, count.status(), why);
    const uint32_t positions = model_.positions_max();
    if (positions != 0 && *count > positions) {
      throw convert::InputError(
          "{}: found {} tokens; at most {}, the longest sequence of the model: shorten "
          "the text, or have it cut with --truncate",
          text.name, *count, positions);
    }
    if (*count == 0) {
      throw convert::InputError("{}: the text has no tokens: expected at least one", text.name);
    }
    ids.resize(*count);
    if (!types.empty()) types.resize(*count);
    batch.texts.push_back(text.text);
    batch.ids.push_back(std::vector(ids));
    batch.types.push_back(std::vector(types));
  }

 private:
  Result<size_t> encode_into(const NamedText& text, std::vector<TokenId>& ids,
                             std::vector<uint8_t>& types, Diagnostic& why) const {
    if (!options_.pairs) return tokenizer_.encode(text.text, encode_options_, ids, &why);
    const size_t tab = text.text.find('\t');
    if (tab == std::string::npos) {
      throw convert::InputError("{}: expected two texts with a tab between them (--pairs)",
                                text.name);
    }
    if (model_.token_types() > 1) types.resize(ids.size());
    const std::string_view whole = text.text;
    return tokenizer_.encode_pair(whole.substr(0, tab), whole.substr(tab + 1), encode_options_, ids,
                                  types, &why);
  }

  const Model& model_;
  const TextOptions& options_;
  Tokenizer tokenizer_;
  EncodeOptions encode_options_;
};

// Line by line, so that one that cannot be encoded is refused before the rest is looked at.
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
    const std::string name = fmt::format("{}, line {}", source, number);
    if (line.size() > convert::kPromptBytesMax) {
      throw convert::InputError("{} has {} bytes: at most {} are accepted", name, line.size(),
                                convert::kPromptBytesMax);
    }
    encoder.encode({name, std::string(line)}, batch);
  }
}

}  // namespace

TextInput read_text(const std::filesystem::path& file, uint64_t bytes_max) {
  if (file == "-") {
    const std::string name = "the standard input";
    return {name, read_standard_input(name, bytes_max)};
  }
  const convert::FileMap map(file, bytes_max);
  return {file.string(), std::string(map.text())};
}

void add_text_options(CLI::App& command, TextOptions& options) {
  CLI::Option* const text =
      command.add_option("--text", options.texts, "A text; may be given more than once")
          ->allow_extra_args(false);
  command.add_option("--file", options.file, "A file with a text on each line; - is the input")
      ->type_name(kFileType)
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
  if (batch.texts.empty()) {
    throw convert::InputError("there are no texts: expected --text or a --file with lines");
  }
  return batch;
}

ArenaPlan run_texts(const ModelFile& file, const TextBatch& batch, uint32_t threads,
                    const TextResults& use) {
  std::vector<uint32_t> lengths;
  for (const std::vector<TokenId>& ids : batch.ids) {
    lengths.push_back(static_cast<uint32_t>(ids.size()));
  }
  const std::vector<SequenceGroup> groups = group_sequences(lengths);
  ThreadPool pool(threads);
  SessionOptions options = options_for(lengths, groups);
  options.outputs = convert::authors_outputs(file.model().file());
  options.parallel = pool.parallel_for();
  ModelSession session(file, options);
  for (const SequenceGroup& group : groups) {
    std::vector<TokenId> ids;
    std::vector<uint8_t> types;
    for (size_t i = group.first; i < group.first + group.count; ++i) {
      ids.insert(ids.end(), batch.ids[i].begin(), batch.ids[i].end());
      types.insert(types.end(), batch.types[i].begin(), batch.types[i].end());
    }
    const std::span<const uint32_t> group_lengths =
        std::span(lengths).subspan(group.first, group.count);
    Diagnostic why;
    const Result<Output> output = session.session().run(
        TokenBatch{ids, group.count, 0, group_lengths, {}, true, types}, &why);
    if (!output.ok()) throw_status(file.name(), output.status(), why);
    require_finite(file.name(), *output);
    uint64_t given = 0;
    for (const uint32_t length : group_lengths) {
      given += convert::rows_given(file.model(), options.outputs, length, true);
    }
    convert::CallRows rows(*output, file.model(), given);
    use(group.first, group_lengths, rows);
  }
  return session.plan();
}

std::string shorten(const std::string& text) {
  constexpr size_t kLength = 48;
  if (text.size() <= kLength) return text;
  size_t end = kLength;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end) + "...";
}

}  // namespace arenite::tool
