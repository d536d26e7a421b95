// SPDX-License-Identifier: Apache-2.0
// What firmware does around a model: a self-test at the start, ops that are timed, a watchdog that
// is fed between slices, and a new model in a second slot that is checked before it is used.
#include <string.h>

#include "arenite/arenite.h"
#include "arenite_model.h"
#include "board.h"

#define OPS_PER_SLICE 8u
#define OPS_MAX 64u
#define SLOT_BYTES ((VIBRATION_MODEL_BYTES + 63u) / 64u * 64u)

// Where the arena goes: in memory without wait states, if it fits. -DARENA_SECTION='".dtcm"'
#if defined(ARENA_SECTION)
__attribute__((section(ARENA_SECTION)))
#endif
ARENITE_ALIGNED static unsigned char arena[VIBRATION_ARENA_BYTES_MAX];
static float window[VIBRATION_POSITIONS_MAX * VIBRATION_INPUT_FEATURES];

// The second slot. On a board it is flash that the update was written to; here memory stands in.
ARENITE_ALIGNED static unsigned char slot_b[SLOT_BYTES];

static void say(const char* text) { board_write(text, strlen(text)); }

static void say_number(uint32_t number) {
  char digits[11];
  size_t begin = sizeof(digits) - 1;
  digits[begin] = 0;
  do {
    digits[--begin] = (char)('0' + number % 10);
    number /= 10;
  } while (number != 0);
  say(digits + begin);
}

// The board's watchdog: without `feed` for as many of its cycles, the board starts anew.
// Source: "Cortex-M System Design Kit Technical Reference Manual", ARM DDI 0479, APB watchdog.
#define WATCHDOG ((volatile uint32_t*)0x40008000)
enum { kLoad = 0, kControl = 2, kClear = 3, kLock = 0xC00 / 4 };

static void watchdog_start(uint32_t cycles) {
  WATCHDOG[kLock] = 0x1ACCE551;
  WATCHDOG[kLoad] = cycles;
  WATCHDOG[kControl] = 3;  // counts, and resets the board when it was not cleared
}
static void watchdog_feed(void) { WATCHDOG[kClear] = 1; }

// Times each op. On a CPU of silicon `board_ticks` reads DWT->CYCCNT, or mcycle of RISC-V.
static uint32_t op_begin;
static uint32_t op_ticks[OPS_MAX];
static void op_begins(void* context, uint32_t op_index) {
  (void)context;
  (void)op_index;
  op_begin = board_ticks();
}
static void op_ends(void* context, uint32_t op_index) {
  (void)context;
  if (op_index < OPS_MAX) op_ticks[op_index] = board_ticks() - op_begin;
}

// A model is used only if every byte of it is sound and this CPU computes what the converter did.
// `session` is in the arena afterwards, so no other may be in use.
static bool check_slot(const void* file, size_t file_bytes, arenite_model* model,
                       arenite_session** session) {
  arenite_session_options options = ARENITE_SESSION_OPTIONS_INIT;
  arenite_self_test test;
  arenite_diagnostic why;
  options.positions_max = VIBRATION_POSITIONS_MAX;
  options.profile.op_begins = op_begins;
  options.profile.op_ends = op_ends;
  arenite_status status = arenite_model_load(model, file, file_bytes, NULL, &why);
  if (status == ARENITE_OK) {
    status = arenite_session_create(session, model, &options, arena, sizeof(arena), &why);
  }
  if (status == ARENITE_OK) status = arenite_session_self_test(*session, &test, &why);
  if (status == ARENITE_OK && test.passed) return true;
  char text[200];
  arenite_describe(status, &why, text, sizeof(text));
  say(status == ARENITE_OK ? "the self-test failed" : text);
  say("\n");
  return false;
}

// One window, in slices, as a loop with a period would do it.
static bool classify(arenite_session* session) {
  arenite_batch batch = ARENITE_BATCH_INIT;
  uint32_t ops_left = 0, slices = 0, longest = 0;
  for (size_t i = 0; i < sizeof(window) / sizeof(window[0]); ++i) {
    window[i] = (float)(i * 37 % 64) / 32.0f - 1.0f;
  }
  batch.features = window;
  batch.size = sizeof(window) / sizeof(window[0]);
  batch.tokens = VIBRATION_POSITIONS_MAX;
  watchdog_start(2500000);  // 100 ms
  if (arenite_session_begin_run(session, &batch, NULL) != ARENITE_OK) return false;
  do {
    const uint32_t begin = board_ticks();
    if (arenite_session_advance(session, OPS_PER_SLICE, &ops_left, NULL) != ARENITE_OK) {
      return false;
    }
    const uint32_t ticks = board_ticks() - begin;
    if (ticks > longest) longest = ticks;
    ++slices;
    watchdog_feed();
  } while (ops_left != 0);
  say("slices: ");
  say_number(slices);
  say(", the longest of ");
  say_number(longest);
  say(" ticks\n");
  return arenite_session_output(session).rows == 1;
}

static void say_ops(const arenite_model* model) {
  for (uint32_t i = 0; i < arenite_model_ops(model) && i < OPS_MAX; ++i) {
    say("op ");
    say_number(i);
    say(": ");
    say_number(op_ticks[i]);
    say(" ticks, ");
    say(arenite_model_op_name(model, i));
    say("\n");
  }
}

int main(void) {
  arenite_model model;
  arenite_session* session;
  say("slot A: ");
  if (!check_slot(VIBRATION_MODEL, VIBRATION_MODEL_BYTES, &model, &session)) return 1;
  say("self-test passed\n");
  if (!classify(session)) return 1;
  say_ops(&model);

  // An update arrives, and a bit of it got lost.
  memcpy(slot_b, VIBRATION_MODEL, VIBRATION_MODEL_BYTES);
  slot_b[VIBRATION_MODEL_BYTES / 2] ^= 4;
  say("slot B: ");
  if (check_slot(slot_b, VIBRATION_MODEL_BYTES, &model, &session)) return 1;
  // It is sent again.
  slot_b[VIBRATION_MODEL_BYTES / 2] ^= 4;
  say("slot B: ");
  if (!check_slot(slot_b, VIBRATION_MODEL_BYTES, &model, &session)) return 1;
  say("self-test passed; from now on it is used\n");
  return classify(session) ? 0 : 1;
}
