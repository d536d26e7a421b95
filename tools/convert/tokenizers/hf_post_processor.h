// SPDX-License-Identifier: Apache-2.0
// The tokens that a tokenizer.json puts around a text, and around and between the two of a pair.
#pragma once

#include <cstdint>
#include <string>

#include "convert/tokenizers/hf_object.h"
#include "convert/tokenizers/tokenizer_spec.h"

namespace arenite::convert {

struct HfFrame {
  bool is_said = false;  // by a step that has been read
  TokenId begin = kNoToken;
  TokenId end = kNoToken;
  uint32_t pair_separators = 0;  // ends between two texts; 0: pairs are put together otherwise
  bool second_has_type1 = false;
};

// Reads TemplateProcessing, BertProcessing or RobertaProcessing, of which there may be one;
// ByteLevel changes nothing. A template for one text that is not understood is refused: InputError.
// One for a pair is not needed to encode a text, so that pairs are merely not taken.
void take_post_processor(HfFrame& frame, const HfObject& step, const std::string& file_name);

void apply_frame(TokenizerSpec& spec, const HfFrame& frame);

}  // namespace arenite::convert
