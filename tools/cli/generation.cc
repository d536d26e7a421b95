// SPDX-License-Identifier: Apache-2.0
// From the text of a prompt to tokens, which are fed in chunks; then one token at a time.
#include "cli/generation.h"

#include <algorithm>
#include <chrono>

#include "cli/texts.h"
#include "convert/check/call_rows.h"
#include "convert/files/error.h"
#include "convert/files/input_limits.h"
#include "convert/tokenizers/expected_form.h"

namespace arenite::tool {
namespace {

constexpr size_t kSpecialsNamed = 3;  // in a warning: more say nothing more

TextInput source_of(const PromptOptions& options) {
  if (options.file.empty()) return {"--prompt", options.text.value_or("")};
  TextInput source = read_text(options.file, convert::kPromptBytesMax);
  // The end of the last line is what editors and echo write, and no part of what it says.
  if (source.text.ends_with('\n')) source.text.pop_back();
  if (source.text.ends_with('\r')) source.text.pop_back();
  return source;
}

std::vector<TokenId> encode(const Tokenizer& tokenizer, const TextInput& source, bool specials) {
  EncodeOptions options;
  options.read_specials = specials;
  const std::string& text = source.text;
  std::vector<TokenId> ids(encode_tokens_max(text.size()));
  Diagnostic why;
  const Result<size_t> count = tokenizer.encode(text, options, ids, &why);
  if (!count.ok()) throw_status(source.name, count.status(), why);
  ids.resize(*count);
  // Where special tokens are read, the person may have written the end.
  if (!specials && ids.size() > 1 && tokenizer.is_special(ids.back()) &&
      tokenizer.is_end(ids.back())) {
    ids.pop_back();
  }
  ids.shrink_to_fit();
  return ids;
}

std::vector<std::string> specials_in(const std::string& text, const Tokenizer& tokenizer) {
  std::vector<std::string> names;
  for (TokenId id = 0; id < tokenizer.vocab_size() && names.size() < kSpecialsNamed; ++id) {
    if (!tokenizer.is_special(id)) continue;
    const std::string_view name = tokenizer.token_bytes(id);
    if (!name.empty() && text.find(name) != std::string::npos) names.emplace_back(name);
  }
  return names;
}

Prompt encode_prompt(const ModelFile& file, const std::optional<Tokenizer>& tokenizer,
                     const PromptOptions& options) {
  if (!tokenizer) {
    throw convert::InputError(
        "{}: the file has no tokenizer: give the tokens with --prompt-ids, or convert it again "
        "with its tokenizer",
        convert::quote(file.name()));
  }
  TextInput source = source_of(options);
  source.text = convert::in_expected_form(file.model(), source.text, options.specials, source.name);
  Prompt prompt = {encode(*tokenizer, source, options.specials)};
  prompt.unknown = unknown_characters(file.model(), source.text, options.specials);
  if (!options.specials) prompt.unread_specials = specials_in(source.text, *tokenizer);
  if (!source.text.empty() && !prompt.ids.empty()) return prompt;
  if (tokenizer->bos() == kNoToken) {
    throw convert::InputError(
        "{}: the prompt is empty, and this model knows no token that begins a text: give it at "
        "least one character",
        source.name);
  }
  prompt.ids = {tokenizer->bos()};
  return prompt;
}

// The logits of the last token.
std::vector<float> step(const ModelFile& file, Session& session, std::span<const TokenId> ids,
                        Profiler& profiler) {
  const uint32_t held = session.positions();
  profiler.add_sequence(held, static_cast<uint32_t>(ids.size()), 1);
  Diagnostic why;
  const Result<Output> output = session.step(ids, &why);
  if (!output.ok()) throw_status(file.name(), output.status(), why);
  require_finite(file.name(), *output);
  const Model& model = file.model();
  convert::CallRows rows(*output, model,
                         convert::rows_given(model, Outputs::kLast, ids.size(), held == 0));
  const std::span<const float> last = rows[rows.size() - 1];
  return {last.begin(), last.end()};
}

std::vector<float> feed_prompt(const ModelFile& file, Session& session,
                               std::span<const TokenId> prompt, uint32_t chunk,
                               Profiler& profiler) {
  std::vector<float> logits;
  while (!prompt.empty()) {
    const size_t count = std::min<size_t>(chunk, prompt.size());
    logits = step(file, session, prompt.first(count), profiler);
    prompt = prompt.subspan(count);
  }
  return logits;
}

// Picks tokens and remembers the recent ones.
class Chooser {
 public:
  Chooser(const ModelFile& file, std::span<const TokenId> prompt, const GenerationOptions& options)
      : file_(file), recent_(prompt.begin(), prompt.end()), repeat_last_(options.repeat_last) {
    Diagnostic why;
    const Result<Sampler> sampler = Sampler::create(options.sampler, &why);
    if (!sampler.ok()) throw_status(file.name(), sampler.status(), why);
    sampler_ = *sampler;
    scratch_.resize(sampler_.candidates_needed(file.model().output_features()));
  }

  TokenId choose(std::span<const float> logits) {
    const size_t count = std::min<size_t>(recent_.size(), repeat_last_);
    Diagnostic why;
    const Result<TokenId> id =
        sampler_.sample(logits, std::span(recent_).last(count), scratch_, &why);
    if (!id.ok()) throw_status(file_.name(), id.status(), why);
    recent_.push_back(*id);
    return *id;
  }

 private:
  const ModelFile& file_;
  Sampler sampler_;
  std::vector<TokenId> recent_;
  std::vector<Candidate> scratch_;
  uint32_t repeat_last_;
};

}  // namespace

const char* name(StopReason reason) {
  switch (reason) {
    case StopReason::kEndToken:
      return "end_token";
    case StopReason::kTokens:
      return "tokens";
    case StopReason::kContextFull:
      return "context_full";
    case StopReason::kStopText:
      return "stop_text";
  }
  return "";
}

Prompt read_prompt(const ModelFile& file, const std::optional<Tokenizer>& tokenizer,
                   const PromptOptions& options) {
  Prompt prompt =
      options.ids.empty() ? encode_prompt(file, tokenizer, options) : Prompt{options.ids};
  for (const TokenId id : prompt.ids) {
    if (id >= file.model().vocab_size()) {
      throw convert::InputError(
          "{}: found token {} in the prompt, expected ids below {}, its "
          "vocabulary",
          convert::quote(file.name()), id, file.model().vocab_size());
    }
  }
  return prompt;
}

Generation generate(const ModelFile& file, Session& session,
                    const std::optional<Tokenizer>& tokenizer, std::span<const TokenId> prompt,
                    const GenerationOptions& options, Profiler& profiler,
                    const std::function<bool(TokenId)>& show) {
  Chooser chooser(file, prompt, options);
  Generation result;
  result.prompt_tokens = static_cast<uint32_t>(prompt.size());
  Clock::time_point start = Clock::now();
  std::vector<float> logits = feed_prompt(file, session, prompt, options.chunk, profiler);
  result.prompt_seconds = seconds_since(start);

  start = Clock::now();
  while (result.new_tokens < options.tokens.value_or(UINT32_MAX)) {
    const TokenId id = chooser.choose(logits);
    if (tokenizer && (tokenizer->is_end(id) || id == tokenizer->bos())) {
      result.stop = StopReason::kEndToken;
      break;
    }
    ++result.new_tokens;
    if (!show(id)) {
      result.stop = StopReason::kStopText;
      break;
    }
    if (result.new_tokens == options.tokens) break;
    if (session.positions() == options.context) {
      result.stop = StopReason::kContextFull;
      break;
    }
    logits = step(file, session, {&id, 1}, profiler);
    ++result.decode_steps;
  }
  result.decode_seconds = seconds_since(start);
  result.positions = session.positions();
  return result;
}

}  // namespace arenite::tool
