// SPDX-License-Identifier: Apache-2.0
// Runs one of the models linked into this program: embedded NAME SEQUENCES TOKENS <input >output. A
// model with several inputs takes one sequence of each, and one TOKENS for each. The test writes
// models.h, which lists the models. The file compiles as C with headers of `arenite embed
// --language c` and with a folder of `arenite bundle`, and as C++ with C++ headers.
//
// The input is dense float32 or uint32. The output is two uint32, the number of rows and their
// width, and then float32. Each arena has exactly the bytes that the headers state, and one byte
// less must fail.
#include "models.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INPUT_BYTES_MAX (1 << 20)

struct embedded {
  const char* name;
  const void* file;
  size_t file_bytes;
  uint32_t positions, tokens, sequences;
  unsigned char* arena;
  size_t arena_bytes;
};

#define ARENA(name, NAME) \
  ARENITE_ALIGNED static unsigned char arena_of_##name[NAME##_ARENA_BYTES_MAX];
ARENITE_MODELS(ARENA)

#define EMBEDDED(name, NAME) \
  {#name,                    \
   NAME##_MODEL,             \
   NAME##_MODEL_BYTES,       \
   NAME##_POSITIONS_MAX,     \
   NAME##_TOKENS_MAX,        \
   NAME##_SEQUENCES_MAX,     \
   arena_of_##name,          \
   sizeof(arena_of_##name)},
static const struct embedded models[] = {ARENITE_MODELS(EMBEDDED)};

// The input: float32 or uint32 [sequences, tokens, ..].
#define INPUTS_MAX 4
struct input {
  uint32_t sequences, tokens, tokens_of[INPUTS_MAX];
  size_t size;
};
static uint32_t words[INPUT_BYTES_MAX / sizeof(uint32_t)];

// Fills the arena with signalling NaNs, so that a read of memory that nobody wrote shows.
static void fill(unsigned char* arena, size_t bytes) {
  const uint32_t nan = 0x7FA00000u;
  for (size_t i = 0; i + sizeof(nan) <= bytes; i += sizeof(nan))
    memcpy(arena + i, &nan, sizeof(nan));
}

static arenite_status run(const struct input* input, const arenite_model* model,
                          arenite_session* session, arenite_output* output,
                          arenite_diagnostic* why) {
  if (arenite_model_vocab_size(model) != 0) {
    arenite_token_batch batch = ARENITE_TOKEN_BATCH_INIT;
    batch.ids = words;
    batch.size = input->size;
    batch.sequences = input->sequences;
    batch.tokens = input->tokens;
    return arenite_session_run_tokens(session, &batch, output, why);
  }
  arenite_batch batch = ARENITE_BATCH_INIT;
  batch.features = (const float*)(const void*)words;
  batch.size = input->size;
  batch.sequences = input->sequences;
  batch.tokens = input->tokens;
  return arenite_session_run(session, &batch, output, why);
}

// All functions, one after the other.
static arenite_status run_functions(const struct input* input, const arenite_model* model,
                                    arenite_session* session, arenite_output* output,
                                    arenite_diagnostic* why) {
  const uint32_t* next = words;
  arenite_batch batches[INPUTS_MAX];
  arenite_token_batch token_batches[INPUTS_MAX];
  for (uint32_t i = 0; i < arenite_model_inputs(model); ++i) {
    const uint32_t tokens = input->tokens_of[i];
    const arenite_batch batch = ARENITE_BATCH_INIT;
    const arenite_token_batch token_batch = ARENITE_TOKEN_BATCH_INIT;
    const size_t size = (size_t)tokens * arenite_model_input(model, i).features;
    batches[i] = batch;
    batches[i].features = (const float*)(const void*)next;
    batches[i].size = size;
    batches[i].tokens = tokens;
    token_batches[i] = token_batch;
    token_batches[i].ids = next;
    token_batches[i].size = token_batches[i].tokens = tokens;
    next += size != 0 ? size : tokens;
  }
  arenite_status status = ARENITE_OK;
  for (uint32_t f = 0; f < arenite_model_functions(model) && status == ARENITE_OK; ++f) {
    arenite_input fed[INPUTS_MAX];
    size_t count = 0;
    for (uint32_t i = 0; i < arenite_model_inputs(model); ++i) {
      const int is_tokens = arenite_model_input(model, i).vocab_size != 0;
      if ((arenite_model_function(model, f).inputs >> i & 1) == 0) continue;
      fed[count].batch = is_tokens ? NULL : &batches[i];
      fed[count++].tokens = is_tokens ? &token_batches[i] : NULL;
    }
    status = arenite_session_step_function(session, f, fed, count, output, why);
  }
  return status;
}

static arenite_status try_model(const struct embedded* embedded, const struct input* input,
                                arenite_output* output, arenite_diagnostic* why) {
  arenite_model model;
  arenite_session* session;
  arenite_session_options options = ARENITE_SESSION_OPTIONS_INIT;
  arenite_status status =
      arenite_model_load(&model, embedded->file, embedded->file_bytes, NULL, why);
  if (status != ARENITE_OK) return status;
  options.positions_max = embedded->positions;
  options.tokens_max = embedded->tokens;
  options.sequences_max = embedded->sequences;
  fill(embedded->arena, embedded->arena_bytes);
  status = arenite_session_create(&session, &model, &options, embedded->arena,
                                  embedded->arena_bytes - 1, why);
  if (status != ARENITE_ARENA_TOO_SMALL || why->bytes_needed != embedded->arena_bytes) {
    fprintf(stderr, "%zu bytes are needed, and the header says %zu\n", why->bytes_needed,
            embedded->arena_bytes);
    return status == ARENITE_OK ? ARENITE_INVALID_ARGUMENT : status;
  }
  status = arenite_session_create(&session, &model, &options, embedded->arena,
                                  embedded->arena_bytes, why);
  if (status != ARENITE_OK) return status;
  return (arenite_model_inputs(&model) == 1 ? run : run_functions)(input, &model, session, output,
                                                                   why);
}

int main(int argc, char** argv) {
  if (argc < 4 || argc > 3 + INPUTS_MAX) return 2;
  struct input input = {(uint32_t)atoi(argv[2]), (uint32_t)atoi(argv[3]), {0}, 0};
  for (int i = 3; i < argc; ++i) input.tokens_of[i - 3] = (uint32_t)atoi(argv[i]);
  input.size = fread(words, sizeof(uint32_t), INPUT_BYTES_MAX / sizeof(uint32_t), stdin);
  for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); ++i) {
    if (strcmp(models[i].name, argv[1]) != 0) continue;
    arenite_output output;
    arenite_diagnostic why = {0};
    const arenite_status status = try_model(&models[i], &input, &output, &why);
    if (status != ARENITE_OK) {
      char text[256];
      arenite_describe(status, &why, text, sizeof(text));
      fprintf(stderr, "%s: %s\n", argv[1], text);
      return 1;
    }
    fwrite(&output.rows, sizeof(uint32_t), 1, stdout);
    fwrite(&output.features, sizeof(uint32_t), 1, stdout);
    fwrite(output.data, sizeof(float), (size_t)output.rows * output.features, stdout);
    return 0;
  }
  fprintf(stderr, "there is no model %s\n", argv[1]);
  return 2;
}
