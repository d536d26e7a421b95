// SPDX-License-Identifier: Apache-2.0
// Opens the standard output before main() runs, because main.c knows no board.
#include <pico/stdlib.h>

__attribute__((constructor)) static void start(void) { stdio_init_all(); }
