// SPDX-License-Identifier: Apache-2.0
// What tokenizers need of Unicode: categories, cases and accents of characters, from utf8proc.
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

// The first letter of the general category, for patterns: 'L' letters, 'N' numbers, 'C' others and
// unassigned, ...
char pattern_category(uint32_t code_point);

// Kinds of characters that BERT's tokenization tells apart.
enum class WordCategory : uint8_t { kOther, kPunctuation, kMark, kControl };
WordCategory word_category(uint32_t code_point);

// At most 18 code points come from one, for any version of Unicode.
struct Decomposition {
  std::array<uint32_t, 18> parts = {};
  uint32_t count = 0;

  std::span<const uint32_t> span() const { return {parts.data(), count}; }
};
Decomposition decompose(uint32_t code_point);

// The same of a code point, as transformations of whole texts use it: by the compatibility
// mappings, too, where asked for.
std::vector<uint32_t> normal_parts(uint32_t code_point, bool is_compatible);

// Of any kind: nonspacing, spacing or enclosing.
bool is_mark(uint32_t code_point);
bool is_hangul_syllable(uint32_t code_point);

uint32_t lower_case(uint32_t code_point);
std::vector<uint32_t> lower_cases(uint32_t code_point);  // two for one of them

format::GraphemeClass grapheme_class(uint32_t code_point);
// First, last and format::GraphemeClass, of all characters of a class that counts.
std::vector<uint32_t> grapheme_ranges();

// `text` in normalization form C. What is no UTF-8 in it stays as it is.
std::string to_nfc(std::string_view text);

// The versions, for a report: of patterns' classes and of BERT's steps.
std::string pattern_unicode();
inline constexpr const char* kWordUnicode = "8.0";
inline constexpr const char* kCaseUnicode = "17.0";

// First, last, first, last, ... of the code points from 128 on whose pattern_category
// (unicode_library.h) is `major`: 'L' letters, 'N' numbers. Throws InputError in a build without
// utf8proc.
std::vector<uint32_t> unicode_ranges(char major);

// Puts in a code point above all that are there.
void append_to_ranges(std::vector<uint32_t>& ranges, uint32_t code_point);

// Fills in `dropped`, `punctuation` and `folds`, and the flag for Hangul, from spec.word_rules.
// A character is left out of `folds` if its word is unknown in any case, as the vocabulary has
// neither it nor what it becomes. Throws InputError in a build without utf8proc.
void fill_word_tables(TokenizerSpec& spec);

// How many ids a span must hold to encode texts of so many bytes, whatever the normalizer of the
// model's tokenizer makes of them. REQUIRES: a model with a tokenizer.
size_t ids_for_text(const Model& model, size_t text_bytes);

// `text` in Unicode's normalization form C where the model's tokenizer expects that, else as it is.
// Names of special tokens in it stay as they are where they are read (`read_specials`, as in
// EncodeOptions).
// REQUIRES: a model with a tokenizer. Throws InputError, which begins with `name`, for text beyond
// ASCII in a build that cannot normalize.
std::string in_expected_form(const Model& model, std::string_view text, bool read_specials,
                             const std::string& name);

}  // namespace arenite::convert
