// SPDX-License-Identifier: Apache-2.0
// What Unicode says of each character, as Hugging Face's library `tokenizers` knows it.
//
// Text must be cut as it was in training, so that what counts is not the newest Unicode but the one
// that each step of the library was built with (0.23, measured over all code points):
//
//   \p{L} and \p{N} of patterns                          Oniguruma 6.9.10             16.0
//   punctuation, controls, nonspacing marks of BERT      crate unicode_categories     8.0
//   canonical decompositions                             crate unicode-normalization  before 13.0
//   lower case                                           Rust's standard library      17.0
//
// The tables of utf8proc, which may have any version from 15.0 on, are corrected by the few
// characters that differ. In a build without utf8proc all functions throw InputError.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

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

uint32_t lower_case(uint32_t code_point);

// `text` in normalization form C. What is no UTF-8 in it stays as it is.
std::string to_nfc(std::string_view text);

// The versions, for a report: of patterns' classes and of BERT's steps.
std::string pattern_unicode();
inline constexpr const char* kWordUnicode = "8.0";
inline constexpr const char* kCaseUnicode = "17.0";

}  // namespace arenite::convert
