// SPDX-License-Identifier: Apache-2.0
// Runs the model in flash and prints its results.
#include "board.h"
#include "recall.h"
#include "try_model.h"

alignas(
    arenite::kArenaAlignment) static std::byte arena[recall_arena_bytes(kTokens, kTokens, 1, 1)];

int main() {
  char text[300];
  board::write(try_model(recall_model(), arena, text));
  board::write("\n");
  return 0;
}
