// SPDX-License-Identifier: Apache-2.0
// Asks utf8proc about every code point.
#include "convert/tokenizers/word_folding.h"

#include <algorithm>
#include <set>

#include "convert/error.h"
#include "convert/tokenizers/unicode_ranges.h"
#include "core/utf8.h"
#include "text/characters.h"
#include "text/folding.h"

#ifdef ARENITE_HAVE_UTF8PROC
#include <utf8proc.h>
#endif

namespace arenite::convert {

#ifdef ARENITE_HAVE_UTF8PROC

namespace {

constexpr uint32_t kCapitalDottedI = 0x130;  // the only one whose lower case is two code points
constexpr uint32_t kSyllables = 0xAC00;      // of Hangul, which the runtime decomposes itself
constexpr uint32_t kSyllablesLast = 0xD7A3;

using CodePoints = std::vector<uint32_t>;

bool is_surrogate(uint32_t code_point) { return code_point >= 0xD800 && code_point <= 0xDFFF; }

// As Rust's crate unicode_categories has "other": unassigned code points are none.
bool is_control(uint32_t code_point) {
  if (code_point == '\t' || code_point == '\n' || code_point == '\r') return false;
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(code_point));
  return category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_CF ||
         category == UTF8PROC_CATEGORY_CO || code_point == kReplacementCharacter;
}

CodePoints decompose(uint32_t code_point) {
  utf8proc_int32_t parts[32];
  int boundary_class = 0;
  const utf8proc_ssize_t count =
      utf8proc_decompose_char(static_cast<utf8proc_int32_t>(code_point), parts, std::ssize(parts),
                              UTF8PROC_DECOMPOSE, &boundary_class);
  if (count < 0 || count > std::ssize(parts)) {
    throw InputError("utf8proc cannot decompose U+{:04X}: {}", code_point, utf8proc_errmsg(count));
  }
  return CodePoints(parts, parts + count);
}

void append_lower(uint32_t code_point, CodePoints& out) {
  out.push_back(static_cast<uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code_point))));
  if (code_point == kCapitalDottedI) out.push_back(0x307);
}

CodePoints fold(const WordRules& rules, uint32_t code_point) {
  if (rules.drops_controls && is_control(code_point)) return {};
  CodePoints folded;
  for (const uint32_t part :
       rules.strips_accents ? decompose(code_point) : CodePoints{code_point}) {
    const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(part));
    if (rules.strips_accents && category == UTF8PROC_CATEGORY_MN) continue;
    if (rules.lowers_case) {
      append_lower(part, folded);
    } else {
      folded.push_back(part);
    }
  }
  return folded;
}

std::set<uint32_t> alphabet(const TokenizerSpec& spec) {
  std::set<uint32_t> characters;
  for (const std::string& token : spec.tokens) {
    for (size_t i = 0; i < token.size();) {
      const CodePoint next = decode_utf8(std::string_view(token).substr(i));
      characters.insert(next.value);
      i += next.bytes;
    }
  }
  return characters;
}

// Whether a word is unknown with the character and with what it becomes, and ends in one place.
bool is_unknown_either_way(const std::set<uint32_t>& characters, const TokenizerSpec& spec,
                           uint32_t code_point, const CodePoints& folded) {
  const auto is_of_words = [&](uint32_t c) {
    return !text::is_space(c) && !text::is_ascii_punctuation(c) &&
           !text::in_ranges(spec.punctuation, c);
  };
  const auto is_known = [&](uint32_t c) { return characters.contains(c); };
  return !is_known(code_point) && !std::all_of(folded.begin(), folded.end(), is_known) &&
         is_of_words(code_point) && std::all_of(folded.begin(), folded.end(), is_of_words);
}

void append_to_ranges(std::vector<uint32_t>& ranges, uint32_t code_point) {
  if (!ranges.empty() && ranges.back() + 1 == code_point) {
    ranges.back() = code_point;
  } else {
    ranges.insert(ranges.end(), {code_point, code_point});
  }
}

}  // namespace

void fill_word_tables(TokenizerSpec& spec) {
  spec.punctuation = unicode_ranges('P');
  if (spec.word_rules.strips_accents) spec.flags |= format::kDecomposeHangul;
  const std::set<uint32_t> characters = alphabet(spec);
  for (uint32_t code_point = 0; code_point <= kCodePointMax; ++code_point) {
    const bool is_syllable = code_point >= kSyllables && code_point <= kSyllablesLast;
    if (is_surrogate(code_point) || is_syllable) continue;
    const CodePoints folded = fold(spec.word_rules, code_point);
    if (folded.empty()) {
      append_to_ranges(spec.dropped, code_point);
    } else if (folded != CodePoints{code_point} &&
               !is_unknown_either_way(characters, spec, code_point, folded)) {
      spec.folds[code_point] = folded;
    }
  }
}

#else

void fill_word_tables(TokenizerSpec&) {
  throw InputError(
      "WordPiece needs Unicode's lower case and decompositions, and this build lacks utf8proc: "
      "build the converter with libutf8proc-dev");
}

#endif  // ARENITE_HAVE_UTF8PROC

}  // namespace arenite::convert
