// SPDX-License-Identifier: Apache-2.0
// An encoder-decoder rewrites a date as people write it, in static memory: the encoder reads it
// once, and the decoder writes one character after the other.
#include <algorithm>
#include <cstdio>
#include <string_view>

#include "arenite/session.h"
#include "dates.h"  // made by `arenite embed`: the model, and the size of its arena

using arenite::TokenId;

// Limits of train.py. A token is a character's ASCII code.
constexpr uint32_t kSourceMax = 40, kTargetMax = 12;
constexpr TokenId kStart = 2, kEnd = 3;
constexpr uint32_t kEncode = 0, kStep = 1;  // the functions of the model

// All the memory there is.
alignas(arenite::kArenaAlignment) static std::byte arena[dates_arena_bytes_max];
static TokenId source[kSourceMax];

static int fail(arenite::Status status, const arenite::Diagnostic& why) {
  char text[256];
  arenite::describe(status, why, text);
  std::fprintf(stderr, "%s\n", text);
  return 1;
}

static TokenId likeliest(std::span<const float> logits) {
  return static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

int main(int argc, char** argv) {
  const std::string_view text = argc > 1 ? argv[1] : "the 5th of March, 1987";
  if (text.empty() || text.size() > kSourceMax) {
    std::fprintf(stderr, "expected a date of 1 to %u characters\n", kSourceMax);
    return 2;
  }
  arenite::Diagnostic why;
  const auto model = arenite::Model::load(dates_model(), &why);
  if (!model.ok()) return fail(model.status(), why);
  arenite::SessionOptions options;  // as long as the model's inputs can be
  const auto session = arenite::Session::create(*model, options, arena, &why);
  if (!session.ok()) return fail(session.status(), why);

  std::copy(text.begin(), text.end(), source);
  const auto count = static_cast<uint32_t>(text.size());
  const arenite::Input read[] = {arenite::TokenBatch{{source, count}, 1, count}};
  if (const auto encoded = (*session)->run(kEncode, read, &why); !encoded.ok()) {
    return fail(encoded.status(), why);
  }
  // The likeliest character each time, until the model says that this was the last.
  TokenId token = kStart;
  for (uint32_t written = 0; written < kTargetMax; ++written) {
    const arenite::Input last[] = {arenite::TokenBatch{{&token, 1}, 1, 1}};
    const auto logits = (*session)->step(kStep, last, &why);
    if (!logits.ok()) return fail(logits.status(), why);
    token = likeliest(logits->row(0));
    if (token == kEnd) break;
    std::putchar(static_cast<int>(token));
  }
  std::printf("\n(%zu bytes of memory)\n", sizeof(arena));
  return 0;
}
