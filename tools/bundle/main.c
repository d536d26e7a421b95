// SPDX-License-Identifier: Apache-2.0
// A program to start from: each model of the bundle does its self-test and a first pass, one after
// the other in one static arena, and says in a line how that went.
#if !defined(ARDUINO)  // a sketch has setup and loop instead; see examples/SelfTest

#include <string.h>

#include "arenite/arenite.h"
#include "arenite_model.h"

// Where lines go: the standard output, or with -DBOARD_WRITE=uart_write a function of yours.
#if defined(BOARD_WRITE)
void BOARD_WRITE(const char* text, size_t bytes);
static void say(const char* text) { BOARD_WRITE(text, strlen(text)); }
#else
#include <stdio.h>
static void say(const char* text) { fputs(text, stdout); }
#endif

// Of the first pass, or as many as the shortest sequence of a model has, such as an image.
#define TOKENS 8u
#define TOKENS_MAX (ARENITE_MODELS_TOKENS_MIN_MAX > TOKENS ? ARENITE_MODELS_TOKENS_MIN_MAX : TOKENS)

struct bundled {
  const char* name;
  const void* file;
  size_t file_bytes;
  uint32_t positions, tokens, sequences;
};
#define BUNDLED(name, NAME) \
  {#name,                   \
   NAME##_MODEL,            \
   NAME##_MODEL_BYTES,      \
   NAME##_POSITIONS_MAX,    \
   NAME##_TOKENS_MAX,       \
   NAME##_SEQUENCES_MAX},
static const struct bundled models[] = {ARENITE_MODELS(BUNDLED)};

// All the memory there is, besides the stack.
ARENITE_ALIGNED static unsigned char arena[ARENITE_MODELS_ARENA_BYTES_MAX];
static float features[TOKENS_MAX * ARENITE_MODELS_INPUT_FEATURES_MAX];
static uint32_t ids[TOKENS_MAX];
#if defined(ARENITE_MODELS_TAKE_PAIRS)
static uint8_t pairs[TOKENS_MAX * TOKENS_MAX];  // all tokens see each other
#endif

// Room for an input after the first, as arenite_model.h plans it.
static uint32_t positions_of(arenite_input_info input) {
  return input.positions_max != 0 ? input.positions_max : 128u;
}

// Gives all functions of the model numbers that are always the same.
static arenite_status first_pass(const struct bundled* bundled, const arenite_model* model,
                                 arenite_session* session, arenite_output* output,
                                 arenite_diagnostic* why) {
  arenite_batch batches[ARENITE_INPUTS_MAX];
  arenite_token_batch texts[ARENITE_INPUTS_MAX];
  arenite_input fed[ARENITE_INPUTS_MAX];
  const uint32_t inputs = arenite_model_inputs(model);
  uint32_t vocab_size = UINT32_MAX;  // the smallest of all inputs
  for (uint32_t i = 0; i < inputs; ++i) {
    const uint32_t own = arenite_model_input(model, i).vocab_size;
    if (own != 0 && own < vocab_size) vocab_size = own;
  }
  for (uint32_t i = 0; i < TOKENS_MAX; ++i) ids[i] = i * 7 % vocab_size;
  for (size_t i = 0; i < sizeof(features) / sizeof(features[0]); ++i) {
    features[i] = (float)(i * 37 % 64) / 32.0f - 1.0f;
  }
  for (uint32_t i = 0; i < inputs; ++i) {
    const arenite_input_info input = arenite_model_input(model, i);
    const arenite_batch batch = ARENITE_BATCH_INIT;
    const arenite_token_batch text = ARENITE_TOKEN_BATCH_INIT;
    uint32_t tokens = i == 0 ? bundled->tokens : positions_of(input);
    if (tokens > TOKENS) tokens = TOKENS;
    if (tokens < input.tokens_min) tokens = input.tokens_min;
    batches[i] = batch;
    batches[i].features = features;
    batches[i].size = (size_t)tokens * input.features;
    batches[i].tokens = tokens;
    texts[i] = text;
    texts[i].ids = ids;
    texts[i].size = texts[i].tokens = tokens;
#if defined(ARENITE_MODELS_TAKE_PAIRS)
    memset(pairs, 1, sizeof(pairs));
    if (input.takes_pairs) batches[i].pairs = texts[i].pairs = pairs;
#endif
  }
  arenite_status status = ARENITE_OK;
  for (uint32_t f = 0; f < arenite_model_functions(model) && status == ARENITE_OK; ++f) {
    const uint32_t taken = arenite_model_function(model, f).inputs;
    size_t count = 0;
    for (uint32_t i = 0; i < inputs; ++i) {
      const int reads_features = arenite_model_input(model, i).features != 0;
      if ((taken >> i & 1) == 0) continue;
      fed[count].batch = reads_features ? &batches[i] : NULL;
      fed[count++].tokens = reads_features ? NULL : &texts[i];
    }
    status = arenite_session_step_function(session, f, fed, count, output, why);
  }
  return status;
}

// The bits of all results: the same on every CPU.
static uint32_t digest_of(const arenite_output* output) {
  uint32_t digest = 2166136261u;  // FNV-1a, over words
  for (size_t i = 0; i < (size_t)output->rows * output->features; ++i) {
    uint32_t word;
    memcpy(&word, output->data + i, sizeof(word));
    digest = (digest ^ word) * 16777619u;
  }
  return digest;
}

static void say_digest(uint32_t digest) {
  char text[] = "00000000\n";
  for (int i = 0; i < 8; ++i) text[i] = "0123456789abcdef"[digest >> (28 - 4 * i) & 15u];
  say(text);
}

// What a model did up to the call that failed, if any.
static arenite_status try_model(const struct bundled* bundled, arenite_diagnostic* why) {
  arenite_model model;
  arenite_session* session;
  arenite_session_options options = ARENITE_SESSION_OPTIONS_INIT;
  arenite_output output;
  arenite_status status = arenite_model_load(&model, bundled->file, bundled->file_bytes, NULL, why);
  if (status != ARENITE_OK) return status;
  options.positions_max = bundled->positions;
  options.tokens_max = bundled->tokens;
  options.sequences_max = bundled->sequences;
  for (uint32_t i = 1; i < arenite_model_inputs(&model); ++i) {
    const uint32_t positions = positions_of(arenite_model_input(&model, i));
    options.others[i - 1].positions_max = options.others[i - 1].tokens_max = positions;
  }
  status = arenite_session_create(&session, &model, &options, arena, sizeof(arena), why);
  if (status != ARENITE_OK) return status;

  arenite_self_test test;
  status = arenite_session_self_test(session, &test, why);
  if (status == ARENITE_UNSUPPORTED) {  // none in the file, or one of floats
    say("no self-test");
  } else {
    if (status != ARENITE_OK) return status;
    say(test.passed ? "self-test passed" : "self-test FAILED at op ");
    if (!test.passed) {
      say(test.op_name);
      return ARENITE_BAD_MODEL;
    }
  }
  status = first_pass(bundled, &model, session, &output, why);
  if (status != ARENITE_OK) return status;
  say(", digest ");
  say_digest(digest_of(&output));
  return ARENITE_OK;
}

int main(void) {
  int failed = 0;
  for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); ++i) {
    arenite_diagnostic why = {0};
    say(models[i].name);
    say(": ");
    const arenite_status status = try_model(&models[i], &why);
    if (status != ARENITE_OK) {
      char text[256];
      arenite_describe(status, &why, text, sizeof(text));
      say(" ");
      say(text);
      say("\n");
      failed = 1;
    }
  }
  return failed;
}

#else
typedef int arenite_not_empty;
#endif
