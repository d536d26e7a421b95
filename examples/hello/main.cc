// SPDX-License-Identifier: Apache-2.0
// A trained model, compiled into the program, runs in one static array: no files, no heap.
#include <cstdio>

#include "arenite/session.h"
#include "recall.h"  // made by `arenite embed`: the model, and the size of its arena
#include "task.h"    // what the model's numbers mean

// All the memory that the model will ever use. The compiler knows how much that is.
alignas(arenite::kArenaAlignment) static std::byte arena[recall_arena_bytes(kPositions, 1, 1, 1)];

static int fail(arenite::Status status, const arenite::Diagnostic& why) {
  char text[256];
  arenite::describe(status, why, text);
  std::printf("%s\n", text);
  return 1;
}

int main() {
  arenite::Diagnostic why;
  const auto model = arenite::Model::load(recall_model(), &why);
  if (!model.ok()) return fail(model.status(), why);

  arenite::SessionOptions options;
  options.positions_max = kPositions;
  options.tokens_max = 1;  // in one call
  const auto session = arenite::Session::create(*model, options, arena, &why);
  if (!session.ok()) return fail(session.status(), why);

  uint32_t latest[8] = {}, questions = 0, right = 0;
  for (uint32_t position = 0; const Token& token : kTokens) {
    const auto output = (*session)->step(features_of(token, position++), &why);
    if (!output.ok()) return fail(output.status(), why);

    if (token.value == kAsk) {
      const uint32_t answer = answer_of(output->row(0));
      std::printf("  key %u?  -> value %u\n", token.key, answer);
      questions += 1;
      right += answer == latest[token.key];
    } else {
      std::printf("  key %u is %u\n", token.key, token.value);
      latest[token.key] = token.value;
    }
  }
  std::printf("%u of %u answers right, in %zu bytes (%s kernels)\n", right, questions,
              sizeof(arena), arenite::kernel_set_name(model->target()));
  return right == questions ? 0 : 1;
}
