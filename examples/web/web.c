// SPDX-License-Identifier: Apache-2.0
// The module of the page: a language model and a model of sound, by calls that take and return
// numbers alone. The page lays model files and arenas into memory after the program's own, which
// grows by the page; nothing here allocates. A call that fails leaves its reason in web_text.
#include <string.h>

#include "arenite/arenite_sound.h"
#include "arenite/arenite_text.h"

#define EXPORT(name) __attribute__((export_name(#name))) name

#define COMMAND_BYTES_MAX 120u
#define TOKENS_MAX 32u            // of a call
#define STREAM_TOKENS (1u << 31)  // 994 days
#define FIRST_COMMAND 2u          // classes before are silence and unknown
#define TOKENS_IN_A_ROW 3u        // that say a command, each by so much more than others:
#define MARGIN 1.0f

typedef enum Kind { TEXT = 0, SOUND = 1 } Kind;
static arenite_model models[2];
static arenite_session_options options[2];
static arenite_session* sessions[2];
static arenite_tokenizer tokenizer;
static arenite_sound_stream stream;

static char text[512];
static uint32_t prompt[ARENITE_ENCODE_TOKENS_MAX(COMMAND_BYTES_MAX) + 1];
static float samples[640];
static uint32_t best_before, in_a_row;

static bool failed(arenite_status status, const arenite_diagnostic* why) {
  if (status != ARENITE_OK) arenite_describe(status, why, text, sizeof(text));
  return status != ARENITE_OK;
}

char* EXPORT(web_text)(void) { return text; }
float* EXPORT(web_samples)(void) { return samples; }
uint32_t EXPORT(web_rate)(void) { return arenite_model_sound(&models[SOUND]).rate; }
const char* EXPORT(web_kernels)(void) {
  return arenite_kernel_set_name(arenite_model_target(&models[TEXT]));
}

// Checks a model file, which lies at a multiple of 64 bytes. Returns the bytes of its arena, or 0.
size_t EXPORT(web_load)(Kind kind, const void* file, size_t file_bytes) {
  arenite_diagnostic why;
  arenite_arena_plan plan;
  if (failed(arenite_model_load(&models[kind], file, file_bytes, NULL, &why), &why)) return 0;
  options[kind] = (arenite_session_options)ARENITE_SESSION_OPTIONS_INIT;
  options[kind].tokens_max = kind == TEXT ? TOKENS_MAX : 1;
  if (kind == SOUND) options[kind].positions_max = STREAM_TOKENS;
  if (failed(arenite_plan_arena(&plan, &models[kind], &options[kind], &why), &why)) return 0;
  return plan.total_bytes;
}

// Creates the session. The arena lies at a multiple of 64 bytes.
bool EXPORT(web_start)(Kind kind, void* arena, size_t arena_bytes) {
  arenite_diagnostic why;
  const arenite_model* const model = &models[kind];
  arenite_status status =
      arenite_session_create(&sessions[kind], model, &options[kind], arena, arena_bytes, &why);
  if (failed(status, &why)) return false;
  status = kind == TEXT ? arenite_tokenizer_init(&tokenizer, model, &why)
                        : arenite_sound_stream_init(&stream, sessions[SOUND], web_rate(), 0, &why);
  return !failed(status, &why);
}

static size_t append(size_t length, arenite_text part) {
  const size_t room = sizeof(text) - 1 - length;
  const size_t count = part.bytes < room ? part.bytes : room;
  memcpy(text + length, part.data, count);
  return length + count;
}

// Replaces the command in `text` by its action. The model was trained on: command <|do|> action.
bool EXPORT(web_answer)(size_t command_bytes) {
  static const char kDo[] = "<|do|>";
  arenite_diagnostic why;
  arenite_sampler sampler;
  arenite_text_stream words;
  size_t count = 0, length = 0;
  if (command_bytes > COMMAND_BYTES_MAX) command_bytes = COMMAND_BYTES_MAX;
  arenite_status status =
      arenite_tokenizer_encode(&tokenizer, text, command_bytes, NULL, prompt,
                               sizeof(prompt) / sizeof(prompt[0]), &count, &why);
  if (failed(status, &why)) return false;
  prompt[count++] = arenite_tokenizer_find_special(&tokenizer, kDo, sizeof(kDo) - 1);
  arenite_session_reset(sessions[TEXT]);
  arenite_text_stream_init(&words, &tokenizer, NULL);
  if (failed(arenite_sampler_init(&sampler, NULL, &why), &why)) return false;
  const uint32_t* next = prompt;
  for (uint32_t token = 0;;) {
    // A call takes as many tokens as the arena was made for; the last one gives the logits.
    const size_t now = count < TOKENS_MAX ? count : TOKENS_MAX;
    arenite_output logits;
    if (failed(arenite_session_step_ids(sessions[TEXT], next, now, &logits, &why), &why)) {
      return false;
    }
    next += now;
    count -= now;
    if (count != 0) continue;
    status = arenite_sampler_sample(&sampler, logits.data, logits.features, NULL, 0, NULL, 0,
                                    &token, &why);
    if (failed(status, &why)) return false;
    if (arenite_tokenizer_is_end(&tokenizer, token)) break;
    const arenite_text_parts parts = arenite_text_stream_next(&words, token);
    length = append(append(length, parts.head), parts.tail);
    next = &token;
    count = 1;
  }
  text[length] = 0;
  return true;
}

// Returns the command that is heard with a token, by its class, or 0: enough tokens in a row say
// it.
static uint32_t heard(const float* logits, uint32_t classes) {
  uint32_t best = 0;
  for (uint32_t i = 1; i < classes; ++i) best = logits[i] > logits[best] ? i : best;
  bool is_sure = true;
  for (uint32_t i = 0; i < classes; ++i) {
    is_sure = is_sure && (i == best || logits[best] - logits[i] >= MARGIN);
  }
  in_a_row = !is_sure ? 0 : best == best_before ? in_a_row + 1 : 1;
  best_before = best;
  return best >= FIRST_COMMAND && in_a_row == TOKENS_IN_A_ROW ? best : 0;
}

// Hears samples from web_samples, 640 at most, which complete one token at most. Returns the class
// of the command that ends in them, 0 for none, or -1.
int32_t EXPORT(web_hear)(size_t count) {
  arenite_diagnostic why;
  arenite_samples left = {NULL, samples, count};
  uint32_t command = 0;
  while (left.count != 0) {
    arenite_output logits;
    if (failed(arenite_sound_stream_step(&stream, &left, &logits, &why), &why)) return -1;
    if (logits.rows != 0) command = heard(logits.data, logits.features);
  }
  return (int32_t)command;
}
