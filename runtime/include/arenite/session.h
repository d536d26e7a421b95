// SPDX-License-Identifier: Apache-2.0
// Runs a model inside one block of memory that the application owns:
//
//     const Result<ArenaPlan> plan = plan_arena(model, options);  // arena of plan->total_bytes
//     const Result<Session*> session = Session::create(model, options, arena);
//     const Result<Output> logits = (*session)->step(ids);
//
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "arenite/arena_formula.h"
#include "arenite/model.h"
#include "arenite/parallel.h"
#include "arenite/status.h"
#include "arenite/token.h"

namespace arenite {

// Alignment of an arena in bytes.
inline constexpr size_t kArenaAlignment = 64;

// Called before and after each op of a step, on the calling thread. If a step runs in slices,
// op_begins is called in the first slice of the op, and op_ends in the last. A null hook costs
// nothing.
struct ProfileHook {
  void (*op_begins)(void* context, uint32_t op_index) = nullptr;  // null: not called
  void (*op_ends)(void* context, uint32_t op_index) = nullptr;    // null: not called
  void* context = nullptr;  // passed to both as it is; it must outlive the session
};

// Called on the calling thread for each hidden state of a step: index 0 is the embedding, i the
// result of layer i, the last one after the final norm. `data` is float32 [rows, features], dense,
// with one row for each token of the call. It lies in the arena and is valid during the call only.
//
//     SessionOptions options;
//     options.hidden_states = {keep_last, &kept};  // keep_last(&kept, index, data, rows, features)
//
struct HiddenStateHook {
  // Takes one hidden state; null: not called.
  void (*state)(void* context, uint32_t index, const float* data, uint32_t rows,
                uint32_t features) = nullptr;
  void* context = nullptr;  // passed to `state` as it is; it must outlive the session
};

// Selects the rows that a call returns if it has no Batch::outputs, for models that leave the
// choice: decoders. Others return one row for each token, or for each sequence (Model::pooled).
// Where a model puts constant rows before the tokens of a sequence, e.g. a class token, and returns
// a row for each token, the rows of these constants come first.
enum class Outputs : uint8_t {
  kLast,  // the last token of each sequence that has new tokens
  kAll,   // every token
};

// Element type of the KV caches of a session.
enum class KvType : uint8_t {
  kOfModel,  // as the file says: Model::kv_cache()
  kF32,
  kInt8,  // about a quarter of the memory: one scale per position and head
};

// Options of a session. Those given to Session::create decide its arena: pass the same options to
// plan_arena.
struct SessionOptions {
  // Longest sequence of the first input, in tokens. At most Model::positions_max() if that is not
  // 0. 0: Model::positions_max().
  uint32_t positions_max = 0;
  // Most tokens of the first input in one call, over all sequences. 0: positions_max *
  // sequences_max.
  uint32_t tokens_max = 0;
  // Sequences that the session holds at once. At least 1.
  uint32_t sequences_max = 1;
  Outputs outputs = Outputs::kLast;    // rows that a call returns
  KvType kv_cache = KvType::kOfModel;  // element type of keys and values
  ParallelFor parallel{};              // the application's threads; none: the calling thread
  ProfileHook profile{};               // called around each op
  HiddenStateHook hidden_states{};     // called with each hidden state
  // Sizes of the inputs after the first. 0: the same defaults, with InputInfo::positions_max.
  InputSizes others[kInputsMax - 1] = {};
};

// Bytes of each part of an arena. Each is a multiple of kArenaAlignment.
struct ArenaPlan {
  size_t session_bytes;     // the Session and the state of its sequences
  size_t kv_cache_bytes;    // packed keys and values, past rows of convolutions, sound streams
  size_t activation_bytes;  // results of ops, including the output
  size_t scratch_bytes;     // work space of the running op, e.g. rows of scores for each thread
  size_t total_bytes;       // exactly what Session::create needs
};

// Computes the arena of a session. Fails with kInvalidArgument if the model does not support the
// options, and with kUnsupported for int8 caches in a build (ARENITE_MODEL) whose models do not use
// them.
Result<ArenaPlan> plan_arena(const Model& model, const SessionOptions& options,
                             Diagnostic* why = nullptr);

// A batch of tokens given as features: dense [sequences, tokens, Model::input_features()]; for
// images see arenite/image.h. Sequence i has lengths[i] tokens, at most `tokens`, and its other
// rows are not read; without lengths all sequences have `tokens`. In any form, padding takes no
// time, and the results of a sequence are bit-identical in any batch.
//
//     const uint32_t lengths[] = {3, 5};
//     session->run({.features = x, .sequences = 2, .tokens = 5, .lengths = lengths});  // 2 x 5
//     rows
//
struct Batch {
  std::span<const float> features;  // copied before the call, or the begin of slices, returns
  uint32_t sequences = 1;           // at most SessionOptions::sequences_max
  uint32_t tokens = 0;              // per sequence, padding included; ignored if back_to_back
  std::span<const uint32_t> lengths = {};  // [sequences], in tokens; 0: nothing new
  // Replaces lengths: 1 for each token, 0 for padding, dense [sequences, tokens]. Tokens keep their
  // positions: there may be gaps. Only if masks hide nothing and convolutions have kernel 1.
  std::span<const uint8_t> visible = {};
  // The sequences follow each other without padding: features [sum of lengths, input_features].
  // Needs lengths.
  bool back_to_back = false;
  // 1 if a token sees another one, also if the author's mask has 0 there, else 0: dense [sequences,
  // tokens that see, tokens seen]; if back_to_back, [length, length] of each sequence. Each token
  // must see one of its sequence. Only for models with InputInfo::takes_pairs, e.g. graph models.
  std::span<const uint8_t> pairs = {};
  // Replaces SessionOptions::outputs for this call, where the model leaves the choice: 1 for each
  // token in `features` that yields an output row, else 0. At most as many ones as the session's
  // own choice can yield rows; all may be 0. Not allowed together with `visible`.
  std::span<const uint8_t> outputs = {};
};

// A batch of tokens given as ids below Model::vocab_size(): dense [sequences, tokens]. Members have
// the meaning of Batch. Models that do not count padding tokens as positions, such as RoBERTa, also
// check which of the ids hidden by `visible`, before the last visible token, are the padding token;
// the values of other hidden ids do not matter.
struct TokenBatch {
  std::span<const TokenId> ids;            // read until the call, or its last slice, ends
  uint32_t sequences = 1;                  // as in Batch
  uint32_t tokens = 0;                     // as in Batch
  std::span<const uint32_t> lengths = {};  // as in Batch
  std::span<const uint8_t> visible = {};   // as in Batch
  bool back_to_back = false;               // ids [sum of lengths]
  // Token types, one for each id, below Model::token_types(): 0 or 1 for a pair of texts. If empty,
  // all types are 0.
  std::span<const uint8_t> types = {};
  std::span<const uint8_t> pairs = {};    // as in Batch
  std::span<const uint8_t> outputs = {};  // as in Batch
};

// Data for one input of a function: a Batch or a TokenBatch, whose members it has. Views the
// caller's memory:
//
//     const TokenBatch text = {.ids = ids, .tokens = 12};
//     const Batch image = {.features = pixels, .tokens = shape.tokens()};
//     const Result<Output> scores = session->run(0, std::array<Input, 2>{text, image});
//
struct Input {
  Input() = default;  // no tokens
  // Views the spans of a batch of features.
  Input(const Batch& batch);  // NOLINT: implicit
  // Views the spans of a batch of ids.
  Input(const TokenBatch& batch);  // NOLINT: implicit

  bool is_tokens = false;             // whether `ids` are given, not `features`
  const float* features = nullptr;    // Batch::features
  const TokenId* ids = nullptr;       // TokenBatch::ids
  std::span<const uint8_t> types;     // TokenBatch::types
  size_t size = 0;                    // floats or ids
  uint32_t sequences = 0;             // Batch::sequences
  uint32_t tokens = 0;                // Batch::tokens
  std::span<const uint32_t> lengths;  // Batch::lengths
  std::span<const uint8_t> visible;   // Batch::visible
  std::span<const uint8_t> pairs;     // Batch::pairs
  std::span<const uint8_t> outputs;   // Batch::outputs
  bool back_to_back = false;          // Batch::back_to_back

  // Returns the new tokens of a sequence: its length, or the ones in its mask.
  uint32_t tokens_of(uint32_t sequence) const;
  // Returns the positions that a sequence spans: its tokens and the gaps between them.
  uint32_t positions_of(uint32_t sequence) const;
  // Returns the ones in `outputs` for a sequence. REQUIRES: `outputs` is not empty.
  uint32_t outputs_of(uint32_t sequence) const;
};

// Results, float32 [rows, features], dense: the rows of the sequences follow each other without
// padding. They lie in the arena and are valid until the next call. The caller may change them,
// e.g. add a bias to some logits before sampling, as no later call reads them.
struct Output {
  float* data = nullptr;  // null if there are no rows
  uint32_t rows = 0;      // 0 if there are no results
  uint32_t features = 0;  // floats per row

  // Returns one row. REQUIRES: index < rows.
  std::span<float> row(uint32_t index) const {
    return {data + static_cast<size_t>(index) * features, features};
  }

  // Returns whether all results are finite. Inputs that are not finite, or too large to compute
  // with, make NaN or infinity of the results that depend on them, and of no others. Reads each
  // element once, which takes little time compared with computing them.
  bool finite() const;
};

// Result of Session::self_test: the first op that exceeds its tolerance or, if all pass, the op
// that comes closest to it.
struct SelfTest {
  bool passed = false;            // whether every op is within its tolerance
  uint32_t op_index = 0;          // Model::ops(): the output itself
  const char* op_name = nullptr;  // "output" for the output; else in the model file
  uint32_t token = 0;             // index of the token in the self-test
  float difference = 0.0f;        // of a digest of the op's row, or of one output element
  float tolerance = 0.0f;         // set by the converter
};

// Holds the state of the sequences of one model. Lives at the start of its arena and needs no
// destruction: the arena may simply be reused. The model file and the arena must outlive the
// session. Calls must not overlap, whatever their threads, and hooks must not call the session. A
// failed call changes nothing unless its comment says otherwise.
//
// Sessions only read their Model: any number of sessions, on any threads, may share one.
// Between calls, while no step is in progress, an arena may be moved: memmove total_bytes to
// another multiple of kArenaAlignment. The session is then at the new first byte, and old pointers
// to the session and its results are invalid.
class Session {
 public:
  // Creates a session in `arena`, which may be larger than planned. Fails with kArenaTooSmall if it
  // is smaller than plan_arena(...).total_bytes, and with kInvalidArgument if it is misaligned or
  // overlaps the model file. Whether the memory is writable is not checked: an arena in flash makes
  // the CPU fault.
  static Result<Session*> create(const Model& model, const SessionOptions& options,
                                 std::span<std::byte> arena, Diagnostic* why = nullptr);

  // Clears all sequences and feeds them these tokens. Fails with kInvalidArgument (shape, limits,
  // or threads that did not run the tasks, which ends the call as cancel does), kContextFull
  // (longer than positions_max) or kUnsupported (a member of the batch that the model has no use
  // for, such as `pairs`).
  Result<Output> run(const Batch& batch, Diagnostic* why = nullptr);

  // Appends tokens to the sequences. Feeding token by token gives the same bits as one call. Fails
  // as run does, and with kUnsupported if the model is not causal and a sequence that gets tokens
  // already holds some.
  Result<Output> step(const Batch& batch, Diagnostic* why = nullptr);

  // Appends tokens to sequence 0: `features` is dense [tokens, Model::input_features()].
  Result<Output> step(std::span<const float> features, Diagnostic* why = nullptr);

  // Run and step for models whose input is tokens. Fail with kInvalidArgument for an id outside the
  // vocabulary, for tokens if the model takes features, and for features if it takes tokens.
  Result<Output> run(const TokenBatch& batch, Diagnostic* why = nullptr);
  // Appends tokens, given as ids, to the sequences.
  Result<Output> step(const TokenBatch& batch, Diagnostic* why = nullptr);
  // Appends tokens, given as ids, to sequence 0.
  Result<Output> step(std::span<const TokenId> ids, Diagnostic* why = nullptr);

  // Call one function, by its index, of any model. `inputs` has one entry for each input of the
  // function, in their order. Models with several inputs or functions support only these calls.
  //
  // All entries have the same number of sequences, and a sequence gets tokens in all inputs or in
  // none; features must not lie in the arena if there are several inputs. A function may read keys
  // and values of other functions' inputs (FunctionInfo::inputs_read), which each of its sequences
  // must then hold. Since `run` clears all sequences in all inputs, use `step` for such a function.
  // Fails with kInvalidArgument if these rules are broken.
  Result<Output> run(uint32_t function, std::span<const Input> inputs, Diagnostic* why = nullptr);
  // Appends tokens to the sequences of one function's inputs.
  Result<Output> step(uint32_t function, std::span<const Input> inputs, Diagnostic* why = nullptr);
  // Begins a run of one function in slices.
  Status begin_run(uint32_t function, std::span<const Input> inputs, Diagnostic* why = nullptr);
  // Begins a step of one function in slices.
  Status begin_step(uint32_t function, std::span<const Input> inputs, Diagnostic* why = nullptr);

  // Returns how many rows a step (or, if `is_run`, a run) with these inputs would return, or the
  // Status with which it would fail. Changes nothing.
  Result<uint32_t> rows_out(uint32_t function, std::span<const Input> inputs, bool is_run,
                            Diagnostic* why = nullptr) const;
  // Returns the rows of a call of the first function, which takes one input.
  Result<uint32_t> rows_out(const Input& input, bool is_run, Diagnostic* why = nullptr) const {
    return rows_out(0, {&input, 1}, is_run, why);
  }

  // Run or step in slices, for programs with other work in between: call begin_run or begin_step
  // once, advance until no op is left, then output. Results are bit-identical for any slices. begin
  // reads lengths and features at once; ids, types, `visible`, `pairs` and `outputs` must stay
  // valid until the end. Meanwhile run, step, begin and rewind fail with kInvalidArgument; cancel
  // and reset end the step. begin_run clears all sequences. Fail as run and step do.
  //
  //     if (session->begin_step(batch) != Status::kOk) return;
  //     Result<uint32_t> left = session->advance(budget);  // other work goes between the calls
  //     while (left.ok() && *left != 0) left = session->advance(budget);
  //
  Status begin_run(const Batch& batch, Diagnostic* why = nullptr);
  // Begins a run of tokens given as ids.
  Status begin_run(const TokenBatch& batch, Diagnostic* why = nullptr);
  // Begins a step of tokens given as features.
  Status begin_step(const Batch& batch, Diagnostic* why = nullptr);
  // Begins a step of tokens given as ids.
  Status begin_step(const TokenBatch& batch, Diagnostic* why = nullptr);

  // Continues the step in progress for at most `budget` multiply-adds, and returns how many ops are
  // left, including a partly done op. At 0 the step is complete, and the sequences hold the new
  // tokens. Other work counts as the multiply-adds that take about as long; values that are not
  // finite may take longer. Slices end between blocks of rows, outputs and keys. UINT64_MAX
  // finishes the step as fast as run and step do. Fails with kInvalidArgument if no step is in
  // progress, for threads as in run, or if the next block exceeds the budget: then why->index is
  // the op, why->expected the budget it needs, nothing has changed, and a larger budget continues.
  // `arenite inspect` and `convert` print the smallest budget that suffices for all calls.
  Result<uint32_t> advance(uint64_t budget, Diagnostic* why = nullptr);

  // Returns the results of the last run, step or advance; no rows while ops are left.
  Output output() const;
  // Returns the results of one function; no rows if the last call was to another function.
  Output output(uint32_t function) const;

  // Cancels the step in progress, if any; the session then has no output. The sequences hold what
  // they held before begin_step, or nothing after begin_run. With a sliding window or convolutions,
  // rewind may then reach back less far.
  void cancel();

  // Keeps the first `positions` tokens of a sequence and drops the rest, in O(1). Fails with
  // kInvalidArgument if the sequence has fewer; with a sliding window, if the window at that
  // position needs keys and values that are no longer held; with convolutions, unless `positions`
  // is 0, where the last call began, or what is held. Fails likewise for a sequence out of range,
  // or while a step is in progress.
  Status rewind(uint32_t sequence, uint32_t positions, Diagnostic* why = nullptr);
  // Rewinds one input. Functions that see keys and values of the dropped tokens clear the sequence
  // in their inputs, too. Fails as rewind does, and with kInvalidArgument for an input out of
  // range.
  Status rewind_input(uint32_t input, uint32_t sequence, uint32_t positions,
                      Diagnostic* why = nullptr);
  // Copies sequence `from` to sequence `to`, e.g. for beam search; takes time in proportion to the
  // data. Fails with kInvalidArgument for sequences out of range, or while a step is in progress.
  Status copy_sequence(uint32_t from, uint32_t to, Diagnostic* why = nullptr);
  void reset();  // clears all sequences and cancels a step in progress

  // Feeds the tokens that the converter stored in the file, and compares the result of each op with
  // the stored one. Detects faulty kernels, compilers, memory and weights. The tolerance is larger
  // if the KV cache has another type than Model::kv_cache(). All sequences are empty afterwards,
  // even if it fails once tokens are fed. Hooks are called as in any step. Fails with kUnsupported
  // (no self-test in the file, or a build with integer rows) or kInvalidArgument (room for fewer
  // than Model::self_test_tokens, threads as in run, or a step is in progress).
  Result<SelfTest> self_test(Diagnostic* why = nullptr);

  // Returns how many tokens a sequence holds in one input. REQUIRES: sequence < sequences_max;
  // input < Model::inputs().
  uint32_t positions(uint32_t sequence = 0, uint32_t input = 0) const;

  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

 protected:
  Session() = default;  // only create makes sessions
};

}  // namespace arenite
