// SPDX-License-Identifier: Apache-2.0
// The steps of a tokenizer.json's normalizer that the runtime does with a text, one by one.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "convert/tokenizers/tokenizer_readers.h"
#include "convert/tokenizers/tokenizer_spec.h"

namespace arenite::convert {

class TextChanges {
 public:
  // Adds what a step does. Throws InputError, by name, for one that is not known, or that cannot be
  // done character by character.
  void take(const HfObject& step);
  // Adds the map that SentencePiece compiles from its rules; `charsmap` is what its model file has.
  // Throws InputError, which begins with `place`, for one that is damaged.
  void take_charsmap(std::string_view charsmap, const std::string& place);

  // Whether normalization form C is the same before and after the steps so far.
  bool keep_normal_form() const;
  // Throws InputError where a step lacks the one that must follow.
  void apply(TokenizerSpec& spec) const;

  std::vector<TextChange> steps;

 private:
  void take_replace(const HfObject& step);

  std::vector<uint32_t> charsmap_;
  std::shared_ptr<const HfObject> open_;  // a decomposition whose accents are not yet dropped
};

}  // namespace arenite::convert
