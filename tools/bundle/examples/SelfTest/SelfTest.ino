// SPDX-License-Identifier: Apache-2.0
// Runs the self-test of each model of the bundle in one static arena.
#include <arenite_model.h>

#include <arenite/arenite.h>

ARENITE_ALIGNED static unsigned char arena[ARENITE_MODELS_ARENA_BYTES_MAX];

static void self_test(const char* name, const void* file, size_t file_bytes, uint32_t positions,
                      uint32_t tokens, uint32_t sequences) {
  arenite_model model;
  arenite_session* session;
  arenite_session_options options = ARENITE_SESSION_OPTIONS_INIT;
  arenite_self_test test = {};
  arenite_diagnostic why = {};
  options.positions_max = positions;
  options.tokens_max = tokens;
  options.sequences_max = sequences;
  arenite_status status = arenite_model_load(&model, file, file_bytes, NULL, &why);
  if (status == ARENITE_OK) {
    status = arenite_session_create(&session, &model, &options, arena, sizeof(arena), &why);
  }
  if (status == ARENITE_OK) status = arenite_session_self_test(session, &test, &why);
  Serial.print(name);
  Serial.print(": ");
  if (status == ARENITE_OK) {
    Serial.println(test.passed ? "self-test passed" : "self-test FAILED");
  } else {
    char text[256];
    arenite_describe(status, &why, text, sizeof(text));
    Serial.println(text);
  }
}

void setup() {
  Serial.begin(115200);
#define TEST(name, NAME)                                                              \
  self_test(#name, NAME##_MODEL, NAME##_MODEL_BYTES, NAME##_POSITIONS_MAX, \
            NAME##_TOKENS_MAX, NAME##_SEQUENCES_MAX);
  ARENITE_MODELS(TEST)
}

void loop() {}
