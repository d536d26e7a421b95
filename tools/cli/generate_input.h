// SPDX-License-Identifier: Apache-2.0
// The input of arenite generate before it samples tokens: the prompt, or what an encoder reads; and
// the calls that give the logits of the next token.
//
//   WriterSession writing(file, session, suppressed);
//   std::vector<float> logits = writing.begin(fed.inputs, chunk);
//   while (!ended) logits = writing.step(choose(logits));
#pragma once

#include <bit>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "arenite/model.h"
#include "arenite/tokenizer.h"
#include "cli/model_file.h"
#include "cli/profiler.h"
#include "convert/check/check_session.h"
#include "convert/check/model_input.h"

namespace arenite::tool {

// At most one of text, file and ids is given; none means an empty text.
struct PromptOptions {
  std::optional<std::string> text;
  std::filesystem::path file;  // "-" is the standard input
  std::vector<uint32_t> ids;
  bool specials = false;  // names of special tokens in the text are read as these tokens
};

struct Prompt {
  std::vector<TokenId> ids{};
  std::string text{};
  // Names of special tokens that occur in the text but are not read as tokens.
  std::vector<std::string> unread_specials{};
  std::string unknown{};  // the result of unknown_characters
};

struct GenerateInputOptions {
  PromptOptions prompt;
  std::vector<std::string> inputs;  // for an encoder: FILE, or NAME=FILE
  std::vector<uint32_t> start;      // token ids; empty: the tokenizer's
};

// The function that generates tokens: a decoder, or the last function after an encoder.
struct Writer {
  explicit Writer(const Model& model)
      : function(model.functions() - 1),
        info(model.function(function)),
        input(static_cast<uint32_t>(std::countr_zero(info.inputs))),
        takes(model.input(input)) {}

  // Returns the bit set of the inputs that earlier functions take.
  uint32_t sources(const Model& model) const {
    return ((uint32_t{1} << model.inputs()) - 1) & ~info.inputs;
  }

  uint32_t function;
  FunctionInfo info;
  uint32_t input;  // the index of its own input
  InputInfo takes;
};

// Throws InputError for a model that does not generate token by token.
Writer writer_of(const ModelFile& file);

class WriterSession {
 public:
  // `session` returns the last row of each call. All must outlive this object, and so must
  // `profiler`, which may be null.
  WriterSession(const ModelFile& file, Session& session, Profiler* profiler = nullptr)
      : file_(file),
        writer_(file.model()),
        session_(session),
        profiler_(profiler),
        suppressed_(convert::suppressed_tokens(file.model().file())) {}

  // Runs all functions on their inputs, or feeds one more token. Returns the logits of the next
  // token, of which suppressed ones are -infinity. Throws InputError if logits are not finite.
  std::vector<float> begin(const std::vector<convert::ModelInput>& inputs, uint32_t chunk);
  std::vector<float> step(TokenId id);

  // Feeds a token to each of the first sequences. Returns the next logits of each.
  std::vector<std::vector<float>> step_all(std::span<const TokenId> ids);
  // Replaces each sequence i by parents[i]. REQUIRES: a spare sequence after the last, which is
  // overwritten.
  void reorder(std::span<const uint32_t> parents);

  // The logits from now on are as the model gives them.
  void suppress_nothing() { suppressed_ = {}; }

  uint32_t positions() const { return session_.positions(0, writer_.input); }

 private:
  std::vector<float> last_logits(std::span<const float> rows, bool is_first) const;

  const ModelFile& file_;
  Writer writer_;
  Session& session_;
  Profiler* profiler_;
  convert::SuppressedTokens suppressed_;
};

// The input of all functions before the first sampled token.
struct Fed {
  std::vector<convert::ModelInput> inputs;  // one per input of the model, one sequence each
  Prompt prompt;  // the text or ids; if there is an encoder, what it reads
};

// Throws InputError if the model does not read an input, if there is text but no `tokenizer`, or if
// the tokens exceed the positions, of which the writer has `context`.
Fed read_inputs(const GenerateInputOptions& options, const ModelFile& file,
                const std::optional<Tokenizer>& tokenizer, const Writer& writer, uint32_t context);

}  // namespace arenite::tool
