// SPDX-License-Identifier: Apache-2.0
// Reads bytes as they are, and leaves what is text and what is not to the tokenizer.
#include "arenite/prompt.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "arenite/normal_form.h"
#include "convert/error.h"
#include "convert/output_guard.h"

namespace arenite::tool {
namespace {

struct Source {
  std::string name;  // for messages
  std::string text;
};

std::string read_all(std::FILE* file, const std::string& name) {
  std::string text;
  char buffer[1 << 14];
  while (const size_t count = std::fread(buffer, 1, sizeof(buffer), file)) {
    text.append(buffer, count);
    if (text.size() > kTextBytesMax) {
      throw convert::InputError("{}: the prompt is too long: expected at most {} bytes", name,
                                kTextBytesMax);
    }
  }
  if (std::ferror(file) != 0) {
    throw convert::InputError("cannot read {}: {}", name, std::strerror(errno));
  }
  return text;
}

Source source_of(const PromptOptions& options) {
  if (options.file.empty()) return {"--prompt", options.text.value_or("")};
  if (options.file == "-") {
    convert::note_read(STDIN_FILENO, "the standard input");
    return {"the standard input", read_all(stdin, "the standard input")};
  }
  const std::string name = convert::quote(options.file.string());
  convert::note_read(options.file);
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(options.file.c_str(), "rb"),
                                                             std::fclose);
  if (file == nullptr) {
    throw convert::InputError("cannot open {}: {}", name, std::strerror(errno));
  }
  return {options.file.string(), read_all(file.get(), name)};
}

std::vector<TokenId> encode(const Model& model, const Tokenizer& tokenizer, const Source& source,
                            bool specials) {
  EncodeOptions options;
  options.read_specials = specials;
  const std::string text = in_expected_form(model, source.text, specials, source.name);
  std::vector<TokenId> ids(encode_tokens_max(text.size()));
  Diagnostic why;
  const Result<size_t> count = tokenizer.encode(text, options, ids, &why);
  if (!count.ok()) throw_status(source.name, count.status(), why);
  ids.resize(*count);
  // With specials, an end may be what the person wrote.
  if (!specials && ids.size() > 1 && tokenizer.is_special(ids.back()) &&
      tokenizer.is_end(ids.back())) {
    ids.pop_back();
  }
  ids.shrink_to_fit();
  return ids;
}

std::vector<TokenId> encode_prompt(const ModelFile& file, const std::optional<Tokenizer>& tokenizer,
                                   const PromptOptions& options) {
  if (!tokenizer) {
    throw convert::InputError(
        "{}: the file has no tokenizer: give the tokens with --prompt-ids, or convert it again "
        "with its tokenizer",
        convert::quote(file.name()));
  }
  const Source source = source_of(options);
  std::vector<TokenId> ids = encode(file.model(), *tokenizer, source, options.specials);
  if (!source.text.empty() && !ids.empty()) return ids;
  if (tokenizer->bos() == kNoToken) {
    throw convert::InputError(
        "{}: the prompt is empty, and this model knows no token that begins a text: give it at "
        "least one character",
        source.name);
  }
  return {tokenizer->bos()};
}

}  // namespace

std::vector<TokenId> read_prompt(const ModelFile& file, const std::optional<Tokenizer>& tokenizer,
                                 const PromptOptions& options) {
  const std::vector<TokenId> ids =
      options.ids.empty() ? encode_prompt(file, tokenizer, options) : options.ids;
  for (const TokenId id : ids) {
    if (id >= file.model().vocab_size()) {
      throw convert::InputError(
          "{}: found token {} in the prompt, expected ids below {}, its "
          "vocabulary",
          convert::quote(file.name()), id, file.model().vocab_size());
    }
  }
  return ids;
}

}  // namespace arenite::tool
