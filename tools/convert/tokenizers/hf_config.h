// SPDX-License-Identifier: Apache-2.0
// What the files beside a tokenizer say about it: which tokens begin and end a text.
#pragma once

#include <filesystem>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "convert/tokenizers/hf_object.h"
#include "convert/tokenizers/tokenizer_spec.h"

namespace arenite::convert {

// Reads tokenizer_config.json, special_tokens_map.json, generation_config.json and config.json of
// the folder, those that are there. Throws InputError for a token that the vocabulary lacks.
void apply_hf_config(TokenizerSpec& spec, const std::filesystem::path& folder);

// A byte-level tokenizer of `vocab.json` and, beside it, `merges.txt`: GPT-2's, or, where
// tokenizer_config.json names its class, Qwen 2's. Other classes are refused. Without merges.txt, a
// vocabulary of single characters.
TokenizerSpec read_vocab_json(const std::filesystem::path& vocab_file);

// For readers of other vocabularies. An empty object where the file is absent.
nlohmann::json read_optional_json(const std::filesystem::path& file);

// The token that a field of a config names, as text or as an object with `content`.
std::string named_token_text(const HfObject& config, std::string_view field);

// Puts the tokens of "added_tokens_decoder" into the spec, where the config has that.
void add_decoder_tokens(TokenizerSpec& spec, const HfObject& config);

}  // namespace arenite::convert
