// SPDX-License-Identifier: Apache-2.0
// Output is there before main.c prints, which knows no board.
#include <pico/stdlib.h>

__attribute__((constructor)) static void start(void) { stdio_init_all(); }
