// SPDX-License-Identifier: Apache-2.0
// Unicode data that tokenizers need: categories, cases, decompositions and grapheme classes, from
// utf8proc.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "arenite/model.h"
#include "convert/tokenizers/tokenizer_spec.h"

namespace arenite::convert {

// Returns the general category in the pre-tokenizers' expressions, such as "Lu"; "Cn" is
// unassigned.
std::string_view pattern_category(uint32_t code_point);

// Character classes of BERT's tokenization.
enum class WordCategory : uint8_t { kOther, kPunctuation, kMark, kControl };
WordCategory word_category(uint32_t code_point);

// Canonical decomposition. No code point has more than 18 parts, in any version of Unicode.
struct Decomposition {
  std::array<uint32_t, 18> parts = {};
  uint32_t count = 0;

  std::span<const uint32_t> span() const { return {parts.data(), count}; }
};
Decomposition decompose(uint32_t code_point);

// Returns the decomposition for normalization of whole texts, with compatibility mappings if
// `is_compatible`.
std::vector<uint32_t> full_decomposition(uint32_t code_point, bool is_compatible);

// Whether the character is a mark: nonspacing, spacing or enclosing.
bool is_mark(uint32_t code_point);
uint32_t combining_class(uint32_t code_point);  // canonical
bool is_hangul_syllable(uint32_t code_point);

// Return the numbers of format::TextStep::kOrder and of kCompose, whose classes are among them.
std::vector<uint32_t> combining_classes();
std::vector<uint32_t> compositions();

// Returns what BertNormalizer makes of a character, except for ideographs and Hangul.
std::vector<uint32_t> word_forms(const WordRules& rules, uint32_t code_point);

uint32_t lower_case(uint32_t code_point);
std::vector<uint32_t> lower_cases(uint32_t code_point);  // one of them has two

format::GraphemeClass grapheme_class(uint32_t code_point);
// Returns triples (first, last, format::GraphemeClass) for all characters of relevant classes.
std::vector<uint32_t> grapheme_ranges();

// Normalizes `text` to form C. Bytes that are not UTF-8 stay unchanged.
std::string to_nfc(std::string_view text);

// Return Unicode versions for reports: of pattern classes, and of BERT's steps.
std::string pattern_unicode();
inline constexpr const char* kWordUnicode = "8.0";
inline constexpr const char* kCaseUnicode = "17.0";

// Returns ranges first, last, first, last, ... of the code points from 128 on whose
// pattern_category begins with `major`: 'L' letters, 'N' numbers. Throws InputError in a build
// without utf8proc.
std::vector<uint32_t> unicode_ranges(char major);

// Appends a code point. REQUIRES: it is above all that are in the ranges.
void append_to_ranges(std::vector<uint32_t>& ranges, uint32_t code_point);

// Fills in `dropped`, `punctuation`, `folds` and the Hangul flag from spec.word_rules. Omits
// characters from `folds` whose word is unknown in any case, since the vocabulary has neither the
// character nor its replacement. Throws InputError in a build without utf8proc.
void fill_word_tables(TokenizerSpec& spec);

// Returns how many ids suffice to encode texts of `text_bytes` bytes, whatever the tokenizer's
// normalizer does. REQUIRES: a model with a tokenizer.
size_t ids_for_text(const Model& model, size_t text_bytes);

// Returns `text` in normalization form C if the model's tokenizer expects that, else unchanged.
// With `read_specials` (as in EncodeOptions), names of special tokens stay unchanged. REQUIRES: a
// model with a tokenizer. Throws InputError that begins with `name` for text beyond ASCII in a
// build that cannot normalize.
std::string in_expected_form(const Model& model, std::string_view text, bool read_specials,
                             const std::string& name);

}  // namespace arenite::convert
