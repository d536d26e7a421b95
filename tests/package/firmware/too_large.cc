// SPDX-License-Identifier: Apache-2.0
// A program whose model and arena do not fit the board.
#include <cstdint>

#include "board.h"

extern const uint32_t large_model[1'200'000];
const uint32_t large_model[1'200'000] = {1};
static uint32_t large_arena[1'200'000];

int main() {
  const uint32_t i = board::ticks() % 1'200'000;
  large_arena[i] = large_model[i];
  return static_cast<int>(large_arena[i / 2]);
}
