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

// Who decides what goes around a text.
enum class AroundText : uint8_t {
  kTokenizerSays,  // a tokenizer.json does, by its post-processor or by having none
  kConfigsSay,     // the files beside it, by "add_bos_token" and "add_eos_token"
};

// Reads tokenizer_config.json, special_tokens_map.json, generation_config.json and config.json of
// the folder, those that are there. Where they contradict a tokenizer that decides, the spec gets
// notes. Throws InputError for a token that the vocabulary lacks.
void apply_hf_config(TokenizerSpec& spec, const std::filesystem::path& folder,
                     AroundText around_text);

// For readers of other vocabularies. An empty object where the file is absent.
nlohmann::json read_optional_json(const std::filesystem::path& file);

// The token that a field of a config names, as text or as an object with `content`.
std::string named_token_text(const HfObject& config, std::string_view field);

// Puts the tokens of "added_tokens_decoder" into the spec, where the config has that.
void add_decoder_tokens(TokenizerSpec& spec, const HfObject& config);

}  // namespace arenite::convert
