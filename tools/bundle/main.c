// SPDX-License-Identifier: Apache-2.0
// A program to start from, and the test of the bundled models on a device. It checks that floats
// follow IEEE 754. Each model then runs its self-test and a first pass in one static arena; the
// output of the pass must have the same bits as on the machine that made the bundle. A failure is
// printed with its place, the value found and the value expected.
#if !defined(ARDUINO)  // a sketch has setup and loop instead; see examples/SelfTest

#include <string.h>

#include "arenite/arenite.h"
#include "arenite_model.h"

// Writes a text to the standard output or, with -DBOARD_WRITE=uart_write, to a function of yours.
#if defined(BOARD_WRITE)
void BOARD_WRITE(const char* text, size_t bytes);
static void say(const char* text) { BOARD_WRITE(text, strlen(text)); }
#else
#include <stdio.h>
static void say(const char* text) { fputs(text, stdout); }
#endif

// The tokens of the first pass. A model with longer shortest sequences, such as images, gets those.
#define TOKENS 8u
#define TOKENS_MAX (ARENITE_MODELS_TOKENS_MIN_MAX > TOKENS ? ARENITE_MODELS_TOKENS_MIN_MAX : TOKENS)

struct bundled {
  const char* name;
  const void* file;
  size_t file_bytes;
  uint32_t positions, tokens, sequences;
  const uint32_t* expected;  // bits of every `expected_step`-th output of the first pass
  uint32_t expected_count, expected_step;
};
#define EXPECTED(name, NAME) static const uint32_t name##_expected[] = {NAME##_FIRST_PASS};
ARENITE_MODELS(EXPECTED)
#define BUNDLED(name, NAME) \
  {#name,                   \
   NAME##_MODEL,            \
   NAME##_MODEL_BYTES,      \
   NAME##_POSITIONS_MAX,    \
   NAME##_TOKENS_MAX,       \
   NAME##_SEQUENCES_MAX,    \
   name##_expected,         \
   NAME##_FIRST_PASS_COUNT, \
   NAME##_FIRST_PASS_STEP},
static const struct bundled models[] = {ARENITE_MODELS(BUNDLED)};

// All memory of the models, besides the stack.
ARENITE_ALIGNED static unsigned char arena[ARENITE_MODELS_ARENA_BYTES_MAX];
static float features[TOKENS_MAX * ARENITE_MODELS_INPUT_FEATURES_MAX];
static uint32_t ids[TOKENS_MAX];
#if defined(ARENITE_MODELS_TAKE_PAIRS)
static uint8_t pairs[TOKENS_MAX * TOKENS_MAX];  // all tokens see each other
#endif

// Returns the positions of an input after the first, as arenite_model.h plans them.
static uint32_t positions_of(arenite_input_info input) {
  return input.positions_max != 0 ? input.positions_max : 128u;
}

// Runs all functions of the model on fixed, made-up input.
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
    if (input.tokens_step > 1) tokens -= (tokens - input.tokens_min) % input.tokens_step;
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

// ---- Printing results ----

static int failures;

static void say_hex(uint32_t word) {
  char text[] = "00000000";
  for (int i = 0; i < 8; ++i) text[i] = "0123456789abcdef"[word >> (28 - 4 * i) & 15u];
  say(text);
}

static void say_count(uint32_t number) {
  char digits[11];
  size_t begin = sizeof(digits) - 1;
  digits[begin] = 0;
  do {
    digits[--begin] = (char)('0' + number % 10);
    number /= 10;
  } while (number != 0);
  say(digits + begin);
}

static uint32_t bits_of(float number) {
  uint32_t bits;
  memcpy(&bits, &number, sizeof(bits));
  return bits;
}

// Prints four digits with an exponent, then the bits: 1.250e-3 (3aa3d70a).
static void say_float(float number) {
  const uint32_t bits = bits_of(number);
  if ((bits & 0x7f800000u) == 0x7f800000u) {
    say((bits & 0x7fffffu) != 0 ? "NaN" : "infinity");
  } else {
    float size = number < 0 ? -number : number;
    int32_t exponent = 0;
    for (; size >= 10.0f; size /= 10.0f) ++exponent;
    for (; size != 0 && size < 1.0f && exponent > -50; size *= 10.0f) --exponent;
    const uint32_t digits = (uint32_t)(size * 1000.0f + 0.5f);
    if (number < 0) say("-");
    say_count(digits / 1000);
    say(".");
    for (uint32_t place = 100; place != 0; place /= 10) say_count(digits / place % 10);
    say(exponent < 0 ? "e-" : "e");
    say_count((uint32_t)(exponent < 0 ? -exponent : exponent));
  }
  say(" (");
  say_hex(bits);
  say(")");
}

static void say_failure(const char* where) {
  ++failures;
  say("\n  FAILED ");
  say(where);
}

static void say_floats(float found, float expected) {
  say(": found ");
  say_float(found);
  say(", expected ");
  say_float(expected);
}

// ---- Floats ----

// Checks that subnormal floats are kept and that sums are rounded to nearest, ties to even. If the
// CPU or the start-up code sets another mode, models give other bits.
static void check_floats(void) {
  struct row {
    const char* name;
    volatile float a, b;
    char operation;
    float expected;
  } rows[] = {
      {"denormal result, flushed to zero", 1.17549435e-38f, 0.5f, '*', 5.87747175e-39f},
      {"denormal operand, taken for zero", 5.87747175e-39f, 2.0f, '*', 1.17549435e-38f},
      {"denormal sum, flushed to zero", 1.17549435e-38f, -1.17549421e-38f, '+', 1.40129846e-45f},
      {"tie, not rounded to even", 1.0f, 5.96046448e-8f, '+', 1.0f},
      {"rounded up, not to the nearest", 1.0f, 2.98023224e-8f, '+', 1.0f},
      {"rounded down, not to the nearest", 1.0f, 8.94069672e-8f, '+', 1.00000012f},
      {"rounded towards zero", -1.0f, -8.94069672e-8f, '+', -1.00000012f},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); ++i) {
    volatile float found = rows[i].a * rows[i].b;
    if (rows[i].operation == '+') found = rows[i].a + rows[i].b;
    if (bits_of(found) == bits_of(rows[i].expected)) continue;
    say(failures == 0 ? "floats:" : "");
    say_failure(rows[i].name);
    say_floats(found, rows[i].expected);
  }
  say(failures != 0 ? "\n" : "");
}

// ---- Models ----

// Returns a digest of the bits of all outputs, which is the same on every CPU.
static uint32_t digest_of(const arenite_output* output) {
  uint32_t digest = 2166136261u;  // FNV-1a, over words
  for (size_t i = 0; i < (size_t)output->rows * output->features; ++i) {
    uint32_t word;
    memcpy(&word, output->data + i, sizeof(word));
    digest = (digest ^ word) * 16777619u;
  }
  return digest;
}

// Compares the outputs bit for bit with those in arenite_model.h, if it has any.
static void check_results(const struct bundled* bundled, const arenite_output* output) {
#if !defined(ARENITE_INTEGER_ROWS)
  for (uint32_t i = 0; i < bundled->expected_count; ++i) {
    const size_t count = (size_t)output->rows * output->features;
    const size_t at = (size_t)i * bundled->expected_step;
    float expected;
    memcpy(&expected, &bundled->expected[i], sizeof(expected));
    if (at < count && bits_of(output->data[at]) == bundled->expected[i]) continue;
    say_failure("first pass, row ");
    say_count((uint32_t)(at / output->features));
    say(" column ");
    say_count((uint32_t)(at % output->features));
    if (at < count) say_floats(output->data[at], expected);
    if (at >= count) say(": there is none");
    return;  // one difference is enough
  }
#else
  (void)bundled, (void)output;
#endif
}

// Runs the checks of one model. Returns the first error of a call, if any.
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
  arenite_arena_plan plan;
  status = arenite_plan_arena(&plan, &model, &options, why);
  if (status != ARENITE_OK) return status;
  if (plan.total_bytes > sizeof(arena)) return ARENITE_ARENA_TOO_SMALL;
  status = arenite_session_create(&session, &model, &options, arena, plan.total_bytes - 1, NULL);
  if (status != ARENITE_ARENA_TOO_SMALL) {
    say_failure("an arena of one byte less: found ");
    say(arenite_status_name(status));
    say(", expected arena too small");
  }
  status = arenite_session_create(&session, &model, &options, arena, plan.total_bytes, why);
  if (status != ARENITE_OK) return status;

  arenite_self_test test;
  status = arenite_session_self_test(session, &test, why);
  if (status == ARENITE_UNSUPPORTED) {  // the file has none, or one for float rows
    say("no self-test");
  } else {
    if (status != ARENITE_OK) return status;
    if (test.passed) say("self-test passed");
    if (!test.passed) {
      say_failure("self-test, op ");
      say_count(test.op_index);
      say(" ");
      say(test.op_name);
      say(", token ");
      say_count(test.token);
      say(": found a difference of ");
      say_float(test.difference);
      say(", expected at most ");
      say_float(test.tolerance);
    }
  }
  status = first_pass(bundled, &model, session, &output, why);
  if (status != ARENITE_OK) return status;
  check_results(bundled, &output);
  say(", digest ");
  say_hex(digest_of(&output));
  say("\n");
  return ARENITE_OK;
}

int main(void) {
  check_floats();
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
      ++failures;
    }
  }
  return failures != 0;
}

#else
typedef int arenite_not_empty;
#endif
