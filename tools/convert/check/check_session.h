// SPDX-License-Identifier: Apache-2.0
// Sessions of model files in this process, with deterministic inputs for them. CallRows is the only
// way in which the tools read an Output: elements beyond an Output's rows are uninitialized.
//
//   CheckSession session(file, target, tokens, Outputs::kAll);
//   const ModelInput input = sequence_to_check(session.model(), tokens);
//   const std::vector<float> y = session.run(input);  // [rows, features]
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "arenite/session.h"
#include "arenite/target.h"
#include "arenite/token.h"
#include "convert/files/memory.h"
#include "convert/program/program.h"
#include "format/reader.h"

namespace arenite::convert {

// Throws std::logic_error with the text "the model does not `what`", for failures that are bugs of
// the converter.
[[noreturn]] void fail_as_bug(const char* what, Status status, const Diagnostic& why);

// Loads the model of a file for one target. `file` must outlive the model.
Model load_converted(const AlignedBytes& file, Target target);
// Loads the model for the best of the file's targets that this CPU runs.
Model load_best(const AlignedBytes& file);

// A session together with its arena.
class ConvertedSession {
 public:
  ConvertedSession(const Model& model, const SessionOptions& options);

  Session& operator*() const { return *session_; }
  Session* operator->() const { return session_; }

 private:
  AlignedBytes arena_;
  Session* session_ = nullptr;
};

// Whether a session chooses the output rows of a call: all, or the last of each sequence.
bool leaves_rows_open(const format::ModelReader& reader);

// Returns the layout of the author's arrays, as bits of ArrayFlag.
uint32_t array_flags(std::span<const std::byte> file);
// The bits from this one on hold 1 + the start token of a decoder after an encoder, or 0.
inline constexpr uint32_t kStartTokenShift = 8;
// The bits from this one on hold ExportedModel::unread_inputs, as many as fit.
inline constexpr uint32_t kUnreadInputShift = 27;
inline constexpr uint32_t kUnreadInputs = 32 - kUnreadInputShift;
TokenId start_token(std::span<const std::byte> file);

// Tokens that the model shall not write, sorted: never, and as the first of a text.
struct SuppressedTokens {
  std::vector<TokenId> always{}, first{};
};
SuppressedTokens suppressed_tokens(std::span<const std::byte> file);

// How samples of sound become the first input, one a token.
struct SampleInput {
  uint32_t rate = 0;           // samples per second; 0: the input is something else
  bool is_normalized = false;  // each sound has a mean of 0 and a variance of 1
};
SampleInput sample_input(std::span<const std::byte> file);
uint32_t encoded(const SampleInput& samples);  // as Model.samples
std::string describe(const SampleInput& samples);

Outputs authors_outputs(std::span<const std::byte> file);

// An array of the author's program, parsed from Model.arrays. That list is empty if the arrays are
// exactly the model's inputs.
struct AuthorsArray {
  std::string name{};
  std::string role{};  // of arrays that are no inputs of the model
  uint32_t of = 0;     // index of the input that it belongs to
};
std::vector<AuthorsArray> authors_arrays(std::span<const std::byte> file);
// Returns the role of the author's pair mask: "pairs", or "hidden_pairs" or "added_pairs", whose
// nonzero elements hide pairs.
std::string role_of_pairs(std::span<const std::byte> file, uint32_t input);

// Whether a call of a function returns one row per sequence rather than one per token.
bool has_row_of_sequence(std::span<const std::byte> file, Outputs outputs, uint32_t function = 0);

// Returns the number of output rows of a call with `tokens` tokens of a sequence. `begins`: these
// are its first tokens, which rows of constants precede.
uint32_t rows_given(const Model& model, Outputs outputs, uint32_t tokens, bool begins,
                    uint32_t function = 0);

// A copy of a call's output.
class CallRows {
 public:
  CallRows() = default;
  // Throws std::logic_error unless the output has `rows` rows of the width that the model declares
  // for the function.
  CallRows(const arenite::Output& output, const Model& model, uint32_t function, uint64_t rows);
  CallRows(const arenite::Output& output, const Model& model, uint64_t rows)
      : CallRows(output, model, 0, rows) {}

  size_t size() const { return features_ == 0 ? 0 : values_.size() / features_; }
  const std::vector<float>& values() const { return values_; }  // [size(), features]
  // Elements of rows [first, first + count). REQUIRES: first + count <= size().
  std::span<float> rows(size_t first, size_t count);
  std::span<float> operator[](size_t row) { return rows(row, 1); }

 private:
  size_t features_ = 0;
  std::vector<float> values_;
};

// Input of a model: sequences of equal length, concatenated.
struct ModelInput {
  std::vector<TokenId> ids = {};     // [sequences, tokens], of a model of tokens
  std::vector<float> features = {};  // [sequences, tokens, input_features]; pixels of images
  uint32_t tokens = 0;               // per sequence
  uint32_t sequences = 1;
  std::vector<uint8_t> types = {};    // of the tokens; empty: all 0
  std::vector<uint8_t> visible = {};  // 1 for each token that counts; empty: all count
  // pair masks [sequences, tokens, tokens], for models that take them
  std::vector<uint8_t> pairs = {};
  // The model's other inputs, with the same number of sequences.
  std::vector<ModelInput> others = {};

  const ModelInput& of(uint32_t input) const { return input == 0 ? *this : others[input - 1]; }
  InputTokens tokens_of_inputs() const;  // per sequence
  ModelInput sequence(uint32_t index) const;
};

// Combines the inputs into one ModelInput, the first with the rest as `others`. REQUIRES: not
// empty.
ModelInput joined(std::vector<ModelInput> inputs);

// Whether the last function can run token by token, or in chunks.
bool is_stepped(const Model& model);
// Returns the input whose tokens the last function's rows belong to: its only one, or the first.
uint32_t last_input(const Model& model);

// Builds the arguments of a function that takes `inputs`, a bit set: from each input's sequence the
// tokens [begin, begin + count), or all that remain.
std::vector<Input> inputs_of_call(uint32_t inputs, const ModelInput& sequence, uint32_t begin,
                                  uint32_t count);

// Runs all functions of a model on one sequence of each input. Returns the rows of the last
// function: of all its calls, or with Outputs::kLast of the last call. If that function can be
// stepped and no token is masked, it gets at most `chunk` tokens per call, else the whole sequence.
// Skips functions whose first input has no tokens. Calls `before` ahead of each call, with the
// number of tokens that each input already holds and now gets. Throws InputError that begins with
// `source`.
using BeforeCall = std::function<void(const InputTokens& held, const InputTokens& tokens)>;
std::vector<float> run_functions(Session& session, const Model& model, const ModelInput& sequence,
                                 uint32_t chunk, const std::string& source,
                                 Outputs outputs = Outputs::kAll, const BeforeCall& before = {});

// Returns how many rows the last function outputs for one sequence of `tokens` tokens of each
// input.
uint64_t rows_of_functions(const Model& model, const InputTokens& tokens);

// Returns options for a session of one sequence of `tokens` tokens of each input.
SessionOptions options_for_functions(const Model& model, const InputTokens& tokens, uint32_t chunk);

// A session of a freshly converted file on one target. Any failure is a bug of the converter and
// throws std::logic_error.
class CheckSession {
 public:
  CheckSession(const AlignedBytes& file, Target target, uint32_t positions, Outputs outputs,
               KvType kv_cache = KvType::kOfModel);

  Session& session() { return *session_; }
  const Model& model() const { return model_; }

  // Runs the first `tokens` tokens of sequence `index` in one call and returns [rows, features].
  std::vector<float> run(const ModelInput& input, uint32_t index, uint32_t tokens);
  std::vector<float> run(const ModelInput& input) { return run(input, 0, input.tokens); }

  void reset() { session_->reset(); }
  // Runs one token of one sequence. Throws unless its rows equal `expected` bit for bit.
  void step(const ModelInput& input, uint32_t token, std::span<const float> expected);

 private:
  // Throws if the call failed.
  std::vector<float> rows_of(const Result<Output>& output, const Diagnostic& why, const char* call,
                             uint32_t tokens, bool begins) const;

  Model model_;
  Outputs outputs_;
  ConvertedSession session_;
};

// Deterministic inputs: features like normalized activations, of zero mean and unit variance; ids
// spread over a vocabulary; token types as in a pair of texts, one half each, or none for a model
// without types.
std::vector<float> features_to_check(size_t count);
std::vector<TokenId> spread_tokens(uint32_t count, uint32_t vocab_size);
std::vector<uint8_t> types_to_check(uint32_t count, uint32_t token_types);

// Pair mask [tokens, tokens] that shows some of the pairs.
std::vector<uint8_t> pairs_to_check(uint32_t tokens);

// One sequence: ids if vocab_size != 0, else `features` values per token.
ModelInput input_to_check(uint32_t tokens, uint32_t vocab_size, uint32_t token_types,
                          size_t features);

// Makes one sequence for each input of the model, of at most `tokens` tokens.
ModelInput sequence_to_check(const Model& model, uint32_t tokens);

// Returns `wanted`, limited to [tokens_min, positions_max] of the first input, or more if a mask
// hides all but later keys from some query. Throws InputError if there are too few positions.
uint32_t token_count_for(uint32_t wanted, const Program& program);

// Returns the layout of images in the author's arrays; nullopt if the input is not an image.
std::optional<ImageLayout> image_layout(const Model& model, uint32_t input = 0);
// Transposes whole images to the model's layout [images, height, width, channels].
std::vector<float> pixels_of(const std::vector<float>& images, const ImageLayout& image);

}  // namespace arenite::convert
