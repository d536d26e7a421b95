// SPDX-License-Identifier: Apache-2.0
// A prompt, given as text or as ids, and its continuation token by token.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "arenite/sampler.h"
#include "arenite/tokenizer.h"
#include "cli/model_file.h"
#include "cli/profiler.h"

namespace arenite::tool {

// At most one of text, file and ids is given; none is the same as an empty text.
struct PromptOptions {
  std::optional<std::string> text;
  std::filesystem::path file;  // "-" is the standard input
  std::vector<uint32_t> ids;
  bool specials = false;  // names of special tokens in the text are these tokens
};

struct Prompt {
  std::vector<TokenId> ids;
  // Names of special tokens that the text contains, but that are not read as these tokens.
  std::vector<std::string> unread_specials{};
  std::string unknown{};  // what the vocabulary cannot say of it, as unknown_characters has it
};

// The tokens of the prompt, at least one, all below the vocabulary of the model. The token that
// begins a text comes first where the model was trained so, and stands alone for an empty text; one
// that ends a text is left out, as the text goes on. Throws InputError, also for text where
// `tokenizer` is missing.
Prompt read_prompt(const ModelFile& file, const std::optional<Tokenizer>& tokenizer,
                   const PromptOptions& options);

struct GenerationOptions {
  uint32_t context = 0;            // positions of the session
  uint32_t chunk = 0;              // most tokens of the prompt in one call
  std::optional<uint32_t> tokens;  // most tokens to generate; none: as many as fit
  uint32_t repeat_last = 0;        // tokens that the repetition penalty looks back at
  SamplerOptions sampler;
};

// Where a continuation ends: the model said so; as many tokens as asked for; no position is left;
// what was asked for with --stop came.
enum class StopReason : uint8_t { kEndToken, kTokens, kContextFull, kStopText };

// As JSON has it: "end_token".
const char* name(StopReason reason);

struct Generation {
  uint32_t prompt_tokens = 0;
  uint32_t new_tokens = 0;    // shown; the one that ends a text is not
  uint32_t decode_steps = 0;  // calls of one token
  double prompt_seconds = 0.0;
  double decode_seconds = 0.0;  // sampling and showing included
  uint32_t positions = 0;       // held in the end
  StopReason stop = StopReason::kTokens;
};

// Feeds the prompt and continues it; `show` gets each new token at once, and ends the text
// (kStopText) if it returns false. Ends at a token that ends a text or begins another one; it is
// neither shown nor fed. Throws InputError for logits that are not finite. REQUIRES: a session of
// kLast rows that holds nothing, and 0 < prompt.size() <= context.
Generation generate(const ModelFile& file, Session& session,
                    const std::optional<Tokenizer>& tokenizer, std::span<const TokenId> prompt,
                    const GenerationOptions& options, Profiler& profiler,
                    const std::function<bool(TokenId)>& show);

}  // namespace arenite::tool
