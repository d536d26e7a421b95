// SPDX-License-Identifier: Apache-2.0
// Household commands in, actions out: text to tokens to text, in static memory and without heap.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "arenite/sampler.h"
#include "arenite/session.h"
#include "arenite/text_stream.h"
#include "arenite/tokenizer.h"
#include "intent.h"  // made by `arenite embed`: the model, its tokenizer, the size of its arena

using arenite::TokenId;

constexpr size_t kCommandBytesMax = 120;

// All the memory there is: the arena, and one command as tokens.
alignas(arenite::kArenaAlignment) static std::byte arena[intent_arena_bytes_max];
static TokenId prompt[arenite::encode_tokens_max(kCommandBytesMax) + 1];

static int fail(arenite::Status status, const arenite::Diagnostic& why) {
  char text[256];
  arenite::describe(status, why, text);
  std::fprintf(stderr, "%s\n", text);
  return 1;
}

static void print(const arenite::TextParts& text) {
  std::fwrite(text.head.data(), 1, text.head.size(), stdout);
  std::fwrite(text.tail.data(), 1, text.tail.size(), stdout);
}

// The model was trained on: command <|do|> action <|end|>.
static arenite::Status answer(arenite::Session& session, const arenite::Tokenizer& tokenizer,
                              std::string_view command, arenite::Diagnostic& why) {
  const auto count = tokenizer.encode(command, {}, prompt, &why);
  if (!count.ok()) return count.status();
  prompt[*count] = tokenizer.find_special("<|do|>");

  session.reset();
  arenite::Sampler sampler;  // greedy
  arenite::TextStream text(tokenizer);
  std::span<const TokenId> next(prompt, *count + 1);
  TokenId token = 0;
  while (true) {
    // A call takes as many tokens as the arena was made for; the last one gives the logits.
    const auto now = next.first(std::min<size_t>(next.size(), intent_tokens_max));
    next = next.subspan(now.size());
    const auto logits = session.step(now, &why);
    if (!logits.ok()) return logits.status();
    if (!next.empty()) continue;

    const auto chosen = sampler.sample(logits->row(0), {}, {}, &why);
    if (!chosen.ok()) return chosen.status();
    token = *chosen;
    if (tokenizer.is_end(token)) break;
    print(text.next(token));
    next = std::span(&token, 1);
  }
  print(text.finish());
  std::puts("");
  return arenite::Status::kOk;
}

int main() {
  arenite::Diagnostic why;
  const auto model = arenite::Model::load(intent_model(), &why);
  if (!model.ok()) return fail(model.status(), why);
  const auto tokenizer = arenite::Tokenizer::of(*model, &why);
  if (!tokenizer.ok()) return fail(tokenizer.status(), why);

  arenite::SessionOptions options;
  options.tokens_max = intent_tokens_max;
  const auto session = arenite::Session::create(*model, options, arena, &why);
  if (!session.ok()) return fail(session.status(), why);

  for (char line[kCommandBytesMax + 2]; std::fgets(line, sizeof(line), stdin) != nullptr;) {
    const std::string_view command(line, std::strcspn(line, "\n"));
    const arenite::Status status = answer(**session, *tokenizer, command, why);
    if (status != arenite::Status::kOk) return fail(status, why);
  }
  return 0;
}
