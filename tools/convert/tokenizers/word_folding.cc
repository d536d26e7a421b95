// SPDX-License-Identifier: Apache-2.0
// Tables of characters for the model file, from the library's categories and decompositions.
#include "convert/tokenizers/unicode_library.h"

#include <algorithm>

#include "core/utf8.h"
#include "text/word_pieces.h"

namespace arenite::convert {
namespace {

constexpr uint32_t kCapitalDottedI = 0x130;  // the only one whose lower case is two code points
constexpr uint32_t kCombiningDot = 0x307;
constexpr uint32_t kSyllables = 0xAC00;  // of Hangul, which the runtime decomposes itself
constexpr uint32_t kSyllablesLast = 0xD7A3;

bool is_surrogate(uint32_t code_point) { return code_point >= 0xD800 && code_point <= 0xDFFF; }

// As the crate unicode_categories has "other": unassigned code points are none.
bool is_control(uint32_t code_point) {
  if (code_point == '\t' || code_point == '\n' || code_point == '\r') return false;
  return code_point == kReplacementCharacter || word_category(code_point) == WordCategory::kControl;
}

// What a character becomes; filled anew for each, so that a million of them take no memory.
class Folder {
 public:
  explicit Folder(const WordRules& rules) : rules_(rules) { folded_.reserve(64); }

  const std::vector<uint32_t>& fold(uint32_t code_point) {
    folded_.clear();
    if (rules_.drops_controls && is_control(code_point)) return folded_;
    if (!rules_.strips_accents) {
      append(code_point);
      return folded_;
    }
    const auto parts = decompose(code_point);
    for (const uint32_t part : parts.span()) {
      if (word_category(part) != WordCategory::kMark) append(part);
    }
    return folded_;
  }

 private:
  void append(uint32_t code_point) {
    folded_.push_back(rules_.lowers_case ? lower_case(code_point) : code_point);
    if (rules_.lowers_case && code_point == kCapitalDottedI) folded_.push_back(kCombiningDot);
  }

  const WordRules& rules_;
  std::vector<uint32_t> folded_;
};

// The characters of the vocabulary, by code point.
std::vector<bool> alphabet(const TokenizerSpec& spec) {
  std::vector<bool> characters(kCodePointMax + 1);
  for (const std::string& token : spec.tokens) {
    for (size_t i = 0; i < token.size();) {
      const CodePoint next = decode_utf8(std::string_view(token).substr(i));
      if (next.value != kInvalidCodePoint) characters[next.value] = true;
      i += next.bytes;
    }
  }
  return characters;
}

// Whether a word is unknown with the character and with what it becomes, and ends in one place.
bool is_unknown_either_way(const std::vector<bool>& characters, const TokenizerSpec& spec,
                           uint32_t code_point, const std::vector<uint32_t>& folded) {
  const auto is_of_words = [&](uint32_t c) {
    return !text::is_space(c) && !text::is_ascii_punctuation(c) &&
           !text::in_ranges(spec.punctuation, c);
  };
  const auto is_known = [&](uint32_t c) { return characters[c]; };
  return !is_known(code_point) && !std::all_of(folded.begin(), folded.end(), is_known) &&
         is_of_words(code_point) && std::all_of(folded.begin(), folded.end(), is_of_words);
}

}  // namespace

void fill_word_tables(TokenizerSpec& spec) {
  for (uint32_t code_point = 0x80; code_point <= kCodePointMax; ++code_point) {
    if (word_category(code_point) == WordCategory::kPunctuation) {
      append_to_ranges(spec.punctuation, code_point);
    }
  }
  if (spec.word_rules.strips_accents) spec.flags |= format::kDecomposeHangul;
  const std::vector<bool> characters = alphabet(spec);
  Folder folder(spec.word_rules);
  for (uint32_t code_point = 0; code_point <= kCodePointMax; ++code_point) {
    const bool is_syllable = code_point >= kSyllables && code_point <= kSyllablesLast;
    if (is_surrogate(code_point) || is_syllable) continue;
    const std::vector<uint32_t>& folded = folder.fold(code_point);
    if (folded.empty()) {
      append_to_ranges(spec.dropped, code_point);
    } else if ((folded.size() != 1 || folded[0] != code_point) &&
               !is_unknown_either_way(characters, spec, code_point, folded)) {
      spec.folds[code_point] = folded;
    }
  }
}

std::vector<uint32_t> unicode_ranges(char major) {
  std::vector<uint32_t> ranges;
  for (uint32_t code_point = 0x80; code_point <= kCodePointMax; ++code_point) {
    if (pattern_category(code_point) == major) append_to_ranges(ranges, code_point);
  }
  return ranges;
}

void append_to_ranges(std::vector<uint32_t>& ranges, uint32_t code_point) {
  if (!ranges.empty() && ranges.back() + 1 == code_point) {
    ranges.back() = code_point;
  } else {
    ranges.insert(ranges.end(), {code_point, code_point});
  }
}

}  // namespace arenite::convert
