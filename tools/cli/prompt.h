// SPDX-License-Identifier: Apache-2.0
// What a continuation starts from: text or ids from the command line, a file or the standard input.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "arenite/tokenizer.h"
#include "cli/model_file.h"

namespace arenite::tool {

// At most one of text, file and ids is given; none is the same as an empty text.
struct PromptOptions {
  std::optional<std::string> text;
  std::filesystem::path file;  // "-" is the standard input
  std::vector<uint32_t> ids;
  bool specials = false;  // names of special tokens in the text are these tokens
};

// The tokens of the prompt, at least one, all below the vocabulary of the model. The token that
// begins a text comes first where the model was trained so, and stands alone for an empty text; one
// that ends a text is left out, as the text goes on. Throws InputError, also for text where
// `tokenizer` is missing.
std::vector<TokenId> read_prompt(const ModelFile& file, const std::optional<Tokenizer>& tokenizer,
                                 const PromptOptions& options);

}  // namespace arenite::tool
