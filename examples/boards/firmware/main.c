// SPDX-License-Identifier: Apache-2.0
// Firmware around a model: a self-test at the start, timed ops, a watchdog that is fed between
// slices, and a new model in a second slot. The firmware checks the new model before a record in
// flash puts it to use.
#include <string.h>

#include "arenite/arenite.h"
#include "arenite_model.h"
#include "board.h"

// Multiply-adds: not less than what `arenite inspect` says that the largest block takes.
#define WORK_PER_SLICE 40000u
// Time-outs of the watchdog: 0.5 ms, where a call takes forty times as long, or 5 ms without an
// FPU; 1 s for a self-test at once.
#if defined(__ARM_ARCH) && !defined(__ARM_FP)
#define SLICE_CYCLES 125000u
#else
#define SLICE_CYCLES 12500u
#endif
#define OTHER_CYCLES 25000000u
#define OPS_MAX 64u
#define SIGNATURE_BYTES 64u
#define SLOT_BYTES ((VIBRATION_MODEL_BYTES + 63u) / 64u * 64u)

// Where the arena goes: in memory without wait states, if it fits. -DARENA_SECTION='".dtcm"'
#if defined(ARENA_SECTION)
__attribute__((section(ARENA_SECTION)))
#endif
ARENITE_ALIGNED static unsigned char arena[VIBRATION_ARENA_BYTES_MAX];
static float window[VIBRATION_POSITIONS_MAX * VIBRATION_INPUT_FEATURES];

// The second slot, and its signature. On a board both are flash that the update was written to;
// here memory stands in. The first slot is as the firmware was flashed.
ARENITE_ALIGNED static unsigned char slot_b[SLOT_BYTES];
static unsigned char signature_b[SIGNATURE_BYTES];
static const unsigned char* const slots[] = {VIBRATION_MODEL, slot_b};

// Which slot is used: 16 bytes at the start of a sector of flash. There are two places, and an
// update writes the one that is not in use: until its CRC is right, the other one holds.
struct record {
  uint32_t version;  // of the model, from 1; the larger one holds
  uint32_t slot;
  uint32_t file_bytes;
  uint32_t crc32c;  // of the numbers before it
};
static struct record records[2];

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

// Whether the maker of a file is who it should be: put your library's Ed25519 or ECDSA here. This
// stands in for it, and protects nothing. A checksum finds accidents; whoever wants to forge it
// can.
static bool is_signed(const void* file, size_t file_bytes, const unsigned char* signature) {
  (void)file;
  (void)file_bytes;
  return signature[0] == 's' && signature[SIGNATURE_BYTES - 1] == 'd';
}

// The record that holds: null before the first update.
static const struct record* newest_record(void) {
  const struct record* newest = NULL;
  for (size_t i = 0; i < 2; ++i) {
    const struct record* const record = &records[i];
    if (record->crc32c != arenite_crc32c(record, offsetof(struct record, crc32c))) continue;
    if (record->slot >= 2 || record->version == 0) continue;
    if (newest == NULL || record->version > newest->version) newest = record;
  }
  return newest;
}

static struct record next_record(uint32_t slot, uint32_t file_bytes) {
  const struct record* const newest = newest_record();
  struct record record = {newest != NULL ? newest->version + 1 : 2, slot, file_bytes, 0};
  record.crc32c = arenite_crc32c(&record, offsetof(struct record, crc32c));
  return record;
}

// Where the next record goes. Flash is erased first; `bytes` may be fewer, as when power fails.
static void write_record(struct record record, size_t bytes) {
  struct record* const place = newest_record() == &records[0] ? &records[1] : &records[0];
  memset(place, 0xFF, sizeof(*place));
  memcpy(place, &record, bytes);
}

// A model is used only if every byte of it is sound and this CPU computes what the converter did.
// `session` is in the arena afterwards, whatever was there before.
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
  watchdog_start(SLICE_CYCLES);
  if (arenite_session_begin_run(session, &batch, NULL) != ARENITE_OK) return false;
  do {
    const uint32_t begin = board_ticks();
    if (arenite_session_advance(session, WORK_PER_SLICE, &ops_left, NULL) != ARENITE_OK) {
      return false;
    }
    const uint32_t ticks = board_ticks() - begin;
    if (ticks > longest) longest = ticks;
    ++slices;
    watchdog_feed();
  } while (ops_left != 0);
  watchdog_start(OTHER_CYCLES);
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

// Makes the session of the slot that is used: at the start, and after another slot was checked, for
// which the arena was needed.
static bool start(arenite_model* model, arenite_session** session) {
  const struct record* const record = newest_record();
  const uint32_t slot = record != NULL ? record->slot : 0;
  say(slot == 0 ? "slot A, version " : "slot B, version ");
  say_number(record != NULL ? record->version : 1);
  say(": ");
  if (!check_slot(slots[slot], record != NULL ? record->file_bytes : VIBRATION_MODEL_BYTES, model,
                  session)) {
    return false;
  }
  say("self-test passed\n");
  return classify(*session);
}

// Tries the update in slot B. Its record alone puts it to use.
static bool try_slot_b(arenite_model* model, arenite_session** session) {
  say("slot B: ");
  if (!is_signed(slot_b, VIBRATION_MODEL_BYTES, signature_b)) {
    say("not signed\n");
    return false;
  }
  if (!check_slot(slot_b, VIBRATION_MODEL_BYTES, model, session)) return false;
  say("self-test passed\n");
  return true;
}

int main(void) {
  arenite_model model;
  arenite_session* session;
  struct record record;
  if (!start(&model, &session)) return 1;
  say_ops(&model);

  // An update arrives from somebody else, and then from its maker, but a bit of it got lost.
  memcpy(slot_b, VIBRATION_MODEL, VIBRATION_MODEL_BYTES);
  if (try_slot_b(&model, &session)) return 1;
  signature_b[0] = 's';
  signature_b[SIGNATURE_BYTES - 1] = 'd';
  slot_b[VIBRATION_MODEL_BYTES / 2] ^= 4;
  if (try_slot_b(&model, &session) || !start(&model, &session)) return 1;
  // It is sent again. The power fails while its record is written, and next time it does not.
  slot_b[VIBRATION_MODEL_BYTES / 2] ^= 4;
  if (!try_slot_b(&model, &session)) return 1;
  record = next_record(1, VIBRATION_MODEL_BYTES);
  write_record(record, sizeof(record) / 2);
  if (!start(&model, &session)) return 1;
  write_record(record, sizeof(record));
  return start(&model, &session) ? 0 : 1;
}
