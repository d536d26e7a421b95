// SPDX-License-Identifier: Apache-2.0
// Translates the normalizer steps of a tokenizer.json to the runtime's text changes.
//
//   {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}  ->  TextStep::kReplace
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "convert/tokenizers/tokenizer_readers.h"
#include "convert/tokenizers/tokenizer_spec.h"

namespace arenite::convert {

class TextChanges {
 public:
  // Adds a step. Throws InputError that names an unknown or unsupported step.
  void take(const HfObject& step);
  // Adds the map that SentencePiece compiles from its rules, as stored in its model file. Throws
  // InputError that begins with `place` if the map is damaged.
  void take_charsmap(std::string_view charsmap, const std::string& place);

  // Whether the steps so far preserve normalization form C.
  bool keep_normal_form() const;
  // Throws InputError if a step lacks its required successor.
  void apply(TokenizerSpec& spec) const;

  std::vector<TextChange> steps;

 private:
  void take_replace(const HfObject& step);

  std::vector<uint32_t> charsmap_;
  // A decomposition that must be followed by StripAccents.
  std::shared_ptr<const HfObject> open_;
};

}  // namespace arenite::convert
