// SPDX-License-Identifier: Apache-2.0
// Runs a model inside one block of memory that the application owns.
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

// An arena starts at an address that is a multiple of this.
inline constexpr size_t kArenaAlignment = 64;

// Called before and after each op of a step, on the calling thread; in slices, in the first and the
// last one of the op. Null costs nothing.
struct ProfileHook {
  void (*op_begins)(void* context, uint32_t op_index) = nullptr;
  void (*op_ends)(void* context, uint32_t op_index) = nullptr;
  void* context = nullptr;
};

// Called on the calling thread for each hidden state of a step: 0 is the embedding, i the result of
// layer i; the last one after the final norm. `rows` are dense [rows, features], one row for each
// token of the call, and lie in the arena: they are gone when the function returns.
struct HiddenStateHook {
  void (*state)(void* context, uint32_t index, const float* data, uint32_t rows,
                uint32_t features) = nullptr;
  void* context = nullptr;
};

// Which rows a call gives out that does not say it (Batch::outputs), for models that leave it open:
// decoders. Others give one row for
// each token, or for each sequence (Model::pooled). Where a model puts rows of constants before the
// tokens of a sequence, such as a class token, these come first where each token has a row.
enum class Outputs : uint8_t {
  kLast,  // the last token of each sequence that got tokens
  kAll,   // every token
};

// What keys and values are kept as.
enum class KvType : uint8_t {
  kOfModel,  // as the file says: Model::kv_cache()
  kF32,
  kInt8,  // about a quarter of the memory: a scale for each position and head
};

struct SessionOptions {
  // These two are of the first input. Longest sequence, in tokens. At most Model::positions_max()
  // where that is not 0. 0: Model::positions_max().
  uint32_t positions_max = 0;
  // Most tokens in one call, over all sequences together. 0: positions_max * sequences_max.
  uint32_t tokens_max = 0;
  // Sequences held at once. At least 1.
  uint32_t sequences_max = 1;
  Outputs outputs = Outputs::kLast;
  KvType kv_cache = KvType::kOfModel;
  ParallelFor parallel{};
  ProfileHook profile{};
  HiddenStateHook hidden_states{};
  // The same two of the inputs after the first; 0: what 0 says there, by InputInfo::positions_max.
  InputSizes others[kInputsMax - 1] = {};
};

// Where the bytes of an arena go. Each part is a multiple of kArenaAlignment.
struct ArenaPlan {
  size_t session_bytes;     // the Session and the state of its sequences
  size_t kv_cache_bytes;    // keys and values, packed for the kernels
  size_t activation_bytes;  // what the ops hand to each other, results included
  size_t scratch_bytes;     // what ops work in: rows of scores for each thread
  size_t total_bytes;       // exactly what Session::create needs
};

// Fails with kInvalidArgument for options that the model cannot serve, and with kUnsupported for
// caches in int8 in a build for models (ARENITE_MODEL) none of which asks for them.
Result<ArenaPlan> plan_arena(const Model& model, const SessionOptions& options,
                             Diagnostic* why = nullptr);

// Tokens to feed, as features: dense [sequences, tokens, Model::input_features()]; for models whose
// input is images, see arenite/image.h. Sequence i is
// lengths[i] tokens long (at most `tokens`) and the rest of its rows is not read; no lengths
// means that all are `tokens` long. Whatever the form, padding takes no time, and a sequence's
// results are bit-identical in any batch.
struct Batch {
  std::span<const float> features;
  uint32_t sequences = 1;
  uint32_t tokens = 0;  // of each sequence; back to back not read, since lengths say it
  std::span<const uint32_t> lengths = {};
  // Instead of lengths: 1 for each token that counts, 0 for padding, dense [sequences, tokens]. The
  // rest keep their positions, so there may be gaps; only for models that see everything.
  std::span<const uint8_t> visible = {};
  // The sequences follow each other without padding: features [sum of lengths, input_features].
  // Needs lengths.
  bool back_to_back = false;
  // For models that take it (InputInfo::takes_pairs), such as those of graphs: 1 where a token sees
  // another, else 0, dense [sequences, tokens that see, tokens]; back to back, of each sequence as
  // many as it has. Each token of a sequence must see one of its tokens.
  std::span<const uint8_t> pairs = {};
  // Instead of SessionOptions::outputs, for this call and models that leave the choice: 1 for each
  // token that gives a row, else 0, one for each token in `features`. There may be as many as the
  // session's own choice gives at most, or none; there is no `visible` beside it.
  std::span<const uint8_t> outputs = {};
};

// The same as ids, below Model::vocab_size(): dense [sequences, tokens]. Models that count
// positions without their padding token, as RoBERTa does, also look which ids before the last token
// that counts are padding, where `visible` hides them; what else these are does not matter.
struct TokenBatch {
  std::span<const TokenId> ids;
  uint32_t sequences = 1;
  uint32_t tokens = 0;  // as above
  std::span<const uint32_t> lengths = {};
  std::span<const uint8_t> visible = {};
  bool back_to_back = false;  // ids [sum of lengths]
  // Below Model::token_types(), one for each id: 0 or 1 where a text is a pair. None: all 0.
  std::span<const uint8_t> types = {};
  std::span<const uint8_t> pairs = {};
  std::span<const uint8_t> outputs = {};
};

// What one input of a function is fed: features or tokens, one of the two.
struct Input {
  Input() = default;               // no tokens
  Input(const Batch& batch);       // NOLINT: implicit
  Input(const TokenBatch& batch);  // NOLINT: implicit

  bool is_tokens = false;
  const float* features = nullptr;
  const TokenId* ids = nullptr;
  std::span<const uint8_t> types;
  size_t size = 0;  // floats or ids
  uint32_t sequences = 0;
  uint32_t tokens = 0;
  std::span<const uint32_t> lengths;
  std::span<const uint8_t> visible;
  std::span<const uint8_t> pairs;
  std::span<const uint8_t> outputs;
  bool back_to_back = false;

  // Rows that a sequence gets: its length, or the ones in its mask.
  uint32_t tokens_of(uint32_t sequence) const;
  // Positions that a sequence spans: its rows, and the gaps between them.
  uint32_t positions_of(uint32_t sequence) const;
  // Ones in `outputs`, which is not empty.
  uint32_t outputs_of(uint32_t sequence) const;
};

// Results, in the arena until the next call: dense [rows, features], where the rows of the
// sequences follow each other without padding. The caller may change them, as by a bias on some
// logits before a token is sampled: no later call reads them.
struct Output {
  float* data = nullptr;
  uint32_t rows = 0;
  uint32_t features = 0;

  std::span<float> row(uint32_t index) const {
    return {data + static_cast<size_t>(index) * features, features};
  }

  // Whether all results are finite. Features that are not, or too large to compute with, make NaN
  // or infinity of results that depend on them, and of no others. Reads every number once: little
  // beside what it took to compute it.
  bool finite() const;
};

// What Session::self_test found: at the first op whose result is beyond its tolerance or, where all
// pass, at the one that comes closest to it.
struct SelfTest {
  bool passed = false;
  uint32_t op_index = 0;  // Model::ops(): the output itself
  const char* op_name = nullptr;
  uint32_t token = 0;       // of those that were fed
  float difference = 0.0f;  // of a digest of the op's row, or of one number of the output
  float tolerance = 0.0f;   // what the converter allows there
};

// Lives at the start of its arena and needs no destruction: to end it, reuse the arena. The model
// file and the arena must outlive it. One thread at a time may call it, and no hook. A failed call
// changes nothing.
//
// A Model is never written to: any number of sessions, on any threads, may be made of one.
// Between calls, and while no step is in progress, an arena may be moved: memmove all of
// total_bytes to another multiple of kArenaAlignment, and the session is there, at the first byte.
// Pointers to the session and to its results are then those of the old place.
class Session {
 public:
  // `arena` may be larger than plan_arena says; with one byte less, kArenaTooSmall. Misaligned, or
  // over bytes of the model file, kInvalidArgument. Nothing tells memory that cannot be written,
  // such as flash: an arena there is the caller's fault, and a fault of the CPU.
  static Result<Session*> create(const Model& model, const SessionOptions& options,
                                 std::span<std::byte> arena, Diagnostic* why = nullptr);

  // Starts all sequences anew with these tokens.
  // Fails with kInvalidArgument (shape, limits, or threads that did not run the tasks; these end
  // the call as cancel does) or kContextFull (longer than positions_max).
  Result<Output> run(const Batch& batch, Diagnostic* why = nullptr);

  // Appends to the sequences. Token by token gives bit for bit what one pass gives.
  // As run; kUnsupported if the model is not causal and tokens are held already.
  Result<Output> step(const Batch& batch, Diagnostic* why = nullptr);

  // The same for sequence 0: `features` is dense [tokens, Model::input_features()].
  Result<Output> step(std::span<const float> features, Diagnostic* why = nullptr);

  // The same for models whose input is tokens. An id that the vocabulary lacks is
  // kInvalidArgument, and so is feeding tokens to a model of features, or features to one of
  // tokens.
  Result<Output> run(const TokenBatch& batch, Diagnostic* why = nullptr);
  Result<Output> step(const TokenBatch& batch, Diagnostic* why = nullptr);
  Result<Output> step(std::span<const TokenId> ids, Diagnostic* why = nullptr);

  // The same of any model: the number of a function, and what each of its inputs gets, in their
  // order. Models with several inputs or functions take no other calls.
  //
  // A function that takes several inputs gets the same number of sequences in each, and a sequence
  // has tokens of all of them or of none; where features lie in the arena, kInvalidArgument. A
  // function that sees keys and values of inputs that others took (FunctionInfo::inputs_read) needs
  // them: a sequence that has none of these cannot get tokens. `run` starts all sequences anew, in
  // all inputs, so that it is for the first functions; the later ones step. kInvalidArgument, too.
  Result<Output> run(uint32_t function, std::span<const Input> inputs, Diagnostic* why = nullptr);
  Result<Output> step(uint32_t function, std::span<const Input> inputs, Diagnostic* why = nullptr);
  Status begin_run(uint32_t function, std::span<const Input> inputs, Diagnostic* why = nullptr);
  Status begin_step(uint32_t function, std::span<const Input> inputs, Diagnostic* why = nullptr);

  // How many rows a step with these inputs gives, or a run, which starts anew; why it would fail,
  // if it would. Changes nothing.
  Result<uint32_t> rows_out(uint32_t function, std::span<const Input> inputs, bool is_run,
                            Diagnostic* why = nullptr) const;
  Result<uint32_t> rows_out(const Input& input, bool is_run, Diagnostic* why = nullptr) const {
    return rows_out(0, {&input, 1}, is_run, why);
  }

  // A run or a step in slices, for programs with something else to do in between: begin_run or
  // begin_step once, advance until no op is left, then output. The same bits, whatever the slices.
  // Lengths and features are read at once; ids, types, `visible`, `pairs` and `outputs` must stay
  // until the end. Until then run, step, begin and rewind fail with kInvalidArgument; cancel and
  // reset give up. They fail as run and step do. begin_run forgets what the sequences held.
  Status begin_run(const Batch& batch, Diagnostic* why = nullptr);
  Status begin_run(const TokenBatch& batch, Diagnostic* why = nullptr);
  Status begin_step(const Batch& batch, Diagnostic* why = nullptr);
  Status begin_step(const TokenBatch& batch, Diagnostic* why = nullptr);

  // Goes on with what was begun for at most `budget` multiply-adds; other work counts as about as
  // many as take equally long, and numbers that are not finite may take more. Returns how many ops
  // are left, the one in progress included; with 0 the tokens are held. Slices end between blocks
  // of rows, of outputs and of keys, and an op runs over them as the budget allows. UINT64_MAX: all
  // that is left, as fast as run and step do it.
  // Fails with kInvalidArgument if nothing was begun, or if not even the next block fits: then
  // why->index is the op and why->expected what it takes, nothing has changed, and a larger budget
  // goes on. `arenite inspect` and `convert` print the smallest slice that all calls can be cut to.
  Result<uint32_t> advance(uint64_t budget, Diagnostic* why = nullptr);

  // What the last call gave, or the last advance. No rows while ops are left.
  Output output() const;
  // The same of one function: no rows where the last call was of another.
  Output output(uint32_t function) const;

  // Ends what was begun. The sequences hold what they held before begin_step, or nothing after
  // begin_run; with a sliding window, rewind may then go back less far.
  void cancel();

  // Keeps the first `positions` tokens of a sequence and forgets the rest, in O(1). A model with a
  // sliding window can go back only as far as its cache still holds what that window needs, one
  // with convolutions to where the last call began, or to 0; beyond that, kInvalidArgument.
  Status rewind(uint32_t sequence, uint32_t positions, Diagnostic* why = nullptr);
  // The same of one input. Functions that see keys and values of what is forgotten start anew:
  // their inputs forget the sequence, too.
  Status rewind_input(uint32_t input, uint32_t sequence, uint32_t positions,
                      Diagnostic* why = nullptr);
  // Sequence `to` holds what `from` holds, as for a beam search; takes the time of copying it.
  // Fails with kInvalidArgument for sequences that are not there, or while a step is in progress.
  Status copy_sequence(uint32_t from, uint32_t to, Diagnostic* why = nullptr);
  void reset();  // forgets all sequences, and what was begun

  // Feeds the tokens that the converter stored in the file, and compares what each op makes of them
  // with what it made there: shows kernels, compilers, memory and weights that do not do what they
  // should. Keys and values of another type than Model::kv_cache() are allowed more. All sequences
  // are empty afterwards. Hooks are called as in any step.
  // Fails with kUnsupported (the file has no self-test), or kInvalidArgument (room for fewer than
  // Model::self_test_tokens, or a step is in progress).
  Result<SelfTest> self_test(Diagnostic* why = nullptr);

  // Tokens held by a sequence. REQUIRES: sequence < sequences_max; input < Model::inputs().
  uint32_t positions(uint32_t sequence = 0, uint32_t input = 0) const;

  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

 protected:
  Session() = default;  // only create makes sessions
};

}  // namespace arenite
