// SPDX-License-Identifier: Apache-2.0
// Performs the steps of Hugging Face's BertNormalizer, BertPreTokenizer and WordPiece in one pass
// over the characters:
//   "Playing!"   folded and split: "playing", "!"   tokens: play ##ing !
// A look-up begins at a character and reads no further than the longest token.
#include "text/word_pieces.h"
#include "text/pre_tokenizer.h"

#include <algorithm>
#include <cassert>

#include "core/utf8.h"

namespace arenite::text {

namespace {

// syllable = kSyllables + (initial * kVowelCount + vowel) * kFinalCount + final; final 0 is none.
// The Unicode Standard, section 3.12.
Folded decompose_syllable(uint32_t code_point) {
  const uint32_t index = code_point - kSyllables;
  const uint32_t final_index = index % kFinalCount;
  Folded letters;
  letters.code_points = {kInitials + index / (kVowelCount * kFinalCount),
                         kVowels + index / kFinalCount % kVowelCount, kFinals + final_index};
  letters.count = final_index == 0 ? 2 : 3;
  return letters;
}

}  // namespace

Folded fold(const format::TokenizerView& view, uint32_t code_point) {
  Folded folded;
  if (in_ranges(view.dropped, code_point)) return folded;
  if (view.has(format::kDecomposeHangul) && code_point - kSyllables < kSyllableCount) {
    return decompose_syllable(code_point);
  }
  folded.code_points[0] = code_point;
  folded.count = 1;
  const size_t place = place_of(view.fold_from, code_point);
  if (place == view.fold_from.size()) return folded;
  const uint32_t to = view.fold_to[place];
  const uint32_t value = to & format::kFoldValueMask;
  folded.count = to >> format::kFoldCountShift;
  if (folded.count == 1) {
    folded.code_points[0] = value;
  } else {
    std::copy_n(&view.fold_sequences[value], folded.count, folded.code_points.begin());
  }
  return folded;
}

WordPieces::WordPieces(const format::TokenizerView& view, std::string_view text,
                       std::span<TokenId> out)
    : view_(view), text_(text), out_(out), continuation_(view, view.whole_tokens) {
  assert(out_.size() >= text_.size());
  (void)continuation_.narrow(format::kContinuation);
}

bool WordPieces::run() {
  for (size_t position = 0; position < text_.size();) {
    const CodePoint next = decode_utf8({text_.data() + position, text_.size() - position});
    const uint32_t code_point =
        next.value == kInvalidCodePoint ? kReplacementCharacter : next.value;
    // Classified before folding; the folded form of an ideograph is still a word by itself.
    const bool is_word = view_.has(format::kIdeographsAreWords) && is_ideograph(code_point);
    if (is_word && !end_word()) return false;
    const Folded folded = fold(view_, code_point);
    for (uint32_t i = 0; i < folded.count; ++i) {
      if (!add_character(position, folded.code_points[i])) return false;
    }
    if (is_word && !end_word()) return false;
    position += next.bytes;
  }
  return end_word();
}

// White space ends a word; a punctuation character is a word by itself.
bool WordPieces::add_character(size_t position, uint32_t code_point) {
  if (is_space(code_point)) return end_word();
  if (!is_ascii_punctuation(code_point) && !in_ranges(view_.punctuation, code_point)) {
    extend_word(position, code_point);
    return true;
  }
  if (!end_word()) return false;
  extend_word(position, code_point);
  return end_word();
}

void WordPieces::extend_word(size_t position, uint32_t code_point) {
  if (word_size_ == 0) word_begin_ = position;
  if (word_size_ < view_.word_characters_max) out_[count_ + word_size_] = code_point;
  ++word_size_;
}

bool WordPieces::end_word() {
  if (word_size_ == 0) return true;
  const bool found = word_size_ <= view_.word_characters_max && find_pieces();
  word_size_ = 0;
  if (found || view_.unknown == format::Unknown::kDrop) return true;
  if (view_.unknown == format::Unknown::kRefuse) return false;
  out_[count_++] = view_.unknown_token;
  return true;
}

// Greedy longest match. A token covers at least one code point, so it can overwrite the front of
// the word, which is already read.
bool WordPieces::find_pieces() {
  const std::span<uint32_t> word(out_.data() + count_, word_size_);
  size_t pieces = 0;
  for (size_t begin = 0; begin < word.size(); ++pieces) {
    PrefixSearch search = begin == 0 ? PrefixSearch(view_, view_.whole_tokens) : continuation_;
    TokenId longest = kNoToken;
    size_t next = begin;  // end of the longest match
    for (size_t end = begin; end < word.size();) {
      char form[kUtf8BytesMax];
      if (!search.narrow({form, encode_utf8(word[end], form)})) break;
      ++end;
      const size_t place = search.whole();
      if (place == view_.whole_tokens.size()) continue;
      longest = view_.whole_tokens[place];
      next = end;
    }
    if (longest == kNoToken) return false;
    word[pieces] = longest;
    begin = next;
  }
  count_ += pieces;
  return true;
}

}  // namespace arenite::text
