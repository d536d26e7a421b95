// SPDX-License-Identifier: Apache-2.0
// Text in, text out: passes each line to the first model with a tokenizer. A language model
// continues it, a classifier names its class, and other models print the first elements of their
// output.
//   make self_test MAIN=programs/text.c && echo "..." | ./self_test
#include <string.h>

#include "arenite/arenite_text.h"
#include "arenite_model.h"

// The input and output: the standard streams, or functions of yours. board_read returns the count
// of bytes that it stored, 0 at the end.
#if defined(BOARD_WRITE)
size_t board_read(char* bytes, size_t size);
void BOARD_WRITE(const char* text, size_t bytes);
#define READ(bytes, size) board_read(bytes, size)
#define WRITE(text, bytes) BOARD_WRITE(text, bytes)
#else
#include <stdio.h>
#define READ(bytes, size) fread(bytes, 1, size, stdin)
#define WRITE(text, bytes) (fwrite(text, 1, bytes, stdout), fflush(stdout))
#endif

#define LINE_BYTES_MAX 256u
#define TOKENS_MAX (ARENITE_ENCODE_TOKENS_MAX(LINE_BYTES_MAX))

struct bundled {
  const void* file;
  size_t file_bytes;
  uint32_t positions, tokens, sequences;
};
#define BUNDLED(name, NAME) \
  {NAME##_MODEL, NAME##_MODEL_BYTES, NAME##_POSITIONS_MAX, NAME##_TOKENS_MAX, NAME##_SEQUENCES_MAX},
static const struct bundled models[] = {ARENITE_MODELS(BUNDLED)};

ARENITE_ALIGNED static unsigned char arena[ARENITE_MODELS_ARENA_BYTES_MAX];
static char line[LINE_BYTES_MAX];
static uint32_t ids[TOKENS_MAX];

static arenite_model model;
static arenite_tokenizer tokenizer;
static arenite_session* session;
static uint32_t positions_max, tokens_max;

static void say(const char* text) { WRITE(text, strlen(text)); }

static void say_parts(arenite_text_parts parts) {
  WRITE(parts.head.data, parts.head.bytes);
  WRITE(parts.tail.data, parts.tail.bytes);
}

static int fail(arenite_status status, const arenite_diagnostic* why) {
  char text[256];
  WRITE(text, arenite_describe(status, why, text, sizeof(text)));
  say("\n");
  return 1;
}

// Formats without printf of the C library, which would be larger than the runtime.
static void say_number(float number) {
  if (number < 0) say("-");
  if (number < 0) number = -number;
  if (!(number < 1e6f)) {
    say("over 1000000");
    return;
  }
  const uint32_t thousandths = (uint32_t)(number * 1000.0f + 0.5f);
  char text[12];
  size_t begin = sizeof(text);
  for (uint32_t rest = thousandths, i = 0; i < 5 || rest != 0; ++i) {
    if (i == 3) {
      text[--begin] = '.';
    } else {
      text[--begin] = (char)('0' + rest % 10);
      rest /= 10;
    }
  }
  WRITE(text + begin, sizeof(text) - begin);
}

static uint32_t largest(const arenite_output* output, uint32_t row) {
  const float* const numbers = output->data + (size_t)row * output->features;
  uint32_t best = 0;
  for (uint32_t i = 1; i < output->features; ++i) {
    if (numbers[i] > numbers[best]) best = i;
  }
  return best;
}

static void say_result(const arenite_output* output) {
  for (uint32_t row = 0; row < output->rows; ++row) {
    if (arenite_model_labels(&model) != 0) {
      say(arenite_model_label(&model, largest(output, row)));
    } else {
      for (uint32_t i = 0; i < output->features && i < 8; ++i) {
        say(i == 0 ? "" : " ");
        say_number(output->data[(size_t)row * output->features + i]);
      }
    }
    say("\n");
  }
}

// Generates the most probable tokens. Pass options in place of NULL to set a temperature.
static arenite_status continue_text(size_t count, arenite_diagnostic* why) {
  arenite_text_stream stream;
  arenite_sampler sampler;
  arenite_decode_options decoding = ARENITE_DECODE_OPTIONS_INIT;
  decoding.is_continuation = true;
  arenite_text_stream_init(&stream, &tokenizer, &decoding);
  arenite_status status = arenite_sampler_init(&sampler, NULL, why);
  arenite_session_reset(session);
  const uint32_t* next = ids;
  uint32_t token = 0;
  while (status == ARENITE_OK) {
    arenite_output logits;
    // A call takes at most the tokens that the arena was made for; only the last gives the logits.
    const size_t now = count < tokens_max ? count : tokens_max;
    status = arenite_session_step_ids(session, next, now, &logits, why);
    next += now;
    count -= now;
    if (status != ARENITE_OK || count != 0) continue;
    status = arenite_sampler_sample(&sampler, logits.data, logits.features, NULL, 0, NULL, 0,
                                    &token, why);
    if (status != ARENITE_OK || arenite_tokenizer_is_end(&tokenizer, token)) break;
    say_parts(arenite_text_stream_next(&stream, token));
    if (arenite_session_positions(session, 0) == positions_max) break;
    next = &token;
    count = 1;
  }
  say_parts(arenite_text_stream_finish(&stream));
  say("\n");
  return status;
}

static arenite_status answer(size_t line_bytes, arenite_diagnostic* why) {
  const bool writes = arenite_model_causal(&model) && !arenite_model_pooled(&model) &&
                      arenite_model_output_features(&model) == arenite_model_vocab_size(&model);
  arenite_encode_options encoding = ARENITE_ENCODE_OPTIONS_INIT;
  encoding.read_specials = true;  // right for text that you type, not for text of others
  size_t count = 0;
  arenite_status status = arenite_tokenizer_encode(&tokenizer, line, line_bytes, &encoding, ids,
                                                   TOKENS_MAX, &count, why);
  if (status != ARENITE_OK || count == 0) return status;
  if (writes) {  // to be continued, so drop the end token
    if (count > 1 && arenite_tokenizer_is_end(&tokenizer, ids[count - 1])) --count;
    return continue_text(count, why);
  }
  arenite_token_batch batch = ARENITE_TOKEN_BATCH_INIT;
  arenite_output output;
  batch.ids = ids;
  batch.size = count;
  batch.tokens = (uint32_t)count;
  status = arenite_session_run_tokens(session, &batch, &output, why);
  if (status == ARENITE_OK) say_result(&output);
  return status;
}

// Opens a session with the first model that has a tokenizer.
static arenite_status start(arenite_diagnostic* why) {
  arenite_status status = ARENITE_UNSUPPORTED;
  for (size_t i = 0; i < sizeof(models) / sizeof(models[0]) && status != ARENITE_OK; ++i) {
    arenite_session_options options = ARENITE_SESSION_OPTIONS_INIT;
    options.positions_max = positions_max = models[i].positions;
    options.tokens_max = tokens_max = models[i].tokens;
    options.sequences_max = models[i].sequences;
    status = arenite_model_load(&model, models[i].file, models[i].file_bytes, NULL, why);
    if (status == ARENITE_OK) status = arenite_tokenizer_init(&tokenizer, &model, why);
    if (status != ARENITE_OK) continue;
    return arenite_session_create(&session, &model, &options, arena, sizeof(arena), why);
  }
  return status;
}

int main(void) {
  arenite_diagnostic why = {0};
  arenite_status status = start(&why);
  if (status != ARENITE_OK) return fail(status, &why);
  for (size_t bytes = 0;;) {
    char letter;
    const bool at_end = READ(&letter, 1) == 0;
    if (!at_end && letter != '\n') {
      if (bytes < sizeof(line) && letter != '\r') line[bytes++] = letter;
      continue;
    }
    status = bytes != 0 ? answer(bytes, &why) : ARENITE_OK;
    if (status != ARENITE_OK) fail(status, &why);
    if (at_end) return status != ARENITE_OK;
    bytes = 0;
  }
}
