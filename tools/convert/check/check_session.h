// SPDX-License-Identifier: Apache-2.0
// Sessions of model files in this process: what is fed to them, the same on every run, and the one
// way in which the tools read an Output, since numbers beyond its rows are memory that nothing
// wrote.
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

// Throws std::logic_error: the model does not `what`.
[[noreturn]] void fail_as_bug(const char* what, Status status, const Diagnostic& why);

// The model of a file, on one target. `file` must outlive it.
Model load_converted(const AlignedBytes& file, Target target);
// The same on the best of its targets that this CPU has.
Model load_best(const AlignedBytes& file);

// A session, and its arena.
class ConvertedSession {
 public:
  ConvertedSession(const Model& model, const SessionOptions& options);

  Session& operator*() const { return *session_; }
  Session* operator->() const { return session_; }

 private:
  AlignedBytes arena_;
  Session* session_ = nullptr;
};

// Whether a session chooses which rows a call gives, its last ones or all.
bool leaves_rows_open(const format::ModelReader& reader);

// What the arrays of a model's author are like, of ArrayFlag, and which rows these have.
uint32_t array_flags(std::span<const std::byte> file);
// The token that a decoder after an encoder begins with, above these flags; or kNoToken.
inline constexpr uint32_t kStartTokenShift = 8;
// Above these ExportedModel::unread_inputs, as many as there is room for.
inline constexpr uint32_t kUnreadInputShift = 27;
inline constexpr uint32_t kUnreadInputs = 32 - kUnreadInputShift;
TokenId start_token(std::span<const std::byte> file);
Outputs authors_outputs(std::span<const std::byte> file);

// What the author's program takes, as Model.arrays has it, in parts; none: the model's inputs.
struct AuthorsArray {
  std::string name{};
  std::string role{};  // of what is no input of the model
  uint32_t of = 0;     // the input that it belongs to
};
std::vector<AuthorsArray> authors_arrays(std::span<const std::byte> file);

// Whether a call of a function gives one row for each sequence, not one for each token.
bool has_row_of_sequence(std::span<const std::byte> file, Outputs outputs, uint32_t function = 0);

// Rows that a call gives for a sequence of which it gets `tokens`; with `begins` the first ones,
// with which rows of constants come.
uint32_t rows_given(const Model& model, Outputs outputs, uint32_t tokens, bool begins,
                    uint32_t function = 0);

// A copy of what a call gave.
class CallRows {
 public:
  CallRows() = default;
  // Throws std::logic_error unless the output has so many rows, each as wide as the model says of
  // the function.
  CallRows(const arenite::Output& output, const Model& model, uint32_t function, uint64_t rows);
  CallRows(const arenite::Output& output, const Model& model, uint64_t rows)
      : CallRows(output, model, 0, rows) {}

  size_t size() const { return features_ == 0 ? 0 : values_.size() / features_; }
  const std::vector<float>& values() const { return values_; }  // [size(), features]
  // The same from row `first` on. REQUIRES: first + count <= size().
  std::span<float> rows(size_t first, size_t count);
  std::span<float> operator[](size_t row) { return rows(row, 1); }

 private:
  size_t features_ = 0;
  std::vector<float> values_;
};

// What a model is fed: sequences of one length, back to back.
struct ModelInput {
  std::vector<TokenId> ids = {};     // of a model of tokens
  std::vector<float> features = {};  // [tokens, input_features]; of images their pixels
  uint32_t tokens = 0;               // of each sequence
  uint32_t sequences = 1;
  std::vector<uint8_t> types = {};    // of the tokens; none: all 0
  std::vector<uint8_t> visible = {};  // 1 for each token that counts; none: all do
  std::vector<uint8_t> pairs = {};    // [sequences, tokens, tokens], of models that take them
  // What its other inputs get, as many sequences of each.
  std::vector<ModelInput> others = {};

  const ModelInput& of(uint32_t input) const { return input == 0 ? *this : others[input - 1]; }
  InputTokens tokens_of_inputs() const;  // of each sequence
  ModelInput sequence(uint32_t index) const;
};

// What each input gets, as what the model gets. REQUIRES: at least one.
ModelInput joined(std::vector<ModelInput> inputs);

// Whether the last function is fed token by token, or in chunks.
bool is_stepped(const Model& model);
// The input that its rows are of: the one that it takes, or the first of several.
uint32_t last_input(const Model& model);

// What a function that takes `inputs`, a bit set, is fed of a sequence: of each tokens [begin,
// begin + count), or all that are left.
std::vector<Input> inputs_of_call(uint32_t inputs, const ModelInput& sequence, uint32_t begin,
                                  uint32_t count);

// All functions of a model, one after the other, on one sequence of each input: the rows of the
// last one, which gets at most `chunk` tokens in a call where it is stepped and no token is hidden,
// or those of its last call. A function whose first input has no tokens is not called. `before` is
// called before each call, with the tokens that each input holds and those that it gets. Throws
// InputError that begins with `source`.
using BeforeCall = std::function<void(const InputTokens& held, const InputTokens& tokens)>;
std::vector<float> run_functions(Session& session, const Model& model, const ModelInput& sequence,
                                 uint32_t chunk, const std::string& source,
                                 Outputs outputs = Outputs::kAll, const BeforeCall& before = {});

// Rows that the last function gives of one sequence with so many tokens of each input, all that it
// can.
uint64_t rows_of_functions(const Model& model, const InputTokens& tokens);

// What a session of one sequence with so many tokens of each input is made for.
SessionOptions options_for_functions(const Model& model, const InputTokens& tokens, uint32_t chunk);

// A session of a file that was just converted, on one target. Whatever fails is a bug of the
// converter: std::logic_error.
class CheckSession {
 public:
  CheckSession(const AlignedBytes& file, Target target, uint32_t positions, Outputs outputs,
               KvType kv_cache = KvType::kOfModel);

  Session& session() { return *session_; }
  const Model& model() const { return model_; }

  // The rows that the first `tokens` of sequence `index` give in one pass, [rows, features].
  std::vector<float> run(const ModelInput& input, uint32_t index, uint32_t tokens);
  std::vector<float> run(const ModelInput& input) { return run(input, 0, input.tokens); }

  void reset() { session_->reset(); }
  // Feeds one token of one sequence, and throws unless its rows are `expected`, bit for bit.
  void step(const ModelInput& input, uint32_t token, std::span<const float> expected);

 private:
  // Throws where the call failed.
  std::vector<float> rows_of(const Result<Output>& output, const Diagnostic& why, const char* call,
                             uint32_t tokens, bool begins) const;

  Model model_;
  Outputs outputs_;
  ConvertedSession session_;
};

// Made-up input, the same on every run: features that look like normalised activations, of zero
// mean and unit variance; ids spread over a vocabulary; and types of tokens as a pair of texts has
// them, one half each, or none for a model without types.
std::vector<float> features_to_check(size_t count);
std::vector<TokenId> spread_tokens(uint32_t count, uint32_t vocab_size);
std::vector<uint8_t> types_to_check(uint32_t count, uint32_t token_types);

// Pairs of tokens that see each other, [tokens, tokens]: some of them.
std::vector<uint8_t> pairs_to_check(uint32_t tokens);

// One sequence of these: ids where there is a vocabulary, else so many features.
ModelInput input_to_check(uint32_t tokens, uint32_t vocab_size, uint32_t token_types,
                          size_t features);

// The same of each input, whose numbers of tokens are `tokens`, or what the input takes.
ModelInput sequence_to_check(const Model& model, uint32_t tokens);

// `wanted` tokens, or a context's positions if these are fewer (0: any number), or more where a
// mask shows one of the queries nothing but later keys.
uint32_t token_count_for(uint32_t wanted, const Program& program);

// How images lie in a person's arrays; nothing: the model reads none.
std::optional<ImageLayout> image_layout(const Model& model, uint32_t input = 0);
// Whole images as the model takes them, [images, height, width, channels].
std::vector<float> pixels_of(const std::vector<float>& images, const ImageLayout& image);

}  // namespace arenite::convert
