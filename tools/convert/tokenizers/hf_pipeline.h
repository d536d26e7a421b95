// SPDX-License-Identifier: Apache-2.0
// The steps around the model in a tokenizer.json: what is done to a text before and after merging.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "convert/tokenizers/hf_object.h"
#include "convert/tokenizers/hf_post_processor.h"
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
  HfFrame frame;
};

// Calls `take` for the step that a field of `root` holds, or for each step of a sequence, which
// lists them under `list_field`.
void for_each_step(const HfObject& root, const std::string& file_name, const char* field,
                   const char* list_field, const std::function<void(const HfObject& step)>& take);

// Reads normalizer, pre_tokenizer, decoder and post_processor of `root`. A step, a field of a step
// or a combination that is not understood is refused by name: InputError.
HfPipeline read_hf_pipeline(const nlohmann::json& root, const std::string& file_name);

}  // namespace arenite::convert
