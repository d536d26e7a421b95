// SPDX-License-Identifier: Apache-2.0
// Character data from utf8proc, corrected for the Unicode version of each tokenizer library. A
// character nearly always keeps its category once assigned, so the differences are mainly
// characters that were assigned later or earlier. Ages are those of Unicode's DerivedAge.txt.
#include "convert/tokenizers/unicode_library.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <map>
#include <memory>
#include <utility>

#include "arenite/tokenizer.h"
#include "convert/files/error.h"
#include "core/utf8.h"
#include "format/tokenizer_reader.h"
#include "text/special_finder.h"
#include "text/word_pieces.h"

#ifdef ARENITE_HAVE_UTF8PROC
#include <utf8proc.h>
#endif

namespace arenite::convert {

#ifdef ARENITE_HAVE_UTF8PROC

static_assert(UTF8PROC_VERSION_MAJOR > 2 ||
                  (UTF8PROC_VERSION_MAJOR == 2 && UTF8PROC_VERSION_MINOR >= 8),
              "utf8proc 2.8 knows Unicode 15.0, from which these tables go on");

namespace {

struct Range {
  uint32_t first, last;
};

// Categories that Unicode 15.1 and 16.0 added or changed.
struct NewCategory {
  uint32_t first, last;
  const char* name;
};
constexpr NewCategory kNewCategories[] = {
    {0x0897, 0x0897, "Mn"},   {0x1B4E, 0x1B4F, "Po"},   {0x1B7F, 0x1B7F, "Po"},
    {0x1C89, 0x1C89, "Lu"},   {0x1C8A, 0x1C8A, "Ll"},   {0x2427, 0x2429, "So"},
    {0x2FFC, 0x2FFF, "So"},   {0x31E4, 0x31E5, "So"},   {0x31EF, 0x31EF, "So"},
    {0xA7CB, 0xA7CC, "Lu"},   {0xA7CD, 0xA7CD, "Ll"},   {0xA7DA, 0xA7DA, "Lu"},
    {0xA7DB, 0xA7DB, "Ll"},   {0xA7DC, 0xA7DC, "Lu"},   {0x105C0, 0x105F3, "Lo"},
    {0x10D40, 0x10D49, "Nd"}, {0x10D4A, 0x10D4D, "Lo"}, {0x10D4E, 0x10D4E, "Lm"},
    {0x10D4F, 0x10D4F, "Lo"}, {0x10D50, 0x10D65, "Lu"}, {0x10D69, 0x10D6D, "Mn"},
    {0x10D6E, 0x10D6E, "Pd"}, {0x10D6F, 0x10D6F, "Lm"}, {0x10D70, 0x10D85, "Ll"},
    {0x10D8E, 0x10D8F, "Sm"}, {0x10EC2, 0x10EC4, "Lo"}, {0x10EFC, 0x10EFC, "Mn"},
    {0x11380, 0x11389, "Lo"}, {0x1138B, 0x1138B, "Lo"}, {0x1138E, 0x1138E, "Lo"},
    {0x11390, 0x113B5, "Lo"}, {0x113B7, 0x113B7, "Lo"}, {0x113B8, 0x113BA, "Mc"},
    {0x113BB, 0x113C0, "Mn"}, {0x113C2, 0x113C2, "Mc"}, {0x113C5, 0x113C5, "Mc"},
    {0x113C7, 0x113CA, "Mc"}, {0x113CC, 0x113CD, "Mc"}, {0x113CE, 0x113CE, "Mn"},
    {0x113CF, 0x113CF, "Mc"}, {0x113D0, 0x113D0, "Mn"}, {0x113D1, 0x113D1, "Lo"},
    {0x113D2, 0x113D2, "Mn"}, {0x113D3, 0x113D3, "Lo"}, {0x113D4, 0x113D5, "Po"},
    {0x113D7, 0x113D8, "Po"}, {0x113E1, 0x113E2, "Mn"}, {0x116D0, 0x116E3, "Nd"},
    {0x1171E, 0x1171E, "Mc"}, {0x11BC0, 0x11BE0, "Lo"}, {0x11BE1, 0x11BE1, "Po"},
    {0x11BF0, 0x11BF9, "Nd"}, {0x11F5A, 0x11F5A, "Mn"}, {0x13460, 0x143FA, "Lo"},
    {0x16100, 0x1611D, "Lo"}, {0x1611E, 0x16129, "Mn"}, {0x1612A, 0x1612C, "Mc"},
    {0x1612D, 0x1612F, "Mn"}, {0x16130, 0x16139, "Nd"}, {0x16D40, 0x16D42, "Lm"},
    {0x16D43, 0x16D6A, "Lo"}, {0x16D6B, 0x16D6C, "Lm"}, {0x16D6D, 0x16D6F, "Po"},
    {0x16D70, 0x16D79, "Nd"}, {0x18CFF, 0x18CFF, "Lo"}, {0x1CC00, 0x1CCEF, "So"},
    {0x1CCF0, 0x1CCF9, "Nd"}, {0x1CD00, 0x1CEB3, "So"}, {0x1E5D0, 0x1E5ED, "Lo"},
    {0x1E5EE, 0x1E5EF, "Mn"}, {0x1E5F0, 0x1E5F0, "Lo"}, {0x1E5F1, 0x1E5FA, "Nd"},
    {0x1E5FF, 0x1E5FF, "Po"}, {0x1F8B2, 0x1F8BB, "So"}, {0x1F8C0, 0x1F8C1, "So"},
    {0x1FA89, 0x1FA89, "So"}, {0x1FA8F, 0x1FA8F, "So"}, {0x1FABE, 0x1FABE, "So"},
    {0x1FAC6, 0x1FAC6, "So"}, {0x1FADC, 0x1FADC, "So"}, {0x1FADF, 0x1FADF, "So"},
    {0x1FAE9, 0x1FAE9, "So"}, {0x1FBCB, 0x1FBEF, "So"}, {0x2EBF0, 0x2EE5D, "Lo"},
};

// All punctuation, nonspacing marks and controls of Unicode 8.0 are outside these ranges.
// Characters of these categories inside them were assigned in 9.0 or later, or had another category
// in 8.0.
constexpr Range kNewWordCategories[] = {
    {0x061D, 0x061D},   {0x07FD, 0x07FD},   {0x0890, 0x08E2},   {0x09FD, 0x09FE},
    {0x0A76, 0x0A76},   {0x0AFA, 0x0AFF},   {0x0B55, 0x0B55},   {0x0C04, 0x0C3C},
    {0x0C77, 0x0C77},   {0x0C84, 0x0C84},   {0x0D00, 0x0D00},   {0x0D3B, 0x0D3C},
    {0x0D81, 0x0D81},   {0x0EBA, 0x0EBA},   {0x0ECE, 0x0ECE},   {0x180F, 0x180F},
    {0x1885, 0x1886},   {0x1ABF, 0x1ACE},   {0x1B4E, 0x1B4F},   {0x1B7D, 0x1B7F},
    {0x1DF6, 0x1DFB},   {0x2E43, 0x2E5D},   {0xA82C, 0xA82C},   {0xA8C5, 0xA8C5},
    {0xA8FF, 0xA8FF},   {0xA9BD, 0xA9BD},   {0x10D24, 0x10F89}, {0x11070, 0x11074},
    {0x110C2, 0x110CD}, {0x111CF, 0x111CF}, {0x1123E, 0x11241}, {0x1133B, 0x1133B},
    {0x113BB, 0x1145E}, {0x11660, 0x1166C}, {0x116B9, 0x116B9}, {0x1182F, 0x11FFF},
    {0x12FF1, 0x1612F}, {0x16D6D, 0x16F4F}, {0x16FE2, 0x16FE4}, {0x1CF00, 0x1CF46},
    {0x1E000, 0x1E5FF}, {0x1E944, 0x1E95F},
};

// Characters with decompositions that were added in Unicode 13.0 and 16.0.
constexpr Range kNewDecompositions[] = {
    {0x105C9, 0x105E4}, {0x11383, 0x11391}, {0x113C5, 0x113C8},
    {0x11938, 0x11938}, {0x16121, 0x16128}, {0x16D68, 0x16D6A},
};

// Characters that the library's normal forms leave unchanged, though utf8proc decomposes them.
constexpr Range kWholeCharacters[] = {
    {0x32FF, 0x32FF},   {0xA7F2, 0xA7F4},   {0xAB69, 0xAB69},   {0x10781, 0x107BA},
    {0x11938, 0x11938}, {0x1E030, 0x1E06D}, {0x1F16C, 0x1F16C}, {0x1FBF0, 0x1FBF9},
};

// Marks that the library's StripAccents does not strip.
constexpr Range kNewMarks[] = {
    {0x07FD, 0x07FD},   {0x0898, 0x089F},   {0x08CA, 0x08D3},   {0x09FE, 0x09FE},
    {0x0AFA, 0x0AFF},   {0x0B55, 0x0B55},   {0x0C04, 0x0C04},   {0x0C3C, 0x0C3C},
    {0x0CF3, 0x0CF3},   {0x0D00, 0x0D00},   {0x0D3B, 0x0D3C},   {0x0D81, 0x0D81},
    {0x0EBA, 0x0EBA},   {0x0ECE, 0x0ECE},   {0x1715, 0x1715},   {0x180F, 0x180F},
    {0x1ABF, 0x1ACE},   {0x1CF7, 0x1CF7},   {0x1DF6, 0x1DFA},   {0xA82C, 0xA82C},
    {0xA8FF, 0xA8FF},   {0x10D24, 0x10F85}, {0x11070, 0x11074}, {0x110C2, 0x110C2},
    {0x11145, 0x11146}, {0x111C9, 0x111C9}, {0x111CE, 0x111CF}, {0x11241, 0x11241},
    {0x1133B, 0x1133B}, {0x1145E, 0x1145E}, {0x1182C, 0x11A99}, {0x11D31, 0x11F42},
    {0x13440, 0x13455}, {0x16F4F, 0x16F4F}, {0x16F7F, 0x16F87}, {0x16FE4, 0x16FF1},
    {0x1CF00, 0x1CF46}, {0x1E08F, 0x1E136}, {0x1E2AE, 0x1E4EF},
};

// Characters of Unicode 16.0 and 17.0 that extend a grapheme.
constexpr Range kNewExtenders[] = {
    {0x0897, 0x0897},   {0x1ACF, 0x1ADD},   {0x1AE0, 0x1AEB},   {0x10D69, 0x10D6D},
    {0x10EFA, 0x10EFC}, {0x113B8, 0x113C0}, {0x113C2, 0x113C2}, {0x113C5, 0x113C5},
    {0x113C7, 0x113CA}, {0x113CC, 0x113D0}, {0x113D2, 0x113D2}, {0x113E1, 0x113E2},
    {0x11B60, 0x11B67}, {0x11F5A, 0x11F5A}, {0x1611E, 0x1612F}, {0x1E5EE, 0x1E5EF},
    {0x1E6E3, 0x1E6E3}, {0x1E6E6, 0x1E6E6}, {0x1E6EE, 0x1E6EF}, {0x1E6F5, 0x1E6F5},
};

// Uppercase letters added in Unicode 16.0 and 17.0.
struct NewCapitals {
  uint32_t first, last;
  uint32_t lower;  // of the first; the others' follow
};
constexpr NewCapitals kNewCapitals[] = {
    {0x1C89, 0x1C89, 0x1C8A},    {0xA7CB, 0xA7CB, 0x0264}, {0xA7CC, 0xA7CC, 0xA7CD},
    {0xA7CE, 0xA7CE, 0xA7CF},    {0xA7D2, 0xA7D2, 0xA7D3}, {0xA7D4, 0xA7D4, 0xA7D5},
    {0xA7DA, 0xA7DA, 0xA7DB},    {0xA7DC, 0xA7DC, 0x019B}, {0x10D50, 0x10D65, 0x10D70},
    {0x16EA0, 0x16EB8, 0x16EBB},
};

template <size_t kCount>
bool holds(const Range (&ranges)[kCount], uint32_t code_point) {
  const Range* const found =
      std::lower_bound(std::begin(ranges), std::end(ranges), code_point,
                       [](const Range& range, uint32_t c) { return range.last < c; });
  return found != std::end(ranges) && found->first <= code_point;
}

utf8proc_category_t category(uint32_t code_point) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(code_point));
}

// Returns the NFC of valid UTF-8.
std::string compose(std::string_view text) {
  utf8proc_uint8_t* composed = nullptr;
  const utf8proc_ssize_t bytes =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()), std::ssize(text),
                   &composed, static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  if (bytes < 0) throw InputError("utf8proc cannot normalize a text: {}", utf8proc_errmsg(bytes));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(composed, &std::free);
  return {reinterpret_cast<const char*>(composed), static_cast<size_t>(bytes)};
}

}  // namespace

std::string_view pattern_category(uint32_t code_point) {
  const auto found = std::ranges::lower_bound(kNewCategories, code_point, {}, &NewCategory::last);
  if (found != std::end(kNewCategories) && found->first <= code_point) return found->name;
  return utf8proc_category_string(static_cast<utf8proc_int32_t>(code_point));
}

// Readers ask about every code point, so the tables are searched last.
WordCategory word_category(uint32_t code_point) {
  const auto unless_new = [&](WordCategory found) {
    return holds(kNewWordCategories, code_point) ? WordCategory::kOther : found;
  };
  // Characters with another category in 8.0: Canadian Syllabics Chi Sign, Sharada Sandhi Mark;
  // Hanunoo Sign Pamudpod, Ahom Consonant Sign Medial Ra.
  if (code_point == 0x166D || code_point == 0x111C9) return WordCategory::kPunctuation;
  if (code_point == 0x1734 || code_point == 0x1171E) return WordCategory::kMark;
  switch (category(code_point)) {
    case UTF8PROC_CATEGORY_PC:
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO:
      return unless_new(WordCategory::kPunctuation);
    case UTF8PROC_CATEGORY_MN:
      return unless_new(WordCategory::kMark);
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CO:
      return unless_new(WordCategory::kControl);
    default:
      return WordCategory::kOther;
  }
}

Decomposition decompose(uint32_t code_point) {
  Decomposition decomposition;
  decomposition.parts[0] = code_point;
  decomposition.count = 1;
  const auto signed_code_point = static_cast<utf8proc_int32_t>(code_point);
  const bool is_syllable = code_point >= 0xAC00 && code_point <= 0xD7A3;  // by arithmetic
  const bool has_parts = utf8proc_get_property(signed_code_point)->decomp_seqindex != UINT16_MAX;
  if ((!has_parts && !is_syllable) || holds(kNewDecompositions, code_point)) return decomposition;
  utf8proc_int32_t parts[decltype(decomposition.parts)().size()];
  int boundary_class = 0;
  const utf8proc_ssize_t count = utf8proc_decompose_char(
      signed_code_point, parts, std::ssize(parts), UTF8PROC_DECOMPOSE, &boundary_class);
  if (count < 0 || count > std::ssize(parts)) {
    throw InputError("utf8proc cannot decompose U+{:04X}: {}", code_point, utf8proc_errmsg(count));
  }
  std::copy_n(parts, count, decomposition.parts.begin());
  decomposition.count = static_cast<uint32_t>(count);
  return decomposition;
}

std::vector<uint32_t> full_decomposition(uint32_t code_point, bool is_compatible) {
  if (holds(kWholeCharacters, code_point)) return {code_point};
  utf8proc_int32_t parts[decltype(Decomposition::parts)().size()];
  int boundary_class = 0;
  const int options = UTF8PROC_DECOMPOSE | (is_compatible ? UTF8PROC_COMPAT : 0);
  const utf8proc_ssize_t count =
      utf8proc_decompose_char(static_cast<utf8proc_int32_t>(code_point), parts, std::ssize(parts),
                              static_cast<utf8proc_option_t>(options), &boundary_class);
  if (count < 0 || count > std::ssize(parts)) {
    throw InputError("utf8proc cannot decompose U+{:04X}: {}", code_point, utf8proc_errmsg(count));
  }
  return {parts, parts + count};
}

uint32_t combining_class(uint32_t code_point) {
  const auto* found = utf8proc_get_property(static_cast<utf8proc_int32_t>(code_point));
  return static_cast<uint32_t>(found->combining_class);
}

bool is_mark(uint32_t code_point) {
  if (code_point == 0x1CF2 || code_point == 0x1CF3) return true;  // letters since Unicode 12.0
  if (holds(kNewMarks, code_point)) return false;
  const utf8proc_category_t of = category(code_point);
  return of == UTF8PROC_CATEGORY_MN || of == UTF8PROC_CATEGORY_MC || of == UTF8PROC_CATEGORY_ME;
}

format::GraphemeClass grapheme_class(uint32_t code_point) {
  using enum format::GraphemeClass;
  if (holds(kNewExtenders, code_point)) return kExtend;
  if (code_point == 0x113D1) return kPrepend;
  if (code_point == 0x11A3A) return kOther;
  if (code_point == 0x2065 || (code_point >= 0xFFF0 && code_point <= 0xFFF8)) return kControl;
  switch (utf8proc_get_property(static_cast<utf8proc_int32_t>(code_point))->boundclass) {
    case UTF8PROC_BOUNDCLASS_EXTEND:
    case UTF8PROC_BOUNDCLASS_SPACINGMARK:
      return kExtend;
    case UTF8PROC_BOUNDCLASS_CR:
    case UTF8PROC_BOUNDCLASS_LF:
    case UTF8PROC_BOUNDCLASS_CONTROL:
      return kControl;
    case UTF8PROC_BOUNDCLASS_PREPEND:
      return kPrepend;
    case UTF8PROC_BOUNDCLASS_ZWJ:
      return kJoiner;
    case UTF8PROC_BOUNDCLASS_EXTENDED_PICTOGRAPHIC:
      return kPictograph;
    default:
      return kOther;
  }
}

uint32_t lower_case(uint32_t code_point) {
  const bool may_be_new = code_point >= std::begin(kNewCapitals)->first &&
                          code_point <= std::rbegin(kNewCapitals)->last;
  if (!may_be_new) {
    return static_cast<uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code_point)));
  }
  for (const NewCapitals& capitals : kNewCapitals) {
    if (code_point < capitals.first || code_point > capitals.last) continue;
    return capitals.lower + (code_point - capitals.first);
  }
  return static_cast<uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code_point)));
}

std::string to_nfc(std::string_view text) {
  std::string normalized;
  size_t begin = 0;  // of UTF-8 that is not yet written
  for (size_t i = 0; i < text.size();) {
    const CodePoint next = decode_utf8(text.substr(i));
    if (next.value == kInvalidCodePoint) {
      normalized += compose(text.substr(begin, i - begin));
      normalized += text.substr(i, next.bytes);
      begin = i + next.bytes;
    }
    i += next.bytes;
  }
  return normalized + compose(text.substr(begin));
}

// The tables go up to 16.0; a newer utf8proc adds its own letters.
std::string pattern_unicode() {
  const std::string version = utf8proc_unicode_version();
  const bool is_newer = std::atoi(version.c_str()) > 16;
  return is_newer ? version.substr(0, version.rfind('.')) : "16.0";
}

#else

namespace {

[[noreturn]] void refuse() {
  throw InputError(
      "this tokenizer needs Unicode tables, which this build lacks: build with libutf8proc-dev");
}

}  // namespace

std::string_view pattern_category(uint32_t) { refuse(); }
WordCategory word_category(uint32_t) { refuse(); }
Decomposition decompose(uint32_t) { refuse(); }
std::vector<uint32_t> full_decomposition(uint32_t, bool) { refuse(); }
uint32_t combining_class(uint32_t) { refuse(); }
bool is_mark(uint32_t) { refuse(); }
format::GraphemeClass grapheme_class(uint32_t) { refuse(); }
uint32_t lower_case(uint32_t) { refuse(); }
std::string to_nfc(std::string_view) { refuse(); }
std::string pattern_unicode() { refuse(); }

#endif  // ARENITE_HAVE_UTF8PROC

// ---- tables of characters for the model file ----

namespace {

constexpr uint32_t kCapitalDottedI = 0x130;  // the only one whose lower case is two code points
constexpr uint32_t kCombiningDot = 0x307;
constexpr uint32_t kSyllables = 0xAC00;  // of Hangul, which the runtime decomposes itself
constexpr uint32_t kSyllablesLast = 0xD7A3;

bool is_surrogate(uint32_t code_point) { return code_point >= 0xD800 && code_point <= 0xDFFF; }

// Matches "other" of the crate unicode_categories, which excludes unassigned code points.
bool is_control(uint32_t code_point) {
  if (code_point == '\t' || code_point == '\n' || code_point == '\r') return false;
  return code_point == kReplacementCharacter || word_category(code_point) == WordCategory::kControl;
}

// Computes the replacement of a character; reuses its buffer, so that a million calls allocate
// nothing.
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

// Returns the characters of the vocabulary, by code point.
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

// Whether a word is unknown both with the character and with its replacement, and both end at the
// same place.
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

std::vector<uint32_t> word_forms(const WordRules& rules, uint32_t code_point) {
  std::vector<uint32_t> forms = Folder(rules).fold(code_point);
  if (rules.drops_controls && !forms.empty() && text::is_space(code_point)) forms = {' '};
  return forms;
}

std::vector<uint32_t> combining_classes() {
  std::vector<uint32_t> classes = {0, 0};
  for (uint32_t code_point = 0; code_point <= kCodePointMax; ++code_point) {
    const uint32_t found = is_mark(code_point) ? combining_class(code_point) : 0;
    if (found != classes.back()) classes.insert(classes.end(), {code_point, found});
  }
  return classes;
}

std::vector<uint32_t> compositions() {
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> pairs;
  const auto to_utf8 = [](std::span<const uint32_t> characters) {
    std::string text;
    for (const uint32_t character : characters) {
      char form[kUtf8BytesMax];
      text.append(form, encode_utf8(character, form));
    }
    return text;
  };
  for (uint32_t code_point = 0x80; code_point <= kCodePointMax; ++code_point) {
    if (is_surrogate(code_point) || is_hangul_syllable(code_point)) continue;
    const std::vector<uint32_t> parts = full_decomposition(code_point, false);
    if (parts.size() < 2) continue;
    const std::string first = to_nfc(to_utf8(std::span(parts).first(parts.size() - 1)));
    const CodePoint starter = decode_utf8(first);
    const std::vector<uint32_t> both = {starter.value, parts.back()};
    const std::string whole = to_utf8(std::vector{code_point});
    if (starter.bytes != first.size() || to_nfc(to_utf8(both)) != whole) continue;
    pairs[{starter.value, parts.back()}] = code_point;
  }
  std::vector<uint32_t> list = combining_classes();
  list.insert(list.begin(), static_cast<uint32_t>(list.size()));
  for (const auto& [pair, whole] : pairs) list.insert(list.end(), {pair.first, pair.second, whole});
  return list;
}

bool is_hangul_syllable(uint32_t code_point) {
  return code_point >= kSyllables && code_point <= kSyllablesLast;
}

std::vector<uint32_t> lower_cases(uint32_t code_point) {
  std::vector<uint32_t> lower = {lower_case(code_point)};
  if (code_point == kCapitalDottedI) lower.push_back(kCombiningDot);
  return lower;
}

std::vector<uint32_t> grapheme_ranges() {
  std::vector<uint32_t> ranges;
  for (uint32_t code_point = 0; code_point <= kCodePointMax; ++code_point) {
    const format::GraphemeClass of = grapheme_class(code_point);
    if (of == format::GraphemeClass::kOther || is_surrogate(code_point)) continue;
    const auto number = static_cast<uint32_t>(of);
    if (!ranges.empty() && ranges.back() == number && ranges.end()[-2] + 1 == code_point) {
      ranges.end()[-2] = code_point;
    } else {
      ranges.insert(ranges.end(), {code_point, code_point, number});
    }
  }
  return ranges;
}

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
    if (is_surrogate(code_point) || is_hangul_syllable(code_point)) continue;
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
    if (pattern_category(code_point)[0] == major) append_to_ranges(ranges, code_point);
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

// ---- text as models expect it: normalized as in Hugging Face's library, without special tokens
// ----

namespace {

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<uint8_t>(c) < 128; });
}

std::string normalize(std::string_view text, const std::string& name) {
  try {
    return to_nfc(text);
  } catch (const InputError& error) {
    throw InputError(
        "{}: the model expects text in Unicode's form C, which this build cannot check for text "
        "beyond ASCII: {}",
        name, error.what());
  }
}

}  // namespace

size_t ids_for_text(const Model& model, size_t text_bytes) {
  constexpr size_t kGrowth = 16;  // 11 bytes for each of U+FDFA are the most of Unicode's own
  const bool may_grow = !format::tokenizer_view(model.file()).steps.empty();
  return encode_tokens_max(text_bytes) * (may_grow ? kGrowth : 1);
}

std::string in_expected_form(const Model& model, std::string_view text, bool read_specials,
                             const std::string& name) {
  const format::TokenizerView view = format::tokenizer_view(model.file());
  if (!view.has(format::kExpectsNfc) || is_ascii(text)) return std::string(text);
  const text::SpecialFinder specials(view, read_specials);
  std::string normalized;
  for (size_t position = 0; position < text.size();) {
    const text::SpecialMatch match = specials.find(text, position);
    normalized += normalize(text.substr(position, match.begin - position), name);
    normalized += text.substr(match.begin, match.end - match.begin);
    position = match.end;
  }
  return normalized;
}

}  // namespace arenite::convert
