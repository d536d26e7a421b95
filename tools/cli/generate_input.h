// SPDX-License-Identifier: Apache-2.0
// What arenite generate feeds before it chooses tokens: the prompt, or what an encoder reads.
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
#include "convert/check/model_input.h"

namespace arenite::tool {

// At most one of text, file and ids is given; none is the same as an empty text.
struct PromptOptions {
  std::optional<std::string> text;
  std::filesystem::path file;  // "-" is the standard input
  std::vector<uint32_t> ids;
  bool specials = false;  // names of special tokens in the text are these tokens
};

struct Prompt {
  std::vector<TokenId> ids{};
  std::string text{};
  // Names of special tokens that the text contains, but that are not read as these tokens.
  std::vector<std::string> unread_specials{};
  std::string unknown{};  // what the vocabulary cannot say of it, as unknown_characters has it
};

struct GenerateInputOptions {
  PromptOptions prompt;
  std::vector<std::string> inputs;  // of an encoder: FILE, or NAME=FILE
  std::vector<uint32_t> start;      // ids; empty: the tokenizer's
};

// The function that writes: a decoder, or what comes after an encoder.
struct Writer {
  explicit Writer(const Model& model)
      : function(model.functions() - 1),
        info(model.function(function)),
        input(static_cast<uint32_t>(std::countr_zero(info.inputs))),
        takes(model.input(input)) {}

  // Inputs of the functions before it, a bit set.
  uint32_t sources(const Model& model) const {
    return ((uint32_t{1} << model.inputs()) - 1) & ~info.inputs;
  }

  uint32_t function;
  FunctionInfo info;
  uint32_t input;  // its own
  InputInfo takes;
};

// Throws InputError for a model that does not go on token by token.
Writer writer_of(const ModelFile& file);

// What all functions are fed before tokens are chosen.
struct Fed {
  std::vector<convert::ModelInput> inputs;  // of the model, one sequence each
  Prompt prompt;  // of text or ids; what an encoder reads, if there is one
};

// Throws InputError for what the model does not read, for text where `tokenizer` is missing, and
// for more tokens than there are positions, of which `context` are the writer's.
Fed read_inputs(const GenerateInputOptions& options, const ModelFile& file,
                const std::optional<Tokenizer>& tokenizer, const Writer& writer, uint32_t context);

}  // namespace arenite::tool
