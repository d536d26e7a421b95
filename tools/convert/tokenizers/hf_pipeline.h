// SPDX-License-Identifier: Apache-2.0
// Reads the steps around the model of a tokenizer.json. Each kind of step is translated, known to
// have no effect, or refused by name.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "convert/tokenizers/text_changes.h"
#include "convert/tokenizers/tokenizer_readers.h"

namespace arenite::convert {

// Tokens that the post-processor puts around texts.
struct HfFrame {
  bool is_said = false;  // a step defined it
  TokenId begin = kNoToken;
  TokenId end = kNoToken;
  std::vector<TokenId> before{}, after{};  // all tokens, if there are several
  uint32_t pair_separators = 0;  // end tokens between two texts; 0: pairs have another form
  bool second_has_type1 = false;
  bool has_other_types = false;  // than 0 and 1
};

// Combined effect of the pipeline's steps.
struct HfPipeline {
  bool is_byte_level = false;      // the vocabulary uses the byte alphabet
  bool replaces_spaces = false;    // ... or with U+2581 for a space
  bool has_byte_decoder = false;   // "<0x0A>" is decoded as a byte
  bool drops_first_space = false;  // by the decoder
  bool expects_nfc = false;
  std::vector<SplitStep> splits;
  bool words_are_parts = false;       // WhitespaceSplit before Metaspace
  uint32_t decoding = 0;              // format::TokenizerFlags
  std::string decoded_suffix;         // of words, which the decoder replaces by a space
  std::string blank, word_delimiter;  // of CTC
  bool has_ideographs = false;        // BertNormalizer puts spaces around each
  format::Prefix prefix = format::Prefix::kNever;
  bool prefix_every_part = false;
  TextChanges changes;
  HfFrame frame;
};

// Reads normalizer, pre_tokenizer, decoder and post_processor of a tokenizer.json. Throws
// InputError that names an unsupported step, field of a step or combination.
HfPipeline read_hf_pipeline(const HfObject& root);

void apply_pipeline(TokenizerSpec& spec, const HfPipeline& pipeline);

// Adds the step of a post-processor. Throws InputError.
void take_post_processor(HfFrame& frame, const HfObject& step);
void apply_frame(TokenizerSpec& spec, const HfFrame& frame);

// Calls `take` for the step in a field of `root`, or for each step of a sequence, which lists them
// under `list_field`.
template <typename Take>
void for_each_step(const HfObject& root, const char* field, const char* list_field,
                   const Take& take) {
  if (!root.has(field)) return;
  const HfObject first = root.object(field);
  if (first.type() != "Sequence") return take(first);
  first.expect_only({"type", list_field});
  for (const HfObject& step : first.list(list_field, "a list of steps")) {
    if (step.type() == "Sequence") step.refuse("type", "a step, not a sequence in a sequence");
    take(step);
  }
}

}  // namespace arenite::convert
