// SPDX-License-Identifier: Apache-2.0
#include "cli/generate_input.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "cli/sound_file.h"
#include "cli/texts.h"
#include "convert/check/check_session.h"
#include "convert/files/error.h"
#include "convert/files/input_limits.h"
#include "convert/tokenizers/unicode_library.h"

namespace arenite::tool {
namespace {

constexpr size_t kSpecialsNamed = 3;  // in a warning; more would not help

TextInput source_of(const PromptOptions& options) {
  if (options.file.empty()) return {"--prompt", options.text.value_or("")};
  TextInput source = read_text(options.file, convert::kPromptBytesMax);
  // Editors and echo append a line end, which is not part of the prompt.
  if (source.text.ends_with('\n')) source.text.pop_back();
  if (source.text.ends_with('\r')) source.text.pop_back();
  return source;
}

std::vector<TokenId> encode(const Model& model, const Tokenizer& tokenizer, const TextInput& source,
                            bool specials, bool goes_on) {
  EncodeOptions options;
  options.read_specials = specials;
  const std::string& text = source.text;
  std::vector<TokenId> ids(convert::ids_for_text(model, text.size()));
  Diagnostic why;
  const Result<size_t> count = tokenizer.encode(text, options, ids, &why);
  if (!count.ok()) throw_status(source.name, count.status(), why);
  ids.resize(*count);
  // If special tokens are read, the user may have written the end token on purpose.
  if (goes_on && !specials && ids.size() > 1 && tokenizer.is_special(ids.back()) &&
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

// `goes_on`: the model continues the text; else an encoder reads it.
Prompt encode_prompt(const ModelFile& file, const std::optional<Tokenizer>& tokenizer,
                     const PromptOptions& options, bool goes_on) {
  if (!tokenizer) {
    throw convert::InputError(
        "{}: the file has no tokenizer: give the tokens with --prompt-ids, or convert it again "
        "with its tokenizer",
        convert::quote(file.name()));
  }
  TextInput source = source_of(options);
  source.text = convert::in_expected_form(file.model(), source.text, options.specials, source.name);
  Prompt prompt = {encode(file.model(), *tokenizer, source, options.specials, goes_on),
                   source.text};
  prompt.unknown = unknown_characters(file.model(), source.text, options.specials);
  if (!options.specials) prompt.unread_specials = specials_in(source.text, *tokenizer);
  if (!prompt.ids.empty()) return prompt;
  if (tokenizer->bos() == kNoToken || !goes_on) {
    throw convert::InputError(
        "{}: the prompt is empty, and this model knows no token that begins a text: give it at "
        "least one character",
        source.name);
  }
  prompt.ids = {tokenizer->bos()};
  return prompt;
}

// Throws InputError for ids outside the vocabulary of an input.
void require_ids(const ModelFile& file, std::span<const TokenId> ids, const InputInfo& input,
                 const char* where) {
  for (const TokenId id : ids) {
    if (id < input.vocab_size) continue;
    throw convert::InputError("{}: found token {} in {}, expected ids below {}, its vocabulary",
                              convert::quote(file.name()), id, where, input.vocab_size);
  }
}

// Returns the tokens of the prompt: at least one, all in the input's vocabulary. A BOS token comes
// first if the model was trained so, and is the whole prompt if the text is empty. An end token is
// dropped if `goes_on`. Throws InputError, also for text without a `tokenizer`.
Prompt read_prompt(const ModelFile& file, const std::optional<Tokenizer>& tokenizer,
                   const PromptOptions& options, const InputInfo& input, bool goes_on) {
  Prompt prompt =
      options.ids.empty() ? encode_prompt(file, tokenizer, options, goes_on) : Prompt{options.ids};
  require_ids(file, prompt.ids, input, "the prompt");
  return prompt;
}

// Reads the prompt of a decoder.
Fed read_decoder_inputs(const GenerateInputOptions& options, const ModelFile& file,
                        const std::optional<Tokenizer>& tokenizer, const Writer& writer) {
  if (!options.inputs.empty() || !options.start.empty()) {
    throw convert::InputError(
        "{}: {}: the model has no encoder, and goes on with a text: give --prompt or --prompt-ids",
        convert::quote(file.name()), options.inputs.empty() ? "--start" : "--input");
  }
  Fed fed;
  fed.prompt = read_prompt(file, tokenizer, options.prompt, writer.takes, true);
  fed.inputs.push_back({.ids = fed.prompt.ids});
  return fed;
}

// Returns the first tokens that a decoder gets after an encoder.
std::vector<TokenId> start_of(const GenerateInputOptions& options, const ModelFile& file,
                              const Writer& writer) {
  std::vector<TokenId> start = options.start;
  const TokenId known = convert::start_token(file.model().file());
  if (start.empty() && known != kNoToken) start = {known};
  if (start.empty()) {
    throw convert::InputError(
        "{}: the file does not say which token begins what the model writes: give it with --start "
        "(decoder_start_token_id in a config)",
        convert::quote(file.name()));
  }
  require_ids(file, start, writer.takes, "--start");
  return start;
}

// Reads the inputs of a model with an encoder: files, or a text if the encoder reads only text.
Fed read_encoder_inputs(const GenerateInputOptions& options, const ModelFile& file,
                        const std::optional<Tokenizer>& tokenizer, const Writer& writer) {
  const Model& model = file.model();
  const uint32_t sources = writer.sources(model);
  const PromptOptions& text = options.prompt;
  const bool has_text = text.text || !text.file.empty() || !text.ids.empty();
  const auto first = static_cast<uint32_t>(std::countr_zero(sources));
  const bool reads_text = std::has_single_bit(sources) && model.input(first).vocab_size != 0;
  Fed fed;
  fed.inputs.resize(model.inputs());
  fed.inputs[writer.input].ids = start_of(options, file, writer);
  if (has_text && reads_text) {
    fed.prompt = read_prompt(file, tokenizer, text, model.input(first), false);
    fed.inputs[first].ids = fed.prompt.ids;
    return fed;
  }
  if (options.inputs.empty()) {
    throw convert::InputError(
        "{}: expected what the encoder reads: {}", convert::quote(file.name()),
        reads_text ? "--prompt, --prompt-ids or --input FILE.npy" : "--input FILE.npy");
  }
  const auto files = convert::files_of_inputs(options.inputs, model, "--input", sources);
  for (uint32_t i = 0; i < model.inputs(); ++i) {
    if ((sources >> i & 1) == 0) continue;
    const convert::NpyArray array = read_features(files[i], model, i);
    convert::require_context(array, convert::token_axes(array, model, "--input", i), model,
                             "--input", i);
    fed.inputs[i] = convert::read_model_input(array, model, "--input", i);
    if (fed.inputs[i].sequences == 1) continue;
    throw convert::InputError("--input: {} has {} sequences: expected one",
                              convert::quote(array.name()), fed.inputs[i].sequences);
  }
  return fed;
}

}  // namespace

std::vector<float> WriterSession::last_logits(std::span<const float> rows, bool is_first) const {
  const auto last = rows.last(writer_.info.output_features);
  std::vector<float> logits(last.begin(), last.end());
  if (!std::ranges::all_of(logits, [](float x) { return std::isfinite(x); })) {
    refuse_results(file_.name());
  }
  const auto suppress = [&](const std::vector<TokenId>& ids) {
    for (const TokenId id : ids) {
      if (id < logits.size()) logits[id] = -std::numeric_limits<float>::infinity();
    }
  };
  suppress(suppressed_.always);
  if (is_first) suppress(suppressed_.first);
  return logits;
}

std::vector<float> WriterSession::begin(const std::vector<convert::ModelInput>& inputs,
                                        uint32_t chunk) {
  const auto before = [&](const InputTokens& held, const InputTokens& tokens) {
    if (profiler_ != nullptr) profiler_->add_sequence({held, tokens, 1});
  };
  return last_logits(convert::run_functions(session_, file_.model(), convert::joined(inputs), chunk,
                                            convert::quote(file_.name()), Outputs::kLast, before),
                     true);
}

std::vector<float> WriterSession::step(TokenId id) { return step_all({&id, 1}).front(); }

std::vector<std::vector<float>> WriterSession::step_all(std::span<const TokenId> ids) {
  const auto count = static_cast<uint32_t>(ids.size());
  uint64_t given = 0;
  for (uint32_t sequence = 0; sequence < count; ++sequence) {
    InputTokens held, now;
    for (uint32_t i = 0; i < file_.model().inputs(); ++i) {
      held.of[i] = session_.positions(sequence, i);
    }
    now.of[writer_.input] = 1;
    if (profiler_ != nullptr) profiler_->add_sequence({held, now, 1});
    given += convert::rows_given(file_.model(), Outputs::kLast, 1, held[writer_.input] == 0,
                                 writer_.function);
  }
  const Input input = TokenBatch{ids, count, 1};
  Diagnostic why;
  const Result<Output> output = session_.step(writer_.function, {&input, 1}, &why);
  if (!output.ok()) throw_status(file_.name(), output.status(), why);
  convert::CallRows rows(*output, file_.model(), writer_.function, given);
  std::vector<std::vector<float>> logits;
  for (uint32_t i = 0; i < count; ++i) {
    logits.push_back(last_logits(rows.rows(0, (i + 1) * rows.size() / count), false));
  }
  return logits;
}

// Overwrites sequences that are copied no more. Cycles of the rest begin with a copy to the
// spare sequence.
void WriterSession::reorder(std::span<const uint32_t> parents) {
  const auto spare = static_cast<uint32_t>(parents.size());
  std::vector<uint32_t> from(parents.begin(), parents.end());
  const auto copy = [&](uint32_t source, uint32_t target) {
    Diagnostic why;
    const Status status = session_.copy_sequence(source, target, &why);
    if (status != Status::kOk) throw_status(file_.name(), status, why);
  };
  while (true) {
    std::optional<uint32_t> left, ready;
    for (uint32_t i = 0; i < from.size(); ++i) {
      if (from[i] == i) continue;
      left = i;
      if (std::ranges::count(from, i) == 0) ready = i;
    }
    if (!left) return;
    if (ready) {
      copy(from[*ready], *ready);
      from[*ready] = *ready;
    } else {
      copy(*left, spare);
      std::ranges::replace(from, *left, spare);
    }
  }
}

Writer writer_of(const ModelFile& file) {
  const Writer writer(file.model());
  const std::string name = convert::quote(file.name());
  if (writer.takes.vocab_size == 0) {
    throw convert::InputError("{}: its input is features, not tokens: see 'arenite run'", name);
  }
  const bool is_one = std::has_single_bit(writer.info.inputs);
  if (is_one && writer.info.causal && writer.info.output_features == writer.takes.vocab_size) {
    return writer;
  }
  throw convert::InputError(
      "{}: it cannot continue a text: it outputs {} values for each token of {}, {}, expected "
      "logits of the vocabulary from a causal model",
      name, writer.info.output_features, writer.takes.vocab_size,
      !is_one              ? "and takes other inputs with them"
      : writer.info.causal ? "causal"
                           : "not causal");
}

Fed read_inputs(const GenerateInputOptions& options, const ModelFile& file,
                const std::optional<Tokenizer>& tokenizer, const Writer& writer, uint32_t context) {
  const bool has_encoder = file.model().functions() > 1;
  Fed fed =
      (has_encoder ? read_encoder_inputs : read_decoder_inputs)(options, file, tokenizer, writer);
  for (uint32_t i = 0; i < fed.inputs.size(); ++i) {
    convert::ModelInput& input = fed.inputs[i];
    if (!input.ids.empty()) input.tokens = static_cast<uint32_t>(input.ids.size());
    const uint32_t most = i == writer.input ? context : file.model().input(i).positions_max;
    if (most == 0 || input.tokens <= most) continue;
    throw convert::InputError("{}: the prompt has {} tokens: at most {}, the positions of {}",
                              convert::quote(file.name()), input.tokens, most,
                              i == writer.input ? "the context" : file.model().input(i).name);
  }
  return fed;
}

}  // namespace arenite::tool
