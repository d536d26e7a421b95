// SPDX-License-Identifier: Apache-2.0
// Household commands in, actions out, on a microcontroller without an operating system: the model
// lies in flash, the arena in .bss, and lines come and go over the debugger's console.
#include <algorithm>

#include "arenite/sampler.h"
#include "arenite/session.h"
#include "arenite/text_stream.h"
#include "arenite/tick_profile.h"
#include "arenite/tokenizer.h"
#include "board.h"
#include "console.h"
#include "intent.h"  // made by `arenite embed`: where the model is, the size of its arena

using arenite::TokenId;

// All the memory there is, but for the stack: the arena, one command as tokens, and its action.
alignas(arenite::kArenaAlignment) static std::byte arena[intent_arena_bytes_max];
static TokenId prompt[arenite::encode_tokens_max(kLineBytesMax) + 1];
static constinit FixedText<80> action;
static constinit LineReader input;

// Ticks of the board that the model took: for each op, and for each token after the prompt.
static constinit arenite::OpTicks op_ticks[64];
static constinit arenite::OpTicks answer_ticks;
static uint64_t prompt_ticks = 0;
static uint32_t prompt_tokens = 0;

// Feeds the tokens, as many in a call as the arena was made for. The last one gives the logits.
static arenite::Result<arenite::Output> feed(arenite::Session& session,
                                             std::span<const TokenId> tokens,
                                             arenite::Diagnostic& why) {
  while (true) {
    const auto now = tokens.first(std::min<size_t>(tokens.size(), intent_tokens_max));
    tokens = tokens.subspan(now.size());
    const auto logits = session.step(now, &why);
    if (!logits.ok() || tokens.empty()) return logits;
  }
}

// Fills `action`. The model was trained on: command <|do|> action <|end|>.
static arenite::Status answer(arenite::Session& session, const arenite::Tokenizer& tokenizer,
                              std::string_view command, arenite::Diagnostic& why) {
  const auto count = tokenizer.encode(command, {}, prompt, &why);
  if (!count.ok()) return count.status();
  prompt[*count] = tokenizer.find_special("<|do|>");
  const std::span<const TokenId> tokens(prompt, *count + 1);

  session.reset();
  uint32_t begin = board::ticks();
  auto logits = feed(session, tokens, why);
  prompt_ticks += board::ticks() - begin;
  prompt_tokens += static_cast<uint32_t>(tokens.size());

  arenite::Sampler sampler;  // greedy
  arenite::TextStream text(tokenizer);
  action.clear();
  while (logits.ok()) {
    const auto token = sampler.sample(logits->row(0), {}, {}, &why);
    if (!token.ok()) return token.status();
    const bool ends = tokenizer.is_end(*token);
    const arenite::TextParts parts = ends ? text.finish() : text.next(*token);
    action.add(parts.head);
    action.add(parts.tail);
    if (ends) return arenite::Status::kOk;

    begin = board::ticks();
    logits = feed(session, std::span(&*token, 1), why);
    answer_ticks.add(board::ticks() - begin);
  }
  return logits.status();
}

static void print_instructions(uint64_t ticks, size_t width = 0) {
  print(ticks * board::kInstructionsPerTick, width);
}

static void print_token_timing() {
  if (answer_ticks.calls == 0) return print("no token was timed yet\n");
  print("instructions per token: ");
  print_instructions(answer_ticks.mean());
  print(" (");
  print_instructions(answer_ticks.least);
  print(" to ");
  print_instructions(answer_ticks.most);
  print(") in ");
  print(uint64_t{answer_ticks.calls});
  print(" of actions, ");
  print_instructions(prompt_ticks / prompt_tokens);
  print(" in ");
  print(uint64_t{prompt_tokens});
  print(" of commands\n");
}

static void print_op_timing() {
  print("op  calls     least      mean      most  instructions\n");
  for (size_t i = 0; i < std::size(op_ticks) && op_ticks[i].calls != 0; ++i) {
    print(i, 2);
    print(uint64_t{op_ticks[i].calls}, 7);
    print_instructions(op_ticks[i].least, 10);
    print_instructions(op_ticks[i].mean(), 10);
    print_instructions(op_ticks[i].most, 10);
    print("\n");
  }
}

int main() {
  arenite::Diagnostic why;
  const auto model = arenite::Model::load(intent_model(), &why);
  if (!model.ok()) return fail(model.status(), why);
  const auto tokenizer = arenite::Tokenizer::of(*model, &why);
  if (!tokenizer.ok()) return fail(tokenizer.status(), why);

  arenite::TickProfile profile(op_ticks, board::ticks);
  arenite::SessionOptions options;
  options.tokens_max = intent_tokens_max;
  options.profile = profile.hook();
  const auto session = arenite::Session::create(*model, options, arena, &why);
  if (!session.ok()) return fail(session.status(), why);

  while (input.next()) {
    if (input.too_long()) {
      print("error: a command has at most ");
      print(uint64_t{kLineBytesMax});
      print(" bytes\n");
    } else if (input.line() == "?tokens") {
      print_token_timing();
    } else if (input.line() == "?ops") {
      print_op_timing();
    } else {
      const arenite::Status status = answer(**session, *tokenizer, input.line(), why);
      if (status != arenite::Status::kOk) {
        fail(status, why);
        continue;
      }
      print(action.view());
      print("\n");
    }
  }
  return 0;
}
