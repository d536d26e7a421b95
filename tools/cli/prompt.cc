// SPDX-License-Identifier: Apache-2.0
// From the text of a prompt, or the ids given instead, to tokens of the model.
#include "cli/prompt.h"

#include "cli/normal_form.h"
#include "cli/text_input.h"
#include "convert/files/error.h"
#include "convert/files/input_limits.h"

namespace arenite::tool {
namespace {

TextInput source_of(const PromptOptions& options) {
  if (options.file.empty()) return {"--prompt", options.text.value_or("")};
  return read_text(options.file, convert::kPromptBytesMax);
}

std::vector<TokenId> encode(const Model& model, const Tokenizer& tokenizer, const TextInput& source,
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
  const TextInput source = source_of(options);
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
