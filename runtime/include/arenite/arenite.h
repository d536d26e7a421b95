// SPDX-License-Identifier: Apache-2.0
// Runs models from programs in C99: models and sessions are declared here, text in arenite_text.h
// and sound in arenite_sound.h. The same code serves model.h and session.h, which document each
// name in more detail. Nothing here uses the heap.
//
//     arenite_model_load(&model, file, file_bytes, NULL, &why);
//     arenite_session_create(&session, &model, &options, arena, sizeof(arena), &why);
//     arenite_session_step_ids(session, ids, count, &output, &why);
//
// Calls that can fail return an arenite_status. A failed call writes its reason to `why`. Nothing
// else changes, not even the target of its result pointer, unless its comment here or in the C++
// header says so. `why` may be null; other pointers may be null only where their comment says so.
// Types that hold `opaque` live in the caller's memory, need no destruction and may be copied.
// Different threads may use different sessions at the same time.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arenite/version.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
// Makes compilers warn of a call whose status is ignored.
#define ARENITE_NODISCARD __attribute__((warn_unused_result))
// Precedes the declaration of an array and aligns it for use as an arena or a model file.
#define ARENITE_ALIGNED __attribute__((aligned(64)))
#else
#define ARENITE_NODISCARD
#define ARENITE_ALIGNED _Alignas(64)
#endif

// Returns "MAJOR.MINOR.PATCH" of the linked library, as a static string.
const char* arenite_version(void);

// ---- What went wrong ----

// The outcome of a call.
typedef enum arenite_status {
  ARENITE_OK = 0,
  ARENITE_INVALID_ARGUMENT,  // the caller's sizes, pointers or options
  ARENITE_BAD_MODEL,         // the model's bytes are damaged or inconsistent
  ARENITE_VERSION_MISMATCH,  // a model of another format version
  ARENITE_UNSUPPORTED,       // a valid model that this build or this CPU cannot run
  ARENITE_ARENA_TOO_SMALL,   // arenite_diagnostic.bytes_needed says how many bytes are enough
  ARENITE_CONTEXT_FULL       // the tokens exceed the positions_max of the session
} arenite_status;

// The reason why a call failed; all zero after success. Strings are static, or null.
typedef struct arenite_diagnostic {
  const char* reason;     // a sentence without a full stop
  const char* field;      // of the model file or of the options, e.g. "batch.lengths"
  uint32_t index;         // index of the element, if `field` is a list
  uint64_t found;         // the value that was refused ...
  uint64_t expected;      // ... and the expected value or limit
  size_t bytes_needed;    // ARENITE_ARENA_TOO_SMALL: the size with which create succeeds
  uint32_t file_targets;  // ARENITE_UNSUPPORTED: bit set of the targets that the file holds
  uint32_t cpu_targets;   // ARENITE_UNSUPPORTED: bit set of the targets that this CPU and build run
} arenite_diagnostic;

// Returns the name of a status as a static string, e.g. "arena too small".
const char* arenite_status_name(arenite_status status);

// Writes one line with the whole content of `why`, which may be null, to `out`: at most `out_bytes`
// characters, always terminated. Returns the number of characters without the terminator.
size_t arenite_describe(arenite_status status, const arenite_diagnostic* why, char* out,
                        size_t out_bytes);

// ---- The CPUs that a model file can be packed for ----

// Ids of targets, with the names of the psABI levels for x86-64.
typedef enum arenite_target {
  ARENITE_TARGET_PORTABLE = 0,
  ARENITE_TARGET_X86_64_V2 = 1,       // SSE4.1
  ARENITE_TARGET_X86_64_V3 = 2,       // AVX2, FMA3
  ARENITE_TARGET_X86_64_V4 = 3,       // AVX-512 F, BW, CD, DQ, VL
  ARENITE_TARGET_ARM64 = 4,           // NEON
  ARENITE_TARGET_ARM32 = 5,           // ARMv7-A with NEON
  ARENITE_TARGET_X86_64_V4_VNNI = 6,  // x86-64-v4 with AVX-512 VNNI
  ARENITE_TARGET_ARM64_DOT = 7,       // NEON with dot product
  ARENITE_TARGET_ARM64_I8MM = 8,      // arm64 with dot product and I8MM
  ARENITE_TARGET_CORTEX_M_DSP = 9,    // Cortex-M with the DSP extension
  ARENITE_TARGET_CORTEX_M_MVE = 10,   // Cortex-M with MVE, integer or floating-point
  ARENITE_TARGET_RV64_V128 = 11,      // 64-bit RISC-V with V, vector registers of 128 bits
  ARENITE_TARGET_RV64_V256 = 12       // 64-bit RISC-V with V, vector registers of 256 bits
} arenite_target;

// In a bit set of targets, target t is the bit 1 << t. Strings are static.
uint32_t arenite_cpu_targets(void);                          // targets that this CPU and build run
const char* arenite_target_name(arenite_target target);      // e.g. "x86-64-v3"
const char* arenite_kernel_set_name(arenite_target target);  // e.g. "avx2"

// ---- Models ----

// Selects the checksums that arenite_model_load verifies.
typedef enum arenite_checksums {
  ARENITE_CHECKSUMS_VERIFY = 0,  // reads the whole file
  ARENITE_CHECKSUMS_SKIP = 1     // does not read the weights; everything else is verified
} arenite_checksums;

// Options of arenite_model_load. Initialize them with ARENITE_LOAD_OPTIONS_INIT.
typedef struct arenite_load_options {
  bool force_target;            // run `target`, not the best one that the CPU has
  uint32_t target;              // an arenite_target; unknown values are refused
  arenite_checksums checksums;  // skip them only for files that were verified before
} arenite_load_options;
// Initializes options to the best target of this CPU and all checksums.
#define ARENITE_LOAD_OPTIONS_INIT \
  { false, ARENITE_TARGET_PORTABLE, ARENITE_CHECKSUMS_VERIFY }

// Element type of the KV caches of a session.
typedef enum arenite_kv_type {
  ARENITE_KV_OF_MODEL = 0,  // as the file says: arenite_model_kv_cache
  ARENITE_KV_F32 = 1,
  ARENITE_KV_INT8 = 2  // about a quarter of the memory
} arenite_kv_type;

// A view of a verified model file. With ARENITE_MODEL_INIT, which holds no model,
// arenite_plan_arena, arenite_session_create and arenite_model_verify_checksums fail; no other
// function may be called. Any number of threads may use a model. Strings that it returns lie in the
// file. Functions without an index describe the first input and the first function; most models
// have one of each.
typedef struct arenite_model {
  uint64_t opaque[3];  // the C++ object
} arenite_model;
// Initializes a model that holds none.
#define ARENITE_MODEL_INIT \
  {                        \
    { 0 }                  \
  }

// Verifies every byte of a file and selects the kernels that suit this CPU. Any bytes are safe to
// pass. `file` is aligned to 64 bytes, outlives the model and does not change; nothing is copied.
// `options` may be null. Fails with ARENITE_INVALID_ARGUMENT (misaligned), BAD_MODEL,
// VERSION_MISMATCH or UNSUPPORTED.
ARENITE_NODISCARD arenite_status arenite_model_load(arenite_model* model, const void* file,
                                                    size_t file_bytes,
                                                    const arenite_load_options* options,
                                                    arenite_diagnostic* why);

// Returns the CRC-32C of `count` bytes, computed by the CPU's instruction if there is one, else by
// a table.
uint32_t arenite_crc32c(const void* bytes, size_t count);
// A function that computes the same by other means, e.g. by a CRC peripheral.
typedef uint32_t (*arenite_crc32c_function)(const void* bytes, size_t count);

// Loads a model as arenite_model_load does, but computes checksums by `crc32c`, whose results must
// equal those of arenite_crc32c: otherwise intact files are refused. A program that loads only in
// this way does not link the table.
ARENITE_NODISCARD arenite_status arenite_model_load_crc32c(arenite_model* model, const void* file,
                                                           size_t file_bytes,
                                                           const arenite_load_options* options,
                                                           arenite_crc32c_function crc32c,
                                                           arenite_diagnostic* why);

// Verifies the checksums that ARENITE_CHECKSUMS_SKIP leaves out. Fails with ARENITE_BAD_MODEL, or
// with ARENITE_INVALID_ARGUMENT if there is no model.
ARENITE_NODISCARD arenite_status arenite_model_verify_checksums(const arenite_model* model,
                                                                arenite_diagnostic* why);

const char* arenite_model_name(const arenite_model* model);          // "" if unnamed
uint32_t arenite_model_vocab_size(const arenite_model* model);       // 0: the input is features
uint32_t arenite_model_token_types(const arenite_model* model);      // 0: no token types
uint32_t arenite_model_input_features(const arenite_model* model);   // floats per token; 0: ids
uint32_t arenite_model_output_features(const arenite_model* model);  // floats per output row
uint32_t arenite_model_positions_max(const arenite_model* model);    // longest sequence; 0: any
arenite_kv_type arenite_model_kv_cache(const arenite_model* model);  // f32 or int8
uint32_t arenite_model_ops(const arenite_model* model);              // ops of the program
// Returns the name of an op for display. REQUIRES: index < arenite_model_ops(model).
const char* arenite_model_op_name(const arenite_model* model, uint32_t index);
uint32_t arenite_model_hidden_states(const arenite_model* model);  // 0: none available
bool arenite_model_causal(const arenite_model* model);             // can be fed in several steps
bool arenite_model_pooled(const arenite_model* model);             // one output row per sequence
uint32_t arenite_model_labels(const arenite_model* model);         // named output columns, or 0
// Returns the name of an output column. REQUIRES: index < arenite_model_labels(model).
const char* arenite_model_label(const arenite_model* model, uint32_t index);

// The maximum number of inputs of a model.
enum { ARENITE_INPUTS_MAX = 4 };
// Describes one input of a model.
typedef struct arenite_input_info {
  const char* name;        // "" if unnamed
  uint32_t features;       // floats per token; 0 if the input is tokens
  uint32_t vocab_size;     // 0 if the input is features
  uint32_t token_types;    // 0: no token types
  uint32_t positions_max;  // longest sequence; 0: any
  uint32_t tokens_min;     // shortest sequence
  uint32_t tokens_step;    // lengths are tokens_min plus multiples of it; 0 and 1: any
  bool takes_pairs;        // each call says which tokens see which: arenite_batch::pairs
} arenite_input_info;
// Describes one function of a model, e.g. an encoder, or a decoder that sees its keys and values.
typedef struct arenite_function_info {
  const char* name;      // "" if unnamed
  uint32_t inputs;       // bit set of its inputs; no two functions share an input
  uint32_t inputs_read;  // bit set of the inputs of other functions whose keys and values it sees
  uint32_t output_features;  // floats per output row
  bool pooled;               // returns one row per sequence
  bool causal;               // can be fed in several steps
  uint32_t first_op;         // its ops are [first_op, first_op + ops)
  uint32_t ops;              // ops of its program
} arenite_function_info;
uint32_t arenite_model_inputs(const arenite_model* model);     // at most ARENITE_INPUTS_MAX
uint32_t arenite_model_functions(const arenite_model* model);  // 1 for most models
// Describes an input. REQUIRES: index < arenite_model_inputs(model).
arenite_input_info arenite_model_input(const arenite_model* model, uint32_t index);
// Describes a function. REQUIRES: index < arenite_model_functions(model).
arenite_function_info arenite_model_function(const arenite_model* model, uint32_t index);
// Returns the index of the function `name`, or arenite_model_functions(model) if there is none.
uint32_t arenite_model_find_function(const arenite_model* model, const char* name);

// Returns how many tokens arenite_session_self_test uses; 0 if the file has no self-test.
uint32_t arenite_model_self_test_tokens(const arenite_model* model);
arenite_target arenite_model_target(const arenite_model* model);  // the selected target
uint32_t arenite_model_file_targets(const arenite_model* model);  // bit set

// ---- Sessions ----

// Runs one task of a job. The pool calls it once for every task_index below `tasks`.
typedef void (*arenite_task)(void* job, uint32_t task_index, uint32_t thread_index);

// The application's threads. `run` runs all tasks once, in any order and on any thread, and returns
// when they are done; else the call fails with ARENITE_INVALID_ARGUMENT. The thread_index of a task
// is below `threads`, and no two threads use the same index at once. Results are bit-identical for
// any pool.
typedef struct arenite_parallel_for {
  uint32_t threads;  // from 1 to 1024, each with scratch of its own in the arena
  // Null: tasks run on the calling thread, and `threads` must be 1.
  void (*run)(void* pool, uint32_t tasks, arenite_task task, void* job);
  void* pool;  // passed to `run` as it is; it must outlive the session
} arenite_parallel_for;

// Called before and after each op of a step, on the calling thread. A null hook costs nothing.
typedef struct arenite_profile_hook {
  void (*op_begins)(void* context, uint32_t op_index);  // null: not called
  void (*op_ends)(void* context, uint32_t op_index);    // null: not called
  void* context;                                        // must outlive the session
} arenite_profile_hook;

// Called for each hidden state of a step: index 0 is the embedding, i the result of layer i. `data`
// is float32 [rows, features], dense, with one row for each token. It is valid during the call
// only.
typedef struct arenite_hidden_state_hook {
  // Takes one hidden state; null: not called.
  void (*state)(void* context, uint32_t index, const float* data, uint32_t rows, uint32_t features);
  void* context;  // must outlive the session
} arenite_hidden_state_hook;

// Selects the rows that a call returns, for decoders. Other models have a fixed choice.
typedef enum arenite_outputs {
  ARENITE_OUTPUTS_LAST = 0,  // the last token of each sequence that has new tokens
  ARENITE_OUTPUTS_ALL = 1    // every token
} arenite_outputs;

// Sizes of an input after the first. 0: its positions_max, and positions_max * sequences_max.
typedef struct arenite_input_sizes {
  uint32_t positions_max;  // longest sequence, in tokens
  uint32_t tokens_max;     // tokens in one call, over all sequences
} arenite_input_sizes;

// Options of a session. Initialize them with ARENITE_SESSION_OPTIONS_INIT, and pass the same to
// arenite_plan_arena and arenite_session_create.
typedef struct arenite_session_options {
  uint32_t positions_max;  // longest sequence, in tokens; 0: arenite_model_positions_max
  uint32_t tokens_max;  // tokens in one call, over all sequences; 0: positions_max * sequences_max
  uint32_t sequences_max;                              // held at once; at least 1
  arenite_outputs outputs;                             // rows that a call returns
  arenite_kv_type kv_cache;                            // element type of keys and values
  arenite_parallel_for parallel;                       // the application's threads
  arenite_profile_hook profile;                        // called around each op
  arenite_hidden_state_hook hidden_states;             // called with each hidden state
  arenite_input_sizes others[ARENITE_INPUTS_MAX - 1];  // the inputs after the first
} arenite_session_options;
// Initializes options to one sequence as long as the model allows, on the calling thread.
#define ARENITE_SESSION_OPTIONS_INIT                                                         \
  {                                                                                          \
    0, 0, 1, ARENITE_OUTPUTS_LAST, ARENITE_KV_OF_MODEL, {1, NULL, NULL}, {NULL, NULL, NULL}, \
        {NULL, NULL}, {                                                                      \
      {0, 0}, {0, 0}, { 0, 0 }                                                               \
    }                                                                                        \
  }

// Bytes of each part of an arena. Each is a multiple of 64.
typedef struct arenite_arena_plan {
  size_t session_bytes;     // the session and the state of its sequences
  size_t kv_cache_bytes;    // packed keys and values, past rows of convolutions, sound streams
  size_t activation_bytes;  // results of ops, including the output
  size_t scratch_bytes;     // work space of the running op, e.g. rows of scores for each thread
  size_t total_bytes;       // exactly what arenite_session_create needs
} arenite_arena_plan;

// Computes the arena of a session. `options` may be null. Fails with ARENITE_INVALID_ARGUMENT if
// the model does not support the options, and with ARENITE_UNSUPPORTED for a cache type that this
// build lacks.
ARENITE_NODISCARD arenite_status arenite_plan_arena(arenite_arena_plan* plan,
                                                    const arenite_model* model,
                                                    const arenite_session_options* options,
                                                    arenite_diagnostic* why);

// Shape of an image, for models whose input is images. The pixels are the tokens of a sequence,
// line by line, and the channels of a pixel are its features: the features of a batch are
// [sequences, height, width, channels]. A series [length, channels] has height 1.
typedef struct arenite_image_shape {
  uint32_t channels;  // 0: the model's input is no image
  uint32_t height;    // in pixels
  uint32_t width;     // in pixels
} arenite_image_shape;
arenite_image_shape arenite_model_image_shape(const arenite_model* model);  // of the first input
// Returns the shape of one input. REQUIRES: index < arenite_model_inputs(model).
arenite_image_shape arenite_model_image_shape_of(const arenite_model* model, uint32_t index);

// A batch of tokens given as features: dense [sequences, tokens, arenite_model_input_features].
// Initialize it with ARENITE_BATCH_INIT. Padding takes no time, and the results of a sequence are
// bit-identical in any batch.
//
//     arenite_batch batch = ARENITE_BATCH_INIT;
//     batch.features = features, batch.size = tokens * width, batch.tokens = tokens;
//     status = arenite_session_run(session, &batch, &output, &why);
//
typedef struct arenite_batch {
  const float* features;    // copied before the call, or the begin of slices, returns
  size_t size;              // floats in `features`
  uint32_t sequences;       // at most sequences_max of the session
  uint32_t tokens;          // per sequence, padding included; ignored if back_to_back
  const uint32_t* lengths;  // [sequences], each at most `tokens`; null: all are `tokens` long
  // Replaces `lengths`, [sequences, tokens]: 1 for each token, 0 for padding; null: no padding.
  // Only for models whose masks hide nothing and whose convolutions have kernel 1.
  const uint8_t* visible;
  // The sequences follow each other without padding: features [sum of lengths, input_features].
  bool back_to_back;
  // 1 if a token sees another one, also if the author's mask has 0 there, else 0: [sequences,
  // tokens that see, seen], or back to back. Only if arenite_input_info::takes_pairs; else null.
  const uint8_t* pairs;
  // Replaces arenite_session_options::outputs for this call, where the model leaves the choice: 1
  // for each token in `features` that yields an output row, else 0. At most as many ones as the
  // session's own choice can yield rows; all may be 0. Not allowed together with `visible`.
  const uint8_t* outputs;
} arenite_batch;
// Initializes a batch to one sequence without tokens.
#define ARENITE_BATCH_INIT \
  { NULL, 0, 1, 0, NULL, NULL, false, NULL, NULL }

// A batch of tokens given as ids below arenite_model_vocab_size: dense [sequences, tokens]. Members
// have the meaning of arenite_batch. Models that do not count padding tokens as positions, such as
// RoBERTa, also check which hidden ids are the padding token.
typedef struct arenite_token_batch {
  const uint32_t* ids;      // read until the call, or its last slice, ends
  size_t size;              // ids in `ids`
  uint32_t sequences;       // as in arenite_batch
  uint32_t tokens;          // as in arenite_batch
  const uint32_t* lengths;  // as in arenite_batch
  const uint8_t* visible;   // as in arenite_batch
  bool back_to_back;        // ids [sum of lengths]
  const uint8_t* types;     // [size], each below arenite_model_token_types; null: all 0
  const uint8_t* pairs;     // as in arenite_batch
  const uint8_t* outputs;   // [size], as in arenite_batch
} arenite_token_batch;
// Initializes a batch to one sequence without tokens.
#define ARENITE_TOKEN_BATCH_INIT \
  { NULL, 0, 1, 0, NULL, NULL, false, NULL, NULL, NULL }

// Results, float32 [rows, features], dense and without padding. They lie in the arena and are valid
// until the next call. The caller may change them, as no later call reads them.
typedef struct arenite_output {
  float* data;        // null if there are no rows
  uint32_t rows;      // 0 if there are no results
  uint32_t features;  // floats per row
} arenite_output;

// Returns whether all results are finite. Inputs that are not finite, or too large to compute with,
// make NaN or infinity of the results that depend on them, and of no others. Reads each element
// once, which takes little time compared with computing them.
bool arenite_output_finite(const arenite_output* output);

// Lives at the start of its arena and needs no destruction: the arena may simply be reused. At most
// one thread at a time may call it, and hooks must not.
typedef struct arenite_session arenite_session;

// Creates a session. `arena` is aligned to 64 bytes, is writable memory (not checked), does not
// overlap the model file, and outlives the session; so does the file. `options` may be null. Fails
// with ARENITE_INVALID_ARGUMENT, or with ARENITE_ARENA_TOO_SMALL for less than the planned bytes.
ARENITE_NODISCARD arenite_status arenite_session_create(arenite_session** session,
                                                        const arenite_model* model,
                                                        const arenite_session_options* options,
                                                        void* arena, size_t arena_bytes,
                                                        arenite_diagnostic* why);

// Clears all sequences and feeds them these tokens. Fails with ARENITE_INVALID_ARGUMENT (shape,
// limits, threads that did not run the tasks), CONTEXT_FULL (longer than positions_max) or
// UNSUPPORTED (a member of the batch that the model has no use for, such as `pairs`).
ARENITE_NODISCARD arenite_status arenite_session_run(arenite_session* session,
                                                     const arenite_batch* batch,
                                                     arenite_output* output,
                                                     arenite_diagnostic* why);
// Clears all sequences and feeds them tokens given as ids. Fails as run does, and with
// ARENITE_INVALID_ARGUMENT for an id outside the vocabulary.
ARENITE_NODISCARD arenite_status arenite_session_run_tokens(arenite_session* session,
                                                            const arenite_token_batch* batch,
                                                            arenite_output* output,
                                                            arenite_diagnostic* why);

// Appends tokens to the sequences. Feeding token by token gives the same bits as one call. Fails as
// run does, and with ARENITE_UNSUPPORTED if the model is not causal and a sequence that gets tokens
// already holds some.
ARENITE_NODISCARD arenite_status arenite_session_step(arenite_session* session,
                                                      const arenite_batch* batch,
                                                      arenite_output* output,
                                                      arenite_diagnostic* why);
// Appends tokens, given as ids, to the sequences.
ARENITE_NODISCARD arenite_status arenite_session_step_tokens(arenite_session* session,
                                                             const arenite_token_batch* batch,
                                                             arenite_output* output,
                                                             arenite_diagnostic* why);

// Appends tokens to sequence 0: `features` is dense [size / input_features, input_features].
ARENITE_NODISCARD arenite_status arenite_session_step_features(arenite_session* session,
                                                               const float* features, size_t size,
                                                               arenite_output* output,
                                                               arenite_diagnostic* why);
// Appends tokens, given as ids, to sequence 0.
ARENITE_NODISCARD arenite_status arenite_session_step_ids(arenite_session* session,
                                                          const uint32_t* ids, size_t count,
                                                          arenite_output* output,
                                                          arenite_diagnostic* why);

// Data for one input of a function; exactly one member is set, the other is null.
typedef struct arenite_input {
  const arenite_batch* batch;         // for an input of features
  const arenite_token_batch* tokens;  // for an input of tokens
} arenite_input;

// Call one function, by its index, of any model. `inputs` has one entry for each input of the
// function, in their order. Models with several inputs or functions support only these calls. All
// entries have the same number of sequences, and a sequence gets tokens in all inputs or in none. A
// sequence must hold keys and values of all inputs that the function reads. `run` clears all
// sequences, in all inputs, so functions that read inputs only step. Fail as run and step do, and
// with ARENITE_INVALID_ARGUMENT if these rules are broken.
ARENITE_NODISCARD arenite_status arenite_session_run_function(
    arenite_session* session, uint32_t function, const arenite_input* inputs, uint32_t count,
    arenite_output* output, arenite_diagnostic* why);
// Appends tokens to the sequences of one function's inputs.
ARENITE_NODISCARD arenite_status arenite_session_step_function(
    arenite_session* session, uint32_t function, const arenite_input* inputs, uint32_t count,
    arenite_output* output, arenite_diagnostic* why);
// Begins a run of one function in slices.
ARENITE_NODISCARD arenite_status arenite_session_begin_run_function(arenite_session* session,
                                                                    uint32_t function,
                                                                    const arenite_input* inputs,
                                                                    uint32_t count,
                                                                    arenite_diagnostic* why);
// Begins a step of one function in slices.
ARENITE_NODISCARD arenite_status arenite_session_begin_step_function(arenite_session* session,
                                                                     uint32_t function,
                                                                     const arenite_input* inputs,
                                                                     uint32_t count,
                                                                     arenite_diagnostic* why);

// Computes how many rows a step (or, if `is_run`, a run) with these inputs returns, or why it would
// fail. Changes nothing.
ARENITE_NODISCARD arenite_status arenite_session_rows_out(const arenite_session* session,
                                                          uint32_t function,
                                                          const arenite_input* inputs,
                                                          uint32_t count, bool is_run,
                                                          uint32_t* rows, arenite_diagnostic* why);

// Run or step in slices, for programs with other work in between: call begin once, advance until no
// op is left, then output. Results are bit-identical for any slices. begin reads lengths and
// features at once; ids, types, `visible`, `pairs` and `outputs` must stay valid until the end.
// Meanwhile run, step, begin and rewind fail with ARENITE_INVALID_ARGUMENT; cancel and reset end
// the step. begin_run clears all sequences. Fail as run and step do.
ARENITE_NODISCARD arenite_status arenite_session_begin_run(arenite_session* session,
                                                           const arenite_batch* batch,
                                                           arenite_diagnostic* why);
// Begins a run of tokens given as ids.
ARENITE_NODISCARD arenite_status arenite_session_begin_run_tokens(arenite_session* session,
                                                                  const arenite_token_batch* batch,
                                                                  arenite_diagnostic* why);
// Begins a step of tokens given as features.
ARENITE_NODISCARD arenite_status arenite_session_begin_step(arenite_session* session,
                                                            const arenite_batch* batch,
                                                            arenite_diagnostic* why);
// Begins a step of tokens given as ids.
ARENITE_NODISCARD arenite_status arenite_session_begin_step_tokens(arenite_session* session,
                                                                   const arenite_token_batch* batch,
                                                                   arenite_diagnostic* why);

// Continues the step in progress for at most `budget` multiply-adds and writes how many ops are
// left, including a partly done op. At 0 the step is complete, and the sequences hold the new
// tokens. UINT64_MAX finishes the step as fast as run and step do. Fails with
// ARENITE_INVALID_ARGUMENT if no step is in progress, or if the next block of the op exceeds the
// budget: then why->index is the op, why->expected is the budget it needs, nothing has changed, and
// a larger budget continues. See Session::advance in session.h.
ARENITE_NODISCARD arenite_status arenite_session_advance(arenite_session* session, uint64_t budget,
                                                         uint32_t* ops_left,
                                                         arenite_diagnostic* why);

// Returns the results of the last run, step or advance; no rows while ops are left.
arenite_output arenite_session_output(const arenite_session* session);
// Returns the results of one function; no rows if the last call was to another function.
arenite_output arenite_session_output_of(const arenite_session* session, uint32_t function);

// Cancels the step in progress, if any; the session then has no output. The sequences hold what
// they held before begin_step, or nothing after begin_run. With a sliding window or convolutions,
// rewind may then reach back less far.
void arenite_session_cancel(arenite_session* session);

// Keeps the first `positions` tokens of a sequence and drops the rest, in O(1). Fails with
// ARENITE_INVALID_ARGUMENT if the sequence has fewer, or if a sliding window or a convolution needs
// what is no longer held. Fails likewise for a sequence out of range, or while a step is in
// progress.
ARENITE_NODISCARD arenite_status arenite_session_rewind(arenite_session* session, uint32_t sequence,
                                                        uint32_t positions,
                                                        arenite_diagnostic* why);
// Rewinds one input. Functions that see its keys and values clear the sequence in their inputs,
// too.
ARENITE_NODISCARD arenite_status arenite_session_rewind_input(arenite_session* session,
                                                              uint32_t input, uint32_t sequence,
                                                              uint32_t positions,
                                                              arenite_diagnostic* why);
// Copies sequence `from` to sequence `to`, e.g. for beam search; takes time in proportion to the
// data. Fails with ARENITE_INVALID_ARGUMENT for sequences out of range, or while a step is in
// progress.
ARENITE_NODISCARD arenite_status arenite_session_copy_sequence(arenite_session* session,
                                                               uint32_t from, uint32_t to,
                                                               arenite_diagnostic* why);
void arenite_session_reset(arenite_session* session);  // clears all; cancels a step

// Result of a self-test: the first op that exceeds its tolerance or, if all pass, the op that comes
// closest to it.
typedef struct arenite_self_test {
  bool passed;          // whether every op is within its tolerance
  uint32_t op_index;    // arenite_model_ops(model): the output itself
  const char* op_name;  // "output" for the output; else in the model file
  uint32_t token;       // index of the token in the self-test
  float difference;     // of a digest of the op's row, or of one output element
  float tolerance;      // set by the converter
} arenite_self_test;

// Feeds the tokens that the converter stored in the file, and compares the result of each op with
// the stored one. All sequences are empty afterwards, even if the call fails once tokens are fed. A
// failed test returns ARENITE_OK with `passed` false. Fails with ARENITE_UNSUPPORTED (no self-test
// in the file, or a build with integer rows) or ARENITE_INVALID_ARGUMENT (room for fewer than
// arenite_model_self_test_tokens, or a step is in progress).
ARENITE_NODISCARD arenite_status arenite_session_self_test(arenite_session* session,
                                                           arenite_self_test* test,
                                                           arenite_diagnostic* why);

// Returns how many tokens a sequence holds. REQUIRES: sequence < sequences_max.
uint32_t arenite_session_positions(const arenite_session* session, uint32_t sequence);
// Returns how many tokens a sequence holds in one input. REQUIRES: input < arenite_model_inputs.
uint32_t arenite_session_positions_of(const arenite_session* session, uint32_t sequence,
                                      uint32_t input);

#ifdef __cplusplus
}
#endif
