// SPDX-License-Identifier: Apache-2.0
// The steps around the model in a tokenizer.json: what is done to a text before and after merging.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "convert/tokenizers/tokenizer_spec.h"

namespace arenite::convert {

// What the steps say, taken together.
struct HfPipeline {
  bool is_byte_level = false;      // the vocabulary is written in the alphabet of bytes
  bool replaces_spaces = false;    // ... or with U+2581 for a space
  bool has_byte_decoder = false;   // "<0x0A>" is decoded as a byte
  bool drops_first_space = false;  // by the decoder
  bool expects_nfc = false;
  format::Pattern pattern = format::Pattern::kNone;
  format::Prefix prefix = format::Prefix::kNever;
  bool prefix_every_part = false;
  TokenId begin = kNoToken;  // put around a text by the post-processor
  TokenId end = kNoToken;
};

// Reads normalizer, pre_tokenizer, decoder and post_processor of `root`. A step, a field of a step
// or a combination that is not understood is refused by name: InputError.
HfPipeline read_hf_pipeline(const nlohmann::json& root, const std::string& file_name);

}  // namespace arenite::convert
