// SPDX-License-Identifier: Apache-2.0
// Tests text to tokens and back, and a language model from command to answer.
#include <algorithm>
#include <string_view>

#include "arenite/sampler.h"
#include "arenite/session.h"
#include "arenite/text_stream.h"
#include "arenite/tokenizer.h"
#include "device/device_test.h"
#include "device/tests.h"
#include "device/vectors.h"

namespace arenite::device {
namespace {

constexpr size_t kTextBytesMax = 128;
constinit TokenId tokens[encode_tokens_max(kTextBytesMax)] = {};
constinit char decoded[4 * kTextBytesMax] = {};

// The text of tokens, in `decoded`.
std::string_view decode(const Tokenizer& tokenizer, std::span<const TokenId> ids,
                        const DecodeOptions& options) {
  TextStream stream(tokenizer, options);
  size_t count = 0;
  const auto append = [&](const TextParts& parts) {
    for (const std::string_view part : {parts.head, parts.tail}) {
      if (!EXPECT(part.size() <= sizeof(decoded) - count)) continue;
      std::ranges::copy(part, decoded + count);
      count += part.size();
    }
  };
  for (const TokenId id : ids) append(stream.next(id));
  append(stream.finish());
  return {decoded, count};
}

// The most probable continuation, up to a token that ends a text, in `answer`; how many tokens it
// has, or 0, and a failed check, if a call failed.
size_t continue_greedily(Session& session, const Tokenizer& tokenizer,
                         std::span<const TokenId> prompt, std::span<TokenId> answer) {
  Sampler greedy;
  std::span<const TokenId> next = prompt;
  for (size_t length = 0; length < answer.size();) {
    const auto now = next.first(std::min<size_t>(next.size(), kCommandTokens));
    next = next.subspan(now.size());
    const Result<Output> logits = session.step(now);
    if (!EXPECT(logits.ok())) return 0;
    if (!next.empty()) continue;
    const Result<TokenId> token = greedy.sample(logits->row(0), {}, {});
    if (!EXPECT(token.ok())) return 0;
    answer[length++] = *token;
    if (tokenizer.is_end(*token)) return length;
    next = answer.subspan(length - 1, 1);
  }
  return answer.size();
}

void check_command(const Model& model, const CommandCase& command) {
  const Result<Tokenizer> tokenizer = Tokenizer::of(model);
  REQUIRE(tokenizer.ok());
  EncodeOptions as_prompt;
  as_prompt.read_specials = true;
  const Result<size_t> count = tokenizer->encode(command.prompt, as_prompt, tokens);
  REQUIRE(count.ok());
  EXPECT(std::ranges::equal(std::span(tokens).first(*count), command.prompt_ids));

  SessionOptions options;
  options.positions_max = kCommandPositions;
  options.tokens_max = kCommandTokens;
  const auto session = Session::create(model, options, arena_memory());
  REQUIRE(session.ok());
  TokenId answer[kCommandPositions] = {};
  const auto room = std::span(answer).first(kCommandPositions - command.prompt_ids.size());
  const auto ids = room.first(continue_greedily(**session, *tokenizer, command.prompt_ids, room));
  EXPECT(std::ranges::equal(ids, command.answer_ids));
  DecodeOptions continuation;
  continuation.is_continuation = true;
  EXPECT(decode(*tokenizer, ids, continuation) == command.answer);
}

}  // namespace

void texts() {
  for (const TextCase& text : text_cases()) {
    in_hand(text.text);
    const Result<Model> model = Model::load(text.file.span());
    REQUIRE(model.ok());
    const Result<Tokenizer> tokenizer = Tokenizer::of(*model);
    REQUIRE(tokenizer.ok());
    EncodeOptions bare;
    bare.add_bos_and_end = false;
    const Result<size_t> count = tokenizer->encode(text.text, bare, tokens);
    REQUIRE(count.ok());
    EXPECT(std::ranges::equal(std::span(tokens).first(*count), text.ids));
    EXPECT(decode(*tokenizer, text.ids, {}) == text.decoded);
  }
}

// Without an FPU, floats are function calls and these tests take longest, so a third of them run.
#if defined(__arm__) && !defined(__ARM_FP)
constexpr size_t kCommandStep = 3;
#else
constexpr size_t kCommandStep = 1;
#endif

void commands() {
  for (size_t i = 0; i < command_cases().size(); i += kCommandStep) {
    const CommandCase& command = command_cases()[i];
    in_hand(command.prompt);
    const Result<Model> model = Model::load(command.file.span());
    REQUIRE(model.ok());
    check_command(*model, command);
  }
}

}  // namespace arenite::device
