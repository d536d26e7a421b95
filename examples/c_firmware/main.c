// SPDX-License-Identifier: Apache-2.0
// Firmware in C99: a loop with a fixed period that takes a frame of a vibration sensor each time,
// and has room for a slice of the model besides. Frames come from the standard input as a device
// would send them: 16 float32 each, in this CPU's byte order.
#include <stdio.h>
#include <string.h>

#include "arenite/arenite.h"
#include "vibration.h"  // made by `arenite embed --language c`: the model, and its arena's size

#define FEATURES 16u              // of a frame
#define WINDOW 64u                // frames that the model looks at
#define WORK_PER_PERIOD 1000000u  // multiply-adds that fit beside the other work of a period

// All the memory there is: the arena, and the last frames, the oldest first.
ARENITE_ALIGNED static unsigned char arena[VIBRATION_ARENA_BYTES_MAX];
static float window[WINDOW][FEATURES];

static int fail(arenite_status status, const arenite_diagnostic* why) {
  char text[256];
  arenite_describe(status, why, text, sizeof(text));
  fprintf(stderr, "%s\n", text);
  return 1;
}

// Waits for the next frame. False at the end of the recording.
static bool next_frame(void) {
  float frame[FEATURES];
  if (fread(frame, sizeof(frame), 1, stdin) != 1) return false;
  memmove(window[0], window[1], sizeof(window) - sizeof(window[0]));
  memcpy(window[WINDOW - 1], frame, sizeof(frame));
  return true;
}

static uint32_t likeliest(arenite_output logits) {
  uint32_t best = 0;
  for (uint32_t i = 1; i < logits.features; ++i) {
    if (logits.data[i] > logits.data[best]) best = i;
  }
  return best;
}

int main(void) {
  arenite_model model;
  arenite_session* session;
  arenite_session_options options = ARENITE_SESSION_OPTIONS_INIT;
  arenite_batch batch = ARENITE_BATCH_INIT;
  arenite_diagnostic why;
  arenite_status status =
      arenite_model_load(&model, VIBRATION_MODEL, VIBRATION_MODEL_BYTES, NULL, &why);
  if (status != ARENITE_OK) return fail(status, &why);
  options.positions_max = WINDOW;
  status = arenite_session_create(&session, &model, &options, arena, sizeof(arena), &why);
  if (status != ARENITE_OK) return fail(status, &why);

  batch.features = window[0];
  batch.size = WINDOW * FEATURES;
  batch.tokens = WINDOW;
  uint32_t ops_left = 0, periods = 0, results = 0;
  uint32_t state = UINT32_MAX;  // the class before
  for (; next_frame(); ++periods) {
    if (periods + 1 < WINDOW) continue;
    if (ops_left == 0) {
      // The window is copied: frames may come while the model is at work.
      status = arenite_session_begin_run(session, &batch, &why);
      if (status != ARENITE_OK) return fail(status, &why);
    }
    status = arenite_session_advance(session, WORK_PER_PERIOD, &ops_left, &why);
    if (status != ARENITE_OK) return fail(status, &why);
    if (ops_left != 0) continue;

    ++results;
    const uint32_t found = likeliest(arenite_session_output(session));
    if (found == state) continue;
    state = found;
    printf("period %3u  %s\n", (unsigned)periods, arenite_model_label(&model, state));
  }
  printf("%u periods, %u results, arena of %u bytes\n", (unsigned)periods, (unsigned)results,
         (unsigned)sizeof(arena));
  return 0;
}
