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

class CharacterSet;

std::vector<uint32_t> code_points(std::string_view text);

// Reads a BertNormalizer.
WordRules bert_rules(const HfObject& step);

class TextChanges {
 public:
  // Adds a step. Throws InputError that names an unknown or unsupported step.
  void take(const HfObject& step);
  // Adds the map that SentencePiece compiles from its rules, as stored in its model file. Throws
  // InputError that begins with `place` if the map is damaged. `maps_longest`: as SentencePiece,
  // not as Hugging Face's library.
  void take_charsmap(std::string_view charsmap, const std::string& place, bool maps_longest);

  // Whether the steps so far preserve normalization form C.
  bool keep_normal_form() const;
  void apply(TokenizerSpec& spec) const;

  std::vector<TextChange> steps;

 private:
  void take_replace(const HfObject& step);
  void replace_set(const CharacterSet& set, bool is_run, const std::vector<uint32_t>& content);
  void take_bert(const HfObject& step);

  std::vector<uint32_t> charsmap_;
  bool is_compatible_ = false;  // the last decomposition
};

}  // namespace arenite::convert
