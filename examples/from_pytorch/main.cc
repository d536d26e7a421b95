// SPDX-License-Identifier: Apache-2.0
// A GPT that was written and trained in PyTorch goes on with a line of verse, in static memory.
#include <cstdio>
#include <span>
#include <string_view>

#include "arenite/sampler.h"
#include "arenite/session.h"
#include "arenite/text_stream.h"
#include "arenite/tokenizer.h"
#include "rhymes.h"  // made by `arenite embed`: the model, its characters, the size of its arena

using arenite::TokenId;

constexpr size_t kPromptBytesMax = 24;

// All the memory there is: the arena, and the prompt as tokens.
alignas(arenite::kArenaAlignment) static std::byte arena[rhymes_arena_bytes_max];
static TokenId prompt[arenite::encode_tokens_max(kPromptBytesMax)];

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

int main(int argc, char** argv) {
  const std::string_view start = argc > 1 ? argv[1] : "the owl ";
  if (start.empty() || start.size() > kPromptBytesMax) {
    std::fprintf(stderr, "expected a prompt of 1 to %zu bytes\n", kPromptBytesMax);
    return 2;
  }
  arenite::Diagnostic why;
  const auto model = arenite::Model::load(rhymes_model(), &why);
  if (!model.ok()) return fail(model.status(), why);
  const auto tokenizer = arenite::Tokenizer::of(*model, &why);
  if (!tokenizer.ok()) return fail(tokenizer.status(), why);

  arenite::SessionOptions options;
  options.tokens_max = rhymes_tokens_max;
  const auto session = arenite::Session::create(*model, options, arena, &why);
  if (!session.ok()) return fail(session.status(), why);

  const auto count = tokenizer->encode(start, {}, prompt, &why);
  if (!count.ok()) return fail(count.status(), why);
  std::fwrite(start.data(), 1, start.size(), stdout);

  // The likeliest character each time, until the context is full.
  arenite::Sampler sampler;
  arenite::TextStream text(*tokenizer);
  std::span<const TokenId> next(prompt, *count);
  TokenId token = 0;
  for (size_t position = 0; position + next.size() <= model->positions_max();) {
    const auto logits = (*session)->step(next, &why);
    if (!logits.ok()) return fail(logits.status(), why);
    position += next.size();
    const auto chosen = sampler.sample(logits->row(0), {}, {}, &why);
    if (!chosen.ok()) return fail(chosen.status(), why);
    token = *chosen;
    print(text.next(token));
    next = std::span(&token, 1);
  }
  print(text.finish());
  std::printf("\n(%zu bytes of memory)\n", sizeof(arena));
  return 0;
}
