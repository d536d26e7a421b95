// SPDX-License-Identifier: Apache-2.0
// Uses the C interface from a C99 program: runs the trained models recall and home-intent from file
// to answer and compares with the results that their makers recorded. c_api_test.cc compares the C
// interface with the C++ interface.
//
// Usage: c99_test recall.arn input.npy expected_output.npy intent.arn
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "arenite/arenite.h"
#include "arenite/arenite_text.h"
#include "arenite/arenite_tick_profile.h"

enum {
  SEQUENCES = 4,
  TOKENS = 32,
  FEATURES = 18,
  FLOATS = SEQUENCES * TOKENS * FEATURES,
  NPY_HEADER_BYTES = 128,
  TEXT_BYTES_MAX = 80
};

// Scores reach 100 in this model: models/recall/README.md says how far float32 may be off.
static const float kTolerance = 1e-5f;

ARENITE_ALIGNED static unsigned char recall_file[1 << 17];
ARENITE_ALIGNED static unsigned char intent_file[1 << 22];
ARENITE_ALIGNED static unsigned char arena[1 << 22];
static float input[FLOATS];
static float expected[FLOATS];

static int failures = 0;

#define CHECK(condition)                                                 \
  do {                                                                   \
    if (!(condition)) {                                                  \
      printf("%s:%d: %s is not true\n", __FILE__, __LINE__, #condition); \
      ++failures;                                                        \
    }                                                                    \
  } while (0)

static size_t read_file(const char* name, long from, void* to, size_t bytes_max) {
  size_t bytes = 0;
  FILE* const file = fopen(name, "rb");
  if (file == NULL) {
    printf("%s: not readable\n", name);
    ++failures;
    return 0;
  }
  if (fseek(file, from, SEEK_SET) == 0) bytes = fread(to, 1, bytes_max, file);
  fclose(file);
  return bytes;
}

static bool near(const float* found, const float* wanted, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (!(fabsf(found[i] - wanted[i]) <= kTolerance)) return false;
  }
  return true;
}

static bool said(const arenite_diagnostic* why, const char* field) {
  return why->reason != NULL && why->field != NULL && strcmp(why->field, field) == 0;
}

static void names_and_versions_are_strings(void) {
  CHECK(strchr(arenite_version(), '.') != NULL);
  CHECK(strcmp(arenite_status_name(ARENITE_ARENA_TOO_SMALL), "arena too small") == 0);
  CHECK(strcmp(arenite_target_name(ARENITE_TARGET_X86_64_V3), "x86-64-v3") == 0);
  CHECK(strcmp(arenite_kernel_set_name(ARENITE_TARGET_PORTABLE), "scalar") == 0);
  CHECK((arenite_cpu_targets() & 1u << ARENITE_TARGET_PORTABLE) != 0);
}

static void a_model_that_is_none_is_refused(void) {
  const arenite_model none = ARENITE_MODEL_INIT;
  arenite_model model = ARENITE_MODEL_INIT;
  arenite_arena_plan plan;
  arenite_diagnostic why;
  CHECK(arenite_plan_arena(&plan, &none, NULL, &why) == ARENITE_INVALID_ARGUMENT);
  CHECK(arenite_model_verify_checksums(&none, NULL) == ARENITE_INVALID_ARGUMENT);
  CHECK(arenite_model_load(&model, recall_file + 4, 1000, NULL, &why) == ARENITE_INVALID_ARGUMENT);
  CHECK(said(&why, "file") && why.found == 4);
  CHECK(arenite_model_load(&model, recall_file, 100, NULL, NULL) == ARENITE_BAD_MODEL);
  CHECK(memcmp(&model, &none, sizeof(model)) == 0);
}

static void load_options_choose_kernels_and_checksums(size_t recall_bytes) {
  arenite_model model;
  arenite_diagnostic why;
  arenite_load_options options = ARENITE_LOAD_OPTIONS_INIT;
  options.force_target = true;
  options.checksums = ARENITE_CHECKSUMS_SKIP;
  CHECK(arenite_model_load(&model, recall_file, recall_bytes, &options, &why) == ARENITE_OK);
  CHECK(why.reason == NULL);
  CHECK(arenite_model_target(&model) == ARENITE_TARGET_PORTABLE);
  CHECK((arenite_model_file_targets(&model) & 1) == 1);
  CHECK(arenite_model_verify_checksums(&model, NULL) == ARENITE_OK);
  options.target = 99;
  CHECK(arenite_model_load(&model, recall_file, recall_bytes, &options, &why) ==
        ARENITE_UNSUPPORTED);
  CHECK(why.file_targets != 0 && why.cpu_targets != 0);
}

static uint32_t own_bytes = 0;
static uint32_t own_crc32c(const void* bytes, size_t count) {
  own_bytes += (uint32_t)count;
  return arenite_crc32c(bytes, count);
}
static uint32_t wrong_crc32c(const void* bytes, size_t count) {
  return arenite_crc32c(bytes, count) + 1;
}

static void checksums_may_be_computed_by_the_program(size_t recall_bytes) {
  arenite_model model;
  arenite_diagnostic why;
  arenite_load_options options = ARENITE_LOAD_OPTIONS_INIT;
  CHECK(arenite_crc32c("123456789", 9) == 0xE3069283);
  CHECK(arenite_model_load_crc32c(&model, recall_file, recall_bytes, NULL, own_crc32c, &why) ==
        ARENITE_OK);
  CHECK(own_bytes > recall_bytes / 2 && own_bytes < recall_bytes);
  CHECK(arenite_model_load_crc32c(&model, recall_file, recall_bytes, &options, wrong_crc32c,
                                  &why) == ARENITE_BAD_MODEL);
  CHECK(said(&why, "footer.metadata_crc32c") && why.found == why.expected + 1);
}

static void self_tests_pass_where_there_are_any(const arenite_model* model) {
  arenite_session_options options = ARENITE_SESSION_OPTIONS_INIT;
  arenite_session* session = NULL;
  arenite_self_test test = {false, 0, NULL, 0, 0.0f, 0.0f};
  arenite_diagnostic why;
  options.positions_max = arenite_model_self_test_tokens(model);
  CHECK(options.positions_max != 0);
  CHECK(strcmp(arenite_model_op_name(model, 0), "qkv") == 0);
  CHECK(arenite_session_create(&session, model, &options, arena, sizeof(arena), NULL) ==
        ARENITE_OK);
  CHECK(arenite_session_self_test(session, &test, &why) == ARENITE_OK);
  CHECK(test.passed && test.tolerance > 0.0f && test.difference <= test.tolerance);
  CHECK(test.op_index <= arenite_model_ops(model) && test.op_name != NULL);
  CHECK(test.token < options.positions_max);

  options.positions_max -= 1;
  CHECK(arenite_session_create(&session, model, &options, arena, sizeof(arena), NULL) ==
        ARENITE_OK);
  test.token = 77;
  CHECK(arenite_session_self_test(session, &test, &why) == ARENITE_INVALID_ARGUMENT);
  CHECK(why.expected == options.positions_max + 1 && test.token == 77);
}

static void error_strings_say_everything(const arenite_model* model) {
  char text[256];
  char three[3];
  arenite_session* session = NULL;
  arenite_diagnostic why;
  const arenite_status status = arenite_session_create(&session, model, NULL, arena, 64, &why);
  CHECK(status == ARENITE_ARENA_TOO_SMALL && session == NULL);
  CHECK(arenite_describe(status, &why, text, sizeof(text)) == strlen(text));
  CHECK(strncmp(text, "arena too small: the arena is too small for these options; arena", 64) == 0);
  CHECK(arenite_describe(status, &why, three, sizeof(three)) == 2 && strcmp(three, "ar") == 0);
  CHECK(arenite_describe(status, NULL, text, sizeof(text)) == 15);
}

// All sequences in one call, then the first one token by token.
static void recall_answers_as_its_makers_say(const arenite_model* model) {
  arenite_session_options options = ARENITE_SESSION_OPTIONS_INIT;
  arenite_arena_plan plan;
  arenite_session* session = NULL;
  arenite_output output = {NULL, 0, 0};
  arenite_batch batch = ARENITE_BATCH_INIT;
  arenite_diagnostic why;
  options.positions_max = TOKENS;
  options.sequences_max = SEQUENCES;
  CHECK(arenite_plan_arena(&plan, model, &options, NULL) == ARENITE_OK);
  CHECK(plan.total_bytes ==
        plan.session_bytes + plan.kv_cache_bytes + plan.activation_bytes + plan.scratch_bytes);
  CHECK(plan.total_bytes <= sizeof(arena));
  CHECK(arenite_session_create(&session, model, &options, arena, plan.total_bytes - 1, NULL) ==
        ARENITE_ARENA_TOO_SMALL);
  CHECK(arenite_session_create(&session, model, &options, arena, plan.total_bytes, NULL) ==
        ARENITE_OK);

  batch.features = input;
  batch.size = FLOATS;
  batch.sequences = SEQUENCES;
  batch.tokens = TOKENS;
  CHECK(arenite_session_run(session, &batch, &output, NULL) == ARENITE_OK);
  CHECK(output.rows == SEQUENCES * TOKENS && output.features == FEATURES);
  CHECK(near(output.data, expected, FLOATS));
  CHECK(arenite_output_finite(&output));
  input[FLOATS / 2] = NAN;
  CHECK(arenite_session_run(session, &batch, &output, NULL) == ARENITE_OK);
  CHECK(!arenite_output_finite(&output));
  input[FLOATS / 2] = 0.0f;

  arenite_session_reset(session);
  for (uint32_t token = 0; token < TOKENS; ++token) {
    const size_t at = (size_t)token * FEATURES;
    CHECK(arenite_session_positions(session, 0) == token);
    CHECK(arenite_session_step_features(session, input + at, FEATURES, &output, NULL) ==
          ARENITE_OK);
    CHECK(output.rows == 1 && near(output.data, expected + at, FEATURES));
  }
  CHECK(arenite_session_step_features(session, input, FEATURES, &output, NULL) ==
        ARENITE_CONTEXT_FULL);
  CHECK(arenite_session_rewind(session, 0, TOKENS + 1, &why) == ARENITE_INVALID_ARGUMENT);
  CHECK(why.found == TOKENS + 1 && why.expected == TOKENS);
  CHECK(arenite_session_rewind(session, 0, TOKENS - 1, NULL) == ARENITE_OK);
  CHECK(arenite_session_positions(session, 0) == TOKENS - 1);
}

// A slice at a time; in the middle once the step is given up.
static void slices_give_what_one_call_gives(const arenite_model* model) {
  arenite_session* session = NULL;
  arenite_batch batch = ARENITE_BATCH_INIT;
  uint32_t left = 0;
  arenite_diagnostic why;
  CHECK(arenite_session_create(&session, model, NULL, arena, sizeof(arena), NULL) == ARENITE_OK);
  CHECK(arenite_session_advance(session, 1, &left, &why) == ARENITE_INVALID_ARGUMENT);
  batch.features = input;
  batch.size = TOKENS * FEATURES;
  batch.tokens = TOKENS;
  CHECK(arenite_session_begin_step(session, &batch, NULL) == ARENITE_OK);
  CHECK(arenite_session_advance(session, 1, &left, &why) == ARENITE_INVALID_ARGUMENT);
  const uint64_t budget = why.expected;
  CHECK(arenite_session_advance(session, budget, &left, NULL) == ARENITE_OK && left > 0);
  CHECK(arenite_session_begin_step(session, &batch, &why) == ARENITE_INVALID_ARGUMENT);
  arenite_session_cancel(session);
  CHECK(arenite_session_positions(session, 0) == 0);
  CHECK(arenite_session_begin_run(session, &batch, NULL) == ARENITE_OK);
  do {
    CHECK(arenite_session_output(session).rows == 0);
    if (arenite_session_advance(session, 20000, &left, NULL) != ARENITE_OK) break;
  } while (left != 0);
  CHECK(arenite_session_output(session).rows == TOKENS);
  CHECK(near(arenite_session_output(session).data, expected, TOKENS * FEATURES));
  CHECK(arenite_session_positions(session, 0) == TOKENS);
}

static uint32_t counter;
static uint32_t read_counter(void) { return counter += 5; }

static void ticks_of_each_op_are_counted(const arenite_model* model) {
  enum { OPS = 2 };  // fewer than the model has
  arenite_op_ticks ticks[OPS + 1];
  arenite_tick_profile profile = {NULL, OPS, read_counter, 0};
  arenite_session_options options = ARENITE_SESSION_OPTIONS_INIT;
  arenite_session* session = NULL;
  arenite_output output;
  profile.ops = ticks;
  memset(ticks, 0, sizeof(ticks));
  options.positions_max = TOKENS;
  options.profile = arenite_tick_profile_hook(&profile);
  CHECK(arenite_model_ops(model) > OPS);
  CHECK(arenite_session_create(&session, model, &options, arena, sizeof(arena), NULL) ==
        ARENITE_OK);
  counter = UINT32_MAX - 12;  // wraps within an op
  CHECK(arenite_session_step_features(session, input, FEATURES, &output, NULL) == ARENITE_OK);
  CHECK(arenite_session_step_features(session, input, FEATURES, &output, NULL) == ARENITE_OK);
  for (int op = 0; op < OPS; ++op) {
    CHECK(ticks[op].calls == 2 && ticks[op].total == 10);
    CHECK(ticks[op].least == 5 && ticks[op].most == 5);
  }
  CHECK(ticks[OPS].calls == 0);
}

static size_t append(char* text, size_t length, arenite_text more) {
  if (more.bytes != 0 && length + more.bytes < TEXT_BYTES_MAX) {
    memcpy(text + length, more.data, more.bytes);
    length += more.bytes;
  }
  text[length] = '\0';
  return length;
}

// From a command to the model's answer, greedily.
static void answer(const arenite_tokenizer* tokenizer, arenite_session* session,
                   const char* command, char* text) {
  uint32_t ids[ARENITE_ENCODE_TOKENS_MAX(TEXT_BYTES_MAX)];
  size_t count = 0;
  size_t length = 0;
  arenite_text_stream stream;
  arenite_sampler sampler;
  text[0] = '\0';
  arenite_session_reset(session);
  arenite_text_stream_init(&stream, tokenizer, NULL);
  CHECK(arenite_sampler_init(&sampler, NULL, NULL) == ARENITE_OK);
  CHECK(arenite_tokenizer_encode(tokenizer, command, strlen(command), NULL, ids,
                                 sizeof(ids) / sizeof(ids[0]), &count, NULL) == ARENITE_OK);
  ids[count++] = arenite_tokenizer_find_special(tokenizer, "<|do|>", 6);
  for (int tokens = 0; tokens < 20; ++tokens) {
    arenite_output output;
    arenite_text_parts parts;
    if (arenite_session_step_ids(session, ids, count, &output, NULL) != ARENITE_OK ||
        arenite_sampler_sample(&sampler, output.data, output.features, NULL, 0, NULL, 0, ids,
                               NULL) != ARENITE_OK) {
      CHECK(false);
      return;
    }
    if (arenite_tokenizer_is_end(tokenizer, ids[0])) break;
    count = 1;
    parts = arenite_text_stream_next(&stream, ids[0]);
    length = append(text, length, parts.head);
    length = append(text, length, parts.tail);
  }
}

static void intent_understands_commands(size_t intent_bytes) {
  arenite_model model;
  arenite_tokenizer tokenizer;
  arenite_session* session = NULL;
  char text[TEXT_BYTES_MAX + 1];
  CHECK(arenite_model_load(&model, intent_file, intent_bytes, NULL, NULL) == ARENITE_OK);
  CHECK(arenite_model_vocab_size(&model) != 0 && arenite_model_input_features(&model) == 0);
  CHECK(arenite_model_causal(&model) && !arenite_model_pooled(&model));
  CHECK(arenite_tokenizer_init(&tokenizer, &model, NULL) == ARENITE_OK);
  CHECK(arenite_session_create(&session, &model, NULL, arena, sizeof(arena), NULL) == ARENITE_OK);
  if (failures != 0) return;
  answer(&tokenizer, session, "dim the bedroom lamp to thirty percent", text);
  CHECK(strcmp(text, "light.bedroom.brightness=30") == 0);
  answer(&tokenizer, session, "turn on the kitchen light", text);
  CHECK(strcmp(text, "light.kitchen.power=on") == 0);
}

int main(int argc, char** argv) {
  arenite_model model = ARENITE_MODEL_INIT;
  size_t recall_bytes, intent_bytes;
  if (argc != 5) {
    printf("usage: %s recall.arn input.npy expected_output.npy intent.arn\n", argv[0]);
    return 2;
  }
  recall_bytes = read_file(argv[1], 0, recall_file, sizeof(recall_file));
  CHECK(read_file(argv[2], NPY_HEADER_BYTES, input, sizeof(input)) == sizeof(input));
  CHECK(read_file(argv[3], NPY_HEADER_BYTES, expected, sizeof(expected)) == sizeof(expected));
  intent_bytes = read_file(argv[4], 0, intent_file, sizeof(intent_file));

  names_and_versions_are_strings();
  a_model_that_is_none_is_refused();
  load_options_choose_kernels_and_checksums(recall_bytes);
  checksums_may_be_computed_by_the_program(recall_bytes);
  CHECK(arenite_model_load(&model, recall_file, recall_bytes, NULL, NULL) == ARENITE_OK);
  if (failures == 0) {
    error_strings_say_everything(&model);
    self_tests_pass_where_there_are_any(&model);
    recall_answers_as_its_makers_say(&model);
    slices_give_what_one_call_gives(&model);
    ticks_of_each_op_are_counted(&model);
    intent_understands_commands(intent_bytes);
  }
  printf("%s, %d failures\n", arenite_kernel_set_name(arenite_model_target(&model)), failures);
  return failures == 0 ? 0 : 1;
}
