// SPDX-License-Identifier: Apache-2.0
// The runtime for programs in C99: models and sessions here, text in arenite_text.h. The same code
// serves model.h and session.h, which say more about each name; nothing here uses the heap.
//
// Calls that can fail return an arenite_status. Then they have changed nothing, what their result
// pointers point to included, and `why` says what was wrong; `why` may be null, and other pointers
// only where it says so. Types that hold `opaque` are the caller's memory: they need no end, and
// may be copied.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arenite/version.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define ARENITE_NODISCARD __attribute__((warn_unused_result))
// Before the declaration of an array: where an arena or a model file may start.
#define ARENITE_ALIGNED __attribute__((aligned(64)))
#else
#define ARENITE_NODISCARD
#define ARENITE_ALIGNED _Alignas(64)
#endif

// "MAJOR.MINOR.PATCH" of the library that was linked. A static string.
const char* arenite_version(void);

// ---- What went wrong ----

typedef enum arenite_status {
  ARENITE_OK = 0,
  ARENITE_INVALID_ARGUMENT,  // the caller's sizes, pointers or options
  ARENITE_BAD_MODEL,         // the model's bytes are damaged or do not mean anything
  ARENITE_VERSION_MISMATCH,  // a model of another format version
  ARENITE_UNSUPPORTED,       // a sound model that this build or this CPU cannot run
  ARENITE_ARENA_TOO_SMALL,   // arenite_diagnostic.bytes_needed says how many bytes are enough
  ARENITE_CONTEXT_FULL       // no room for the tokens among the positions of the session
} arenite_status;

// Why a call failed; all zero after one that did not. Strings are static, or null.
typedef struct arenite_diagnostic {
  const char* reason;     // a sentence without a full stop
  const char* field;      // of the model file or of the options, e.g. "batch.lengths"
  uint32_t index;         // which element of that field, where it is a list
  uint64_t found;         // the value that was refused ...
  uint64_t expected;      // ... and the value or limit it was held against
  size_t bytes_needed;    // ARENITE_ARENA_TOO_SMALL: the size with which create succeeds
  uint32_t file_targets;  // ARENITE_UNSUPPORTED: bit set of the targets that the file holds
  uint32_t cpu_targets;   // ARENITE_UNSUPPORTED: bit set of those that this CPU and build run
} arenite_diagnostic;

// The name of a status, e.g. "arena too small". A static string.
const char* arenite_status_name(arenite_status status);

// Writes one line that says everything in `why`, which may be null, into `out`: at most `out_bytes`
// characters, always terminated. Returns how many were written, without the terminator.
size_t arenite_describe(arenite_status status, const arenite_diagnostic* why, char* out,
                        size_t out_bytes);

// ---- The CPUs that a model file can be packed for ----

typedef enum arenite_target {
  ARENITE_TARGET_PORTABLE = 0,
  ARENITE_TARGET_X86_64_V2 = 1,       // SSE4.1
  ARENITE_TARGET_X86_64_V3 = 2,       // AVX2, FMA3
  ARENITE_TARGET_X86_64_V4 = 3,       // AVX-512 F, BW, CD, DQ, VL
  ARENITE_TARGET_ARM64 = 4,           // NEON
  ARENITE_TARGET_ARM32 = 5,           // ARMv7-A with NEON
  ARENITE_TARGET_X86_64_V4_VNNI = 6,  // and AVX-512 VNNI
  ARENITE_TARGET_ARM64_DOT = 7,       // NEON with dot product
  ARENITE_TARGET_ARM64_I8MM = 8,      // and I8MM
  ARENITE_TARGET_CORTEX_M_DSP = 9,    // Cortex-M with the DSP extension
  ARENITE_TARGET_CORTEX_M_MVE = 10,   // Cortex-M with MVE, with or without floats
  ARENITE_TARGET_RV64_V128 = 11,      // 64-bit RISC-V with V, whose registers have 128 bits
  ARENITE_TARGET_RV64_V256 = 12       // the same with 256 bits
} arenite_target;

// In a bit set of targets, target t is bit 1 << t.
uint32_t arenite_cpu_targets(void);                          // those that this CPU and build run
const char* arenite_target_name(arenite_target target);      // "x86-64-v3"; static
const char* arenite_kernel_set_name(arenite_target target);  // what runs it: "avx2"; static

// ---- Models ----

typedef enum arenite_checksums {
  ARENITE_CHECKSUMS_VERIFY = 0,  // reads the whole file
  ARENITE_CHECKSUMS_SKIP = 1     // does not read the weights; everything else is verified
} arenite_checksums;

typedef struct arenite_load_options {
  bool force_target;  // run `target`, not the best one that the CPU has
  uint32_t target;    // an arenite_target; one that this version does not know is refused
  arenite_checksums checksums;
} arenite_load_options;
#define ARENITE_LOAD_OPTIONS_INIT \
  { false, ARENITE_TARGET_PORTABLE, ARENITE_CHECKSUMS_VERIFY }

// What keys and values are kept as.
typedef enum arenite_kv_type {
  ARENITE_KV_OF_MODEL = 0,  // as the file says: arenite_model_kv_cache
  ARENITE_KV_F32 = 1,
  ARENITE_KV_INT8 = 2  // about a quarter of the memory
} arenite_kv_type;

// A view of a verified model file. ARENITE_MODEL_INIT is no model yet: arenite_plan_arena and the
// like refuse it, and no other function may be called with it.
typedef struct arenite_model {
  uint64_t opaque[3];
} arenite_model;
#define ARENITE_MODEL_INIT \
  {                        \
    { 0 }                  \
  }

// Verifies every byte of a file, which is safe to do with any bytes, and chooses the kernels that
// suit this CPU. `file` starts at a multiple of 64, outlives the model and stays unchanged; nothing
// is copied. `options` may be null.
// Fails with ARENITE_INVALID_ARGUMENT (misaligned), BAD_MODEL, VERSION_MISMATCH or UNSUPPORTED.
ARENITE_NODISCARD arenite_status arenite_model_load(arenite_model* model, const void* file,
                                                    size_t file_bytes,
                                                    const arenite_load_options* options,
                                                    arenite_diagnostic* why);

// The CRC-32C of bytes, by the CPU's instruction where it has one, else by a table; and a function
// that computes it otherwise, such as by a peripheral.
uint32_t arenite_crc32c(const void* bytes, size_t count);
typedef uint32_t (*arenite_crc32c_function)(const void* bytes, size_t count);

// arenite_model_load with checksums by a function of yours, which must give what arenite_crc32c
// does, or sound files are refused. A program that loads in this way alone does not link the table.
ARENITE_NODISCARD arenite_status arenite_model_load_crc32c(arenite_model* model, const void* file,
                                                           size_t file_bytes,
                                                           const arenite_load_options* options,
                                                           arenite_crc32c_function crc32c,
                                                           arenite_diagnostic* why);

// Verifies what ARENITE_CHECKSUMS_SKIP leaves out. Fails with ARENITE_BAD_MODEL.
ARENITE_NODISCARD arenite_status arenite_model_verify_checksums(const arenite_model* model,
                                                                arenite_diagnostic* why);

const char* arenite_model_name(const arenite_model* model);          // "" if it has none
uint32_t arenite_model_vocab_size(const arenite_model* model);       // 0: its input is features
uint32_t arenite_model_token_types(const arenite_model* model);      // 0: it knows none
uint32_t arenite_model_input_features(const arenite_model* model);   // floats; 0: tokens
uint32_t arenite_model_output_features(const arenite_model* model);  // floats per row coming out
uint32_t arenite_model_positions_max(const arenite_model* model);    // longest sequence; 0: any
arenite_kv_type arenite_model_kv_cache(const arenite_model* model);  // f32 or int8
uint32_t arenite_model_ops(const arenite_model* model);              // of a step; for hooks, slices
// For people. REQUIRES: index < arenite_model_ops(model).
const char* arenite_model_op_name(const arenite_model* model, uint32_t index);
uint32_t arenite_model_hidden_states(const arenite_model* model);  // 0: it can show none
bool arenite_model_causal(const arenite_model* model);             // can be fed step by step
bool arenite_model_pooled(const arenite_model* model);             // one row for each sequence
uint32_t arenite_model_labels(const arenite_model* model);  // names of all columns coming out, or 0
// REQUIRES: index < arenite_model_labels(model).
const char* arenite_model_label(const arenite_model* model, uint32_t index);
// The above are of the first input and the first function, which most models have alone.
enum { ARENITE_INPUTS_MAX = 4 };
typedef struct arenite_input_info {
  const char* name;
  uint32_t features;       // floats per token; 0 if it is fed tokens
  uint32_t vocab_size;     // 0 if it is fed features
  uint32_t token_types;    // 0: it knows none
  uint32_t positions_max;  // longest sequence; 0: any
  uint32_t tokens_min;     // shortest sequence
  bool takes_pairs;        // a call says which tokens see which: arenite_batch
} arenite_input_info;
typedef struct arenite_function_info {
  const char* name;
  uint32_t inputs;       // bit set of those that it takes; each is taken by one function
  uint32_t inputs_read;  // of those that others took, whose keys and values it sees
  uint32_t output_features;
  bool pooled;
  bool causal;
  uint32_t first_op;  // its part of the program
  uint32_t ops;
} arenite_function_info;
uint32_t arenite_model_inputs(const arenite_model* model);
uint32_t arenite_model_functions(const arenite_model* model);
// REQUIRES: index < arenite_model_inputs(model).
arenite_input_info arenite_model_input(const arenite_model* model, uint32_t index);
// REQUIRES: index < arenite_model_functions(model).
arenite_function_info arenite_model_function(const arenite_model* model, uint32_t index);
// The number of a function; arenite_model_functions(model) if there is none of that name.
uint32_t arenite_model_find_function(const arenite_model* model, const char* name);

// Tokens that arenite_session_self_test feeds; 0: the file has no self-test.
uint32_t arenite_model_self_test_tokens(const arenite_model* model);
arenite_target arenite_model_target(const arenite_model* model);  // what it runs on
uint32_t arenite_model_file_targets(const arenite_model* model);  // bit set of those in the file

// ---- Sessions ----

// Calls task(job, i, thread) once for every i below the number of tasks.
typedef void (*arenite_task)(void* job, uint32_t task_index, uint32_t thread_index);

// The application's threads. `run` runs all tasks, in any order and on any thread, with a `thread`
// below `threads` and never the same on two threads at once, and returns when they are done.
// Results are bit-identical for any pool.
typedef struct arenite_parallel_for {
  uint32_t threads;
  // Null: tasks run inline, on the one thread that `threads` must then be.
  void (*run)(void* pool, uint32_t tasks, arenite_task task, void* job);
  void* pool;
} arenite_parallel_for;

// Called before and after each op of a step, on the calling thread. Null costs nothing.
typedef struct arenite_profile_hook {
  void (*op_begins)(void* context, uint32_t op_index);
  void (*op_ends)(void* context, uint32_t op_index);
  void* context;
} arenite_profile_hook;

// Called for each hidden state of a step: 0 is the embedding, i the result of layer i. `data` is
// dense [rows, features], one row for each token, and gone when the function returns.
typedef struct arenite_hidden_state_hook {
  void (*state)(void* context, uint32_t index, const float* data, uint32_t rows, uint32_t features);
  void* context;
} arenite_hidden_state_hook;

// Which rows a call gives out, for decoders. Other models leave no choice.
typedef enum arenite_outputs {
  ARENITE_OUTPUTS_LAST = 0,  // the last token of each sequence that got tokens
  ARENITE_OUTPUTS_ALL = 1    // every token
} arenite_outputs;

// Of an input after the first; 0: its positions_max, and positions_max * sequences_max.
typedef struct arenite_input_sizes {
  uint32_t positions_max;
  uint32_t tokens_max;
} arenite_input_sizes;

typedef struct arenite_session_options {
  uint32_t positions_max;  // longest sequence, in tokens; 0: arenite_model_positions_max
  uint32_t tokens_max;     // in one call; 0: positions_max * sequences_max
  uint32_t sequences_max;  // held at once; at least 1
  arenite_outputs outputs;
  arenite_kv_type kv_cache;
  arenite_parallel_for parallel;
  arenite_profile_hook profile;
  arenite_hidden_state_hook hidden_states;
  arenite_input_sizes others[ARENITE_INPUTS_MAX - 1];
} arenite_session_options;
#define ARENITE_SESSION_OPTIONS_INIT                                                         \
  {                                                                                          \
    0, 0, 1, ARENITE_OUTPUTS_LAST, ARENITE_KV_OF_MODEL, {1, NULL, NULL}, {NULL, NULL, NULL}, \
        {NULL, NULL}, {                                                                      \
      {0, 0}, {0, 0}, { 0, 0 }                                                               \
    }                                                                                        \
  }

// Where the bytes of an arena go.
typedef struct arenite_arena_plan {
  size_t session_bytes;
  size_t kv_cache_bytes;
  size_t activation_bytes;
  size_t scratch_bytes;
  size_t total_bytes;  // exactly what arenite_session_create needs
} arenite_arena_plan;

// `options` may be null. Fails with ARENITE_INVALID_ARGUMENT for what the model cannot serve, and
// with ARENITE_UNSUPPORTED for a cache that this build lacks.
ARENITE_NODISCARD arenite_status arenite_plan_arena(arenite_arena_plan* plan,
                                                    const arenite_model* model,
                                                    const arenite_session_options* options,
                                                    arenite_diagnostic* why);

// What an image is, for models whose input is images. Its pixels are the tokens of a sequence, line
// by line, and the channels of one are its features, so that a batch has as features [sequences,
// height, width, channels]. A series [length, channels] has the height 1.
typedef struct arenite_image_shape {
  uint32_t channels;  // 0: the model's input is no image
  uint32_t height, width;
} arenite_image_shape;
arenite_image_shape arenite_model_image_shape(const arenite_model* model);  // of the first input
// REQUIRES: index < arenite_model_inputs(model).
arenite_image_shape arenite_model_image_shape_of(const arenite_model* model, uint32_t index);

// Tokens to feed, as features: dense [sequences, tokens, arenite_model_input_features].
typedef struct arenite_batch {
  const float* features;
  size_t size;  // floats in `features`
  uint32_t sequences;
  uint32_t tokens;          // of each sequence; back to back not read, since lengths say it
  const uint32_t* lengths;  // [sequences], each at most `tokens`; null: all are `tokens` long
  // Instead of lengths, [sequences, tokens]: 1 for each token that counts, 0 for padding; null: all
  // count. Only for models that see everything.
  const uint8_t* visible;
  // The sequences follow each other without padding: features [sum of lengths, input_features].
  bool back_to_back;
  // 1 where a token sees another, else 0, [sequences, tokens that see, tokens], or back to back; of
  // models that take it, null of others.
  const uint8_t* pairs;
  // Instead of arenite_session_options.outputs, for this call and models that leave the choice: 1
  // for each token in `features` that gives a row, else 0. There may be as many as the session's
  // own choice gives at most, or none; there is no `visible` beside it.
  const uint8_t* outputs;
} arenite_batch;
#define ARENITE_BATCH_INIT \
  { NULL, 0, 1, 0, NULL, NULL, false, NULL, NULL }

// The same as ids, below arenite_model_vocab_size: dense [sequences, tokens]. Models that count
// positions without their padding token, as RoBERTa does, also look which hidden ids are padding.
typedef struct arenite_token_batch {
  const uint32_t* ids;
  size_t size;  // ids in `ids`
  uint32_t sequences;
  uint32_t tokens;
  const uint32_t* lengths;
  const uint8_t* visible;
  bool back_to_back;
  const uint8_t* types;  // [size], below arenite_model_token_types; null: all 0
  const uint8_t* pairs;
  const uint8_t* outputs;  // [size]
} arenite_token_batch;
#define ARENITE_TOKEN_BATCH_INIT \
  { NULL, 0, 1, 0, NULL, NULL, false, NULL, NULL, NULL }

// Results, in the arena until the next call: dense [rows, features], without padding. The caller
// may change them: no later call reads them.
typedef struct arenite_output {
  float* data;
  uint32_t rows;
  uint32_t features;
} arenite_output;

// Whether all results are finite. Features that are not, or too large to compute with, make NaN or
// infinity of results that depend on them, and of no others. Reads every number once: little beside
// what it took to compute it.
bool arenite_output_finite(const arenite_output* output);

// Lives at the start of its arena and needs no end: to end it, reuse the arena. One thread at a
// time may call it, and no hook.
typedef struct arenite_session arenite_session;

// `arena` starts at a multiple of 64, has no byte in common with the model's file, can be written
// (nothing checks that), and outlives the session, as the file does. `options` may be null.
// Fails with ARENITE_INVALID_ARGUMENT, or ARENITE_ARENA_TOO_SMALL for less than the planned bytes.
ARENITE_NODISCARD arenite_status arenite_session_create(arenite_session** session,
                                                        const arenite_model* model,
                                                        const arenite_session_options* options,
                                                        void* arena, size_t arena_bytes,
                                                        arenite_diagnostic* why);

// Starts all sequences anew with these tokens.
// Fails with ARENITE_INVALID_ARGUMENT (shape, limits) or CONTEXT_FULL (longer than positions_max).
ARENITE_NODISCARD arenite_status arenite_session_run(arenite_session* session,
                                                     const arenite_batch* batch,
                                                     arenite_output* output,
                                                     arenite_diagnostic* why);
ARENITE_NODISCARD arenite_status arenite_session_run_tokens(arenite_session* session,
                                                            const arenite_token_batch* batch,
                                                            arenite_output* output,
                                                            arenite_diagnostic* why);

// Appends to the sequences. Token by token gives bit for bit what one pass gives.
// As run; ARENITE_UNSUPPORTED if the model is not causal and tokens are held already.
ARENITE_NODISCARD arenite_status arenite_session_step(arenite_session* session,
                                                      const arenite_batch* batch,
                                                      arenite_output* output,
                                                      arenite_diagnostic* why);
ARENITE_NODISCARD arenite_status arenite_session_step_tokens(arenite_session* session,
                                                             const arenite_token_batch* batch,
                                                             arenite_output* output,
                                                             arenite_diagnostic* why);

// The same for sequence 0: `features` is dense [size / input_features, input_features].
ARENITE_NODISCARD arenite_status arenite_session_step_features(arenite_session* session,
                                                               const float* features, size_t size,
                                                               arenite_output* output,
                                                               arenite_diagnostic* why);
ARENITE_NODISCARD arenite_status arenite_session_step_ids(arenite_session* session,
                                                          const uint32_t* ids, size_t count,
                                                          arenite_output* output,
                                                          arenite_diagnostic* why);

// What an input of a function is fed: one of the two, the other null.
typedef struct arenite_input {
  const arenite_batch* batch;
  const arenite_token_batch* tokens;
} arenite_input;

// The same of any model: the number of a function, and what each of its inputs gets, in their
// order. Models with several inputs or functions take no other calls. Each input gets as many
// sequences, and a sequence tokens of all of them or of none; a sequence has keys and values of all
// inputs that the function sees. `run` starts all sequences anew, in all inputs.
// Fails with ARENITE_INVALID_ARGUMENT where this is not so.
ARENITE_NODISCARD arenite_status arenite_session_run_function(
    arenite_session* session, uint32_t function, const arenite_input* inputs, uint32_t count,
    arenite_output* output, arenite_diagnostic* why);
ARENITE_NODISCARD arenite_status arenite_session_step_function(
    arenite_session* session, uint32_t function, const arenite_input* inputs, uint32_t count,
    arenite_output* output, arenite_diagnostic* why);
ARENITE_NODISCARD arenite_status arenite_session_begin_run_function(arenite_session* session,
                                                                    uint32_t function,
                                                                    const arenite_input* inputs,
                                                                    uint32_t count,
                                                                    arenite_diagnostic* why);
ARENITE_NODISCARD arenite_status arenite_session_begin_step_function(arenite_session* session,
                                                                     uint32_t function,
                                                                     const arenite_input* inputs,
                                                                     uint32_t count,
                                                                     arenite_diagnostic* why);

// How many rows a step with these inputs gives, or a run, which starts anew; why it would fail, if
// it would. Changes nothing.
ARENITE_NODISCARD arenite_status arenite_session_rows_out(const arenite_session* session,
                                                          uint32_t function,
                                                          const arenite_input* inputs,
                                                          uint32_t count, bool is_run,
                                                          uint32_t* rows, arenite_diagnostic* why);

// A run or a step in slices, for programs with something else to do in between: begin once, advance
// until no op is left, then output. The same bits, whatever the slices. Lengths and features are
// read at once; ids, types, `visible`, `pairs` and `outputs` must stay until the end. Until then
// run, step, begin and rewind fail with ARENITE_INVALID_ARGUMENT; cancel and reset give up. Fail as
// run and step do. begin_run forgets what the sequences held.
ARENITE_NODISCARD arenite_status arenite_session_begin_run(arenite_session* session,
                                                           const arenite_batch* batch,
                                                           arenite_diagnostic* why);
ARENITE_NODISCARD arenite_status arenite_session_begin_run_tokens(arenite_session* session,
                                                                  const arenite_token_batch* batch,
                                                                  arenite_diagnostic* why);
ARENITE_NODISCARD arenite_status arenite_session_begin_step(arenite_session* session,
                                                            const arenite_batch* batch,
                                                            arenite_diagnostic* why);
ARENITE_NODISCARD arenite_status arenite_session_begin_step_tokens(arenite_session* session,
                                                                   const arenite_token_batch* batch,
                                                                   arenite_diagnostic* why);

// Goes on with what was begun for at most `budget` multiply-adds, and writes how many ops are left,
// the one in progress included; with 0 the tokens are held. UINT64_MAX: all that is left, as fast
// as run and step do it. Fails with ARENITE_INVALID_ARGUMENT if nothing was begun, or if not even
// the next block of the op fits: then why->index is the op and why->expected what it takes, nothing
// has changed, and a larger budget goes on. See Session::advance of session.h.
ARENITE_NODISCARD arenite_status arenite_session_advance(arenite_session* session, uint64_t budget,
                                                         uint32_t* ops_left,
                                                         arenite_diagnostic* why);

// What the last call gave, or the last advance. No rows while ops are left.
arenite_output arenite_session_output(const arenite_session* session);
// The same of one function: no rows where the last call was of another.
arenite_output arenite_session_output_of(const arenite_session* session, uint32_t function);

// Ends what was begun. The sequences hold what they held before begin_step, or nothing after
// begin_run; with a sliding window, rewind may then go back less far.
void arenite_session_cancel(arenite_session* session);

// Keeps the first `positions` tokens of a sequence and forgets the rest, at once.
// ARENITE_INVALID_ARGUMENT if there are fewer, or a sliding window needs more than is still held.
ARENITE_NODISCARD arenite_status arenite_session_rewind(arenite_session* session, uint32_t sequence,
                                                        uint32_t positions,
                                                        arenite_diagnostic* why);
// The same of one input. Functions that see its keys and values forget the sequence, too.
ARENITE_NODISCARD arenite_status arenite_session_rewind_input(arenite_session* session,
                                                              uint32_t input, uint32_t sequence,
                                                              uint32_t positions,
                                                              arenite_diagnostic* why);
// Sequence `to` holds what `from` holds, as for a beam search.
ARENITE_NODISCARD arenite_status arenite_session_copy_sequence(arenite_session* session,
                                                               uint32_t from, uint32_t to,
                                                               arenite_diagnostic* why);
void arenite_session_reset(arenite_session* session);  // forgets all, and what was begun

// What a self-test found: at the first op whose result is beyond its tolerance or, where all pass,
// at the one that comes closest to it.
typedef struct arenite_self_test {
  bool passed;
  uint32_t op_index;  // arenite_model_ops: the output itself
  const char* op_name;
  uint32_t token;    // of those that were fed
  float difference;  // of a digest of the op's row, or of one number of the output
  float tolerance;   // what the converter allows there
} arenite_self_test;

// Feeds the tokens that the converter stored in the file, and compares what each op makes of them
// with what it made there. All sequences are empty afterwards. A test that fails is ARENITE_OK with
// `passed` false.
// Fails with ARENITE_UNSUPPORTED (the file has no self-test), or ARENITE_INVALID_ARGUMENT (room for
// fewer than arenite_model_self_test_tokens, or a step is in progress).
ARENITE_NODISCARD arenite_status arenite_session_self_test(arenite_session* session,
                                                           arenite_self_test* test,
                                                           arenite_diagnostic* why);

// Tokens held by a sequence. REQUIRES: sequence < sequences_max.
uint32_t arenite_session_positions(const arenite_session* session, uint32_t sequence);
// Of one input. REQUIRES: input < arenite_model_inputs.
uint32_t arenite_session_positions_of(const arenite_session* session, uint32_t sequence,
                                      uint32_t input);

#ifdef __cplusplus
}
#endif
